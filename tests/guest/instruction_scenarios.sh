# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # uprobe_events: set by the harness
# Functions that begin with an instruction which the kernel does not run correctly under a probe, and
# addresses inside of instructions that notes, debug information and plans name.
# fixtures/workload/mistaken.cpp, misplaced.c and sequences.c say what they print, unprobed.

instruction_scenarios() {
  scenario 'a probe by force inside an instruction or in data changes a program' misplaces_by_force
  scenario 'static probes inside an instruction or in data are refused, or left out of a pattern' \
    refuses_misplaced_notes
  scenario 'inlined functions inside an instruction are refused, or left out of a pattern' \
    refuses_misplaced_inlined
  scenario 'a semaphore that is other data stays as it is' spares_other_data
  scenario 'a probe by force in a restartable sequence loses increments' loses_increments_by_force
  scenario 'a restartable sequence counts right while all that can be probed in it is probed' \
    keeps_increments
  # arm64's kernel refuses such instructions; tests/native/instruction_forms_arm64.cpp runs them.
  [ "$(uname -m)" = x86_64 ] || return 0
  scenario 'functions that begin with AVX instructions: a probe by force changes what they return' \
    changes_results_by_force
  scenario 'functions that begin with AVX instructions are refused, with --unsafe too' refuses_mistaken
  for mechanism in $(mechanisms multi perf tracefs); do
    scenario "$mechanism: a pattern leaves out functions that a probe would change" \
      leaves_out_mistaken "$mechanism"
    scenario "$mechanism: a pattern that has exp of libm leaves its result alone" spares_exp "$mechanism"
    scenario "$mechanism: returns of functions that must not be probed at entry" probes_their_returns "$mechanism"
  done
}

mistaken_says() { # [LINE that differs]
  printf 'or %s\nupper %s\nexp %s\nflag %s\nfine 42\n' "${1:-ff}" "${2:-0}" "${3:-7.38905609893065}" "${4:-0}"
}

needs_avx() {
  for feature in avx2 fma; do
    grep -qw "$feature" /proc/cpuinfo || skip 'the processor has no AVX2 and FMA'
  done
}

# Without this the scenarios below could pass with a program that probes anything.
changes_results_by_force() {
  needs_avx
  expect_equal 'unprobed' "$(mistaken_says)" "$("$FIXTURES/mistaken")"
  event=mistaken_$$
  for function in mistaken_or mistaken_upper mistaken_flag __ieee754_exp_fma; do
    offset=$("$UPROBECTL" resolve -q --offset-only "$FIXTURES/mistaken" "$function") || fail "resolve: $function"
    echo "p:$event/$function $FIXTURES/mistaken:$offset" >>"$uprobe_events" || fail "the kernel refuses $function"
    echo 1 >"/sys/kernel/tracing/events/$event/$function/enable"
    "$FIXTURES/mistaken" >"$function.out" 2>&1
    echo 0 >"/sys/kernel/tracing/events/$event/$function/enable"
    echo "-:$event/$function" >>"$uprobe_events"
  done
  expect_equal 'vpor' "$(mistaken_says f0)" "$(cat mistaken_or.out)"
  expect_equal 'vzeroupper' "$(mistaken_says '' ffffffffffffffff)" "$(cat mistaken_upper.out)"
  expect_equal 'pushf' "$(mistaken_says '' '' '' 100)" "$(cat mistaken_flag.out)"
  expect_match 'other lines than that of exp' '^fine 42$' "$(cat __ieee754_exp_fma.out)"
  [ "$(mistaken_says)" != "$(cat __ieee754_exp_fma.out)" ] || fail 'vmovq at the entry of exp: nothing changes'
}

refuses_mistaken() {
  for function in mistaken_or mistaken_upper __ieee754_exp_fma mistaken_or+0; do
    for option in --entry --latency --unsafe; do
      attach_fails_with 1 $option -d 5 "$FIXTURES/mistaken" "$function" -- "$FIXTURES/mistaken"
      expect_match "$function $option" "'${function%+0}'.*for a jump" "$(cat err)"
    done
  done
  attach_fails_with 1 -d 5 "$FIXTURES/mistaken" mistaken_flag
  expect_match 'pushf' "'mistaken_flag'.*pushf stores the trap flag" "$(cat err)"
}

run_mistaken() { # OPTION…
  "$UPROBECTL" attach -j -d 60 "$@" -- "$FIXTURES/mistaken" >out 2>err || fail "attach fails: $(cat err)"
  grep -E '^(or|upper|exp|flag|fine) ' out err | sed 's/^[a-z]*://' >said_by_program
}

leaves_out_mistaken() { # MECHANISM
  needs "$1"
  "$FIXTURES/mistaken" >expected
  run_mistaken --mechanism "$1" --entry --return "$FIXTURES/mistaken" 'mistaken_*'
  expect_equal 'what the program prints' "$(cat expected)" "$(cat said_by_program)"
  expect_equal 'probed functions' 'mistaken_fine' "$(records probe | field symbol | sort -u)"
  expect_equal 'events' 2 "$(count_records event symbol=mistaken_fine)"
  expect_match 'the message' 'for a jump' "$(cat err)"
}

spares_exp() { # MECHANISM
  needs_avx
  needs "$1"
  run_mistaken --mechanism "$1" --count "$FIXTURES/mistaken" '*exp*'
  expect_equal 'what the program prints' "$(mistaken_says)" "$(cat said_by_program)"
  expect_equal 'calls of exp' 1 "$(records count symbol=__exp | field count)"
  expect_equal 'probes of __ieee754_exp_fma' 0 "$(count_records probe symbol=__ieee754_exp_fma)"
}

probes_their_returns() { # MECHANISM
  needs_avx
  needs "$1"
  run_mistaken --mechanism "$1" --return "$FIXTURES/mistaken" mistaken_or mistaken_upper mistaken_flag __ieee754_exp_fma
  expect_equal 'what the program prints' "$(mistaken_says)" "$(cat said_by_program)"
  for function in mistaken_or mistaken_upper mistaken_flag __ieee754_exp_fma; do
    expect_equal "returns of $function" 1 "$(count_records event "symbol=$function")"
  done
}

# --- addresses where no instruction begins -------------------------------------------------------

# One probe by tracefs, which checks nothing, while the command runs. What it prints is in NAME.out.
probe_by_force() { # NAME OFFSET COMMAND…
  event=forced_$$_$1
  echo "p:$event/probe $3:$2" >>"$uprobe_events" || fail "the kernel refuses $2 of $3"
  echo 1 >"/sys/kernel/tracing/events/$event/probe/enable"
  name=$1
  shift 2
  "$@" >"$name.out" 2>&1
  forced_status=$?
  echo 0 >"/sys/kernel/tracing/events/$event/probe/enable"
  echo "-:$event/probe" >>"$uprobe_events"
}

# The offset in the file of a static probe's note, which must not be probed.
offset_of_note() { # PROBE
  "$UPROBECTL" usdt list -q "$FIXTURES/misplaced" "$1" | cut -f 1
}

# Without this the scenarios below could pass with a program that nothing changes.
misplaces_by_force() {
  "$FIXTURES/misplaced" >expected
  case $(uname -m) in aarch64) names='data' ;; *) names='inside data' ;; esac # 4 bytes, aligned
  for name in $names; do
    probe_by_force "$name" "$(offset_of_note "misplaced:$name")" "$FIXTURES/misplaced"
    ! cmp -s expected "$name.out" || fail "misplaced:$name: nothing changes"
  done
}

run_misplaced() { # WHAT ARGUMENT…
  what=$1
  shift
  # shellcheck disable=SC2086 # two words, some of them
  "$UPROBECTL" $attach_command -d 60 --command-output inherit --forward-exit -o events "$@" -- \
    "$FIXTURES/misplaced" >out 2>err
  expect_equal "$what: exit status" 4 "$?"
  expect_equal "$what: what the program prints" "$("$FIXTURES/misplaced")" "$(cat out)"
}

refuses_misplaced_notes() {
  for name in inside data; do
    "$UPROBECTL" usdt attach -d 5 "$FIXTURES/misplaced" "misplaced:$name" -- "$FIXTURES/misplaced" >out 2>err
    expect_equal "$name: exit status" 1 "$?"
    expect_match "$name" "misplaced:$name' cannot be probed .*no instruction begins there" "$(cat err)"
    ! file_says err '^probing ' || fail "misplaced:$name is probed"
  done
  attach_command='usdt attach'
  run_misplaced 'a pattern' "$FIXTURES/misplaced" 'misplaced:*'
  expect_match 'what is left out' "2 of 4 matches of 'misplaced:\*' are skipped" "$(cat err)"
  expect_equal 'events' 10 "$(grep -c 'misplaced:[rc]' events)"
}

refuses_misplaced_inlined() {
  attach_fails_with 1 -d 5 --inlined "$FIXTURES/misplaced" misplaced_inlined -- "$FIXTURES/misplaced"
  expect_match 'a name' "misplaced_inlined .*' cannot be probed .*no instruction begins there" "$(cat err)"
  attach_command=attach
  run_misplaced 'a pattern' --inlined "$FIXTURES/misplaced" 'misplaced_[it]*'
  expect_match 'what is left out' "misplaced_inlined .*is skipped" "$(cat err)"
  expect_equal 'events' 5 "$(grep -c misplaced_twice events)"
}

# The kernel would add 1 to the number that the program prints.
spares_other_data() {
  attach_command='usdt attach'
  run_misplaced 'a real semaphore' "$FIXTURES/misplaced" misplaced:counted
  "$UPROBECTL" usdt attach -d 5 "$FIXTURES/misplaced" misplaced:other -- "$FIXTURES/misplaced" >out 2>err
  expect_equal 'exit status' 1 "$?"
  expect_match 'the reason' "no static probe 'misplaced:other'" "$(cat err)"
}

# --- restartable sequences -----------------------------------------------------------------------

needs_rseq() {
  "$FIXTURES/sequences" 10 >said
  [ $? -ne 77 ] || skip "$(cat said)"
}

loses_increments_by_force() {
  needs_rseq
  offset=$("$UPROBECTL" resolve -q --offset-only "$FIXTURES/sequences" sequence_middle 2>/dev/null)
  for increments in 2000 20000 100000; do
    probe_by_force middle "$offset" "$FIXTURES/sequences" "$increments"
    [ "$forced_status" -eq 0 ] || return 0
  done
  fail "all increments are counted: $(cat middle.out)"
}

keeps_increments() {
  needs_rseq
  for name in sequence_begin sequence_middle sequence_commit; do
    attach_fails_with 1 -d 5 "$FIXTURES/sequences" "$name" -- "$FIXTURES/sequences" 10
    expect_match "$name" "'$name'.*restartable sequence" "$(cat err)"
  done
  "$UPROBECTL" usdt attach -d 5 "$FIXTURES/sequences" sequences:middle -- "$FIXTURES/sequences" 10 >out 2>err
  expect_equal 'exit status' 1 "$?"
  expect_match 'a static probe' "sequences:middle.*restartable sequence" "$(cat err)"
  "$UPROBECTL" attach -q -d 120 --count --command-output inherit --forward-exit -o counts \
    "$FIXTURES/sequences" sequence_add sequence_nop sequence_end -- "$FIXTURES/sequences" 5000 >out 2>err
  expect_equal 'exit status' 0 "$?"
  expect_equal 'what the program counts' 'made 30000, counted 30000' "$(cat out)"
}
