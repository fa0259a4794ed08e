# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch, started_pid: set by the harness and the suite
# Linux 6.13 and later run BPF programs on stacks that threads of one CPU share
# (src/bpf/programs/thread_stack.h): programs of ours do not, and those of users are warned of.

private_stack_scenarios() {
  for mechanism in $(different_mechanisms multi perf perf-ioctl tracefs); do
    scenario "$mechanism: no program runs on a stack of the CPU" stays_on_thread_stack "$mechanism"
  done
  scenario 'multi: more threads than CPUs do not change values of each other' \
    keeps_values_apart multi --latency --follow --stack
  scenario "$perf: more threads than CPUs do not change values of each other" \
    keeps_values_apart "$perf" --latency
  scenario 'object: a program whose stack threads share is warned of' warns_of_shared_stack
}

# Lists the stacks of programs that were loaded since `before` was written: "ID NAME STACK".
new_stacks() {
  "$FIXTURES/bpf-stacks" | grep -vxF -f before
}
list_stacks_before() {
  { echo 'one line at least' && "$FIXTURES/bpf-stacks"; } >before # for the grep of busybox
}

stays_on_thread_stack() { # MECHANISM
  needs "$1"
  needs_kernel 6.13
  list_stacks_before
  for options in '--latency --stack --args text:str@arg0' '--follow --no-fault --args text:str@arg0' \
    '--buffer perf --args text:str@arg0'; do
    start_program target "$FIXTURES/unread" "$scratch/strings" 2
    # shellcheck disable=SC2086 # several words
    start_attach -d 60 -p "$started_pid" --mechanism "$1" $options "$FIXTURES/unread" unread_take
    new_stacks | grep ' on_' >stacks
    stop_attach
    ! grep 'hidden$' stacks || skip 'the kernel does not show machine code'
    expect_match 'programs' ' on_entry (thread|interpreted)$' "$(cat stacks)"
    ! grep -v -E ' (thread|interpreted)$' stacks || fail "with $options"
  done
}

# One in twenty to seventy calls was wrong before.
readonly contend_slots=6 contend_calls=100

# Each call of `contend` is reported once, with its own values: see fixtures/workload/contend.c.
keeps_values_apart() { # MECHANISM OPTION…
  needs "$1"
  needs_kernel 6.0 # waits for memory
  mechanism=$1
  shift
  start_program target "$FIXTURES/contend" "$scratch/strings" "$contend_slots" "$contend_calls"
  start_attach -j -d 120 -p "$started_pid" --mechanism "$mechanism" "$@" \
    --args id:s64@arg0,text:str@arg1,ret:s64 "$FIXTURES/contend" contend_take
  let_it_call target "$started_pid" 100
  stop_attach
  records event | sed 's/.*"name": *"id"[^}]*"value": *\([0-9-]*\).*"name": *"text"[^}]*"value": *"\([^"]*\)".*"return_value": *\([0-9-]*\).*/\1:\2:\3/' |
    sort >actual
  slot=0
  while [ "$slot" -lt "$contend_slots" ]; do
    call=0
    while [ "$call" -lt "$contend_calls" ]; do
      id=$((slot * 1000000 + call))
      echo "$id:slot $slot:$((id * 2 + 1))"
      call=$((call + 1))
    done
    slot=$((slot + 1))
  done | sort >expected
  expect_same_lines 'calls' expected actual
  expect_closing_records $((contend_slots * contend_calls))
}

warns_of_shared_stack() {
  list_stacks_before
  start_workload target --calls 1
  start_attach -d 60 -p "$started_pid" --object "$FIXTURES/shares.bpf.o" --program-name shares \
    "$FIXTURES/workload" work_six
  shared=$(new_stacks | sed -n 's/.* shares //p')
  stop_attach
  [ "$shared" != hidden ] || skip 'the kernel does not show machine code'
  case $shared in
    private) expect_equal 'warnings' 1 "$(grep -c "'shares': threads of one CPU overwrite" err)" ;;
    *) expect_equal 'warnings' 0 "$(grep -c 'threads of one CPU' err)" ;;
  esac
  start_attach -d 60 -p "$started_pid" --object "$FIXTURES/shares.bpf.o" --program-name stays \
    "$FIXTURES/workload" work_six
  expect_match 'stack' ' stays (thread|interpreted)$' "$(new_stacks)"
  stop_attach
  expect_equal 'warnings' 0 "$(grep -c 'threads of one CPU' err)"
}
