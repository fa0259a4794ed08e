# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch, started_pid: set by the harness and the suite
# Which processes are traced: by name, children, users, control groups, pid namespaces. Each scenario copies
# the workload, so that other processes of the suite are not traced.

process_scenarios() {
  scenario 'a process by its name, started later, is seen from its first call' probes_by_name
  scenario '-p with two names traces both and no others' probes_two_names
  scenario '-p takes more than 32 names' probes_many_names
  scenario '-p matches argv[0], also of later processes' probes_by_argument
  scenario 'a name that runs already, and TARGET as it maps it' probes_running_name
  scenario 'children are followed through fork and exec, others are not' follows_children
  scenario 'without --follow a child is another process' leaves_children_out
  scenario 'a followed command ends with the last of its family' ends_with_family
  scenario 'a run over a process and its children ends when both have' ends_with_followed
  scenario 'the end of a named process is not that of the run' outlives_named
  scenario '--uid traces one user only' probes_user
  scenario '--cgroup traces a control group and its descendants' probes_cgroup
  scenario '--all-processes: -p only selects TARGET' probes_everybody
  scenario 'a function called only by other processes is reported as such' explains_passed_over
  scenario 'a call that has not returned is reported' explains_unreturned
  scenario '-v reports unhit probes during the run' tells_silence_early
  scenario 'the pid in its own namespace is shown' shows_own_pid
  scenario 'in a time namespace all times are those of the kernel' converts_times
  scenario 'counts close with hits, not events' closes_with_hits
  scenario 'list-probes reads symbols from files of other mount namespaces' lists_foreign_file
  scenario 'list-probes prints no symbol if mount namespaces have different files at a path' lists_ambiguous_file
  scenario 'a library that is only in anonymous memory is named as such' names_anonymous_copy
  scenario 'code in a memfd can be probed' probes_memfd
}

probes_memfd() {
  start_program target "$FIXTURES/from-memfd" "$FIXTURES/workload" --wait --hold --calls 5
  start_attach -j -d 120 -p "$started_pid" memfd:generated work_six
  let_it_call target "$started_pid"
  stop_attach
  expect_closing_records 5
}

# As Android loads a library that is aligned to 4 KiB where pages have 16 KiB: no uprobe can fire.
names_anonymous_copy() {
  start_program target "$FIXTURES/apk-host" "$FIXTURES/greet.apk!/$library/libgreet.so" greet_add 20 \
    --wait --hold --compat
  start_attach -j -d 120 -p "$started_pid" "$FIXTURES/greet.apk!/$library/libgreet.so" greet_add
  copy="process $started_pid has a copy of this file in anonymous memory, which cannot be probed"
  expect_match 'warning' "warning: .*libgreet.so: $copy" "$(cat err)"
  let_it_call target "$started_pid"
  expect_equal 'the last result' 'last result 135' "$(grep '^last result' target)"
  stop_attach
  expect_equal 'events' 0 "$(count_records event)"
  expect_match 'reason' "\"reason\":\"$copy" "$(records probe)"
}

# Tests that depend on the kernel: which task is a process, and in which pid and time namespace.
namespace_scenarios() {
  for mechanism in $(mechanisms multi perf perf-ioctl tracefs); do
    scenario "$mechanism: a thread of a command executes the program again" follows_exec_of_command "$mechanism"
    scenario "$mechanism: a thread of a process executes the program again" follows_exec_of_pid "$mechanism"
    scenario "$mechanism: the kernel's filter is renewed if a thread executes a program" renews_filter "$mechanism"
    scenario "$mechanism: a filter that is lost again and again is renewed to the end" renews_filter_often "$mechanism"
    scenario "$mechanism: a process whose main thread has ended has whole stacks" probes_outlived "$mechanism"
  done
  scenario 'a program of the user stays with a process whose thread executes a program' renews_filter_of_object
  scenario 'a process whose main thread has ended, of a file that others map' probes_outlived_of_many
  scenario 'in a container its processes have stacks, callers, names and their ids' works_in_container
  scenario 'in a container children are followed, pids compared and calls drawn' follows_in_container
}

# Each of the four images calls it ten times.
follows_exec_of_command() { # MECHANISM
  needs "$1"
  cp "$FIXTURES/tasks" tasks
  "$UPROBECTL" attach --count --mechanism "$1" ./tasks grind -- ./tasks executes 3 none >out 2>err ||
    fail 'attach fails'
  file_says err '^done 40 calls' || fail 'the program has not counted 40 calls'
  expect_equal 'count' '40	grind' "$(cat out)"
}

follows_exec_of_pid() { # MECHANISM
  needs "$1"
  cp "$FIXTURES/tasks" tasks
  start_program target ./tasks executes 3 none --wait
  start_attach -j -d 120 -p "$started_pid" --mechanism "$1" ./tasks grind
  let_it_call target "$started_pid"
  attach_ends_with 0
  expect_equal 'calls' 'done 40 calls' "$(grep '^done' target)"
  expect_closing_records 40
}

# Another process maps the file, so it is the kernel that filters.
start_turns() {
  cp "$FIXTURES/tasks" tasks
  start_program other ./tasks executes 0 none --wait
  other_pid=$started_pid
  start_program target ./tasks executes 2 turn --wait
}

was_renewed() { # TIMES
  [ "$(grep -c 'has executed a program: the probes were attached again' err)" -ge "$1" ]
}

# Each image makes its calls when the probes are there again.
takes_turns() {
  kill -USR1 "$started_pid" || fail 'the program is gone'
  for times in 1 2; do
    wait_until 60 was_renewed "$times" || fail "the probes are not attached again: $(cat err)"
    : >"turn$((2 - times))"
  done
  wait_until 60 file_says target '^done' || fail 'the program does not finish its calls'
}

# A program may be executed while the probes are attached again.
renews_filter_often() { # MECHANISM
  needs "$1"
  cp "$FIXTURES/tasks" tasks
  start_program other ./tasks executes 0 none --wait
  other_pid=$started_pid
  start_program target ./tasks executes 60 none --wait
  start_attach -j -d 120 -p "$started_pid" --mechanism "$1" ./tasks grind
  let_it_call target "$started_pid"
  attach_ends_with 0
  kill "$other_pid"
  ! grep 'error:' err || fail 'the probes were not attached again'
}

renews_filter() { # MECHANISM
  needs "$1"
  start_turns
  start_attach -j -d 120 -p "$started_pid" --mechanism "$1" ./tasks grind
  takes_turns
  let_it_call other "$other_pid"
  attach_ends_with 0
  expect_equal 'warnings' 2 "$(grep -c 'has executed a program: the probes were attached again' err)"
  expect_closing_records 30
  expect_equal 'processes' "$started_pid" "$(records event | field pid | sort -u)"
}

renews_filter_of_object() {
  start_turns
  start_attach -j -d 120 -p "$started_pid" --object "$FIXTURES/calls.bpf.o" --program-name count_plain \
    --map calls ./tasks grind
  takes_turns
  attach_ends_with 0
  expect_equal 'calls' 30 "$(records map_entry | field value)"
}

expect_whole_stacks() { # COUNT
  expect_equal 'events' "$1" "$(count_records event "pid=$started_pid")"
  records event | grep '"symbol": *"mill"' >through
  expect_equal 'whole stacks' "$1" "$(grep -c '"symbol": *"outlive"' through)"
}

probes_outlived() { # MECHANISM
  needs "$1"
  cp "$FIXTURES/tasks" tasks
  start_program target ./tasks outlives 20 --wait
  [ -z "$(cat "/proc/$started_pid/maps")" ] || fail 'the main thread has not ended'
  start_attach -j -d 120 --stack -p "$started_pid" --mechanism "$1" ./tasks grind
  let_it_call target "$started_pid"
  attach_ends_with 0
  expect_closing_records 20
  expect_whole_stacks 20
}

# Then the kernel selects the process by a thread that is left.
probes_outlived_of_many() {
  cp "$FIXTURES/tasks" tasks
  start_program other ./tasks outlives 5 --wait
  other_pid=$started_pid
  start_program target ./tasks outlives 20 --wait
  if kernel_has_multi; then
    attach_fails_with 1 --mechanism multi -p "$started_pid" -d 1 ./tasks grind
    expect_match 'error' 'the main thread of the process has ended' "$(cat err)"
  fi
  start_attach -j -d 120 --stack -p "$started_pid" ./tasks grind
  let_it_call other "$other_pid"
  let_it_call target "$started_pid"
  attach_ends_with 0
  expect_equal 'events of the other' 0 "$(count_records event "pid=$other_pid")"
  expect_whole_stacks 20
}

# Runs a script in a pid namespace of its own. The script is the first process there: all others end
# with it.
in_container() { # SCRIPT
  cat - "$1" >whole.sh <<'EOF'
says() { # FILE REGEX
  polls=1200
  until grep -q -- "$2" "$1" 2>/dev/null; do
    polls=$((polls - 1))
    [ "$polls" -gt 0 ] || exit 1
    sleep 0.05
  done
}
EOF
  unshare -pf --mount-proc sh ./whole.sh
}

works_in_container() {
  needs_types
  unshare -pf --mount-proc true 2>/dev/null || skip 'no unshare'
  copy_workload inside
  cat >script.sh <<'EOF'
"$UPROBECTL" attach -j --stack ./inside work_six -- ./inside --calls 3 >out 2>err || exit 1
"$UPROBECTL" attach -j -d 120 -p inside --caller ./inside work_six >named 2>named.err &
attach=$!
says named.err '^probing '
./inside --calls 4 >four
unshare -pf ./inside --calls 2 >nested
: >go
says outside '^done'
kill -TERM "$attach"
wait "$attach"
EOF
  in_container script.sh >container.err 2>&1 &
  container=$!
  echo "$container" >>"$scratch/pids"
  wait_until 60 test -e go || fail "the container is not ready: $(cat container.err named.err)"
  ./inside --calls 5 </dev/null >outside
  wait "$container" || fail "the container fails: $(cat container.err)"
  pid=$(sed -n 's/^ready //p' err)
  expect_equal 'events of the command' 3 "$(count_records event "pid=$pid")"
  expect_equal 'own pids' "$pid" "$(records event | field ns_pid | sort -u)"
  expect_equal 'whole stacks' 3 "$(records event | grep -c '"symbol": *"main"')"
  cp named out
  pid=$(sed -n 's/^ready //p' four)
  expect_equal 'events of the name' 6 "$(count_records event)"
  expect_equal 'events of its first process' 4 "$(count_records event "pid=$pid")"
  expect_equal 'callers' 6 "$(records event | grep -c '"caller": *{[^}]*"symbol": *"make_calls')"
  file_says named.err 'warning: 5 hits left out: their processes are outside of this container' ||
    fail "no word of the hits outside: $(cat named.err)"
}

follows_in_container() {
  needs_types
  unshare -pf --mount-proc true 2>/dev/null || skip 'no unshare'
  copy_workload inside
  cat >script.sh <<'EOF'
"$UPROBECTL" attach -j --follow ./inside work_six -- sh -c './inside --calls 2; ./inside --calls 3; true' \
  >out 2>err || exit 1
./inside --wait --calls 4 </dev/null >one 2>&1 &
one=$!
./inside --wait --calls 6 </dev/null >other 2>&1 &
other=$!
says one '^ready'
says other '^ready'
"$UPROBECTL" attach -j -d 120 --if "pid == $one && caller == make_calls" ./inside work_six \
  >compared 2>compared.err &
attach=$!
says compared.err '^probing '
kill -USR1 "$one" "$other"
says one '^done'
says other '^done'
kill -TERM "$attach"
wait "$attach" || exit 1
"$UPROBECTL" attach --graph ./inside work_six work_count -- ./inside --calls 2 >graph 2>graph.err
EOF
  in_container script.sh >container.err 2>&1 || fail "the container fails: $(cat container.err)"
  expect_equal 'events of the children' 5 "$(count_records event)"
  cp compared out
  expect_equal 'events of the compared pid' 4 "$(count_records event)"
  expect_equal 'calls in the graph' 4 "$(grep -c 'work_' graph)"
}

# The offsets are far above what a run takes.
converts_times() {
  needs_types
  shift_clocks='unshare -T --monotonic 50000 --boottime 70000 -f'
  $shift_clocks true 2>/dev/null || skip 'no unshare of time namespaces'
  copy_workload timed
  before=$(seconds_up)
  day=$(date +%s)
  $shift_clocks "$UPROBECTL" attach -j --stack -p timed -d 120 -n 3 ./timed work_six >out 2>err &
  echo $! >>"$scratch/pids"
  wait_until 60 file_says err '^probing ' || fail "attach does not start: $(cat err)"
  run_as timed 3
  wait_until 60 file_says out '"summary"' || fail 'attach does not end'
  after=$(($(seconds_up) + 1))
  monotonic=$(value_in monotonic "$(records attached)")
  boottime=$(value_in boottime "$(records attached)")
  realtime=$(value_in realtime "$(records attached)")
  # /proc/uptime has CLOCK_BOOTTIME (proc_uptime(5)).
  [ $((boottime / 1000000000)) -ge "$before" ] && [ $((boottime / 1000000000)) -le "$after" ] ||
    fail "boottime $boottime is not between $before and $after seconds"
  [ $((realtime / 1000000000)) -ge "$day" ] || fail "realtime $realtime is before $day"
  for time in $(records event | field time_ns); do
    [ "$time" -ge "$monotonic" ] && [ $((time / 1000000000)) -le "$after" ] ||
      fail "event at $time, clock $monotonic, $after seconds at the end"
  done
  expect_equal 'stacks' 3 "$(records event | grep -c '"symbol": *"main"')"
}

# Copies under names of their own, of one file: comm is what a program is executed as.
copy_workload() { # NAME…
  cp "$FIXTURES/workload" "$1"
  first=$1
  shift
  for other; do ln "$first" "$other"; done
}

# Runs to its end, some calls of work_six each.
run_as() { # NAME CALLS
  "./$1" --calls "$2" >"$1.said" </dev/null || fail "$1 fails"
}

events_of_comm() { # COMM
  count_records event "comm=$1"
}

probes_by_name() {
  needs_types
  copy_workload seen unseen
  start_attach -j -d 120 -p seen ./seen work_six
  run_as unseen 7
  run_as seen 5
  run_as unseen 7
  run_as seen 6
  stop_attach
  expect_equal 'events of the name' 11 "$(events_of_comm seen)"
  expect_equal 'events' 11 "$(count_records event)"
  # The first call passes 1, 2, …
  expect_equal 'first calls' 2 "$(arguments_of_entries | grep -c '^arg0 0x1 ')"
  expect_equal 'hits' 11 "$(records probe | field hits)"
  file_says err "waiting for a process named 'seen'" || fail 'it does not say that it waits'
  file_says err 'calls in other processes also stop at' || fail 'the cost is not reported'
  file_says err "^probing 1 function in all processes named 'seen' for" || fail 'start line'
}

probes_two_names() {
  needs_types
  copy_workload one two three
  start_attach -j -d 120 -p one,two ./one work_six
  for name in one two three; do run_as $name 4; done
  stop_attach
  expect_equal 'events of one' 4 "$(events_of_comm one)"
  expect_equal 'events of two' 4 "$(events_of_comm two)"
  expect_equal 'events' 8 "$(count_records event)"
}

probes_many_names() {
  needs_types
  copy_workload name_0 other
  names=name_0
  for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35; do
    ln name_0 "name_$i"
    names=$names,name_$i
  done
  start_attach -j -d 120 -p "$names" ./name_0 work_six
  for name in name_0 name_31 name_32 name_35 other; do run_as $name 4; done
  stop_attach
  expect_equal 'events of the last' 4 "$(events_of_comm name_35)"
  expect_equal 'events' 16 "$(count_records event)"
}

# Busybox has no exec -a: a symbolic link's name is argv[0], and comm, too; the comm of a program
# longer than 15 bytes is cut, so that only its argv[0] is the name.
probes_by_argument() {
  needs_types
  copy_workload a-name-longer-than-comm a-name-longer-other
  start_attach -j -d 120 -p a-name-longer-than-comm ./a-name-longer-than-comm work_six
  start_program target ./a-name-longer-than-comm --wait --hold --calls 3
  start_program other ./a-name-longer-other --wait --hold --calls 9
  other_pid=$started_pid
  sleep 0.5 # the arguments are looked at shortly after it was executed
  let_it_call other "$other_pid"
  let_it_call target "$(sed -n 's/^ready //p' target)"
  stop_attach
  expect_equal 'events' 3 "$(count_records event)"
  expect_equal 'events of the other' 0 "$(count_records event "pid=$other_pid")"
}

probes_running_name() {
  needs_types
  mkdir elsewhere
  copy_workload elsewhere/running
  start_program target elsewhere/running --wait --hold --calls 5
  # Neither in this folder nor in PATH: it is found because the process maps it.
  start_attach -j -d 120 -p running running work_six
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'events' 5 "$(count_records event "pid=$started_pid")"
  expect_equal 'file' "$scratch/elsewhere/running" "$(records probe | field file)"
}

# A shell that waits for a file, then executes the workload as a child and as itself.
start_parent() { # NAME
  cat >parent.sh <<'EOF'
echo "ready $$"
until [ -e go ]; do sleep 0.05; done
./child --calls 5 >/dev/null
(./child --calls 6 >/dev/null; true)
exec ./child --calls 7
EOF
  start_program parent sh parent.sh
}

follows_children() {
  needs_types
  copy_workload child stranger
  start_parent
  start_attach -j -d 120 --follow -p "$started_pid" ./child work_six
  run_as stranger 9
  : >go
  wait_until 60 file_says parent '^done' || fail 'the parent does not end'
  attach_ends_with 0
  expect_equal 'events' 18 "$(count_records event comm=child)"
  expect_equal 'all events' 18 "$(count_records event)"
  expect_equal 'processes' 3 "$(records event | field pid | sort -u | wc -l | tr -d ' ')"
  expect_equal 'first calls' 3 "$(arguments_of_entries | grep -c '^arg0 0x1 ')"
}

leaves_children_out() {
  copy_workload child
  start_parent
  start_attach -j -d 120 -p "$started_pid" ./child work_six
  : >go
  attach_ends_with 0
  expect_equal 'events' 7 "$(count_records event)"
}

ends_with_family() {
  needs_types
  copy_workload child
  # The command ends at once and leaves a child.
  start_attach -j --follow ./child work_six -- sh -c '(sleep 1; ./child --calls 4) >left 2>&1 &'
  attach_ends_with 0
  expect_equal 'events' 4 "$(count_records event)"
  file_says err "in 'sh' and its children" || fail 'start line'
}

ends_with_followed() {
  needs_types
  copy_workload child
  start_parent
  parent=$started_pid
  start_attach -j -d 120 --follow -p "$parent" ./child work_six
  kill -KILL "$parent"
  attach_ends_with 0
}

outlives_named() {
  needs_types
  copy_workload again
  start_program target ./again --wait --hold --calls 2
  start_attach -j -d 120 -p again ./again work_six
  let_it_call target "$started_pid"
  kill -KILL "$started_pid"
  sleep 0.5
  [ ! -s status ] || fail 'the run has ended'
  run_as again 3
  stop_attach
  expect_equal 'events' 5 "$(count_records event)"
}

probes_user() {
  copy_workload program
  chmod 755 . .. program
  start_attach -j -d 120 --uid 1000 ./program work_six
  run_as program 9
  "$FIXTURES/as-user" 1000 - ./program --calls 5 >said 2>&1 || fail "$(cat said)"
  "$FIXTURES/as-user" 1001 - ./program --calls 6 >said 2>&1 || fail "$(cat said)"
  stop_attach
  expect_equal 'events' 5 "$(count_records event)"
  file_says err 'in all processes of user 1000 for' || fail 'start line'
}

find_cgroup2() {
  cgroup2=$(sed -n 's/.* \([^ ]*\) [^ ]* .*- cgroup2 .*/\1/p' /proc/self/mountinfo | head -n 1)
  [ -z "$cgroup2" ] || return 0
  cgroup2=$scratch/cgroup2
  mkdir "$cgroup2"
  mount -t cgroup2 none "$cgroup2" || skip 'cgroup2 cannot be mounted'
  mounted=yes
}

probes_cgroup() {
  mounted=
  find_cgroup2
  group=$cgroup2/uprobectl-test-$$
  mkdir -p "$group/below" 2>/dev/null || skip 'no control group can be made'
  copy_workload program
  start_attach -j -d 120 --cgroup "uprobectl-test-$$" ./program work_six
  run_as program 9
  sh -c 'echo $$ >"$1/cgroup.procs" && exec ./program --calls 4' sh "$group" >said 2>&1 || fail "$(cat said)"
  sh -c 'echo $$ >"$1/cgroup.procs" && exec ./program --calls 3' sh "$group/below" >said 2>&1 || fail "$(cat said)"
  stop_attach
  expect_equal 'events' 7 "$(count_records event)"
  rmdir "$group/below" "$group"
  [ -z "$mounted" ] || umount "$cgroup2"
}

probes_everybody() {
  mkdir elsewhere
  copy_workload elsewhere/mapped
  start_program target elsewhere/mapped --wait --hold --calls 2
  start_attach -j -d 120 --all-processes -p "$started_pid" mapped work_six
  let_it_call target "$started_pid"
  kill -KILL "$started_pid"
  elsewhere/mapped --calls 3 >said || fail 'the workload fails'
  sleep 0.3
  [ ! -s status ] || fail 'the run has ended with the process'
  stop_attach
  expect_equal 'events' 5 "$(count_records event)"
  file_says err 'in all processes for' || fail 'start line'
}

explains_passed_over() {
  copy_workload program
  start_attach -j -d 120 --uid 4242 ./program work_six
  run_as program 3
  stop_attach
  expect_match 'reason' '^called 3 times, but by none' \
    "$(records probe | field reason)"
  expect_equal 'hits' 0 "$(records probe | field hits)"
}

# main of a program that holds.
explains_unreturned() {
  copy_workload program
  start_attach -j -d 120 --latency ./program main
  start_program target ./program --calls 1 --wait --hold
  stop_attach
  expect_equal 'reason' 'called once, but has not returned yet' "$(records probe | field reason)"
  expect_equal 'status' hit "$(records probe | field status)"
}

tells_silence_early() {
  copy_workload program
  start_program target ./program --wait --hold
  start_attach -v -d 120 -p "$started_pid" ./program work_six
  wait_until 20 file_says err "work_six: not hit so far: mapped by process $started_pid (program), but not called" ||
    fail 'no reason is given'
  stop_attach
}

shows_own_pid() {
  unshare -pf true 2>/dev/null || skip 'no unshare'
  copy_workload innermost
  start_attach -j -d 120 ./innermost work_six
  # It holds, and so is there when it is asked about; the namespace's first process is 1.
  unshare -pf ./innermost --wait --hold --calls 2 </dev/null >target 2>&1 &
  maker=$!
  echo "$maker" >>"$scratch/pids"
  wait_until 30 file_says target '^ready' || fail 'it does not get ready'
  inner=$(grep -lsx "PPid:[[:space:]]*$maker" /proc/[0-9]*/status | cut -d / -f 3)
  echo "$inner" >>"$scratch/pids"
  let_it_call target "$inner"
  "./innermost" --calls 1 --hold </dev/null >outside 2>&1 &
  outer=$!
  echo "$outer" >>"$scratch/pids"
  wait_until 30 file_says outside '^done' || fail 'the other does not call'
  sleep 0.3
  stop_attach
  expect_equal 'own pids inside' 1 "$(records event "pid=$inner" | field ns_pid | sort -u)"
  expect_equal 'own pids outside' "$outer" "$(records event "pid=$outer" | field ns_pid | sort -u)"
}

closes_with_hits() {
  copy_workload program
  start_attach -j -d 120 --count ./program work_six work_count
  run_as program 40
  stop_attach
  file_says err '^80 hits counted in .*, 2 of 2 probes hit$' || fail "$(tail -n 1 err)"
}

# A process for which the folder `seen` has another app than for this machine.
start_elsewhere() {
  unshare -m true 2>/dev/null || skip 'no mount namespace can be made'
  mkdir seen hidden
  cp "$FIXTURES/exits" seen/app
  cp "$FIXTURES/workload" hidden/app
  # shellcheck disable=SC2016 # expanded by the inner shell
  start_program target unshare -m sh -c 'mount --bind hidden seen && exec "$PWD/seen/app" --wait --hold'
}

lists_foreign_file() {
  start_elsewhere
  start_attach -d 120 -p "$started_pid" "$PWD/seen/app" work_six
  "$UPROBECTL" list-probes -v >probes || fail 'list-probes fails'
  expect_match 'our probe' "/proc/[0-9]+/root$PWD/seen/app	work_six	entry	" "$(cat probes)"
  stop_attach
}

# A name in tracefs has no process whose file it is.
lists_ambiguous_file() {
  [ -w "$uprobe_events" ] || skip 'no tracefs'
  start_elsewhere
  event=uprobectl_test/ambiguous_$$
  offset=$("$UPROBECTL" resolve --offset-only "$PWD/seen/app" exits_other)
  echo "p:$event $PWD/seen/app:$offset" >>"$uprobe_events" || fail 'the kernel refuses the event'
  "$UPROBECTL" list-probes -v >probes 2>messages
  status=$?
  kill -KILL "$started_pid"
  wait_until 20 process_is_gone "$started_pid"
  "$UPROBECTL" list-probes -v >later 2>later_messages
  echo "-:$event" >>"$uprobe_events"
  expect_equal 'exit status' 0 "$status"
  expect_match 'the event' "$PWD/seen/app	-	entry	" "$(grep "$event" probes)"
  expect_match 'reason' "$PWD/seen/app: 1 probe is shown without a symbol: mount namespaces have different files" "$(cat messages)"
  expect_match 'without the other process' "$PWD/seen/app	exits_other	entry	" "$(grep "$event" later)"
}

process_is_gone() { ! [ -e "/proc/$1/ns/mnt" ] || ! readlink "/proc/$1/ns/mnt" >/dev/null 2>&1; }
