# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # uprobe_events: set by the harness
# Functions that begin with an instruction which the kernel does not run correctly under a probe.
# fixtures/workload/mistaken.cpp says what it prints, unprobed.

instruction_scenarios() {
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
  expect_match 'what is told' 'for a jump' "$(cat err)"
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
