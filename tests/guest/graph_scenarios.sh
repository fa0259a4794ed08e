# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch: set by the harness and the suite
# Calls as they nest. fixtures/flow says how its functions are left, and how often.

graph_scenarios() {
  scenario 'graph: what longjmp left is not the parent of later calls' nests_jumps
  scenario 'graph: what an exception left is not the parent of later calls' nests_throws
  scenario 'graph: threads that end in a function leave no open calls around those of the next thread' nests_thread_exits
  scenario 'graph: fibers whose stacks lie side by side have their own calls' nests_fibres
  scenario 'graph: a signal handler is called in the function that it interrupts' nests_handlers
  scenario 'graph: goroutines keep their calls while their stacks move' nests_goroutines
  scenario 'graph: --graph-depth shows so many levels, a report counts them' nests_recursion
  scenario 'graph: --graph-root shows what is below a function' nests_below_root
  scenario 'graph: --if leaves out calls with their returns, and says how many' leaves_out_calls
  scenario 'graph: calls of a thread that changes its name have their return' keeps_renamed_threads
  scenario 'graph: records are those of entries and returns, with their depth' writes_graph_records
  scenario 'graph: more functions than the limit are refused, which can be raised' limits_graph
  scenario 'graph: trees of slow roots are shown whole, others are counted' shows_slow_trees
  scenario 'graph: trees are shown by the result of their root, and reported alone' shows_failed_trees
  scenario 'graph: __cxa_throw says which calls an exception has left' names_exceptions
  scenario 'graph: through perf buffers the order is kept' nests_jumps --mechanism "$perf" --buffer perf
}

# The tree of a mode without arguments and results in the file `tree`.
graph_flow() { # PROGRAM MODE FUNCTIONS [OPTION…]
  program=$1
  mode=$2
  functions=$3
  shift 3
  [ -e "$FIXTURES/$program" ] || skip "no compiler for $program was there when the fixtures were built"
  set -f # functions are patterns
  # shellcheck disable=SC2086 # words
  "$UPROBECTL" attach --graph -o out -d 60 --follow --forward-exit "$@" \
    "$FIXTURES/$program" $functions -- "$FIXTURES/$program" "$mode" >said 2>err || fail "attach ends with an error: $(cat err)"
  set +f
  expect_equal 'the program' ok "$(sed -n "s/^$mode //p" said)"
  cut -f 6 out | sed 's/([^ ]*=[^)]*)/()/; s/ = .*[^;]$//; s/ = .*;$/;/' >tree
}

lines_of() { # EXTENDED-REGEX
  grep -Ec -- "$1" tree
}

nests_jumps() {
  graph_flow flow-c longjmp 'longjmp_*' "$@"
  expect_equal 'outer calls' 20 "$(lines_of '^longjmp_outer\(\) \{$')"
  expect_equal 'inner calls' 20 "$(lines_of '^  longjmp_inner\(\)')"
  expect_equal 'calls without a return' 20 "$(lines_of '  <no return seen>;?$')"
  expect_equal 'names of threads' flow-c "$(cut -f 4 out | sort -u)"
  expect_equal 'lines of deeper calls' 0 "$(lines_of '^    ')"
}

nests_throws() {
  graph_flow flow-cxx throw 'throw_*'
  expect_equal 'lines of the fifth level, of four functions' 0 "$(lines_of '^        ')"
  [ "$(lines_of 'no return seen')" -gt 0 ] || fail 'no call was left by an exception'
  expect_equal 'calls that begin' "$(sed -n 's/^calls \([0-9]*\) .*/\1/p' said)" "$(lines_of '\{$|;$')"
}

nests_thread_exits() {
  graph_flow flow-c exit-unwound 'unwound_*'
  expect_equal 'calls that begin' "$(sed -n 's/^calls \([0-9]*\) .*/\1/p' said)" "$(lines_of '\{$|;$')"
  deepest=$(sed 's/[^ ].*//' tree | awk '{ if (length > most) most = length } END { print most + 0 }')
  [ "$deepest" -le 6 ] || fail "calls are nested $deepest columns deep"
}

nests_fibres() {
  graph_flow flow-c fibre 'fibre_yield fibre_step'
  expect_equal 'steps' 100 "$(lines_of '^fibre_step\(\) \{$')"
  expect_equal 'yields in a step' 100 "$(lines_of '^  fibre_yield\(\)( \{$|;$|  <)')"
  expect_equal 'lines of deeper calls' 0 "$(lines_of '^    ')"
  expect_equal 'calls without a return' 0 "$(lines_of 'no return seen')"
}

nests_handlers() {
  graph_flow flow-c signal-stack 'signal_*'
  expect_equal 'calls that begin' "$(sed -n 's/^calls \([0-9]*\) .*/\1/p' said)" "$(lines_of '\{$|;$')"
  expect_equal 'calls without a return' 0 "$(lines_of 'no return seen')"
}

nests_goroutines() {
  graph_flow flow-go grow main.grow_call
  expect_equal 'calls without a return' 0 "$(lines_of 'no return seen|was not seen')"
  expect_equal 'calls that begin' "$(lines_of '^ *main.grow_call\(')" "$(lines_of '^ *(\} main.grow_call|main.grow_call\(.*;$)')"
}

nests_recursion() {
  graph_flow flow-c deep deep_call --graph-depth 3 --report
  expect_equal 'lines of the fourth level' 0 "$(lines_of '^      deep_call')"
  [ "$(lines_of '^    deep_call')" -gt 0 ] || fail 'the third level is missing'
}

nests_below_root() {
  graph_flow flow-c longjmp 'longjmp_*' --graph-root longjmp_inner
  expect_equal 'lines of callers' 0 "$(lines_of longjmp_outer)"
  expect_equal 'calls of the root' 20 "$(lines_of '^longjmp_inner\(\)')"
  # fixtures/stacks/depths.c: depth_jumps ends by a jump to depth_middle.
  "$UPROBECTL" attach --graph --graph-root depth_jumps --return-at ret -d 60 "$FIXTURES/depths" 'depth_*' -- "$FIXTURES/depths" jumps 3 \
    >out 2>err || fail "attach ends with an error: $(cat err)"
  expect_match 'warning' '3 calls of --graph-root were left by a tail call' "$(cat err)"
}

# fixtures/flow/c_flow.c: 200 nested calls, with arguments from 199 to 0.
leaves_out_calls() {
  graph_flow flow-c deep deep_call --if 'arg0 < 3'
  expect_equal 'the tree' 'deep_call() {
  deep_call() {
    deep_call();
  } deep_call
} deep_call' "$(cat tree)"
  expect_match 'what was left out' '^graph: 197 calls left out by filters$' "$(cat err)"
  expect_match 'events' '^6 events in ' "$(cat err)"
}

# fixtures/workload/filtered.c: the second of two threads calls itself beta in `call`.
keeps_renamed_threads() {
  "$UPROBECTL" attach -j --report --not-thread beta -d 60 "$FIXTURES/filtered" filtered_take call -- "$FIXTURES/filtered" \
    >out 2>err || fail "attach ends with an error: $(cat err)"
  expect_equal 'calls' 'call 2 0 filtered_take 40 0' "$(for function in call filtered_take; do
    records call_summary symbol=$function | sed 's/.*"calls":\([0-9]*\).*"unfinished":\([0-9]*\).*/'$function' \1 \2/'
  done | tr '\n' ' ' | sed 's/ $//')"
}

writes_graph_records() {
  "$UPROBECTL" attach --graph --report -j -o out -d 60 --forward-exit "$FIXTURES/flow-c" 'longjmp_*' \
    -- "$FIXTURES/flow-c" longjmp >said 2>err || fail "attach ends with an error: $(cat err)"
  expect_equal 'entries of the inner function' 20 \
    "$(records event kind=entry | grep '"symbol":"longjmp_inner"' | grep -c '"depth":1[,}]')"
  expect_equal 'returns' 20 "$(records event kind=return | grep -c '"latency_ns":[0-9]')"
  expect_equal 'ends without a return' 20 "$(records call_end end=no_return_seen | grep -c .)"
  expect_equal 'the calls of each function' '20 20' "$(records call_summary | field calls | tr '\n' ' ' | sed 's/ $//')"
  expect_equal 'of them without a return' '10 10' \
    "$(records call_summary | field no_return_seen | tr '\n' ' ' | sed 's/ $//')"
  expect_equal 'calls of the inner by the outer function' 20 \
    "$(records call_edge caller=longjmp_outer | grep '"callee":"longjmp_inner"' | field calls)"
}

limits_graph() {
  if "$UPROBECTL" attach --graph --graph-limit 1 -d 100ms "$FIXTURES/flow-c" 'longjmp_*' \
    -- "$FIXTURES/flow-c" longjmp >out 2>err; then
    fail 'two functions are probed'
  fi
  expect_match 'the message' 'graph of 2 functions was requested, the limit is 1' "$(cat err)"
  expect_match 'the hint' 'raise the limit: --graph-limit 2$' "$(cat err)"
}

# fixtures/flow/requests.cpp says which requests there are. A program that was replaced, a thread and a
# process that have ended are roots without a return.
graph_requests() { # OPTION…
  "$UPROBECTL" attach --graph --graph-root request_serve -o out -d 60 --follow "$@" \
    "$FIXTURES/requests" 'request_*' -- "$FIXTURES/requests" >said 2>err || fail "attach ends with an error: $(cat err)"
}
call_tree() { # FILE
  cut -f 6 "$1" | sed 's/([^ ]*=[^)]*)/()/; s/ = .*[^;]$//; s/ = .*;$/;/' >tree
}

shows_slow_trees() {
  graph_requests --root-min-latency 40ms --save run
  expect_match 'the end' '^graph: 5 trees shown, 23 left out, 3 left out whose root has no return$' "$(cat err)"
  call_tree out
  expect_equal 'roots' 5 "$(lines_of '^request_serve\(\) \{$')"
  expect_equal 'steps: two for each, and one in a child' 11 "$(lines_of '^ *request_step\(\);$')"
  expect_equal 'steps of the child, which has no caller there' 1 "$(lines_of '^request_step\(\);$')"
  # Each tree is whole: threads do not appear in each other's.
  expect_equal 'roots that end' 'request_serve request_serve request_serve request_serve request_serve' \
    "$(sed -n 's/^} \([a-z_]*\).*/\1/p' tree | tr '\n' ' ' | sed 's/ $//')"
  expect_equal 'the first tree' 'request_serve() {
  request_step();
  request_rest();
  request_step();
} request_serve' "$(head -n 5 tree)"
  "$UPROBECTL" report run >again 2>err || fail "report fails: $(cat err)"
  cut -f 2- out >live
  cut -f 2- again | diff - live >/dev/null || fail 'the saved run shows other trees'
  expect_match 'the end of the report' '^graph: 5 trees shown, 23 left out, 3 left out whose root has no return$' "$(cat err)"
  # A whole run: the report chooses.
  graph_requests --save run
  "$UPROBECTL" report --root-min-latency 40ms -j run >out 2>err || fail "report fails: $(cat err)"
  expect_equal 'chosen by the report' 5 "$(records event kind=entry | grep -c '"symbol":"request_serve"')"
  expect_equal 'the record' '5 23 3 0 0' "$(for key in shown dropped unknown cut cut_calls; do
    records graph_trees | field $key
  done | tr '\n' ' ' | sed 's/ $//')"
}

shows_failed_trees() {
  graph_requests --root-if 'ret > 100 && latency > 40ms' --report
  expect_match 'the end' '^graph: 3 trees shown, 24 left out, 4 left out whose root has no return$' "$(cat err)"
  expect_equal 'calls in the report' '3 request_rest 3 request_serve 6 request_step' \
    "$(awk -F '\t' 'NF == 9 { print $1, $9 }' out | sort -k 2 | tr '\n' ' ' | sed 's/ $//')"
  if graph_requests_fails --root-if 'price > 3'; then fail 'an unknown value is compared'; fi
  expect_match 'the error' "its events do not have 'price'" "$(cat err)"
}
graph_requests_fails() {
  "$UPROBECTL" attach --graph -d 1 "$@" "$FIXTURES/requests" 'request_*' -- "$FIXTURES/requests" none >out 2>err
}

names_exceptions() {
  "$UPROBECTL" attach --graph -j -o out -d 60 --follow "$FIXTURES/requests" 'request_*' __cxa_throw \
    -- "$FIXTURES/requests" >said 2>err || fail "attach ends with an error: $(cat err)"
  expect_equal 'left by the exception' '3 std::runtime_error' \
    "$(records call_end left_by=exception | field exception | sort | uniq -c | sed 's/^ *//')"
  expect_equal 'all others were open at the end' 3 "$(records call_end end=run_ended | grep -c request_serve)"
}
