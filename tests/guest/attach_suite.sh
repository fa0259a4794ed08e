#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `uprobectl attach` on a real kernel: its counts, its messages, and nothing left behind. TAP on stdout.
#
#     UPROBECTL=build/uprobectl FIXTURES=build/fixtures sh tests/guest/attach_suite.sh
#
# SCOPE=kernel is what each kernel may do otherwise to programs and probes, SCOPE=reading what is read there
# (stacks, memory, instructions), which the oldest and the newest kernel tell, SCOPE=architecture what differs
# between machines, or where a kernel is old, SCOPE=processor what depends on how a processor calls and
# returns, SCOPE=returns what probed returns do to programs, SCOPE=programs what users' BPF programs need of a
# kernel; several may be named. SCOPE=mechanisms adds to the others what two
# mechanisms or two architectures do alike. All of it takes an emulated machine too long; this one runs it (run_native_suite.py).
#
# A scenario for some kernels belongs to SCOPE=kernel and begins with `needs_kernel 6.18`, or asks
# kernel_is_at_least.
#
# Needs root, and puts probes on the machine it runs on: meant for a guest (run_guest_suite.py).

folder=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/guest/harness.sh
. "$folder/harness.sh"
# shellcheck source=tests/guest/hit_scenarios.sh
. "$folder/hit_scenarios.sh"
# shellcheck source=tests/guest/end_scenarios.sh
. "$folder/end_scenarios.sh"
# shellcheck source=tests/guest/refusal_scenarios.sh
. "$folder/refusal_scenarios.sh"
# shellcheck source=tests/guest/body_scenarios.sh
. "$folder/body_scenarios.sh"
# shellcheck source=tests/guest/code_scenarios.sh
. "$folder/code_scenarios.sh"
# shellcheck source=tests/guest/mechanism_scenarios.sh
. "$folder/mechanism_scenarios.sh"
# shellcheck source=tests/guest/private_stack_scenarios.sh
. "$folder/private_stack_scenarios.sh"
# shellcheck source=tests/guest/load_scenarios.sh
. "$folder/load_scenarios.sh"
# shellcheck source=tests/guest/program_scenarios.sh
. "$folder/program_scenarios.sh"
# shellcheck source=tests/guest/result_scenarios.sh
. "$folder/result_scenarios.sh"
# shellcheck source=tests/guest/process_scenarios.sh
. "$folder/process_scenarios.sh"
# shellcheck source=tests/guest/matrix_scenarios.sh
. "$folder/matrix_scenarios.sh"
# shellcheck source=tests/guest/inspection_scenarios.sh
. "$folder/inspection_scenarios.sh"
# shellcheck source=tests/guest/latency_scenarios.sh
. "$folder/latency_scenarios.sh"
# shellcheck source=tests/guest/exit_scenarios.sh
. "$folder/exit_scenarios.sh"
# shellcheck source=tests/guest/instruction_scenarios.sh
. "$folder/instruction_scenarios.sh"
# shellcheck source=tests/guest/nop_scenarios.sh
. "$folder/nop_scenarios.sh"
# shellcheck source=tests/guest/return_scenarios.sh
. "$folder/return_scenarios.sh"
# shellcheck source=tests/guest/graph_scenarios.sh
. "$folder/graph_scenarios.sh"
# shellcheck source=tests/guest/sum_scenarios.sh
. "$folder/sum_scenarios.sh"
# shellcheck source=tests/guest/span_scenarios.sh
. "$folder/span_scenarios.sh"
# shellcheck source=tests/guest/group_scenarios.sh
. "$folder/group_scenarios.sh"
# shellcheck source=tests/guest/inlined_scenarios.sh
. "$folder/inlined_scenarios.sh"
# shellcheck source=tests/guest/typed_scenarios.sh
. "$folder/typed_scenarios.sh"
# shellcheck source=tests/guest/known_scenarios.sh
. "$folder/known_scenarios.sh"
# shellcheck source=tests/guest/filter_scenarios.sh
. "$folder/filter_scenarios.sh"
# shellcheck source=tests/guest/limit_scenarios.sh
. "$folder/limit_scenarios.sh"
# shellcheck source=tests/guest/stack_scenarios.sh
. "$folder/stack_scenarios.sh"
# shellcheck source=tests/guest/export_scenarios.sh
. "$folder/export_scenarios.sh"
# shellcheck source=tests/guest/saved_scenarios.sh
. "$folder/saved_scenarios.sh"
# shellcheck source=tests/guest/plan_scenarios.sh
. "$folder/plan_scenarios.sh"
# shellcheck source=tests/guest/target_scenarios.sh
. "$folder/target_scenarios.sh"
# shellcheck source=tests/guest/memory_scenarios.sh
. "$folder/memory_scenarios.sh"
# shellcheck source=tests/guest/usdt_scenarios.sh
. "$folder/usdt_scenarios.sh"
# shellcheck source=tests/guest/java_scenarios.sh
. "$folder/java_scenarios.sh"
# shellcheck source=tests/guest/task_scenarios.sh
. "$folder/task_scenarios.sh"
# shellcheck source=tests/guest/docs_scenarios.sh
. "$folder/docs_scenarios.sh"
# shellcheck source=tests/guest/phone_scenarios.sh
. "$folder/phone_scenarios.sh"
# shellcheck source=tests/guest/bionic_scenarios.sh
. "$folder/bionic_scenarios.sh"
# shellcheck source=tests/guest/cookbook_scenarios.sh
. "$folder/cookbook_scenarios.sh"

scope=${SCOPE:-all}
case $(uname -m) in
  x86_64) library=lib/x86_64 ;;
  aarch64) library=lib/arm64-v8a ;;
  *) echo "1..0 # SKIP no fixtures for $(uname -m)" && exit 0 ;;
esac

# Features that the emulated processor must have: without them the suite would test nothing new.
has_features() {
  for feature in $CPU_FEATURES; do
    grep -qw "$feature" /proc/cpuinfo || fail "no '$feature' in /proc/cpuinfo"
  done
}

# Landing pads are in force where a library asks for them.
is_guarded() {
  start_program target "$FIXTURES/apk-host" "$FIXTURES/greet.apk!/$library/libgreet.so" greet_add 1 --hold
  grep -q '^VmFlags:.* bt' "/proc/$started_pid/smaps" || fail 'no guarded page is mapped'
}

if [ -n "${CPU_FEATURES:-}" ]; then
  scenario "the processor has $CPU_FEATURES" has_features
  case " $CPU_FEATURES " in *' bti '*) scenario 'a library with landing pads is guarded' is_guarded ;; esac
fi
is_guest() { [ -n "${THROWAWAY_KERNEL:-}" ]; }

in_scope() { # SCOPE…
  for one in all "$@"; do
    case " $scope " in *" $one "*) return 0 ;; esac
  done
  return 1
}

# The mechanisms that differ here: perf and perf-ioctl probe by the same events of the kernel, tracefs
# and perf-ioctl load the same programs.
different_mechanisms() { # MECHANISM…
  for candidate in $(mechanisms "$@"); do
    [ "$candidate" = perf-ioctl ] && [ "$perf" = perf ] && ! in_scope mechanisms || echo "$candidate"
  done
}

if in_scope kernel processor; then
  for mechanism in $(mechanisms perf multi); do
    hit_scenarios "$mechanism"
    more_hit_scenarios "$mechanism"
  done
fi
if in_scope reading processor; then stack_scenarios; fi
if in_scope processor mechanisms; then shape_scenarios; fi
if in_scope processor; then saved_stack_scenarios; fi
if in_scope reading; then
  for mechanism in $(different_mechanisms perf-ioctl tracefs); do
    [ "$mechanism" = "$perf" ] || hit_scenarios "$mechanism"
  done
fi
if in_scope kernel; then
  private_stack_scenarios
  mechanism_scenarios
  if in_scope; then
    crowd_scenarios 'crowd_*' 10000 'crowd_12[0-4]*' 50
    matrix_scenarios 'plain pid' 'plain all' 'archive pid' 'archive all'
  else
    crowd_scenarios 'crowd_1*' 1000 'crowd_123*' 10
    matrix_scenarios 'plain all' 'archive pid'
  fi
  nop_scenarios
fi
if in_scope reading; then namespace_scenarios; fi
if in_scope reading architecture; then
  base_class_scenarios
  instruction_scenarios
  memory_scenarios
fi
if in_scope architecture; then java_scenarios; fi
if in_scope returns processor; then return_scenarios; fi
# They are hard on the machine.
if is_guest && in_scope returns; then trampoline_scenarios; fi
if is_guest && in_scope kernel; then nop_trampoline_scenarios; fi
if in_scope processor mechanisms; then latency_scenarios; fi
if in_scope kernel architecture; then wait_scenarios; fi
if in_scope architecture processor; then exit_scenarios; fi
if in_scope architecture; then
  body_scenarios
  inlined_scenarios
  typed_scenarios
  described_scenarios
  known_scenarios
  filter_scenarios
fi
if in_scope; then
  group_scenarios
  limit_scenarios
fi
if in_scope architecture; then graph_scenarios; fi
if in_scope kernel architecture; then span_scenarios; fi
if is_guest && in_scope architecture && [ "$(uname -m)" = aarch64 ]; then bionic_scenarios; fi
if in_scope kernel; then code_scenarios; fi
if in_scope programs; then
  kernel_program_scenarios
  kernel_result_scenarios
  kernel_load_scenarios
fi
if in_scope; then
  process_scenarios
  refusal_scenarios
  program_scenarios
  result_scenarios
fi
if in_scope architecture; then
  inspection_scenarios
  usdt_scenarios
fi
# They differ little between kernels: for x86-64 this machine's is enough, for arm64 one guest of --full.
if in_scope || { in_scope kernel && kernel_has_multi && [ "$(uname -m)" = aarch64 ]; }; then
  task_scenarios
fi
if in_scope; then
  each_return_scenario
  overflow_scenarios
  hotspot_scenarios
  full_table_scenarios
  end_scenarios
  load_scenarios
  sum_scenarios
  saved_scenarios
  plan_scenarios
  target_scenarios
  export_scenarios
  more_group_scenarios
  docs_scenarios
  cookbook_scenarios
fi
if is_guest && in_scope kernel; then
  phone_scenarios
  clock_scenario
  lockdown_scenario
fi
# Those that the command line's cases do not have.
[ -z "${RECORD_SCHEMA:-}" ] || scenario 'every record is as the JSON Schema has it' records_are_valid \
  attached call_edge call_end call_summary count error event histogram installed_probe lost map_entry pinned probe summary trigger
finish_suite
