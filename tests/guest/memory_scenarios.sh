# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch, started_pid: set by the harness
# Memory that is not resident: fixtures/workload/unread.c. Programs may wait for it since Linux 6.0.
# Memory behind addresses with tags: fixtures/workload/tagged.cpp.

memory_scenarios() {
  for mechanism in $(mechanisms perf multi); do
    scenario "$mechanism: strings that are not resident are waited for" waits_for_strings "$mechanism"
    scenario "$mechanism: numbers that are not resident are waited for" waits_for_numbers "$mechanism"
    scenario "$mechanism: --no-fault reads no page that is not resident" does_not_wait "$mechanism"
  done
  scenario 'filters, counts by values and sums wait for numbers that are not resident' decides_by_numbers
  scenario 'with --no-fault events whose filter was not decided are counted' counts_undecided
  scenario 'numbers are waited for where frame pointers are walked' waits_for_numbers_with_frames
  scenario 'returns by a jump through memory that is not resident are seen' waits_for_jumps
  scenario 'strings are waited for where calls are paired' waits_for_strings_of_calls
  scenario 'a string missed at the entry of a call is read at its return' reads_again_at_return
  scenario 'a perf buffer does not wait' does_not_wait_for_perf_buffer
  scenario 'a stack that is not resident is waited for' waits_for_stack
  scenario 'with --no-fault a stack ends where it is not resident' does_not_wait_for_stack
  for asks in '' asks; do
    scenario "values behind addresses with a tag are read${asks:+, in a process that asks for the tagged ABI}" reads_tagged $asks
  done
  scenario 'conditions read values behind addresses with a tag' compares_tagged
  scenario 'a stack in memory whose addresses have a tag is unwound' unwinds_tagged
  scenario 'doctor says whether programs may wait' doctor_knows_sleepable
}

readonly unread_strings=40

# Attaches to the functions of `unread`, lets it run, and ends both.
attach_unread() { # OPTION… FUNCTION…
  start_program target "$FIXTURES/unread" "$scratch/strings" "$unread_strings"
  start_attach -d 60 -p "$started_pid" "$@"
  let_it_call target "$started_pid"
  expect_equal 'lengths' $((unread_strings * 16 - 10)) "$(sed -n 's/^lengths //p' target)"
  # Structures have 1000 to 1039; unread_target returns 0.
  expect_equal 'numbers' 40780 "$(sed -n 's/^numbers //p' target)"
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

expect_all_numbers() {
  awk -v count="$unread_strings" 'BEGIN { for (i = 0; i < count; i++) print 1000 + i }' >expected
  records event | field value >actual
  expect_equal 'numbers in the order of the calls' "$(cat expected)" "$(cat actual)"
  expect_closing_records "$unread_strings"
}

needs_waiting() { needs_kernel 6.0; }

readonly unread_value='number:s32@arg0+0->8'

waits_for_numbers() { # MECHANISM
  needs "$1"
  needs_waiting
  attach_unread -j --mechanism "$1" --args "$unread_value" "$FIXTURES/unread" unread_number
  expect_all_numbers
}

waits_for_numbers_with_frames() {
  needs_waiting
  attach_unread -j --stack=fp --args "$unread_value" "$FIXTURES/unread" unread_number
  expect_all_numbers
}

decides_by_numbers() {
  needs_waiting
  attach_unread -j --args "$unread_value" --if 'number >= 1038' "$FIXTURES/unread" unread_number
  expect_equal 'numbers that match' '1038 1039' "$(records event | field value | xargs)"
  attach_unread -j --latency --args "$unread_value" --if 'number == 1007' "$FIXTURES/unread" unread_number
  expect_equal 'the call that matches' 1007 "$(records event | field value)"
  expect_match 'nothing lost' '"lost": *0[,}]' "$(records summary)"
  attach_unread --count --args "$unread_value" --by number --measure number "$FIXTURES/unread" unread_number
  expect_equal 'values, each once, with their sums' "$unread_strings" \
    "$(awk -F '\t' '$1 == 1 && $2 >= 1000 && $2 < 1040 && $3 == $2' out | sort -u | grep -c '')"
}

counts_undecided() {
  attach_unread --no-fault --args "$unread_value" --if 'number == 1007' "$FIXTURES/unread" unread_number
  expect_match 'lost' "$unread_strings lost" "$(cat err)"
}

waits_for_jumps() {
  [ "$(uname -m)" = x86_64 ] || skip 'this architecture does not jump through memory'
  needs_waiting
  attach_unread -j --return "$FIXTURES/unread" unread_jump
  expect_equal 'returns' "$unread_strings" "$(count_records event)"
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

readonly tagged_values='item:x64@arg1,number:s32@arg1+8,behind:s32@arg1+0->8,text:str@arg0,string:cxxstring@arg2'

tagged_program() {
  [ "$(uname -m)" = aarch64 ] || skip 'addresses have no tags on this architecture'
  tagged="$FIXTURES/tagged"
}

reads_tagged() { # [asks]
  tagged_program
  for option in --latency --no-fault; do
    "$UPROBECTL" attach -q "$option" --args "$tagged_values,bytes:buf[5]@arg3" \
      "$tagged" tagged_take -- "$tagged" "$@" >out 2>err || fail "$(cat err)"
    expect_equal "the program with $option" 'sum 650' "$(grep sum err)"
    expect_equal "calls with $option" 3 "$(grep -c 'item=0xb4.* number=7 behind=8 text="a text" string="a std::string whose characters are on the heap" bytes=6279746573' out)"
  done
  needs_waiting
  "$UPROBECTL" attach -q --args 'number:s32@arg0+8' "$tagged" tagged_unread -- "$tagged" "$@" >out 2>err
  expect_equal 'values that are not resident' 3 "$(grep -c 'number=9' out)"
}

compares_tagged() {
  tagged_program
  condition='behind == 8 && text == "a text" && string *= "characters are" && number == 7 && item > 0xb400000000000000'
  for option in --latency --no-fault; do
    "$UPROBECTL" attach -q "$option" --args "$tagged_values" --if "$condition" \
      "$tagged" tagged_take -- "$tagged" >out 2>err || fail "$(cat err)"
    expect_equal "calls with $option" 3 "$(grep -c 'tagged_take.*number=7' out)"
  done
}

unwinds_tagged() {
  tagged_program
  for option in --latency --no-fault; do
    "$UPROBECTL" attach "$option" --stack "$tagged" tagged_leaf -- "$tagged" >out 2>err || fail "$(cat err)"
    expect_equal "frames with $option" 'tagged_leaf tagged_caller' \
      "$(sed -n 's/^ *#[01] *\(tagged_[a-z]*\).*/\1/p' out | xargs)"
  done
}

doctor_knows_sleepable() {
  "$UPROBECTL" doctor >out
  answer=no.missing:
  ! kernel_is_at_least 6.0 || answer=yes
  expect_match 'doctor' "^sleepable.$answer.programs that wait for memory" "$(grep '^sleepable' out)"
}
