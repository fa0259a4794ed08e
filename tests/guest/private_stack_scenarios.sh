# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch, started_pid: set by the harness and the suite
# Linux 6.13 and later run BPF programs on stacks that threads of one CPU share
# (src/bpf/programs/thread_stack.h).

private_stack_scenarios() {
  for mechanism in multi perf perf-ioctl tracefs; do
    scenario "$mechanism: no program runs on a stack of the CPU" stays_on_thread_stack "$mechanism"
  done
}

stays_on_thread_stack() { # MECHANISM
  needs "$1"
  { echo 'one line at least' && "$FIXTURES/bpf-stacks"; } >before # for the grep of busybox
  for options in '--latency --stack --args text:str@arg0' '--follow --no-fault --args text:str@arg0' \
    '--buffer perf --args text:str@arg0'; do
    start_program target "$FIXTURES/unread" "$scratch/strings" 2
    # shellcheck disable=SC2086 # several words
    start_attach -d 60 -p "$started_pid" --mechanism "$1" $options "$FIXTURES/unread" unread_take
    "$FIXTURES/bpf-stacks" | grep -vxF -f before | grep ' on_' >stacks
    stop_attach
    ! grep 'hidden$' stacks || skip 'the kernel does not show machine code'
    expect_match 'programs' ' on_entry (thread|interpreted)$' "$(cat stacks)"
    ! grep -v -E ' (thread|interpreted)$' stacks || fail "with $options"
  done
}
