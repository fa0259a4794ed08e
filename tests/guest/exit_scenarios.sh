# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# How functions are left, also without a return. fixtures/workload/exits.cpp has the numbers of calls.

exit_scenarios() {
  for mechanism in $(mechanisms multi perf tracefs); do
    scenario "$mechanism: returns and tail calls are distinguished, taken or not" tells_tail_calls "$mechanism"
  done
  scenario 'code is read correctly under breakpoints of another run' reads_code_under_probes
  for mechanism in $(mechanisms multi perf tracefs); do
    scenario "$mechanism: a call goes on in the function that it jumps to" follows_tail_calls "$mechanism"
  done
  scenario 'a tail call ends a latency, and has no return value' ends_at_tail_calls
  scenario 'latencies say where single-stepping is a part of them' tells_single_stepped
  scenario 'counts and histograms have calls that end by a tail call' counts_tail_calls
  scenario 'a condition on the return value holds for no tail call' judges_tail_calls
  scenario 'a jump to an end that functions share is a return with its value' sees_shared_ends
  scenario 'exceptions pass functions of a pattern, as --histogram probes them' spares_exceptions
  scenario 'an exception of the comparator passes qsort' spares_sorting
  scenario 'pthread_exit runs the clean-up handlers of functions whose latency is measured' spares_thread
  scenario 'a warning of the trampoline is printed even with -q, and only if it is requested' warns_of_trampoline
  scenario 'section uretprobe uses the trampoline with a warning, section uprobe the exits' warns_of_sections
  scenario 'a program of the user runs at exits that are always taken, and no others' refuses_unjudged
}

# "KIND LEFT_BY" of the events of a function, counted.
ways_out_of() { # FUNCTION
  records event "symbol=$1" | sed 's/.*"kind": *"\([a-z]*\)".*"left_by": *"\{0,1\}\([a-z_]*\)"\{0,1\},.*/\1 \2/' |
    sort | uniq -c | sed 's/^ *//' | tr '\n' ',' | sed 's/,$//'
}

# The kernel shows its breakpoints in private mappings of a probed file, ours among them.
reads_code_under_probes() {
  start_workload target --calls 3
  start_attach -d 60 --entry --return "$FIXTURES/workload" work_six
  "$UPROBECTL" attach --dry-run -j --entry --return "$FIXTURES/workload" work_six >second 2>said
  expect_equal 'exit status beside another run' 0 "$?"
  expect_equal 'messages beside another run' '' "$(cat said)"
  stop_attach
}

sees_shared_ends() {
  "$UPROBECTL" attach -j -o out -d 60 --latency --return-at ret --args none --forward-exit "$FIXTURES/shared-ends" 'shared_*' \
    -- "$FIXTURES/shared-ends" >said 2>err || fail "attach ends with an error: $(cat err)"
  records event left_by=return |
    sed 's/.*"symbol": *"\([a-z_]*\)".*"return_value": *"\([0-9a-fx]*\)".*/\1 \2/' >returned
  expect_equal 'results' "$(grep '^shared_[a-r]' said)" "$(cat returned)"
  expect_equal 'functions left by others' '4 shared_sets' \
    "$(records event left_by=tail_call | sed 's/.*"symbol": *"\([a-z_]*\)".*/\1/' | sort | uniq -c | sed 's/^ *//')"
  expect_equal 'calls that are not paired' '' "$(records lost)"
}

run_exits() { # WAY OPTION…
  way=$1
  shift
  "$UPROBECTL" attach -d 60 "$@" -- "$FIXTURES/exits" "$way" >out 2>err || fail "attach fails: $(cat err)"
}

tells_tail_calls() { # MECHANISM
  needs "$1"
  run_exits tails -j --entry --return --return-at ret --mechanism "$1" "$FIXTURES/exits" 'exits_*'
  expect_equal 'exits_pick' '8 entry null,3 return return,5 return tail_call' "$(ways_out_of exits_pick)"
  expect_equal 'exits_always' '4 entry null,4 return tail_call' "$(ways_out_of exits_always)"
  expect_equal 'exits_through' '8 entry null,2 return return,6 return tail_call' "$(ways_out_of exits_through)"
  expect_equal 'exits_again' '3 entry null,1 return return,2 return tail_call' "$(ways_out_of exits_again)"
  expect_equal 'exits_negated' '4 entry null,4 return return' "$(ways_out_of exits_negated)"
  expect_equal 'exits_other' '15 entry null,15 return return' "$(ways_out_of exits_other)"
  expect_equal 'tail calls with a value' 0 \
    "$(records event left_by=tail_call | grep -vc '"return_value": *null')"
  expect_equal 'returns without a value' 0 \
    "$(records event left_by=return | grep -c '"return_value": *null')"
  expect_equal 'what the program computes' 'sum 1570' "$(cat out err | grep '^sum')"
}

# exits_other(n) returns n + 100.
follows_tail_calls() { # MECHANISM
  needs "$1"
  for way in '--entry --return' --latency; do
    # shellcheck disable=SC2086
    run_exits tails -j $way --mechanism "$1" "$FIXTURES/exits" 'exits_*'
    expect_equal 'results of exits_pick' '0x65 0x66 0x67 0x68 0x69 0x7 0x7 0x7 ' "$(results_at_exits exits_pick)"
    expect_equal 'returns of exits_always' 4 "$(records event symbol=exits_always | grep -c '"left_by": *"return"')"
    # Indirect jumps, and those back to the function, are not followed.
    expect_equal 'tail calls of exits_through' 6 \
      "$(records event symbol=exits_through | grep -c '"left_by": *"tail_call"')"
    expect_equal 'tail calls of exits_again' 2 \
      "$(records event symbol=exits_again | grep -c '"left_by": *"tail_call"')"
    expect_equal 'calls of exits_other' 15 "$(records event symbol=exits_other | grep -c '"left_by": *"return"')"
    expect_equal 'what the program computes' 'sum 1570' "$(cat out err | grep '^sum')"
    expect_equal 'losses' '' "$(records lost)"
  done
}

results_at_exits() { # FUNCTION
  records event "symbol=$1" | sed -n 's/.*"return_value": *"\([0-9a-fx]*\)".*/\1/p' | sort | tr '\n' ' '
}

ends_at_tail_calls() {
  run_exits tails --latency --return-at ret "$FIXTURES/exits" exits_pick exits_always
  expect_equal 'returns' 3 "$(grep -c 'exits_pick.*= 0x7' out)"
  expect_equal 'tail calls' 9 "$(grep -c 'left by a tail call' out)"
  expect_equal 'tail calls with a value' 0 "$(grep 'left by a tail call' out | grep -c '= 0x')"
  run_exits tails -j --latency --return-at ret "$FIXTURES/exits" exits_pick exits_always exits_through exits_again
  expect_equal 'calls without a latency' 0 "$(records event | grep -c '"latency_ns": *null')"
  expect_equal 'exits_pick' '3 return return,5 return tail_call' "$(ways_out_of exits_pick)"
  expect_equal 'exits_always' '4 return tail_call' "$(ways_out_of exits_always)"
  expect_equal 'exits_through' '2 return return,6 return tail_call' "$(ways_out_of exits_through)"
  expect_equal 'exits_again' '1 return return,2 return tail_call' "$(ways_out_of exits_again)"
}

# exits_always begins with a jump, which kernels emulate, exits_other with arithmetic; on arm64 both
# begin with a landing pad.
tells_single_stepped() {
  case $(uname -m) in
    x86_64) stepped=1 jump=false ;;
    *) stepped=2 jump=true ;;
  esac
  run_exits tails --latency "$FIXTURES/exits" exits_always exits_other
  expect_match 'text' "^latencies of $stepped of 2 functions include the time to single-step" "$(cat err)"
  run_exits tails -j --histogram "$FIXTURES/exits" exits_always exits_other
  expect_equal 'functions' "$stepped" "$(records summary | field single_stepped)"
  expect_equal 'exits_always' "$jump" "$(records probe symbol=exits_always | field single_stepped)"
  expect_equal 'exits_other' true "$(records probe symbol=exits_other | field single_stepped)"
  if [ "$jump" = false ]; then
    run_exits tails --latency "$FIXTURES/exits" exits_always
    ! grep -q single-step err || fail "a jump is said to be single-stepped: $(cat err)"
  fi
  run_exits tails -j --entry "$FIXTURES/exits" exits_other
  expect_equal 'without latencies' null "$(records summary | field single_stepped)"
}

counts_tail_calls() {
  run_exits tails -j --count --histogram --return-at ret "$FIXTURES/exits" exits_pick
  expect_equal 'count' 8 "$(records count | field count)"
  expect_equal 'calls in the histogram' 8 "$(records histogram | sed 's/"buckets.*//' | field count)"
  run_exits tails -j --histogram --measure ret --return-at ret "$FIXTURES/exits" exits_pick
  records histogram | sed "s/\"buckets.*//" >measured
  expect_equal 'values that were returned' 3 "$(field count <measured)"
  expect_equal 'the most' 7 "$(field max <measured)"
}

judges_tail_calls() {
  run_exits tails -j --return --return-at ret --if 'ret!=8' "$FIXTURES/exits" exits_pick
  expect_equal 'exits_pick' '3 return return' "$(ways_out_of exits_pick)"
  run_exits tails -j --return --if 'ret<=-3' "$FIXTURES/exits" exits_negated
  expect_equal 'exits_negated' '2 return return' "$(ways_out_of exits_negated)"
}

spares_exceptions() {
  run_exits throws --histogram "$FIXTURES/exits" 'shop::*'
  expect_match 'what the program says' 'caught 50 sold 50' "$(cat out err)"
  expect_match 'histogram' 'shop::sell' "$(cat out)"
  run_exits throws -q --latency "$FIXTURES/exits" 'shop::*'
  expect_match 'what the program says' 'caught 50 sold 50' "$(cat out err)"
}

spares_sorting() {
  run_exits sorts --latency "$FIXTURES/exits" qsort
  expect_match 'what the program says' 'caught 10' "$(cat out err)"
}

spares_thread() {
  run_exits thread --latency "$FIXTURES/exits" exits_work
  expect_match 'what the program says' 'cleaned 5' "$(cat out err)"
}

warns_of_trampoline() {
  run_exits tails -q --return --return-at trampoline "$FIXTURES/exits" exits_other
  expect_match 'notice' 'warning: return probes of the kernel' "$(cat err)"
  for at in auto ret; do
    run_exits tails -q --return --return-at "$at" "$FIXTURES/exits" exits_other
    ! grep -q 'return probes of the kernel' err || fail "a notice: $(cat err)"
  done
}

warns_of_sections() {
  run_exits tails -q --object "$FIXTURES/calls.bpf.o" --program-name count_return "$FIXTURES/exits" exits_other
  expect_match 'notice' 'warning: return probes of the kernel' "$(cat err)"
  run_exits tails -q --return --object "$FIXTURES/calls.bpf.o" --program-name count_plain "$FIXTURES/exits" exits_other
  ! grep -q 'return probes of the kernel' err || fail "a notice: $(cat err)"
}

refuses_unjudged() {
  for pair in pick/conditional through/indirect; do
    "$UPROBECTL" attach --dry-run --return --object "$FIXTURES/calls.bpf.o" --program-name count_plain \
      "$FIXTURES/exits" "exits_${pair%/*}" >out 2>err
    expect_equal "exit status for exits_${pair%/*}" 1 "$?"
    expect_match "reason for exits_${pair%/*}" "the ${pair#*/} jump at vaddr:0x[0-9a-f]* leaves the function only sometimes" "$(cat err)"
    expect_match 'hints' 'run without --object and --program' "$(cat err)"
  done
  run_exits tails --return --object "$FIXTURES/calls.bpf.o" --program-name count_plain "$FIXTURES/exits" exits_always exits_other
  expect_match 'warning' 'also runs where 1 function is left by a tail call' "$(cat err)"
}
