# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # started_pid, uprobe_events: set by the harness
# Probes on nops that the kernel replaces by calls into a mapping which children do not have.
# fixtures/workload/nops.c has the functions, makes the children and says what the kernel is like.

# Probe points: at entries, after a landing pad, inside functions.
nop_points='nops_entry nops_landing+4 nops_frame nops_displaced nops_word nops_prefixed nops_lea nops_jump
nops_two nops_long nops_leaf+7 nops_long_leaf+7'

nop_scenarios() {
  [ "$(uname -m)" = x86_64 ] || return 0
  scenario 'a probe by force on a nop that the kernel replaces ends forked children' ends_children_by_force
  # Kernels before replace none: one mechanism shows that.
  replacing=$perf
  if kernel_is_at_least 6.18 || in_scope mechanisms; then
    replacing=$(different_mechanisms multi perf perf-ioctl tracefs)
  fi
  for mechanism in $replacing; do
    scenario "$mechanism: probed nops, children of every kind, during the run and after it" \
      spares_children "$mechanism"
  done
  scenario 'probed nops and --follow' spares_children '' --follow
  scenario 'probed nops: each call that begins after one returns' pairs_calls_after_nops
  scenario 'probed nops: stacks begin in the function and go on in its caller' walks_from_after_nops
  scenario 'a static probe on a nop: its arguments, and its children' reads_static_probe_on_nop
  scenario 'a nop is refused if a jump leads to the code after it, on kernels that replace it' refuses_jumped_nops
  scenario 'a tail call that the kernel takes for a nop' refuses_nop_as_exit
}

# Only in guests, as trampoline_scenarios.
nop_trampoline_scenarios() {
  [ "$(uname -m)" = x86_64 ] || return 0
  scenario '--return-at trampoline: children of every kind, during the run and after it' spares_children_by_uretprobe
}

start_nops() {
  [ -x "$FIXTURES/nops" ] || fail 'no program nops was built'
  start_program target "$FIXTURES/nops" --wait --late
  kernel=$(sed -n 's/^kernel //p' target)
  case $kernel in ENXIO | EPROTO | ENOSYS) ;; *) fail "uprobe(2) fails with '$kernel'" ;; esac
}

# Makes the calls of after the run, and looks at what became of the program and its children.
expect_spared_nops() {
  kill -USR1 "$started_pid" || fail 'the program is gone'
  wait_until 60 file_says target '^done again' || fail "the program does not finish: $(cat target)"
  for when in probed after; do
    for way in fork grandchild vfork spawn wrong; do
      expect_equal "$way, $when" "$when $way 0" "$(grep "^$when $way " target)"
    done
  done
  expect_equal 'a child from before the first hit' 'probed early 0' "$(grep '^probed early' target)"
  expect_equal 'a child that first calls after the run' 'after late 0' "$(grep '^after late' target)"
  expect_equal 'code' 'after code as before' "$(grep '^after code' target)"
}

# Without this the scenarios below could pass on a kernel that replaces nothing.
ends_children_by_force() {
  start_nops
  [ "$kernel" = ENXIO ] || skip 'this kernel does not replace nops of five bytes'
  offset=$("$UPROBECTL" resolve -q --offset-only "$FIXTURES/nops" nops_displaced) || fail 'resolve fails'
  event=nops_$$/entry
  echo "p:$event $FIXTURES/nops:$offset" >>"$uprobe_events" || fail 'the kernel refuses the probe'
  echo 1 >"/sys/kernel/tracing/events/$event/enable"
  let_it_call target "$started_pid"
  echo 0 >"/sys/kernel/tracing/events/$event/enable"
  echo "-:$event" >>"$uprobe_events"
  expect_equal 'a forked child' 'probed fork b' "$(grep '^probed fork' target)"
  expect_equal 'a child from before the first hit' 'probed early 0' "$(grep '^probed early' target)"
}

spares_children() { # MECHANISM OPTION…
  [ -z "$1" ] || needs "$1"
  how=${1:+--mechanism $1}
  shift
  start_nops
  # shellcheck disable=SC2086 # words
  start_attach -j -d 120 -p "$started_pid" $how --count "$@" "$FIXTURES/nops" $nop_points
  let_it_call target "$started_pid"
  stop_attach
  expect_spared_nops
  [ $# -eq 0 ] || return 0 # with children there are more calls
  rounds=$(sed -n 's/^probed rounds //p' target)
  for point in $nop_points; do
    hits=$(hits_at "${point%+*}")
    case $point in
      # The child of vfork calls it, too: perf events select by the memory, which the child shares.
      nops_entry) expect_match "hits of $point" "^($((2 * rounds))|$((2 * rounds + 1)))\$" "$hits" ;;
      *) expect_equal "hits of $point" "$rounds" "$hits" ;;
    esac
  done
}

spares_children_by_uretprobe() {
  nop_points='nops_entry nops_frame nops_two nops_long nops_tailed call_all'
  spares_children '' --entry --return --return-at trampoline
}

hits_at() { # SYMBOL
  records count "symbol=$1" | field count
}

pairs_calls_after_nops() {
  start_nops
  start_attach -j -d 120 -p "$started_pid" --entry --return --count "$FIXTURES/nops" \
    nops_entry nops_frame nops_two nops_long
  let_it_call target "$started_pid"
  stop_attach
  expect_spared_nops
  rounds=$(sed -n 's/^probed rounds //p' target)
  for function in nops_entry nops_frame nops_two nops_long; do
    expected=$rounds
    [ "$function" != nops_entry ] || expected=$((2 * rounds))
    for kind in entry return; do
      expect_equal "$kind of $function" "$expected" \
        "$(records count "symbol=$function" | grep "\"kind\": *\"$kind\"" | field count)"
    done
  done
}

walks_from_after_nops() {
  start_nops
  start_attach -j -d 120 -p "$started_pid" --stack --entry --max-events 1 "$FIXTURES/nops" nops_frame
  let_it_call target "$started_pid"
  attach_ends_with 0
  expect_spared_nops
  expect_match 'stack' '"symbol": *"nops_frame".*"symbol": *"call_all"' \
    "$(records event symbol=nops_frame | head -n 1)"
}

reads_static_probe_on_nop() {
  start_nops
  start_usdt -j -d 120 -p "$started_pid" --args 1:x64 "$FIXTURES/nops" nops:inside
  let_it_call target "$started_pid"
  stop_attach
  expect_spared_nops
  expect_equal 'hits' "$(sed -n 's/^probed rounds //p' target)" "$(count_records event symbol=nops:inside)"
  expect_equal 'arguments of the first hits' '0 "0x1122334455667788" 0,1 "0x1122334455667788" 1,2 "0x1122334455667788" 2' \
    "$(values_of nops:inside | head -n 3 | tr '\n' ',' | sed 's/,$//')"
}

refuses_jumped_nops() {
  start_nops
  if [ "$kernel" = ENXIO ]; then
    attach_fails_with 1 -d 5 -p "$started_pid" "$FIXTURES/nops" nops_loop
    expect_match 'refusal' "'nops_loop' cannot be probed.* a jump may lead to the instruction after it" "$(cat err)"
    "$UPROBECTL" usdt attach -d 5 -p "$started_pid" "$FIXTURES/nops" nops:guarded >out 2>err
    expect_equal 'exit status' 1 "$?"
    expect_match 'refusal' "'nops:guarded' cannot be probed.* a jump may lead" "$(cat err)"
  fi
  start_attach -j -d 120 -p "$started_pid" --count "$FIXTURES/nops" 'nops_[lt]*'
  let_it_call target "$started_pid"
  stop_attach
  expect_spared_nops
  rounds=$(sed -n 's/^probed rounds //p' target)
  expect_equal 'hits of nops_lea' "$rounds" "$(hits_at nops_lea)"
  if [ "$kernel" = ENXIO ]; then
    expect_match 'what is left out' "'nops_loop' .*is skipped: .* a jump may lead" "$(cat err)"
    expect_equal 'hits of nops_loop' '' "$(hits_at nops_loop)"
  else
    expect_equal 'hits of nops_loop' "$rounds" "$(hits_at nops_loop)"
  fi
}

refuses_nop_as_exit() {
  start_nops
  if [ "$kernel" = ENXIO ]; then
    attach_fails_with 1 -d 5 -p "$started_pid" --return "$FIXTURES/nops" nops_tail
    expect_match 'refusal' "'nops_tail' cannot be probed at its exit .*makes a call of the jump" "$(cat err)"
  fi
  start_attach -j -d 120 -p "$started_pid" --count "$FIXTURES/nops" nops_tail
  let_it_call target "$started_pid"
  stop_attach
  expect_spared_nops
  expect_equal 'hits' "$(sed -n 's/^probed rounds //p' target)" "$(hits_at nops_tail)"
}
