# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch: set by the harness
# Fewer events on purpose: samples, a maximum rate, functions that start and stop the recording, events
# around a trigger, what the hits cost, and hits that stop their process. The program is fixtures/workload/phases.c.

limit_scenarios() {
  scenario '--sample records the first hit and then every Nth' samples_every
  scenario '--sample counts the hits that pass the filters' samples_filtered
  scenario '--sample counts each function for itself' samples_each
  scenario '--sample keeps or leaves out a call as a whole' samples_calls
  scenario '--max-rate records so many events and counts the others' limits_rate
  scenario 'the time of --max-rate begins anew with an event' limits_again
  scenario '--sample and --max-rate count what each has left out' limits_both
  scenario 'a run records from --start-on to --stop-on' records_between
  scenario 'a function may start or stop its own recording' records_itself
  scenario 'a call that began before --start-on is not a lost event' passes_over_begun
  scenario 'it is said that --start-on was not hit' tells_unstarted
  scenario 'a function of --start-on that cannot be probed is an error' refuses_bounds
  scenario '--keep writes the events around a function of --until' keeps_around_function
  scenario '--keep writes the events around a condition on results and latencies' keeps_around_condition
  scenario 'the events around several triggers are written once' keeps_once
  scenario 'kept stacks are those of their hits, in exports and saved runs, too' keeps_stacks_of_window
  scenario '--on-hit stop stops the process at the hit, until it is continued' stops_at_hit
  scenario 'the summary has the cost of the hits' tells_cost
  for mechanism in $(mechanisms multi perf perf-ioctl tracefs); do
    scenario "$mechanism: sample, rate, start and stop" limits_by_mechanism "$mechanism"
  done
}

attach_phases() { # 'BEFORE BETWEEN AFTER' OPTION-OR-FUNCTION…
  counts=$1
  shift
  # shellcheck disable=SC2086 # three words
  "$UPROBECTL" attach -j -o out -d 60 "$@" -- "$FIXTURES/phases" $counts 2>err || fail "attach fails: $(cat err)"
}

# The number that each event has as its first argument, in one line.
numbers() {
  records event | sed -n 's/.*"name":"number"[^}]*"value":\(-*[0-9]*\).*/\1/p' | paste -s -d ' ' -
}

summary_has() { # KEY VALUE…
  while [ $# -gt 0 ]; do
    expect_equal "$1" "$2" "$(records summary | field "$1")"
    shift 2
  done
}

samples_every() {
  attach_phases '30 0 0' --sample 1/7 --args 'number:s64@arg0' "$FIXTURES/phases" phases_work
  expect_equal 'numbers' '1000 1007 1014 1021 1028' "$(numbers)"
  expect_equal 'hits' 30 "$(records probe | field hits)"
  expect_equal 'left out of the function' 25 "$(records probe | field sampled_out)"
  summary_has events 5 sampled_out 25 rate_limited null lost 0
  file_says err '^5 events in .*, 0 lost, 25 left out by --sample, 1 of 1 probes hit$' || fail "$(cat err)"
}

samples_filtered() {
  attach_phases '30 0 0' --sample 1/3 --if 'number >= 1020' --args 'number:s64@arg0' \
    "$FIXTURES/phases" phases_work
  expect_equal 'numbers' '1020 1023 1026 1029' "$(numbers)"
  summary_has events 4 sampled_out 6 lost 0
}

samples_each() {
  "$UPROBECTL" attach -j -o out -d 60 --sample 1/10 "$FIXTURES/workload" work_six work_count \
    -- "$FIXTURES/workload" --calls 25 >said 2>err || fail "attach fails: $(cat err)"
  for function in work_six work_count; do
    expect_equal "events of $function" 3 "$(count_records event symbol=$function)"
    expect_equal "left out of $function" 22 "$(records probe symbol=$function | field sampled_out)"
  done
  summary_has sampled_out 44
}

samples_calls() {
  for way in trampoline ret; do
    attach_phases '30 0 0' --latency --return-at "$way" --sample 1/7 "$FIXTURES/phases" phases_work
    expect_equal "calls, $way" 5 "$(records event kind=return | field latency_ns | grep -c '^[1-9]')"
    expect_equal "hits, $way" 30 "$(records probe | field hits)"
    summary_has events 5 sampled_out 25 lost 0 unpaired 0 open 0
  done
  # Known at the return only: the results are from 1001 to 1030.
  attach_phases '30 0 0' --latency --if 'ret > 1020' --sample 1/4 "$FIXTURES/phases" phases_work
  summary_has events 3 sampled_out 7 lost 0 unpaired 0 open 0
  expect_equal 'results' '0x3fd 0x401 0x405' "$(records event | field return_value | paste -s -d ' ' -)"
  attach_phases '30 0 0' --latency --max-rate 4/min "$FIXTURES/phases" phases_work
  summary_has events 4 rate_limited 26 lost 0 unpaired 0 open 0
}

limits_rate() {
  attach_phases '30 0 0' --max-rate 10/min --args 'number:s64@arg0' "$FIXTURES/phases" phases_work
  expect_equal 'numbers' '1000 1001 1002 1003 1004 1005 1006 1007 1008 1009' "$(numbers)"
  expect_equal 'left out of the function' 20 "$(records probe | field rate_limited)"
  summary_has events 10 rate_limited 20 sampled_out null lost 0
  file_says err '^10 events in .*, 0 lost, 20 left out by --max-rate, 1 of 1 probes hit$' || fail "$(cat err)"
}

limits_again() {
  "$UPROBECTL" attach -j -o out -d 60 --max-rate 1/s "$FIXTURES/workload" work_six \
    -- "$FIXTURES/workload" --calls 25 --delay-us 100000 >said 2>err || fail "attach fails: $(cat err)"
  events=$(count_records event)
  { [ "$events" -ge 2 ] && [ "$events" -le 6 ]; } || fail "$events events"
  summary_has rate_limited "$((25 - events))"
  # The kernel's clock, cut to milliseconds.
  records event | field time_ns | awk 'NR > 1 && $1 - last < 999000000 { early = 1 } { last = $1 } END { exit early }' ||
    fail "less than a second between events: $(records event | field time_ns)"
}

limits_both() {
  attach_phases '100 0 0' --sample 1/2 --max-rate 10/min "$FIXTURES/phases" phases_work
  summary_has events 10 sampled_out 50 rate_limited 40 lost 0
}

records_between() {
  attach_phases '10 5 10' --start-on phases_begin --args 'number:s64@arg0' "$FIXTURES/phases" phases_work
  expect_equal 'numbers after the start' \
    '2000 2001 2002 2003 2004 3000 3001 3002 3003 3004 3005 3006 3007 3008 3009' "$(numbers)"
  attach_phases '10 5 10' --start-on phases_begin --stop-on phases_end --args 'number:s64@arg0' \
    "$FIXTURES/phases" phases_work
  expect_equal 'numbers from the start to the stop' '2000 2001 2002 2003 2004' "$(numbers)"
  expect_equal 'hits' 5 "$(records probe | field hits)"
  expect_equal 'probes' 1 "$(count_records probe)"
  attach_phases '2 1 10' --stop-on "$FIXTURES/phases:phases_end" --args 'number:s64@arg0' \
    "$FIXTURES/phases" phases_work
  expect_equal 'numbers up to the stop' '1000 1001 2000' "$(numbers)"
}

records_itself() {
  attach_phases '3 0 0' --start-on phases_work --args 'number:s64@arg0' "$FIXTURES/phases" phases_work
  expect_equal 'numbers' '1000 1001 1002' "$(numbers)"
  attach_phases '3 0 0' --stop-on phases_work --args 'number:s64@arg0' "$FIXTURES/phases" phases_work
  expect_equal 'the number that stops' '1000' "$(numbers)"
}

passes_over_begun() {
  attach_phases '0 0 0' --latency --start-on nested_work "$FIXTURES/phases" phases_begin phases_end
  expect_equal 'calls' phases_end "$(records event | field symbol)"
  summary_has events 1 lost 0 unpaired 0 open 0
}

tells_unstarted() {
  "$UPROBECTL" attach -j -o out -d 60 --start-on work_silent "$FIXTURES/workload" work_six \
    -- "$FIXTURES/workload" --calls 25 >said 2>err || fail "attach fails: $(cat err)"
  summary_has events 0
  file_says err 'warning: nothing was recorded: no function of --start-on was hit$' || fail "$(cat err)"
}

refuses_bounds() {
  for option in --start-on --stop-on '--keep 5 --until'; do
    # shellcheck disable=SC2086 # words
    "$UPROBECTL" attach -d 1 --keep-going $option phases_missing "$FIXTURES/phases" phases_work \
      -- "$FIXTURES/phases" 1 1 1 >out 2>err && fail "$option is ignored"
    file_says err phases_missing || fail "$(cat err)"
  done
}

keeps_around_function() {
  attach_phases '10 5 10' --keep 3 --until phases_begin --args 'number:s64@arg0' "$FIXTURES/phases" phases_work
  expect_equal 'numbers' '1007 1008 1009 2000 2001 2002' "$(numbers)"
  expect_equal 'the trigger' 'phases_begin phases_begin 3 false' \
    "$(for key in symbol until before incomplete; do records trigger | field "$key"; done | paste -s -d ' ' -)"
  expect_equal 'its row' 4 "$(grep -n '"type":"trigger"' out | sed 's/:.*//' | awk '{ print $1 - 1 }')"
  expect_equal 'probes' 1 "$(count_records probe)"
  summary_has events 6 lost 0 kept 25 kept_too_old 19 kept_no_room 0 triggers 1
  file_says err '^25 kept, 6 written around 1 trigger, 19 dropped as too old$' || fail "$(cat err)"
  # A function that is recorded itself, with its calls as events.
  attach_phases '3 1 0' --latency --keep 1 --until phases_end "$FIXTURES/phases" phases_work phases_end
  expect_equal 'functions' 'phases_work phases_end' "$(records event | field symbol | paste -s -d ' ' -)"
  attach_phases '3 1 0' --keep 1 --until "$FIXTURES/phases:phases_begin" "$FIXTURES/phases" phases_work
  summary_has triggers 1
}

keeps_around_condition() {
  attach_phases '10 5 10' --keep 2 --until 'number==2002' --args 'number:s64@arg0' "$FIXTURES/phases" phases_work
  expect_equal 'numbers' '2000 2001 2002 2003 2004' "$(numbers)"
  attach_phases '10 5 10' --keep 1 --until 'ret==2003' --args 'number:s64@arg0' "$FIXTURES/phases" phases_work
  expect_equal 'numbers of calls' '2001 2002 2003' "$(numbers)"
  # Entries and returns are events of their own: a condition on one of them says nothing of the other.
  attach_phases '10 5 10' --entry --return --keep 1 --until 'ret==2003' --args 'number:s64@arg0' \
    "$FIXTURES/phases" phases_work
  summary_has events 3 triggers 1
  attach_phases '10 5 10' --entry --return --keep 1 --until 'number==2002' --args 'number:s64@arg0' \
    "$FIXTURES/phases" phases_work
  summary_has events 3 triggers 1
  attach_phases '10 5 10' --keep 1 --until 'latency>60s' "$FIXTURES/phases" phases_work
  summary_has events 0 kept 25 kept_too_old 25 triggers 0
  # By time: all of it takes less than 10 s.
  attach_phases '10 5 10' --keep 10s --until 'ret==2003' --args 'number:s64@arg0' "$FIXTURES/phases" phases_work
  summary_has events 25 kept 25 kept_too_old 0 triggers 1
  # Conditions of the kernel come first.
  attach_phases '10 5 10' --if 'number>=2000' --keep 2 --until 'number==2001' --args 'number:s64@arg0' \
    "$FIXTURES/phases" phases_work
  expect_equal 'numbers that --if selects' '2000 2001 2002 2003' "$(numbers)"
}

keeps_once() {
  attach_phases '10 5 10' --keep 2 --until phases_begin --until phases_end --until 'number==2001' \
    --args 'number:s64@arg0' "$FIXTURES/phases" phases_work
  expect_equal 'numbers' '1008 1009 2000 2001 2002 2003 2004 3000 3001' "$(numbers)"
  expect_equal 'triggers' 'phases_begin number==2001 phases_end' "$(records trigger | field until | paste -s -d ' ' -)"
  summary_has events 9 kept 25 kept_too_old 16 triggers 3
}

keeps_stacks_of_window() {
  attach_phases '10 5 10' --stack --keep 2 --until phases_end --save run --folded folded "$FIXTURES/phases" phases_work
  expect_equal 'innermost frames' 'phases_work phases_work phases_work phases_work' \
    "$(records event | sed 's/.*"stack":\[{[^}]*"symbol":"\([^"]*\)".*/\1/' | paste -s -d ' ' -)"
  expect_equal 'stacks in the file' 4 "$(awk '{ sum += $NF } END { print sum }' folded)"
  mv out direct
  "$UPROBECTL" report -j -o out --folded again run 2>err || fail "$(cat err)"
  expect_equal 'the file of the saved run' "$(cat folded)" "$(cat again)"
  expect_equal 'triggers of the saved run' "$(grep '"type":"trigger"' direct)" "$(records trigger)"
  expect_equal 'events of the saved run' "$(grep -c '"type":"event"' direct)" "$(count_records event)"
}

stops_at_hit() {
  kernel_is_at_least 5.8 || skip 'the kernel has no ring buffer'
  "$UPROBECTL" attach -j -o out -d 1 --on-hit stop --if 'number==1003' --args 'number:s64@arg0' \
    "$FIXTURES/phases" phases_work -- "$FIXTURES/phases" 10 1 1 2>err || fail "attach fails: $(cat err)"
  expect_equal 'hits' 1 "$(count_records event)"
  pid=$(records event | field pid)
  echo "$pid" >>"$scratch/pids"
  file_says err "^uprobectl: warning: --on-hit stop changes what is traced: " || fail "$(cat err)"
  file_says err "^process $pid (phases) is stopped at a hit of phases_work by thread $pid: .*kill -CONT $pid$" ||
    fail "$(cat err)"
  file_says err "^uprobectl: warning: process $pid (phases) stays stopped: continue it with kill -CONT $pid$" ||
    fail "$(cat err)"
  expect_equal 'its state' T "$(sed 's/.*) \(.\) .*/\1/' "/proc/$pid/stat")"
  kill -CONT "$pid"
  ends() { [ ! -e "/proc/$pid" ] || grep -q ') Z ' "/proc/$pid/stat"; }
  wait_until 10 ends || fail 'the process does not go on'
}

tells_cost() {
  attach_phases '2000 0 0' "$FIXTURES/phases" phases_work
  file_says err '^cost: 2000 hits, about [0-9.]*[nu]s each on this machine, [0-9.]*[um]*s in all$' || fail "$(cat err)"
  summary_has events 2000 cost_hits 2000
  cost=$(records summary | field hit_cost_ns)
  # An exception and its return cost more than 50 ns on any processor.
  { [ "$cost" -ge 50 ] && [ "$cost" -le 1000000 ]; } || fail "a hit costs $cost ns"
  attach_phases '2000 0 0' --latency --sample 1/100 "$FIXTURES/phases" phases_work
  summary_has events 20 cost_hits 4000
  attach_phases '2000 0 0' --start-on phases_work --stop-on phases_end "$FIXTURES/phases" phases_work
  file_says err '^cost: ' || fail "$(cat err)"
  attach_phases '900 0 0' "$FIXTURES/phases" phases_work
  ! grep -q '^cost: ' err || fail "few hits: $(cat err)"
  summary_has cost_hits null hit_cost_ns null
  attach_phases '2000 0 0' -q "$FIXTURES/phases" phases_work
  [ ! -s err ] || fail "with -q: $(cat err)"
}

limits_by_mechanism() { # MECHANISM
  needs "$1"
  attach_phases '30 0 0' --mechanism "$1" --latency --sample 1/7 "$FIXTURES/phases" phases_work
  summary_has events 5 sampled_out 25 lost 0 unpaired 0
  attach_phases '30 0 0' --mechanism "$1" --max-rate 4/min "$FIXTURES/phases" phases_work
  summary_has events 4 rate_limited 26 lost 0
  attach_phases '10 5 10' --mechanism "$1" --start-on phases_begin --stop-on phases_end \
    --args 'number:s64@arg0' "$FIXTURES/phases" phases_work
  expect_equal 'numbers' '2000 2001 2002 2003 2004' "$(numbers)"
  # The variants of the program without a ring buffer, and the one that waits for memory.
  attach_phases '30 0 0' --mechanism "$1" --buffer perf --latency --sample 1/4 --max-rate 3/min \
    --start-on phases_work "$FIXTURES/phases" phases_work
  summary_has events 3 sampled_out 22 rate_limited 5 lost 0 unpaired 0
  attach_phases '30 0 0' --mechanism "$1" --latency --sample 1/4 --max-rate 3/min --start-on phases_work \
    --args 'text:str@arg0' "$FIXTURES/phases" phases_work
  summary_has events 3 sampled_out 22 rate_limited 5 lost 0 unpaired 0
  for buffer in auto perf; do
    attach_phases '10 5 10' --mechanism "$1" --buffer "$buffer" --keep 1 --until phases_begin \
      --args 'number:s64@arg0' "$FIXTURES/phases" phases_work
    expect_equal "numbers around a trigger, $buffer" '1009 2000' "$(numbers)"
  done
  attach_phases '2000 0 0' --mechanism "$1" "$FIXTURES/phases" phases_work
  file_says err '^cost: 2000 hits' || fail "$(cat err)"
}
