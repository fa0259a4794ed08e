# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch, started_pid: set by the harness and the suite
# A machine that is set up like a phone: no tracefs, debugfs and bpf file system is mounted, perf events and
# kernel addresses are restricted, the kernel is locked down for integrity. Only for kernels of guests: the
# kernel stays locked down.

phone_scenarios() {
  scenario 'without PID namespaces: stacks, callers and names of processes' without_pid_namespaces attaches_by_pids
  scenario 'set up like a phone: hits, values and stacks, by doctor and in fact' like_phone attaches_on_phone
}

like_phone() { # FUNCTION
  umount /sys/kernel/tracing /sys/fs/bpf
  umount /sys/kernel/debug 2>/dev/null
  # Only Linux 5.10 is without types: later kernels of Android have them.
  kernel_is_at_least 5.15 || mount -t tmpfs none /sys/kernel/btf
  mount -t securityfs none /sys/kernel/security 2>/dev/null
  echo integrity >/sys/kernel/security/lockdown
  for setting in perf_event_paranoid=3 kptr_restrict=2 panic_on_oops=1; do
    echo "${setting#*=}" >"/proc/sys/kernel/${setting%=*}" || fail "cannot set $setting"
  done
  ("$@")
  verdict=$?
  kernel_is_at_least 5.15 || umount /sys/kernel/btf
  mount -t tracefs tracefs /sys/kernel/tracing
  mount -t bpf bpf /sys/fs/bpf
  return "$verdict"
}

attaches_on_phone() {
  "$UPROBECTL" doctor >doctor || fail "doctor: $(cat doctor)"
  expect_match 'tracefs' '^tracefs	no	no tracefs is mounted' "$(cat doctor)"
  expect_match 'attach' '^attach	yes	' "$(cat doctor)"
  start_workload target --calls 20
  start_attach -j -d 120 --entry --return -p "$started_pid" "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  expected_arguments 20 >expected
  arguments_of_entries >actual
  expect_same_lines 'arguments' expected actual
  expect_equal 'returns' 20 "$(count_records event kind=return)"
  names_callers ''
  names_callers '--latency'
  unwinds_plain auto
}

# Debian's kernels have CONFIG_PID_NS, those of Android do not. Another folder is mounted over /proc/PID/ns
# of the program under test, with the links of all other namespaces; it goes with the process.
without_pid_namespaces() { # FUNCTION
  cat >wrapper <<END
#!/bin/sh
mkdir "$scratch/ns.\$\$" && for link in /proc/\$\$/ns/*; do
  case \$link in */pid*) ;; *) ln -s "\$(readlink "\$link")" "$scratch/ns.\$\$/\${link##*/}" ;; esac
done
mount --bind "$scratch/ns.\$\$" /proc/\$\$/ns && exec "$UPROBECTL" "\$@"
END
  chmod +x wrapper
  UPROBECTL=$scratch/wrapper
  "$@"
}

attaches_by_pids() {
  unwinds_plain auto
  names_callers ''
  start_workload target --calls 5
  start_attach -j -d 120 -p workload --follow "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  expect_closing_records 5
}
