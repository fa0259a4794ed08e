# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch, started_pid: set by the harness and the suite
# Entries paired with their returns, also across exceptions and jumps. fixtures/workload/frames.c and
# throws.cpp describe the calls.

latency_scenarios() {
  for mechanism in $(different_mechanisms multi perf perf-ioctl tracefs); do
    for at in trampoline ret; do
      scenario "$mechanism, $at: of a recursion each level is a pair, the inner within the outer" pairs_recursion "$mechanism" "$at"
    done
  done
  scenario 'pairs through a perf buffer' pairs_recursion "$perf" ret --buffer perf
  for at in trampoline ret; do
    scenario "$at: threads at full rate are paired call by call" pairs_threads "$at"
    scenario "$at: calls that longjmp leaves make no pair, not even a wrong one" pairs_jumps "$at"
    scenario "$at: what longjmp left is not the entry of a call that --if leaves out" forgets_jumps "$at"
    scenario "$at: the child of a fork returns without an entry" pairs_forks "$at"
  done
  scenario 'of calls nested 1001 deep each is a pair' pairs_deep dive auto 1001
  scenario 'trampoline: calls nested deeper than 64 are counted' tells_nested
  # Tens of thousands of calls take an emulated machine minutes.
  if in_scope; then
    scenario 'the longest of 20001 calls under way is not forgotten' pairs_deep plunge auto 20001
    scenario 'calls beyond the limit of pending calls are counted' tells_calls_without_room
  fi
  scenario 'calls of threads that have ended leave the table to later ones' outlasts vanish
  scenario 'calls that never return leave the table to later ones' outlasts strand
  scenario 'calls on stacks that a program switches are right pairs' pairs_fibres
  scenario 'calls of Go functions are pairs though their stacks move' pairs_goroutines
  scenario 'Go calls left by a panic are counted as unpaired' tells_panics
  scenario 'a histogram of all calls of threads at full rate' measures_threads
  scenario 'a function that rests 200 ms takes so long' measures_rests
  scenario '--min-latency leaves the fast calls out' leaves_fast_out
  scenario 'exceptions pass functions whose returns are probed' survives_exceptions
  scenario '--return-at trampoline ends a program that throws' ends_throwing
  scenario 'probing returns of Go functions is safe while stacks move' spares_goroutines
}

# By the trampoline Go's runtime ends such a program with "unexpected return pc" soon.
spares_goroutines() {
  [ -e "$FIXTURES/goroutines" ] || skip 'no Go compiler was there when the fixtures were built'
  "$UPROBECTL" attach --count -r -d 200 "$FIXTURES/goroutines" main.add main.grow \
    --command-output said -- "$FIXTURES/goroutines" "${GO_SECONDS:-4}" >out 2>err || fail 'attach ends with an error'
  expect_match 'the program ends well' '^adds [0-9]+ grows [0-9]+$' "$(cat said)"
  expect_equal 'counts' "$(sed -n 's/^adds \([0-9]*\) grows \([0-9]*\)$/\2 main.grow (return) \1 main.add (return)/p' said)" \
    "$(grep main out | tr '\t\n' '  ' | sed 's/ $//')"
}

start_frames() { # HOW
  start_program target "$FIXTURES/frames" "$1" --wait --hold
}

# The calls were right, and so was what was seen of them.
end_frames() { # [LOST]
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'wrong results' 'mistakes 0' "$(grep '^mistakes' target)"
  expect_equal 'lost in the summary' "${1:-0}" "$(records summary | field lost)"
  expect_equal 'lost by reason' "${1:-0}" "$(lost_for)"
}

# How many the `lost` records say, all of them or those for a reason.
lost_for() { # [REASON]
  records lost | grep -F -- "${1:-reason}" | field count | awk '{ sum += $1 } END { print sum + 0 }'
}

start_pairing() { # HOW RETURN-AT FUNCTION
  start_frames "$1"
  start_attach -j -d 120 -p "$started_pid" --latency --return-at "$2" "$FIXTURES/frames" "$3"
}

pairs_deep() { # HOW RETURN-AT CALLS
  start_pairing "$1" "$2" descend
  end_frames
  expect_closing_records "$3"
  expect_equal 'calls under way' 0 "$(records summary | field open)"
}

# Linux include/linux/uprobes.h, MAX_URETPROBE_DEPTH.
tells_nested() {
  [ -e /sys/kernel/btf/vmlinux ] || skip 'this kernel does not describe its types'
  start_pairing dive trampoline descend
  end_frames 937
  expect_equal 'hits' 1001 "$(records probe | field hits)"
  expect_equal 'pairs' 64 "$(count_records event)"
  expect_equal 'nested too deep' 937 "$(lost_for 'nested deeper than the 64')"
  expect_equal 'unpaired' 937 "$(records summary | field unpaired)"
  file_says err '937 calls not paired: nested deeper' || fail "no warning: $(cat err)"
}

tells_calls_without_room() {
  start_pairing abyss auto descend
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'wrong results' 'mistakes 0' "$(grep '^mistakes' target)"
  expect_equal 'hits' 70001 "$(records probe | field hits)"
  # Their returns come without an entry, but are not further calls. On a slow machine others have made
  # room for them.
  full=$(lost_for 'the table of open calls was full of calls')
  given_up=$(lost_for 'given up for newer calls')
  [ "$full" -gt 0 ] || fail 'no call was without room'
  expect_equal 'pairs' $((70001 - full - given_up)) "$(count_records event)"
  expect_equal 'calls under way' 0 "$(records summary | field open)"
}

# 3000 calls that never return, and then some that do. 32 KiB of each are kept, which leaves room for
# some 2000.
outlasts() { # HOW
  start_frames "$1"
  start_attach -j -d 300 -p "$started_pid" --latency "$FIXTURES/frames" leave --args \
    "n:s64@arg0$(for name in a b c d e f g h; do printf ',%s:buf[4096]@arg0' "$name"; done)"
  kill -USR1 "$started_pid"
  wait_until 120 file_says target '^left' || fail "the calls are not made: $(cat target)"
  wait_until 60 has_returned || fail 'no call that returns is a pair'
  stop_attach
  full=$(lost_for 'the table of open calls was full of calls')
  given_up=$(lost_for 'given up for newer calls')
  [ "$1" = vanish ] || [ "$full" -gt 0 ] || fail 'the table was not full'
  [ "$1" = vanish ] || [ "$given_up" -gt 0 ] || fail 'no call gave way'
  expect_equal 'lost' "$(lost_for)" $((full + given_up))
  expect_equal 'calls' "$(records probe | field hits)" \
    $(($(count_records event) + $(records summary | field open) + full + given_up))
  [ "$full" -eq 0 ] || file_says err "$full calls not paired: the table of open calls was full" ||
    fail "no warning: $(cat err)"
}

has_returned() { records event | grep -q '"value": *10[0-9]\{5\},'; }

# Eight that call, rest within the call while the others do, and return in another order.
pairs_fibres() {
  start_frames fibres
  start_attach -j -d 120 -p "$started_pid" --latency "$FIXTURES/frames" rest \
    --args fibre:s64,ret:s64
  end_frames
  expect_closing_records 40
  expect_equal 'results that are not ten times the argument' 0 "$(records event |
    sed 's/.*"value": *\([0-9]*\).*"return_value": *\([0-9]*\).*/\1 \2/' |
    awk '$2 != 10 * $1' | wc -l | tr -d ' ')"
  expect_equal 'calls that another came back from' 0 "$(value_and_latency | awk '$2 < 2000000' | wc -l | tr -d ' ')"
}

pairs_goroutines() {
  [ -e "$FIXTURES/goroutines" ] || skip 'no Go compiler was there when the fixtures were built'
  "$UPROBECTL" attach --count --latency -d 200 "$FIXTURES/goroutines" main.add main.grow \
    -- "$FIXTURES/goroutines" "${GO_SECONDS:-4}" >out 2>err || fail 'attach ends with an error'
  expect_equal 'pairs' "$(sed -n 's/^adds \([0-9]*\) grows \([0-9]*\)$/\2 main.grow \1 main.add/p' err)" \
    "$(grep main out | tr '\t\n' '  ' | sed 's/ $//')"
  ! file_says err 'not paired' || fail "$(cat err)"
}

# fixtures/flow/flow.go: of twenty calls from the same instruction each second one is left by a panic.
tells_panics() {
  [ "$(uname -m)" = x86_64 ] || skip 'on arm64 a Go function called again looks like one begun anew'
  [ -e "$FIXTURES/flow-go" ] || skip 'no Go compiler was there when the fixtures were built'
  "$UPROBECTL" attach -j --latency -d 200 "$FIXTURES/flow-go" main.panic_inner main.panic_outer \
    -- "$FIXTURES/flow-go" panic >out 2>err || fail 'attach ends with an error'
  expect_equal 'hits' '20 20' "$(records probe | field hits | tr '\n' ' ' | sed 's/ $//')"
  expect_equal 'pairs' 20 "$(count_records event)"
  # The last of each is followed by none.
  expect_equal 'left' 18 "$(lost_for 'left without a return')"
  expect_equal 'calls under way' 2 "$(records summary | field open)"
  file_says err '18 calls not paired: ' || fail "no warning: $(cat err)"
}

# "VALUE LATENCY" of each event, VALUE the last of its arguments.
value_and_latency() {
  records event | sed -n 's/.*"value": *\([-0-9]*\).*"latency_ns": *\([0-9]*\).*/\1 \2/p'
}

pairs_recursion() { # MECHANISM RETURN-AT [OPTION…]
  mechanism=$1
  at=$2
  shift 2
  needs "$mechanism"
  start_frames descend
  start_attach -j -d 120 -p "$started_pid" --latency --mechanism "$mechanism" --return-at "$at" "$@" \
    "$FIXTURES/frames" descend --args depth:s64,ret:s64
  end_frames
  expect_equal 'mechanism' "$mechanism" "$(records attached | field mechanism)"
  expect_closing_records 50
  expect_equal 'results that are no depth + 1' 0 "$(records event |
    sed 's/.*"value": *\([0-9]*\).*"return_value": *\([0-9]*\).*/\1 \2/' |
    while read -r depth result; do [ "$result" -eq $((depth + 1)) ] || echo "$depth"; done | wc -l | tr -d ' ')"
  value_and_latency >pairs
  wanted=0
  inner=0
  while read -r depth latency; do
    expect_equal 'depth' "$wanted" "$depth"
    [ "$depth" -eq 0 ] || [ "$latency" -ge "$inner" ] || fail "depth $depth took $latency ns, the call in it $inner"
    inner=$latency
    wanted=$(((wanted + 1) % 10))
  done <pairs
}

# Arguments are those of the entry, results those of the return: a wrong pair shows.
pairs_threads() { # RETURN-AT
  start_workload target --calls 400 --threads 8
  start_attach -j -d 120 -p "$started_pid" --latency --return-at "$1" "$FIXTURES/workload" work_six \
    --args n:s64,ret:s64
  let_it_call target "$started_pid"
  stop_attach
  expect_closing_records 3200
  records event | sed 's/.*"value": *\([0-9]*\).*"return_value": *\([0-9]*\).*/\1 \2/' | sort -n | uniq -c |
    sed -e 's/^ *//' >actual
  for i in $(seq 400); do echo "8 $i $((6 * i + 15))"; done >expected
  cmp -s expected actual || fail "pairs: $(diff expected actual | head -n 4)"
  expect_equal 'events without latency' 0 "$(records event | grep -c '"latency_ns": *null')"
}

# Where three calls began that were left together, two begin 500 ms later.
pairs_jumps() { # RETURN-AT
  start_frames leap
  start_attach -j -d 120 -p "$started_pid" --latency --return-at "$1" "$FIXTURES/frames" leap \
    --args away:s64@arg1,depth:s64@arg0
  end_frames 14
  expect_equal 'left' 14 "$(lost_for 'left without a return')"
  expect_equal 'calls under way' 1 "$(records summary | field open)"
  expect_equal 'hits' 25 "$(records probe | field hits)"
  expect_equal 'pairs' 10 "$(count_records event)"
  expect_equal 'pairs of calls that were left' 0 "$(values_of leap | grep -c '^1 ')"
  value_and_latency >pairs
  while read -r depth latency; do
    [ "$latency" -lt 500000000 ] || fail "a call at depth $depth has the latency of another: $latency ns"
  done <pairs
}

forgets_jumps() { # RETURN-AT
  start_frames leap
  start_attach -j -d 120 -p "$started_pid" --latency --return-at "$1" "$FIXTURES/frames" leap --if arg1==1
  end_frames 14
  expect_equal 'hits' 15 "$(records probe | field hits)"
  expect_equal 'pairs' 0 "$(count_records event)"
}

# For all processes, so that children are traced.
pairs_forks() { # RETURN-AT
  start_frames split
  start_attach -j -d 120 --latency --return-at "$1" "$FIXTURES/frames" split --args ret:s32
  end_frames 5
  expect_equal 'returns without an entry' 5 "$(lost_for 'whose entry was not seen')"
  expect_equal 'hits' 5 "$(records probe | field hits)"
  expect_equal 'pairs' 5 "$(count_records event "pid=$started_pid")"
  expect_equal 'events' 5 "$(count_records event)"
  expect_equal 'results' '1' "$(records event | field return_value | sort -u)"
}

measures_threads() {
  start_workload target --calls 5000 --threads 8
  start_attach -j -d 120 -p "$started_pid" --histogram --count "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'hits' 40000 "$(records probe | field hits)"
  expect_equal 'count' 40000 "$(records count | field count)"
  expect_equal 'unit' ns "$(records histogram | field unit)"
  expect_equal 'calls in the histogram' 40000 "$(records histogram | sed 's/"buckets.*//' | field count)"
  sum=0
  for count in $(records histogram | sed 's/.*"buckets"//' | grep -o '"count": *[0-9]*' | field_number); do
    sum=$((sum + count))
  done
  expect_equal 'sum of the buckets' 40000 "$sum"
  records histogram >histogram
  [ "$(field min <histogram)" -le "$(field p50 <histogram)" ] || fail 'the median is below the least'
  [ "$(field p50 <histogram)" -le "$(field p99 <histogram)" ] || fail 'p99 is below the median'
  [ "$(field p99 <histogram)" -le "$(field max <histogram)" ] || fail 'p99 is above the most'
  expect_equal 'events' 0 "$(count_records event)"
}

field_number() {
  sed 's/.*: *//'
}

measures_rests() {
  start_frames nap
  start_attach -j -d 120 -p "$started_pid" --latency "$FIXTURES/frames" nap --args milliseconds:s64
  end_frames
  expect_closing_records 25
  value_and_latency >pairs
  expect_equal 'rests' 5 "$(grep -c '^200 ' pairs)"
  while read -r rest latency; do
    [ "$latency" -ge $((rest * 1000000)) ] || fail "a rest of $rest ms took $latency ns"
    [ "$latency" -lt 1000000000 ] || fail "a rest of $rest ms took $latency ns"
  done <pairs
}

# What sched_switch tells of a thread differs between kernels.
wait_scenarios() {
  for buffer in ring perf; do
    for at in trampoline ret; do
      scenario "$buffer, $at: a function that rests has slept, and its longest wait has a stack" tells_waits --buffer "$buffer" --return-at "$at"
      scenario "$buffer, $at: each wait of a function is shown with its stack" tells_each_wait --buffer "$buffer" --return-at "$at"
    done
    scenario "$buffer: a function that rests has slept, as calls nest and as a span" tells_waits_of_others --buffer "$buffer"
  done
  scenario '--cpu: a switch that the kernel does not report leaves times unknown, not wrong' tells_missed_switches on_switch --cpu waiting
  scenario '--off-cpu: a switch that the kernel does not report leaves times unknown, not wrong' tells_missed_switches on_caused_switc --off-cpu slept
}

# leave-again says what a kernel that does not report each switch leaves the program to see.
tells_missed_switches() { # PROGRAM OPTION TIME
  needs_kernel 5.10
  for seen in leaves comes; do
    miss_switches "$1" $seen "$2" nap --min-latency=200ms
    miss_switches "$1" $seen "$2" --graph nap
    miss_switches "$1" $seen "$2" --span nap=nap..nap%return --min-latency=200ms
    miss_switches "$1" $seen --count --by tid --measure "$3" nap --min-latency=200ms
    waited=$(records count | field sum)
    [ "$waited" -lt 500000000 ] || fail "$seen: calls waited $waited ns"
    miss_switches "$1" $seen --histogram --measure "$3" --span nap=nap..nap%return --min-latency=200ms
    known=$(records histogram | sed 's/"buckets.*//' | field count)
    [ "${known:-0}" -le 2 ] || fail "$seen: $known waits were measured"
  done
  start_frames nap
  start_attach -j -d 120 -p "$started_pid" "$2" "$FIXTURES/frames" nap
  end_frames
  known=$(records event | grep -c waiting_ns)
  [ "$known" -ge 22 ] || fail "otherwise the times of $known of 25 calls are known"
}
# Five calls, or spans, have rested for 200 ms each, and their times are not known. A slow machine may delay others as
# long, and leave-again for as long as two of them.
miss_switches() { # PROGRAM leaves|comes WORD…
  program=$1
  seen=$2
  shift 2
  "$FIXTURES/leave-again" "$program" "$seen" 2>again &
  again=$!
  echo "$again" >>"$scratch/pids"
  start_frames nap
  start_attach -j -d 120 -p "$started_pid" "$FIXTURES/frames" "$@"
  end_frames
  wait "$again" || fail "$(cat again)"
  case "$*" in
    *--measure*) ;;
    *)
      unknown=$({ records event; records span; } | grep -E '"(latency|duration)_ns": *([2-9][0-9]{8}|[0-9]{10})' |
        grep -cvE 'waiting_ns|on_cpu_ns|slept_ns|longest_wait')
      [ "$unknown" -ge 3 ] || fail "$*: the times of $unknown calls that rested are not known"
      ;;
  esac
  expect_equal "$*: warnings" 1 "$(grep -c 'the kernel did not report [0-9]* of the threads. switches' err)"
}

tells_waits() { # OPTION…
  case $* in *ring*) kernel_is_at_least 5.8 || skip "Linux $(uname -r) has no ring buffers" ;; esac
  start_frames nap
  start_attach -j -d 120 -p "$started_pid" --off-cpu --min-latency 100ms "$@" "$FIXTURES/frames" nap
  end_frames
  expect_equal 'calls' 5 "$(count_records event)"
  # A machine that is busy may keep a thread from going to sleep in time, but seldom.
  slept=$(records event | field slept_ns | awk '$1 >= 195000000' | wc -l)
  [ "$slept" -ge 3 ] || fail "$slept of 5 calls slept for 195 ms"
  expect_equal 'those that were blocked for long' 0 "$(records event | field blocked_ns | awk '$1 >= 100000000' | wc -l | tr -d ' ')"
  longest=$(records event | grep -c '"longest_wait":{[^}]*"cause": *"slept"')
  [ "$longest" -ge 3 ] || fail "the longest wait of $longest of 5 calls was a sleep"
  # Some kernels for virtual machines do not report each switch (docs/cpu-time.md): then it is not known.
  waited=$(records event | grep -c waiting_ns)
  expect_equal 'stacks that have the function and its caller' "$waited" \
    "$(records event | grep -c '"longest_wait":{.*"stack":.*"symbol": *"nap".*"symbol": *"main"')"
}

tells_each_wait() { # OPTION…
  case $* in *ring*) kernel_is_at_least 5.8 || skip "Linux $(uname -r) has no ring buffers" ;; esac
  start_frames nap
  start_attach -j -d 120 -p "$started_pid" --off-cpu=all "$@" "$FIXTURES/frames" nap
  end_frames
  expect_equal 'calls' 25 "$(count_records event)"
  slept=$(records wait cause=slept | field duration_ns | awk '$1 >= 195000000' | wc -l)
  [ "$slept" -ge 3 ] || fail "$slept of 5 long waits: $(records wait)"
  expect_equal 'sleeps without the function and its caller in their stack' '' \
    "$(records wait cause=slept | grep -v '"stack":.*"symbol": *"nap".*"symbol": *"main"' | sed 's/.*"cause"//; s/"mapping"/\n&/g')"
}

tells_waits_of_others() { # OPTION…
  case $* in *ring*) kernel_is_at_least 5.8 || skip "Linux $(uname -r) has no ring buffers" ;; esac
  start_frames nap
  start_attach -j -d 120 -p "$started_pid" --off-cpu --graph --report "$@" "$FIXTURES/frames" nap main
  end_frames
  slept=$(records event kind=return | field slept_ns | awk '$1 >= 195000000' | wc -l)
  [ "$slept" -ge 3 ] || fail "$slept of 5 calls of the tree slept for 195 ms"
  [ "$(records call_summary symbol=nap | field slept_ns)" -ge 585000000 ] || fail "$(records call_summary)"
  start_frames nap
  start_attach -j -d 120 -p "$started_pid" --off-cpu --span 'nap=nap..nap%return' "$@" "$FIXTURES/frames"
  end_frames
  slept=$(records span | field slept_ns | awk '$1 >= 195000000' | wc -l)
  [ "$slept" -ge 3 ] || fail "$slept of 5 spans slept for 195 ms: $(records span)"
}

leaves_fast_out() {
  start_frames nap
  start_attach -j -d 120 -p "$started_pid" --min-latency 100ms "$FIXTURES/frames" nap --args milliseconds:s64
  end_frames
  expect_equal 'rests that were shown' '200 200 200 200 200' "$(values_of nap | tr '\n' ' ' | sed 's/ $//')"
  expect_equal 'hits' 25 "$(records probe | field hits)"
  start_frames nap
  start_attach -j -d 120 -p "$started_pid" --min-latency 100ms --count --histogram "$FIXTURES/frames" nap
  end_frames
  expect_equal 'count' 5 "$(records count | field count)"
  [ "$(records histogram | field min)" -ge 100000000 ] || fail "measured: $(records histogram)"
}

start_throws() {
  start_program target "$FIXTURES/throws" --wait --hold
}

# Half of the calls return; the exceptions of the others find their way.
survives_exceptions() {
  start_throws
  start_attach -j -d 120 -p "$started_pid" --entry --return "$FIXTURES/throws" 'pass(int)' 'fall(int)'
  let_it_call target "$started_pid"
  stop_attach
  for function in _Z4passi _Z4falli; do
    expect_equal "entries of $function" 100 "$(records event kind=entry | grep -c "\"$function\"")"
    expect_equal "returns of $function" 50 "$(records event kind=return | grep -c "\"$function\"")"
  done
  expect_equal 'caught' 'caught 50' "$(grep '^caught' target)"
  expect_equal 'returned' 'returned 50' "$(grep '^returned' target)"
  start_throws
  start_attach -j -d 120 -p "$started_pid" --latency "$FIXTURES/throws" 'pass(int)' --args number:s32,ret:s32
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'pairs' 50 "$(count_records event)"
  file_says err '50 calls not paired: left without a return (by an exception.*): pass(int) (50)$' ||
    fail "no word of the exceptions: $(cat err)"
  for i in $(seq 2 2 100); do echo "$i $((i + 1))"; done >expected
  records event | sed 's/.*"value": *\([0-9]*\).*"return_value": *\([0-9]*\).*/\1 \2/' >actual
  cmp -s expected actual || fail "pairs: $(diff expected actual | head -n 4)"
}

# A uretprobe replaces the return address of the caller's frame, which no unwinder knows. So `auto` probes
# exits. A kernel on which the program survives is not an error.
ends_throwing() {
  start_throws
  start_attach -j -d 120 -p "$started_pid" --return --return-at trampoline "$FIXTURES/throws" 'pass(int)'
  kill -USR1 "$started_pid"
  wait_until 60 has_ended_or_done "$started_pid" || fail 'the program neither ends nor goes on'
  ! file_says target '^done' || skip 'exceptions pass return probes of this kernel'
  attach_ends_with 0
  expect_equal 'returns before the first exception' 0 "$(count_records event)"
}

has_ended_or_done() { # PID
  ! kill -0 "$1" 2>/dev/null || grep -q '^State:.*Z' "/proc/$1/status" || file_says target '^done'
}
