# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch, started_pid: set by the harness and the suite
# Mechanisms and buffers under stress: many probes, a full buffer, a killed run, users without all
# capabilities.

# Many functions for multi, some for what attaches them one by one.
crowd_scenarios() { # PATTERN COUNT PATTERN COUNT
  scenario "multi: $2 functions of one file" probes_crowd multi "$1" "$2"
  for mechanism in $(mechanisms perf perf-ioctl tracefs); do
    scenario "$mechanism: $4 functions of one file" probes_crowd "$mechanism" "$3" "$4"
  done
}

mechanism_scenarios() {
  scenario 'tracefs: returns of functions that share no event' probes_crowd tracefs 'crowd_123*' 10 --return
  scenario 'auto: many probes are detached quickly' detaches_fast
  scenario 'perf: the probes are attached again after the end of the main thread, and this is said' \
    goes_on_without_main_thread
  for mechanism in $(mechanisms multi perf perf-ioctl); do
    scenario "perf buffer by $mechanism: all events, in order" orders_perf_buffer "$mechanism"
  done
  scenario 'tracefs: events of a killed run are listed and removed by the next run' cleans_leftovers
  scenario 'tracefs: odd names of files' probes_odd_name
  scenario 'attach names the missing capabilities' refuses_user
  scenario 'CAP_BPF and CAP_PERFMON do for multi' serves_capable_user
  scenario 'the error for perf events names CAP_SYS_ADMIN' refuses_perf_of_user
  scenario 'a limit of locked memory shrinks buffers, or is named, where it counts for BPF' keeps_memory_limit
  scenario 'a program with a helper that the kernel does not have is refused by its name' names_missing_helper
}

# Filling a buffer takes an emulated machine half a minute, and many perf events as much.
overflow_scenarios() {
  scenario 'the expected time to attach many probes one by one is printed' tells_expected_time
  scenario 'many probes of perf events are warned of' warns_of_slow_detach
  for buffer in ring perf; do
    scenario "$buffer buffer: what finds it full is counted exactly" counts_overflow "$buffer"
  done
}

probes_crowd() { # MECHANISM PATTERN COUNT [ARGUMENT…]
  needs "$1"
  mechanism=$1
  pattern=$2
  count=$3
  shift 3
  start_program target "$FIXTURES/crowd" --wait --hold
  start_attach -j -d 300 -p "$started_pid" --mechanism "$mechanism" "$@" "$FIXTURES/crowd" "$pattern"
  expect_equal 'mechanism' "$mechanism" "$(records attached | field mechanism)"
  let_it_call target "$started_pid"
  stop_attach 180 # perf events are detached one by one
  expect_equal 'events' "$count" "$(count_records event)"
  expect_equal 'functions' "$count" "$(records event | field symbol | sort -u | wc -l | tr -d ' ')"
  expect_equal 'probes hit once' "$count" "$(records probe | grep -c '"hits":1[,}]')"
  expect_equal 'detached cleanly' true "$(records summary | field detached_cleanly)"
}

# Each perf event would take a grace period or two, one after the other.
detaches_fast() {
  start_program target "$FIXTURES/crowd" --wait --hold
  start_attach -j -d 300 -p "$started_pid" "$FIXTURES/crowd" 'crowd_1[0-3]*'
  best=tracefs
  kernel_has_multi && best=multi
  expect_equal 'mechanism' "$best" "$(records attached | field mechanism)"
  ! file_says err 'may take' || fail 'a slow end is announced'
  let_it_call target "$started_pid"
  began=$(seconds_up)
  stop_attach
  took=$(($(seconds_up) - began))
  [ "$took" -le 15 ] || fail "ended after $took s only"
  expect_equal 'events' 400 "$(count_records event)"
}

# An emulated machine takes seconds for what others do in one, and a busy one waits meanwhile.
tells_expected_time() {
  began=$(seconds_up)
  "$UPROBECTL" attach --count -d 1 --mechanism tracefs "$FIXTURES/crowd" 'crowd_[0-3]*' -- "$FIXTURES/crowd" \
    >out 2>err || fail "attach fails: $(cat err)"
  took=$(($(seconds_up) - began))
  said=$(sed '/^probing/q' err | grep -c 'attaching 4000 probes one by one takes about \([3-9]\|[0-9][0-9]\{1,\}\) s$')
  [ "$took" -le 30 ] || expect_equal 'expected time before a slow start' 1 "$said"
  [ "$took" -gt 2 ] || expect_equal 'expected time before a quick start' 0 "$said"
}

warns_of_slow_detach() {
  start_attach -d 1 --mechanism "$perf" "$FIXTURES/crowd" 'crowd_12[0-4]*' crowd_1250
  attach_ends_with 0 180
  expect_match 'message' 'detaching 51 perf events may take 2 to 25 s' "$(cat err)"
}

# The other process maps the file, so the kernel selects the process by one of its threads.
goes_on_without_main_thread() {
  start_program other "$FIXTURES/callers" wait
  start_program callers "$FIXTURES/callers" outlive
  start_attach -j -d 120 --mechanism "$perf" -p "$started_pid" "$FIXTURES/callers" callers_take
  kill -USR1 "$started_pid"
  wait_until 60 file_says err "thread of process $started_pid .*has ended: the probes were attached again" ||
    fail "said: $(cat err)"
  let_it_call callers "$started_pid"
  attach_ends_with 0
  expect_equal 'events' 31 "$(count_records event)"
}

# The reader is stopped, so that the buffer fills.
counts_overflow() { # BUFFER
  calls=100000
  start_workload target --calls "$calls"
  start_attach -j -d 300 -p "$started_pid" --buffer "$1" "$FIXTURES/workload" work_six
  kill -STOP "$(cat attach.pid)"
  let_it_call target "$started_pid" 240
  kill -CONT "$(cat attach.pid)"
  stop_attach
  # An emulated machine takes seconds to look for a pattern in them all.
  shown=$(grep -cF '"type":"event"' out)
  grep -vF '"type":"event"' out >others
  mv others out
  lost=$(records summary | field lost)
  events=$(records summary | field events)
  expect_equal 'hits' "$calls" "$(records probe | field hits)"
  expect_equal 'received and lost' "$calls" $((events + lost))
  expect_equal 'received' "$events" "$shown"
  [ "$lost" -gt 0 ] || fail 'nothing found the buffer full'
  [ "$events" -gt 1000 ] || fail "only $events events came through"
}

orders_perf_buffer() { # MECHANISM
  needs "$1"
  start_workload target --calls 50 --threads 3
  start_attach -j -d 120 -p "$started_pid" --mechanism "$1" --buffer perf "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  expect_closing_records 150
  expect_equal 'events' 150 "$(count_records event "pid=$started_pid")"
  # The events of each thread must be in order; those of several threads only within one drain.
  for tid in $(records event | field tid | sort -u); do
    records event "tid=$tid" | field time_ns >"times"
    sort -n times >times.sorted
    cmp -s times times.sorted || fail "events of thread $tid are out of order"
  done
}

# Four events of a run that has been killed; `dead` is its pid.
leave_events() {
  start_attach -j -d 120 --mechanism tracefs --entry --return "$FIXTURES/workload" work_six work_count
  dead=$(cat attach.pid)
  expect_equal 'events in tracefs' 4 "$(events_of_dead)"
  kill -KILL "$dead"
  wait_until 30 file_says status .
}
events_of_dead() { grep -c "uprobectl_[0-9]*_${dead}_" "$uprobe_events"; }

# Somebody else's next run by tracefs takes them away as well.
lists_leftovers() {
  leave_events
  "$UPROBECTL" list-probes -v >probes || fail 'list-probes fails'
  "$UPROBECTL" list-probes -j >probes.json
  [ "$(events_of_dead)" -eq 4 ] || return 1
  expect_equal 'listed as left' 4 "$(grep "uprobectl_[0-9]*_${dead}_" probes | grep -c leftover)"
  expect_equal 'marked as left' 4 "$(grep "uprobectl_[0-9]*_${dead}_" probes.json | grep -c '"leftover":true')"
}

cleans_leftovers() {
  start_workload target --calls 3
  lists_leftovers || lists_leftovers || lists_leftovers || fail "$(events_of_dead) of 4 events are left"
  start_attach -j -d 120 -p "$started_pid" --mechanism tracefs "$FIXTURES/workload" work_six
  expect_equal 'events left after the next start' 0 "$(events_of_dead)"
  let_it_call target "$started_pid"
  ended=$(cat attach.pid)
  stop_attach
  expect_closing_records 3
  expect_equal 'events in tracefs at the end' 0 "$(grep -c "uprobectl_[0-9]*_${ended}_" "$uprobe_events")"
}

# The kernel takes a path apart at spaces, colons and brackets.
probes_odd_name() {
  odd='an odd (name):0x10 with $signs and a very long tail that no event could be called after'
  mkdir "$odd"
  cp "$FIXTURES/workload" "$odd/work load"
  start_program target "$odd/work load" --wait --hold --calls 5
  start_attach -j -d 120 -p "$started_pid" --mechanism tracefs "$PWD/$odd/work load" work_six
  let_it_call target "$started_pid"
  stop_attach
  expect_closing_records 5
}

# Numbers of linux/capability.h.
cap_sys_ptrace=19
cap_sys_admin=21
cap_perfmon=38
cap_bpf=39

# Runs `attach` as user 1000 with the capabilities.
attach_as_user() { # CAPABILITIES ARGUMENT…
  capabilities=$1
  shift
  "$FIXTURES/as-user" 1000 "$capabilities" "$UPROBECTL" attach "$@" >out 2>err
}

refuses_user() {
  attach_as_user - -d 1 "$FIXTURES/workload" work_six
  expect_equal 'exit status' 1 "$?"
  expect_match 'message' 'the kernel does not permit it' "$(cat err)"
  expect_match 'hint' 'needs CAP_BPF and CAP_PERFMON' "$(cat err)"
  "$FIXTURES/as-user" 1000 - "$UPROBECTL" doctor >doctor
  grep -q '^attach	no	.*permit' doctor || fail "doctor says: $(grep ^attach doctor)"
}

serves_capable_user() {
  kernel_has_multi || skip "Linux $(uname -r) has no uprobe_multi links"
  start_workload target --calls 4
  (
    wait_until 60 file_says err '^probing '
    let_it_call target "$started_pid"
  ) &
  attach_as_user "$cap_perfmon,$cap_bpf" -j -d 120 -n 4 "$FIXTURES/workload" work_six
  expect_equal 'exit status' 0 "$?"
  expect_equal 'mechanism' multi "$(records attached | field mechanism)"
  expect_closing_records 4
}

# Without CAP_SYS_RESOURCE, with the limit that systemd sets and with one that is too small for anything.
# Linux counted BPF memory as locked memory before 5.11.
keeps_memory_limit() {
  for more in '' '--latency' '--stack' '--count --by arg0'; do
    # shellcheck disable=SC2086 # options
    (ulimit -l 8192 && "$FIXTURES/as-user" 1000 "$cap_sys_admin" "$UPROBECTL" attach -j -d 60 $more \
      "$FIXTURES/workload" work_six -- "$FIXTURES/workload" --calls 3 >out 2>err)
    expect_equal "exit status with 8 MiB ($more)" 0 "$?"
    expect_equal "hits ($more)" 3 "$(records probe | field hits)"
    if kernel_is_at_least 5.11; then
      ! file_says err RLIMIT_MEMLOCK || fail "a limit is named: $(cat err)"
    else
      expect_match 'warning' 'RLIMIT_MEMLOCK limits BPF memory .* KiB instead of' "$(cat err)"
    fi
  done
  ! kernel_is_at_least 5.11 || return 0
  (ulimit -l 64 && "$FIXTURES/as-user" 1000 "$cap_sys_admin" "$UPROBECTL" attach -d 1s "$FIXTURES/workload" work_six >out 2>err)
  expect_equal 'exit status with 64 KiB' 1 "$?"
  expect_match 'message' 'BPF memory exceeds the limit of locked memory, RLIMIT_MEMLOCK, of 65536 bytes' "$(cat err)"
  (ulimit -l 64 && "$FIXTURES/as-user" 1000 "$cap_sys_admin" "$UPROBECTL" doctor >doctor)
  expect_match 'doctor' '^attach.no.*RLIMIT_MEMLOCK' "$(grep ^attach doctor)"
}

# bpf_get_attach_cookie came with Linux 5.15.
names_missing_helper() { with_pins names_missing_helper_there; }
names_missing_helper_there() {
  status=0
  load "$FIXTURES/messages.bpf.o" --pin pins/m || status=$?
  if kernel_is_at_least 5.15; then
    expect_equal 'exit status' 0 "$status"
    load --unpin pins/m
  else
    expect_equal 'exit status' 1 "$status"
    expect_match 'hint' 'this kernel does not have the helper bpf_get_attach_cookie' "$(cat err)"
  fi
}

refuses_perf_of_user() {
  for mechanism in $(mechanisms perf perf-ioctl); do
    attach_as_user "$cap_perfmon,$cap_bpf" -d 10ms --mechanism "$mechanism" "$FIXTURES/workload" work_six
    expect_equal "exit status by $mechanism" 1 "$?"
    expect_match 'hint' 'needs CAP_SYS_ADMIN' "$(cat err)"
  done
  attach_as_user "$cap_perfmon,$cap_bpf" -d 10ms --mechanism tracefs "$FIXTURES/workload" work_six
  expect_equal 'exit status by tracefs' 1 "$?"
  expect_match 'message' 'tracefs' "$(cat err)"
}
