# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch, scope: set by the harness and the suite
# Effects of probed returns on a program: fixtures/flow has a mode for each way out of a function. It
# checks itself, and says how many calls and returns there were. docs/returns.md has the table.

# PROGRAM MODE, what becomes of it with uretprobes, FUNCTION…. Those outcomes are the
# same on Linux 6.1 and 6.12, x86-64 and arm64.
#   ok      the program does not notice
#   N/M     it does not, but of M returns only N are seen
#   wrong   it goes on and does something else
#   ends-N  it ends with that status
#   lost    it crashes, or runs in circles
flow_rows='flow-c longjmp ok longjmp_*
flow-c signal ok signal_*
flow-c signal-stack ok signal_*
flow-c siglongjmp ok signal_*
flow-c siglongjmp-stack ok signal_*
flow-c fibre ends-132 fibre_yield fibre_step
flow-c setcontext ok setcontext_leave
flow-c switch lost switch_step switch_stacks
flow-c vfork ok vfork_* vfork
flow-c fork ok fork_both
flow-c clone ok clone_inner clone_outer
flow-c deep 64/200 deep_call
flow-c backtrace wrong backtrace_*
flow-c exit-jumped ok jumped_*
flow-c exit-unwound wrong unwound_*
flow-c cancel-jumped ok jumped_*
flow-c cancel-unwound wrong unwound_*
flow-c async-cancel-jumped ok jumped_*
flow-c async-cancel-unwound wrong unwound_*
flow-cxx throw ends-134 throw_*
flow-cxx callback ends-134 callback_each
flow-cxx qsort ends-134 qsort_r
flow-cxx bsearch ends-134 bsearch
flow-cxx once ends-134 __pthread_once_slow
flow-cxx phdr ends-134 dl_iterate_phdr
flow-cxx exit-destructor wrong destructor_*
flow-cxx cancel-destructor wrong destructor_*
flow-cxx coroutine ok coroutine_work coroutine_ping coroutine_pong
flow-go panic ends-2 main.panic_inner main.panic_outer main.panic_recover
flow-go grow ends-2 main.grow_call
flow-go collect ends-2 main.collect_call
flow-go trace wrong main.trace_inner main.trace_outer
flow-go goexit ends-2 main.goexit_inner main.goexit_outer
flow-rust panic ends-134 panic_inner panic_outer panic_catch
flow-rust panic-thread ends-134 panic_inner panic_outer'

# By default, at the exits: on a machine that takes its time all modes of a program at once.
return_scenarios() {
  for program in flow-c flow-cxx flow-go flow-rust; do
    scenario "$program: probed returns change nothing" spares_program "$program" all "$(functions_of "$program")"
  done
  scenario 'flow-c: pthread_exit in a function whose latency is measured runs its callers'"' clean-up handlers" spares_callers
  scenario 'flow-cxx, once: probed returns change nothing' spares_once
  scenario 'flow-cxx, coroutine: a transfer of control is a tail call and works with probes' spares_coroutines
}

# Where a JDK is: not in guests.
hotspot_scenarios() {
  scenario 'HotSpot: functions called by compiled Java code can be probed at their exits' spares_hotspot
}

each_return_scenario() {
  while read -r program mode _ functions; do
    [ "$mode" != once ] || continue
    scenario "$program, $mode: probed returns change nothing" spares_program "$program" "$mode" "$functions"
  done <<ROWS
$flow_rows
ROWS
}

# Only in guests: some of these programs leave uprobes of the machine waiting until they are gone.
trampoline_scenarios() {
  while read -r program mode outcome functions; do
    # It loops until it is ended: two minutes, for what x86-64 shows as well.
    case $mode-$(uname -m) in exit-destructor-aarch64) continue ;; esac
    scenario "--return-at trampoline: $program, $mode: $outcome" fares_by_uretprobe "$program" "$mode" "$outcome" "$functions"
  done <<ROWS
$flow_rows
ROWS
  scenario '--return-at trampoline: flow-c, pthread_exit in the probed function: wrong' \
    fares_by_uretprobe flow-c exit-unwound wrong leave_thread
  scenario '--return-at trampoline: flow-cxx, coroutine, its parts too: ok' \
    fares_by_uretprobe flow-cxx coroutine ok 'coroutine_*'
}

# pthread_once is called by the unwinder, too.
functions_of() { # PROGRAM
  echo "$flow_rows" | grep "^$1 " | grep -v ' once ' | cut -d ' ' -f 4- | tr ' ' '\n' | sort -u | tr '\n' ' '
}

# Runs a mode with entries and returns counted: $verdict is how the program ended and what it says of
# itself, $calls and $returns what it says of those, $seen_calls and $seen_returns what was counted.
probe_flow() { # PROGRAM MODE FUNCTIONS [OPTION…]
  program=$1
  mode=$2
  functions=$3
  shift 3
  [ -e "$FIXTURES/$program" ] || skip "no compiler for $program was there when the fixtures were built"
  set -f # functions are patterns
  # shellcheck disable=SC2086 # words
  "$UPROBECTL" attach -j -o out -d "${duration:-60}" --entry --return --count --follow --forward-exit "$@" \
    "$FIXTURES/$program" $functions -- "$FIXTURES/$program" "$mode" >said 2>err
  status=$?
  set +f
  file_says out '"attached"' || fail "nothing is attached: $(cat err)"
  verdict=$(sed -n "s/^$mode //p" said)
  [ "$status" -eq 0 ] || verdict="${verdict:+$verdict, }status $status"
  calls=$(sed -n 's/^calls \([0-9]*\) .*/\1/p' said)
  returns=$(sed -n 's/^calls .* returns \([0-9]*\)$/\1/p' said)
  seen_calls=$(sum_of_counts entry)
  seen_returns=$(sum_of_counts return)
}

sum_of_counts() { # KIND
  sum=0
  for count in $(records count "kind=$1" | field count); do sum=$((sum + count)); done
  echo "$sum"
}

expect_spared() {
  expect_equal 'the program' ok "$verdict"
  ! grep -q ' went wrong' said || fail 'a mode went wrong'
}

spares_program() { # PROGRAM MODE FUNCTIONS
  probe_flow "$@"
  expect_spared
  expect_equal 'returns' "$returns" "$seen_returns"
  # A function of Go that needs a larger stack gets it and begins again.
  if [ "$1" = flow-go ]; then
    [ "$seen_calls" -ge "$calls" ] || fail "calls: expected $calls or more, got $seen_calls"
  else
    expect_equal 'calls' "$calls" "$seen_calls"
  fi
}

# The function itself has no handler. Its callers have been compiled with -fexceptions, as C libraries are.
spares_callers() {
  probe_flow flow-c exit-unwound leave_thread --latency
  expect_spared
  expect_equal 'calls with a latency' 10 "$seen_calls"
}

spares_once() {
  probe_flow flow-cxx once __pthread_once_slow
  expect_spared
  expect_equal 'calls that an exception left' 10 $((seen_calls - seen_returns))
}

# Each part of a coroutine that runs until it hands on (Clang: .resume, GCC: .actor) is left by a
# return, or by a jump through a register to the other coroutine: 20 of each. GCC's may end by a jump to
# the operator that frees its frame.
spares_coroutines() {
  [ -e "$FIXTURES/flow-cxx" ] || fail 'no flow-cxx'
  "$UPROBECTL" attach -j -o out -d 60 --entry --return --forward-exit "$FIXTURES/flow-cxx" 'coroutine_*' \
    -- "$FIXTURES/flow-cxx" coroutine >said 2>err
  expect_equal 'exit status' 0 "$?"
  expect_equal 'the program' ok "$(sed -n 's/^coroutine //p' said)"
  ! grep 'skipped' err || fail 'a function is skipped'
  for kind in entry return; do
    records event "kind=$kind" | sed -n 's/.*"symbol": *"\([^"]*\)".*/\1/p' | sort | uniq -c >"$kind"
  done
  expect_equal 'returns of each function' "$(cat entry)" "$(cat return)"
  expect_equal 'functions' 7 "$(grep -c . entry)"
  for coroutine in ping pong; do
    expect_match "jumps out of $coroutine" '^2[01]$' \
      "$(records event left_by=tail_call | grep -c "coroutine_${coroutine}[^\"]*\\.\(resume\|actor\)\"")"
  done
}

# C1 lets compiled code call Runtime1 and SharedRuntime. HotSpot reads their return addresses: with a
# uretprobe it ends by a fatal error.
spares_hotspot() {
  java=$(readlink -f "$(command -v java)") || skip 'no java on this machine'
  "$java" --list-modules 2>/dev/null | grep -q '^jdk.compiler' || skip 'no java on this machine compiles'
  library=${java%/bin/java}/lib/server/libjvm.so
  "$UPROBECTL" list-symbols "$library" 'Runtime1::*' >symbols 2>/dev/null
  [ -s symbols ] || skip 'the libjvm.so of this machine has no symbols of its own functions'
  "$UPROBECTL" attach -j -o out -d 120 --entry --return --count --forward-exit "$library" \
    'JVM_*' 'Runtime1::*' 'SharedRuntime::*' 'Deoptimization::*' -- \
    "$java" -XX:TieredStopAtLevel=1 -Xcomp -XX:CompileOnly=JavaFlow -XX:+UseSerialGC \
    "$folder/../../fixtures/flow/JavaFlow.java" all >said 2>err
  expect_equal 'exit status' 0 "$?"
  expect_match 'what the program says' '^all ok$' "$(cat said)"
  for class in Runtime1 SharedRuntime; do
    records count kind=return | grep -q "$class::" || fail "no return of $class is seen"
  done
  seen_returns=$(sum_of_counts return)
  seen_calls=$(sum_of_counts entry)
  # Threads that end, and System.exit.
  [ "$seen_returns" -gt $((seen_calls - 16)) ] || fail "of $seen_calls calls $seen_returns are seen to return"
}

fares_by_uretprobe() { # PROGRAM MODE OUTCOME FUNCTIONS
  duration=20
  probe_flow "$1" "$2" "$4" --return-at trampoline
  case $3 in
    ok) expect_equal 'the program' ok "$verdict" ;;
    */*)
      expect_equal 'the program' ok "$verdict"
      expect_equal 'returns' "$3" "$seen_returns/$returns"
      ;;
    wrong) expect_equal 'the program' 'went wrong, status 1' "$verdict" ;;
    ends-*) expect_equal 'the program' "status ${3#ends-}" "$verdict" ;;
    # SIGSEGV or SIGILL, or our SIGTERM after 20 s
    lost) expect_match 'the program' '^status (132|139|143)$' "$verdict" ;;
  esac
}
