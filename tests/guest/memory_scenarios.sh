# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch, started_pid: set by the harness
# Strings and stacks in memory that is not resident: fixtures/workload/unread.c. Programs may wait for it
# since Linux 6.0.

memory_scenarios() {
  for mechanism in $(mechanisms perf multi); do
    scenario "$mechanism: strings that are not resident are waited for" waits_for_strings "$mechanism"
    scenario "$mechanism: --no-fault reads no page that is not resident" does_not_wait "$mechanism"
  done
  scenario 'strings are waited for where calls are paired' waits_for_strings_of_calls
  scenario 'a string missed at the entry of a call is read at its return' reads_again_at_return
  scenario 'a perf buffer does not wait' does_not_wait_for_perf_buffer
  scenario 'a stack that is not resident is waited for' waits_for_stack
  scenario 'with --no-fault a stack ends where it is not resident' does_not_wait_for_stack
  scenario 'doctor says whether programs may wait' doctor_knows_sleepable
}

readonly unread_strings=40

# Attaches to the functions of `unread`, lets it run, and ends both.
attach_unread() { # OPTION… FUNCTION…
  start_program target "$FIXTURES/unread" "$scratch/strings" "$unread_strings"
  start_attach -d 60 -p "$started_pid" "$@"
  let_it_call target "$started_pid"
  expect_equal 'lengths' $((unread_strings * 16 - 10)) "$(sed -n 's/^lengths //p' target)"
  stop_attach
}

# "unread string 0", "unread string 1", …
expected_strings() {
  number=0
  while [ "$number" -lt "$unread_strings" ]; do
    echo "unread string $number"
    number=$((number + 1))
  done
}

expect_all_strings() {
  expected_strings >expected
  records event | field value >actual
  expect_same_lines 'strings' expected actual
  expect_equal 'strings in the order of the calls' "$(cat expected)" "$(cat actual)"
}

waits_for_strings() { # MECHANISM
  needs "$1"
  needs_kernel 6.0
  attach_unread -j --mechanism "$1" --args text:str@arg0 "$FIXTURES/unread" unread_take
  expect_all_strings
  expect_closing_records "$unread_strings"
}

waits_for_strings_of_calls() {
  attach_unread -j --latency --args text:str@arg0 "$FIXTURES/unread" unread_take
  expect_all_strings
  expect_closing_records "$unread_strings"
}

# Half of the strings are in one page, which is not resident. Of the others even the beginning is not.
expect_none_resident() {
  expect_equal 'errors' "$unread_strings" "$(records event | grep -c '"error": *"not resident"')"
  expect_equal 'events' "$unread_strings" "$(count_records event)"
}

does_not_wait() { # MECHANISM
  needs "$1"
  attach_unread -j --mechanism "$1" --no-fault --args text:str@arg0 "$FIXTURES/unread" unread_take
  expect_none_resident
}

does_not_wait_for_perf_buffer() {
  attach_unread -j --buffer perf --args text:str@arg0 "$FIXTURES/unread" unread_take
  expect_none_resident
}

reads_again_at_return() {
  attach_unread -j --no-fault --latency --args text:str@arg0 "$FIXTURES/unread" unread_take
  expect_all_strings
}

waits_for_stack() {
  needs_kernel 6.0
  attach_unread --stack --stack-size 65528 --args none "$FIXTURES/unread" unread_leaf
  expect_equal 'events' 1 "$(grep -c '^    #0 unread_leaf' out)"
  expect_equal 'callers' 4 "$(grep -c ' unread_deep+' out)"
  expect_equal 'the first frame of the stack' 1 "$(grep -c ' run_deep+' out)"
}

does_not_wait_for_stack() {
  attach_unread --no-fault --stack --stack-size 65528 --args none "$FIXTURES/unread" unread_leaf
  expect_equal 'events' 1 "$(grep -c '^    #0 unread_leaf' out)"
  expect_equal 'callers' 1 "$(grep -c ' unread_deep+' out)"
}

doctor_knows_sleepable() {
  "$UPROBECTL" doctor >out
  answer=no.missing:
  ! kernel_is_at_least 6.0 || answer=yes
  expect_match 'doctor' "^sleepable.$answer.programs that wait for memory" "$(grep '^sleepable' out)"
}
