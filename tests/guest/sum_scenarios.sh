# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch, started_pid: set by the harness and the suite
# Counts, histograms of values, conditions and --expect, compared with the numbers of fixtures/workload/.

sum_scenarios() {
  scenario 'all of libc is counted, with one line for each kind of trouble' counts_all_of_libc
  for mechanism in $(mechanisms multi perf perf-ioctl tracefs); do
    scenario "$mechanism: --count is exact for a hundred threads at full rate" counts_threads "$mechanism"
  done
  scenario '--per-process counts three processes for themselves' counts_processes
  scenario 'counts of --interval add up to the total' counts_by_interval
  scenario '--top shows the most, --exclude leaves out' shows_top
  scenario '--measure of known numbers has exact buckets' measures_numbers
  scenario '--measure ret needs no --return' measures_results
  scenario '--if on arguments' holds_for_arguments
  scenario '--if on results: int, long and unsigned ones' holds_for_results
  scenario '--if on the edges of 64 bits' holds_at_edges
  scenario '--if at entry and at return, with --latency' holds_for_pairs
  scenario 'a condition that never held is the reason for silence' explains_condition
  scenario '--expect is met, or the run fails' meets_expectation
  for mechanism in $(mechanisms multi perf perf-ioctl tracefs); do
    scenario "$mechanism: --stack fp counts each way to a function for itself" counts_ways "$mechanism"
  done
  scenario '--stack fp through a perf buffer' counts_ways "$perf" --buffer perf
  scenario '--stack=fp inside a function does not report data on the stack as a caller' counts_ways_to_inside
  for how in --per-process --stack=fp; do
    scenario "$how: entries and returns are counted apart" counts_ends_apart "$how"
  done
  scenario '--per-process has the names of processes, not of threads or parents' names_processes
  scenario 'ways are counted process by process with --per-process' counts_ways_of_processes
}

counts_all_of_libc() {
  sleep 60 &
  echo $! >>"$scratch/pids"
  # The child may not have executed it yet.
  wait_until 5 grep -q 'libc\.so\.6' "/proc/$!/maps" || skip 'sleep is a static program here'
  "$UPROBECTL" attach -p "$!" -d 100ms --count libc.so.6 '*' >out 2>err
  expect_equal 'exit status' 0 "$?"
  expect_match 'what was probed' 'probing [1-9][0-9]{3} functions in 1 process' "$(cat err)"
  expect_match 'what cannot be probed' 'matches of .\*. are skipped: ' "$(cat err)"
  expect_match 'names of a kind' 'is an IFUNC: .* \(and [0-9]+ more like it\)' "$(cat err)"
  [ "$(wc -l <err)" -le 15 ] || fail "$(wc -l <err) lines of messages"
}

# fixtures/workload/ways.c: the program is gone when its stacks are named.
counts_ways() { # MECHANISM [OPTION…]
  mechanism=$1
  shift
  needs "$mechanism"
  "$UPROBECTL" attach -d 120 --count --stack fp --mechanism "$mechanism" "$@" "$FIXTURES/ways" ways_leaf \
    -- "$FIXTURES/ways" 100 >out 2>err || fail "attach fails: $(cat err)"
  expect_equal 'ways' '1 ways_leaf<ways_left<main
100 ways_leaf<ways_left<ways_both<main
100 ways_leaf<ways_right<ways_both<main' "$(grep ways_leaf out | functions_of_ways | sort)"
}

# After a call, where the top of the stack and the link register are not those of the entry.
counts_ways_to_inside() {
  case $(uname -m) in
    x86_64) inside=ways_left+9 ;;
    *) inside=ways_left+16 ;;
  esac
  "$UPROBECTL" attach -d 120 --count --stack fp "$FIXTURES/ways" "$inside" -- "$FIXTURES/ways" 100 >out 2>err ||
    fail "attach fails: $(cat err)"
  expect_equal 'ways' '1 ways_left<main
100 ways_left<ways_both<main' "$(grep ways_left out | functions_of_ways | sort)"
}

# "COUNT f<g<main" of "COUNT FUNCTION f+0x1 (file+0x2) < g+0x3 (file+0x4) < …", as far as main.
functions_of_ways() {
  sed 's/+0x[0-9a-f]* (/ (/g; s/ ([^)]*)//g; s/ < /</g; s/<main.*/<main/' | awk -F '\t' '{ print $1, $NF }'
}

counts_ways_of_processes() {
  start_attach -d 120 --count --stack fp --per-process "$FIXTURES/ways" ways_leaf
  "$FIXTURES/ways" 5 >/dev/null
  "$FIXTURES/ways" 7 >/dev/null
  stop_attach
  expect_equal 'processes' 2 "$(cut -f 2 out | sort -u | wc -l | tr -d ' ')"
  expect_equal 'ways' '1 ways_leaf<ways_left<main
1 ways_leaf<ways_left<main
5 ways_leaf<ways_left<ways_both<main
5 ways_leaf<ways_right<ways_both<main
7 ways_leaf<ways_left<ways_both<main
7 ways_leaf<ways_right<ways_both<main' "$(functions_of_ways <out | sort)"
}

counts_threads() { # MECHANISM
  needs "$1"
  start_workload target --calls 300 --threads 100
  start_attach -j -d 120 -p "$started_pid" --count --mechanism "$1" "$FIXTURES/workload" work_six work_count work_silent
  let_it_call target "$started_pid"
  stop_attach
  for function in work_six work_count; do
    expect_equal "count of $function" 30000 "$(records count symbol=$function | field count)"
    expect_equal "hits of $function" 30000 "$(records probe symbol=$function | field hits)"
  done
  expect_equal 'count records' 2 "$(count_records count)"
  expect_equal 'events' 0 "$(count_records event)"
  expect_equal 'probes silent' 1 "$(records summary | field probes_silent)"
}

counts_ends_apart() { # OPTION
  start_workload target --calls 10
  start_attach -j -d 120 -p "$started_pid" --entry --return --count "$1" "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  for kind in entry return; do
    expect_equal "hits by $kind" 10 "$(records count kind=$kind | field count | awk '{ sum += $1 } END { print sum }')"
  done
}

counts_processes() {
  for calls in 10 20 30; do
    start_workload "target$calls" --calls $calls --threads 5
    echo "$started_pid $((5 * calls))" >>processes
  done
  start_attach -j -d 120 --count --per-process "$FIXTURES/workload" work_six
  while read -r pid calls; do let_it_call "target$((calls / 5))" "$pid"; done <processes
  stop_attach
  while read -r pid calls; do
    expect_equal "count of process $pid" "$calls" "$(records count "pid=$pid" | field count)"
    expect_equal "name of process $pid" workload "$(records count "pid=$pid" | field comm)"
  done <processes
  expect_equal 'count records' 3 "$(count_records count)"
  expect_equal 'the most' 150 "$(records count | field count | head -n 1)"
}

# The child of a shell begins with its name and its calls; what it executes has another name. A
# process whose threads have names of their own goes by that of its main thread.
names_processes() {
  for how in '' '--stack fp'; do
    # shellcheck disable=SC2086,SC2016 # $how is words; expanded by the inner shell
    "$UPROBECTL" attach -j -q -o out --follow --count --per-process $how libc.so.6 malloc -- \
      bash -c 'ls / >/dev/null; awk "BEGIN { print 1 }" >/dev/null; true' 2>err
    expect_equal "names $how" 'awk bash ls' "$(records count | field comm | sed 's/^m*awk$/awk/' | sort -u | tr '\n' ' ' | sed 's/ $//')"
    expect_equal "names of one process $how" "$(records count | field pid | sort -u | wc -l)" \
      "$(records count | sed 's/.*"pid":\([0-9]*\),"comm":"\([^"]*\)".*/\1 \2/' | sort -u | wc -l)"
  done
}

counts_by_interval() {
  start_workload target --calls 100 --delay-us 20000
  start_attach -j -d 120 -p "$started_pid" --count --interval 300ms "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  [ "$(count_records count)" -ge 3 ] || fail "only $(count_records count) counts in two seconds"
  sum=0
  for count in $(records count | field count); do sum=$((sum + count)); done
  expect_equal 'sum' 100 "$sum"
  # Each begins where the one before ended.
  expect_equal 'gaps' "$(records count | field time_ns | sed '$d' | tr '\n' ' ')" \
    "$(records count | field since_ns | sed 1d | tr '\n' ' ')"
}

shows_top() {
  watch_values --count --top 2 'take_*'
  expect_equal 'the two' 'take_number take_text' "$(records count | field symbol | tr '\n' ' ' | sed 's/ $//')"
  expect_equal 'their counts' '18 10' "$(records count | field count | tr '\n' ' ' | sed 's/ $//')"
  watch_values --count --top 1 --exclude 'take_n*' --exclude take_text 'take_*'
  expect_equal 'the one' take_buffer "$(records count | field symbol)"
  expect_equal 'probes' 21 "$(count_records probe)"
}

# 0 to 15, -1 and -5.
measures_numbers() {
  watch_values --histogram --measure arg0 take_number
  records histogram >histogram
  expect_equal 'unit' value "$(field unit <histogram)"
  expect_equal 'count' 18 "$(sed 's/"buckets.*//' histogram | field count)"
  expect_equal 'extremes' '-5 15' "$(field min <histogram) $(field max <histogram)"
  expect_equal 'total' 114 "$(field total <histogram)"
  expect_equal 'below zero' 2 "$(field negative <histogram)"
  expect_equal 'percentiles' '6 15' "$(field p50 <histogram) $(field p99 <histogram)"
  expect_equal 'buckets' '0-1:1 1-2:1 2-4:2 4-8:4 8-16:8' "$(sed -e 's/.*"buckets": *\[//' -e 's/\].*//' \
    -e 's/{"low": *\([0-9]*\), *"high": *\([0-9]*\), *"count": *\([0-9]*\)},\{0,1\} */\1-\2:\3 /g' \
    -e 's/ $//' histogram)"
}

measures_results() {
  watch_values --histogram --measure ret give_long give_unsigned
  expect_equal 'count' 7 "$(records histogram symbol=give_long | sed 's/"buckets.*//' | field count)"
  expect_equal 'total' 0 "$(records histogram symbol=give_long | field total)"
  expect_equal 'below zero' 3 "$(records histogram symbol=give_long | field negative)"
  expect_equal 'most' 4000000000 "$(records histogram symbol=give_unsigned | field max)"
}

# A count of none has no record.
counted() {
  number=$(records count | field count)
  echo "${number:-0}"
}

# How often work_six is counted in calls 1 to 100. The arguments of call i are i, i+1, …, and the result
# is 6i+15.
expect_held() { # HITS OPTION…
  wanted=$1
  shift
  start_workload target --calls 100
  start_attach -j -d 120 -p "$started_pid" --count "$@" "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  expect_equal "hits with $*" "$wanted" "$(counted)"
  kill -KILL "$started_pid"
}

holds_for_arguments() {
  expect_held 1 --if 'arg0==3'
  expect_held 99 --if 'arg0!=3'
  expect_held 9 --if 'arg0<10'
  expect_held 11 --if 'arg0>=90'
  expect_held 37 --if 'arg0&0x40'
  expect_held 50 --if 'arg1:u8&1'
  expect_held 5 --if 'arg0 > 10' --if 'arg5 <= 20'
  expect_held 1 --args first:s32,second:s32 --if 'second==101'
  case $(uname -m) in
    x86_64) expect_held 1 --if 'rdi==7' ;;
    aarch64) expect_held 1 --if 'x0==7' ;;
  esac
  expect_held 3 --return --if 'ret>600'
}

expect_values_held() { # HITS FUNCTION OPTION…
  wanted=$1
  shift
  watch_values --count "$@"
  expect_equal "hits with $*" "$wanted" "$(counted)"
  kill -KILL "$started_pid"
}

holds_for_results() {
  expect_values_held 3 give_int --return --if 'ret<0'
  expect_values_held 3 give_int --if 'ret<0' # the call, whose result is known at its return
  expect_values_held 3 give_long --return --if 'ret<0'
  expect_values_held 1 give_int --return --if 'ret==-1'
  expect_values_held 4 give_int --return --if 'ret:s32>=0'
  expect_values_held 1 give_unsigned --return --if 'ret>3000000000'
  expect_values_held 1 give_unsigned --return --if 'ret:u32>3000000000'
  expect_values_held 0 give_unsigned --return --if 'ret:u32<7'
}

holds_at_edges() {
  expect_values_held 1 take_x64 --if 'arg0>=0x8000000000000000'
  expect_values_held 1 take_s64 --if 'arg0:s64<0'
  expect_values_held 1 take_s64 --if 'arg0:s64&0x8000000000000000'
  expect_values_held 1 take_s64 --if 'arg1:s64&1'
  expect_values_held 1 take_s64 --if 'arg3:s64&-1'
  expect_values_held 1 take_s8 --if 'arg0:s8==-128'
  expect_values_held 1 take_u16 --if 'arg2:u16==65535'
}

holds_for_pairs() {
  start_workload target --calls 100
  start_attach -j -d 120 -p "$started_pid" --latency --if 'arg0<=10' --if 'ret:s64>27' --args n:s64 \
    "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'calls' '3 4 5 6 7 8 9 10' "$(values_of work_six | tr '\n' ' ' | sed 's/ $//')"
  expect_equal 'hits' 10 "$(records probe | field hits)"
}

explains_condition() {
  start_workload target --calls 100
  start_attach -j -d 120 -p "$started_pid" --if 'arg0==1000' "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'events' 0 "$(count_records event)"
  expect_match 'reason' '^called 100 times, but --if' "$(records probe | field reason)"
}

meets_expectation() {
  "$UPROBECTL" attach -j -o met --expect 25 "$FIXTURES/workload" work_six work_count -- \
    "$FIXTURES/workload" --calls 25 >said 2>err || fail "exit status $?: $(cat err)"
  ! grep -q '"type": *"error"' met || fail 'an error where 25 came'
  "$UPROBECTL" attach -j -o out --expect 26 --count "$FIXTURES/workload" work_six -- \
    "$FIXTURES/workload" --calls 25 >said 2>err
  expect_equal 'exit status' 1 "$?"
  expect_equal 'error records' 1 "$(count_records error)"
  expect_match 'message' 'work_six: 25 hits, expected at least 26' "$(records error | field message)"
  expect_equal 'code' not_found "$(records error | field code)"
}
