# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # library: set by the suite
# Refused runs end at once, with a reason, and with nothing attached.

refusal_scenarios() {
  scenario 'doctor reports the features of this kernel' doctor_tells_the_truth
  scenario 'doctor reports what a user with CAP_BPF and CAP_PERFMON can do' doctor_tells_users_the_truth
  scenario 'auto takes the best mechanism this kernel has' chooses_mechanism
  scenario 'a mechanism this kernel lacks is refused' refuses_missing_mechanism
  scenario 'an unknown mechanism is a usage error' refuses_unknown_mechanism
  scenario 'a function that does not exist attaches nothing' refuses_missing_function
  scenario 'a compressed library is refused' refuses_compressed
  scenario 'a library that is not on a page is probed with a warning' warns_of_unaligned
  scenario 'a process that does not exist is refused' refuses_missing_process
}

chooses_mechanism() {
  start_workload target --calls 3
  start_attach -j -d 120 --mechanism auto "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'events' 3 "$(count_records event)"
  best=perf
  kernel_has_multi && best=multi
  expect_equal 'mechanism' "$best" "$(records attached | field mechanism)"
}

refuses_missing_mechanism() {
  ! kernel_has_multi || skip "Linux $(uname -r) has them all"
  attach_fails_with 1 -d 5 --mechanism multi "$FIXTURES/workload" work_six
  expect_match 'message' '^uprobectl: error: .*(multi|kernel)' "$(cat err)"
}

refuses_unknown_mechanism() {
  attach_fails_with 2 -d 5 --mechanism telepathy "$FIXTURES/workload" work_six
  expect_match 'message' 'telepathy|mechanism' "$(cat err)"
}

# The function before it exists: none is better than some.
refuses_missing_function() {
  attach_fails_with 1 -j -d 5 "$FIXTURES/workload" work_six work_sixx
  expect_match 'message' "^uprobectl: error: .*'work_sixx'" "$(cat err)"
  expect_match 'hint' 'work_six([^x]|$)' "$(grep hint err)"
}

refuses_compressed() {
  attach_fails_with 1 -d 5 "$FIXTURES/greet.apk!/$library/libdeflated.so" greet_add
  expect_match 'message' '^uprobectl: error: .*(compress|deflate)' "$(cat err)"
}

# Right offset, but no loader can have mapped it from the archive.
warns_of_unaligned() {
  start_attach -d 1 "$FIXTURES/greet.apk!/$library/libunaligned.so" greet_add
  attach_ends_with 0
  expect_match 'message' '^uprobectl: warning: .*not on a page boundary' "$(cat err)"
  expect_match 'reason' 'no process maps this file executable' "$(cat err)"
}

refuses_missing_process() {
  attach_fails_with 1 -d 5 -p 4194303 "$FIXTURES/workload" work_six
  expect_match 'message' '^uprobectl: error: .*4194303' "$(cat err)"
}

# One word of the answer: "yes" or "no".
doctor_says() { # NAME
  "$UPROBECTL" doctor | sed -n "s/^$1	\([a-z]*\).*/\1/p"
}

doctor_tells_the_truth() {
  kernel_has_multi && has_multi=yes || has_multi=no
  expect_equal 'uprobe_multi' "$has_multi" "$(doctor_says uprobe_multi)"
  expect_equal 'perf_link' yes "$(doctor_says perf_link)"
  expect_equal 'attach' yes "$(doctor_says attach)"
  expect_equal 'tracefs' "$(grep -q ' tracefs ' /proc/mounts && echo yes || echo no)" "$(doctor_says tracefs)"
  expect_equal 'bpffs' "$(grep -q ' bpf ' /proc/mounts && echo yes || echo no)" "$(doctor_says bpffs)"
  # Its verdict about attaching is right.
  "$UPROBECTL" attach -q -d 10ms "$FIXTURES/workload" work_six || fail "attach: exit status $?"
  "$UPROBECTL" doctor >doctor
  expect_answers
  expect_match 'multi' "^mechanism_multi	$has_multi	" "$(cat doctor)"
  for name in mechanism_perf mechanism_perf-ioctl mechanism_tracefs attach_cookie ring_buffer perf_buffer; do
    grep -q "^$name	yes	" doctor || fail "doctor does not say yes to $name: $(cat doctor)"
  done
}

# Each option is tried, the answer in `doctor` read; before it stands who tries.
expect_answers() { # [COMMAND…]
  for option in mechanism=multi mechanism=perf mechanism=perf-ioctl mechanism=tracefs \
    buffer=ring buffer=perf; do
    case $option in
      mechanism=*) name=mechanism_${option#*=} ;;
      *) name=${option#*=}_buffer ;;
    esac
    answer=$(sed -n "s/^$name	\([a-z]*\).*/\1/p" doctor)
    done=no
    "$@" "$UPROBECTL" attach -q -d 10ms "--${option%%=*}" "${option#*=}" "$FIXTURES/workload" work_six >out 2>err &&
      done=yes
    expect_equal "what doctor says of $name, as against what attach does" "$done" "$answer"
  done
}

# Whatever this kernel lets such a user do.
doctor_tells_users_the_truth() {
  kernel_has_multi && has_multi=yes status=0 || has_multi=no status=1
  "$FIXTURES/as-user" 1000 38,39 "$UPROBECTL" doctor >doctor
  expect_equal 'exit status' "$?" "$status"
  expect_match 'attach' "^attach	$has_multi	" "$(cat doctor)"
  kernel_has_multi || return 0 # without multi no buffer can be tried
  expect_answers "$FIXTURES/as-user" 1000 38,39
}

# The kernel stays so until it is booted again: only for kernels of guests, as the last scenario.
lockdown_scenario() {
  [ "${THROWAWAY_KERNEL:-}" = yes ] || return 0
  scenario 'kernel lockdown: refused features are named, the rest works' meets_lockdown
}

meets_lockdown() {
  mount -t securityfs none /sys/kernel/security 2>/dev/null || [ -e /sys/kernel/security/lockdown ] ||
    skip 'this kernel has no lockdown'
  echo confidentiality >/sys/kernel/security/lockdown || fail 'the kernel cannot be locked'
  "$UPROBECTL" doctor >out || fail "doctor: $(cat out)"
  expect_match 'doctor' 'lockdown[[:space:]]+no[[:space:]]+confidentiality[[:space:]]+boot without lockdown=confidentiality' "$(cat out)"
  expect_match 'doctor' 'mechanism_tracefs[[:space:]]+no[[:space:]].*boot without lockdown=confidentiality' "$(cat out)"

  "$UPROBECTL" attach -q --count "$FIXTURES/workload" work_six -- "$FIXTURES/workload" --calls 3 >out 2>err ||
    fail "$(cat err)"
  expect_match 'count' '^3[[:space:]]+work_six' "$(cat out)"
  attach_fails_with 1 -d 5 --mechanism tracefs "$FIXTURES/workload" work_six
  expect_match 'tracefs' 'hint: .*lockdown=confidentiality' "$(cat err)"
  attach_fails_with 1 -d 5 --stack=dwarf "$FIXTURES/workload" work_six
  expect_match 'stacks' 'this kernel does not let BPF programs read its memory' "$(cat err)"
  expect_match 'stacks' 'hint: boot without lockdown=confidentiality' "$(cat err)"
}
