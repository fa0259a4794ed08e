# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch, started_pid, library: set by the harness and the suite
# What probes report, once for each mechanism; what does not depend on it (more_hit_scenarios) for
# two of them only: emulated machines are slow.

hit_scenarios() { # MECHANISM
  scenario "$1: every hit is counted once" counts_every_hit "$1"
  scenario "$1: return values are those of the function" shows_return_values "$1"
  scenario "$1: every thread of the process is probed" probes_threads "$1"
  scenario "$1: hits of two functions are distinguished" tells_functions_apart "$1"
  scenario "$1: a library in an archive, entry and return" probes_archive_entry "$1"
  scenario "$1: -p leaves other processes out" filters_by_pid "$1"
  scenario "$1: without -p all processes are probed" probes_all_processes "$1"
  scenario "$1: list-probes lists the holders of probes" lists_probes "$1"
  [ "$1" != multi ] || scenario 'list-probes sums up many probes' sums_up_probes
  scenario "$1: the target's code is as before afterwards" restores_code "$1"
}

more_hit_scenarios() { # MECHANISM
  scenario "$1: six arguments arrive as they were passed" shows_arguments "$1"
  scenario "$1: a C++ method in an archive" probes_archive_method "$1"
  scenario "$1: a function that calls others, entry and return" probes_calling_function "$1"
}

needs() { # MECHANISM
  [ "$1" != multi ] || kernel_has_multi || skip "Linux $(uname -r) has no uprobe_multi links"
}

needs_types() {
  [ -r /sys/kernel/btf/vmlinux ] || skip 'this kernel does not describe its types'
}

# The records at the end of a run whose only function had that many hits, none lost.
expect_closing_records() { # HITS
  expect_equal 'probe records' 1 "$(count_records probe)"
  expect_equal 'hits' "$1" "$(value_in hits "$(records probe)")"
  expect_equal 'summary records' 1 "$(count_records summary)"
  summary=$(records summary)
  expect_equal 'events in the summary' "$1" "$(value_in events "$summary")"
  expect_equal 'lost in the summary' 0 "$(value_in lost "$summary")"
  expect_equal 'probes hit' 1 "$(value_in probes_hit "$summary")"
  expect_equal 'probes silent' 0 "$(value_in probes_silent "$summary")"
  expect_equal 'detached cleanly' true "$(value_in detached_cleanly "$summary")"
}

expect_same_lines() { # WHAT FILE FILE
  sort "$2" >sorted.expected
  sort "$3" >sorted.actual
  cmp -s sorted.expected sorted.actual ||
    fail "$1: expected $(head -n 3 sorted.expected | tr '\n' ';') got $(head -n 3 sorted.actual | tr '\n' ';')"
}

# The arguments of calls 1 to N: i, i+1, … i+5.
expected_arguments() { # N
  i=1
  while [ "$i" -le "$1" ]; do
    printf 'arg0 0x%x arg1 0x%x arg2 0x%x arg3 0x%x arg4 0x%x arg5 0x%x\n' \
      "$i" $((i + 1)) $((i + 2)) $((i + 3)) $((i + 4)) $((i + 5))
    i=$((i + 1))
  done
}

# The sums of those: 6i + 15.
expected_sums() { # N
  i=1
  while [ "$i" -le "$1" ]; do
    printf '0x%x\n' $((6 * i + 15))
    i=$((i + 1))
  done
}

counts_every_hit() {
  needs "$1"
  start_workload target --calls 200
  start_attach -j -d 120 -p "$started_pid" --mechanism "$1" "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'mechanism' "$1" "$(records attached | field mechanism)"
  expect_equal 'events' 200 "$(count_records event)"
  expect_equal 'events of the process' 200 "$(count_records event "pid=$started_pid")"
  expect_equal 'events of the function' 200 "$(count_records event symbol=work_six)"
  expect_closing_records 200
  expect_equal 'lost records' 0 "$(count_records lost)"
}

shows_arguments() {
  needs "$1"
  start_workload target --calls 20
  start_attach -j -d 120 -p "$started_pid" --mechanism "$1" "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  expected_arguments 20 >expected
  arguments_of_entries >actual
  expect_same_lines 'arguments' expected actual
  expect_equal 'arguments of type x64' 120 "$(grep -o '"type": *"x64"' out | wc -l | tr -d ' ')"
}

shows_return_values() {
  needs "$1"
  start_workload target --calls 20
  start_attach -j -d 120 -r -p "$started_pid" --mechanism "$1" "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  expected_sums 20 >expected
  records event kind=return | field return_value | hex_of_each >actual
  expect_same_lines 'return values' expected actual
  expect_equal 'entries, which were not asked for' 0 "$(count_records event kind=entry)"
  expect_closing_records 20
}

probes_threads() {
  needs "$1"
  start_workload target --calls 25 --threads 4
  start_attach -j -d 120 -p "$started_pid" --mechanism "$1" "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'events' 100 "$(count_records event "pid=$started_pid")"
  expect_equal 'threads' 4 "$(records event | field tid | sort -u | wc -l | tr -d ' ')"
}

tells_functions_apart() {
  needs "$1"
  start_workload target --calls 10
  start_attach -j -d 120 -p "$started_pid" --mechanism "$1" "$FIXTURES/workload" \
    work_six work_count work_silent
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'events of work_six' 10 "$(count_records event symbol=work_six)"
  expect_equal 'events of work_count' 10 "$(count_records event symbol=work_count)"
  expect_equal 'events' 20 "$(count_records event)"
  expect_equal 'probe records' 3 "$(count_records probe)"
  expect_equal 'probes hit' 2 "$(records summary | field probes_hit)"
  expect_equal 'probes silent' 1 "$(records summary | field probes_silent)"
}

start_apk_host() { # SYMBOL CALLS
  start_program target "$FIXTURES/apk-host" "$FIXTURES/greet.apk!/$library/libgreet.so" "$@" \
    --wait --hold
}

probes_archive_entry() {
  needs "$1"
  start_apk_host greet_add 20
  start_attach -j -d 120 --entry -r -p "$started_pid" --mechanism "$1" \
    "$FIXTURES/greet.apk!/$library/libgreet.so" greet_add
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'entries' 20 "$(count_records event kind=entry)"
  expect_equal 'returns' 20 "$(count_records event kind=return)"
  expected_arguments 20 >expected
  arguments_of_entries >actual
  expect_same_lines 'arguments' expected actual
  expected_sums 20 >expected
  records event kind=return | field return_value | hex_of_each >actual
  expect_same_lines 'return values' expected actual
  # The program that mapped the library knows where in the archive the function is.
  known=$(sed -n 's/^function greet_add .* archive offset //p' target)
  expect_equal 'offset in the archive' "$known" "$(records probe | field offset | sort -u)"
  expect_equal 'entry' "$library/libgreet.so" "$(records event | field entry | sort -u)"
}

probes_archive_method() {
  needs "$1"
  start_apk_host greet_count 20
  start_attach -j -d 120 -p "$started_pid" --mechanism "$1" \
    "$FIXTURES/greet.apk!/$library/libgreet.so" 'greet::Counter::add(long)'
  let_it_call target "$started_pid"
  stop_attach
  expect_closing_records 20
  # arg0 is `this`, the same object each time; arg1 the amount.
  expect_equal 'objects' 1 "$(arguments_of_entries | cut -d ' ' -f 2 | sort -u | wc -l | tr -d ' ')"
  expected_arguments 20 | cut -d ' ' -f 2 >expected
  arguments_of_entries | cut -d ' ' -f 4 >actual
  expect_same_lines 'amounts' expected actual
}

# Unlike a leaf, it keeps its return address on the stack, and on arm64 signs it there: after the probe
# has replaced it. Twice the sum of six and of the first: 14i + 30.
probes_calling_function() {
  needs "$1"
  start_apk_host greet_total 20
  start_attach -j -d 120 --entry -r --return-at trampoline -p "$started_pid" --mechanism "$1" \
    "$FIXTURES/greet.apk!/$library/libgreet.so" greet_total
  let_it_call target "$started_pid"
  stop_attach
  expected_arguments 20 >expected
  arguments_of_entries >actual
  expect_same_lines 'arguments' expected actual
  for i in $(seq 20); do printf '0x%x\n' $((14 * i + 30)); done >expected
  records event kind=return | field return_value | hex_of_each >actual
  expect_same_lines 'return values' expected actual
  expect_equal 'the last result' 'last result 310' "$(grep '^last result' target)"
}

filters_by_pid() {
  needs "$1"
  start_workload other --calls 30
  other_pid=$started_pid
  start_workload target --calls 10
  start_attach -j -d 120 -p "$started_pid" --mechanism "$1" "$FIXTURES/workload" work_six
  let_it_call other "$other_pid"
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'events of the other process' 0 "$(count_records event "pid=$other_pid")"
  expect_equal 'events' 10 "$(count_records event "pid=$started_pid")"
  expect_closing_records 10
}

probes_all_processes() {
  needs "$1"
  start_workload first --calls 30
  first_pid=$started_pid
  start_attach -j -d 120 --mechanism "$1" "$FIXTURES/workload" work_six
  start_workload second --calls 10 # starts after the probe is attached
  let_it_call first "$first_pid"
  let_it_call second "$started_pid"
  stop_attach
  expect_equal 'events of the first process' 30 "$(count_records event "pid=$first_pid")"
  expect_equal 'events of the second process' 10 "$(count_records event "pid=$started_pid")"
  expect_closing_records 40
}

# The first bytes of work_six in a running workload, in hex.
code_of() { # NAME PID
  address=$(sed -n 's/^function work_six //p' "$1")
  dd if="/proc/$2/mem" bs=1 skip=$((address)) count=8 2>/dev/null | od -An -tx1
}

code_is() { # NAME PID CODE
  [ "$(code_of "$1" "$2")" = "$3" ]
}

restores_code() {
  needs "$1"
  start_workload target --calls 3
  code=$(code_of target "$started_pid")
  start_attach -j -d 120 --entry -r -p "$started_pid" --mechanism "$1" "$FIXTURES/workload" work_six
  [ "$code" != "$(code_of target "$started_pid")" ] || fail "no breakpoint at work_six: $code"
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'code' "$code" "$(code_of target "$started_pid")"
}

# While they are attached, and only then.
lists_probes() { # MECHANISM
  needs "$1"
  start_workload target --calls 1
  start_attach -d 120 --mechanism "$1" --entry --return --return-at trampoline "$FIXTURES/workload" work_six
  "$UPROBECTL" list-probes -v >probes || fail 'list-probes fails'
  holder="uprobectl[[]$(cat attach.pid)[]]"
  # Whether there is a link does not show where a perf event is looked at.
  listed=${1%-ioctl}
  for kind in entry return; do
    grep -Eq "/workload	work_six	$kind	$listed	.*$holder	on_$kind(	uprobectl_[0-9_]*/${kind}_[0-9]+)?\$" probes ||
      fail "no $kind probe of ours in: $(cat probes)"
  done
  "$UPROBECTL" list-probes "$FIXTURES/workload" | grep -q "$holder" || fail 'not listed with its file'
  ! "$UPROBECTL" list-probes "$UPROBECTL" | grep "$holder" || fail 'listed with another file'
  stop_attach
  ! "$UPROBECTL" list-probes -v | grep "$holder" || fail 'it is still listed'
}

# A line for each file and owner, with as many probes as --verbose lists one by one.
sums_up_probes() {
  needs multi
  start_workload target --calls 1
  start_attach -d 120 -p "$started_pid" --keep-going --count "$FIXTURES/workload" '__s*' '__m*'
  holder="uprobectl[[]$(cat attach.pid)[]]"
  "$UPROBECTL" list-probes >sums || fail 'list-probes fails'
  listed=$("$UPROBECTL" list-probes -v | grep -c "$holder")
  stop_attach
  [ "$listed" -gt 100 ] || fail "only $listed probes"
  expect_equal 'probes' "$listed" "$(grep "/workload	multi	$holder	" sums | cut -f 1)"
}
