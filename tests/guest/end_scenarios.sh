# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch, started_pid, library: set by the harness and the suite
# How a run ends, and what it says about probes that never fired.

end_scenarios() {
  scenario '-n ends the run after that many events' ends_after_events
  scenario 'the duration ends the run with 0' ends_after_duration
  for signal in INT TERM HUP; do
    scenario "SIG$signal ends the run with a summary and 0" ends_on_signal "$signal"
  done
  scenario 'SIGKILL leaves nothing in the kernel' leaves_nothing_when_killed
  scenario 'BPF objects of other programs are not counted as leftovers' ignores_others
  scenario 'leftovers of a run are found while other programs use BPF' sees_what_is_left
  scenario 'a reader that pauses receives all events' feeds_slow_reader
  scenario 'events are counted as lost if nothing reads the output' tells_unread
  scenario 'a full disk does not end a run: what has no room is counted, the rest is whole' outlives_full_disk
  scenario '--save goes on when its disk has room again, and marks the gap' saves_around_gap
  scenario 'SIGUSR1 opens the file of -o again, --append keeps it' reopens_output
  scenario 'a file of -o that is truncated has no hole' follows_truncation
  scenario 'text has a line where events are missing' marks_losses
  for ending in duration INT TERM max-events command closed; do
    scenario "of a program's perf event array nothing is dropped uncounted: $ending" accounts_for_array "$ending"
  done
  scenario 'a closed output pipe ends the run without an error' ends_on_closed_pipe
  scenario "the target's exit ends the run with 0" ends_with_target
  scenario 'a command is probed from its start, and its end is the end' follows_command
  scenario '--forward-exit returns the exit status of the command' forwards_exit
  scenario 'a command leaves its exit status or its signal in the summary' tells_end_of_command
  scenario 'records on stdout are not mixed with the output of the command' keeps_records_apart
  scenario 'a command keeps a terminal as its stdout' leaves_terminal
  scenario 'a command that outlives the run gets SIGTERM' ends_command
  scenario 'a command that cannot be run leaves no probe behind' refuses_command
  scenario 'a stopped command continues when the run does' continues_command
  scenario 'a stopped command gets SIGTERM, too' ends_stopped_command
  scenario 'text output has one tab-separated line an event' writes_text
  scenario 'an unhit probe in an unmapped file is explained' explains_unmapped
  scenario 'an unhit probe of an uncalled function is explained' explains_uncalled
  scenario 'an unhit probe in a replaced file is explained' explains_replaced
  scenario 'a removed file that a process runs is named by its base name' names_removed_file
  scenario 'an unhit probe names processes that map another copy of the file' explains_copy
  scenario 'an unhit probe suggests --follow if a child maps the file' explains_child
  scenario 'the five reasons are five' explains_differently
  scenario 'a command that has ended is known to have mapped the file' explains_ended_command
  scenario 'an unhit probe suggests --follow for an ended descendant' explains_ended_child
  scenario 'the early end of a -p process is reported, that of a command is not' tells_early_end
}

follows_command() {
  "$UPROBECTL" attach -j -o events "$FIXTURES/workload" work_six -- "$FIXTURES/workload" --calls 25 \
    >out 2>err || fail "exit status $?"
  expect_match 'what the command printed' '^done 25' "$(tail -n 1 out)"
  mv events out
  expect_equal 'events' 25 "$(count_records event)"
  expect_equal 'hits' 25 "$(records probe | field hits)"
}

forwards_exit() {
  "$UPROBECTL" attach -q --forward-exit -c "sh -c '\"\$FIXTURES\"/workload; exit 7'" \
    "$FIXTURES/workload" work_six >out 2>err
  expect_equal 'exit status' 7 "$?"
  "$UPROBECTL" attach -q --forward-exit "$FIXTURES/workload" work_six -- sh -c 'kill -TERM $$' >out 2>err
  expect_equal 'exit status after SIGTERM' 143 "$?"
  "$UPROBECTL" attach -q "$FIXTURES/workload" work_six -- false >out 2>err
  expect_equal 'exit status without --forward-exit' 0 "$?"
}

tells_end_of_command() {
  "$UPROBECTL" attach -j "$FIXTURES/workload" work_six -- sh -c 'kill -SEGV $$' >out 2>err || fail "exit status $?"
  expect_match 'message' '^uprobectl: warning: the command ended by signal 11 \(SIGSEGV\)$' "$(cat err)"
  expect_equal 'signal' 11 "$(records summary | field command_signal)"
  expect_equal 'exit status beside a signal' null "$(records summary | field command_exit)"
  "$UPROBECTL" attach -j --forward-exit "$FIXTURES/workload" work_six -- sh -c 'kill -SEGV $$' >out 2>err
  expect_equal 'forwarded signal' 139 "$?"
  "$UPROBECTL" attach -j "$FIXTURES/workload" work_six -- sh -c 'exit 7' >out 2>err || fail "exit status $?"
  expect_equal 'exit status' 7 "$(records summary | field command_exit)"
  expect_equal 'signal beside an exit status' null "$(records summary | field command_signal)"
  ! grep -q 'ended by' err || fail "a signal is reported: $(cat err)"
  # Our own signal is in the records, without a message.
  "$UPROBECTL" attach -j -d 300ms "$FIXTURES/workload" work_six -- sleep 100 >out 2>err || fail "exit status $?"
  expect_equal 'our own signal' 15 "$(records summary | field command_signal)"
  ! grep -q 'ended by' err || fail "our own signal is reported: $(cat err)"
  start_workload target --calls 1
  "$UPROBECTL" attach -j -d 100ms -p "$started_pid" "$FIXTURES/workload" work_six >out 2>err || fail "exit status $?"
  expect_equal 'without a command' 'null null' \
    "$(records summary | field command_exit) $(records summary | field command_signal)"
}

# For both commands that attach.
keeps_records_apart() {
  for how in "attach $FIXTURES/workload work_six" "usdt attach $FIXTURES/probes shop:order-start"; do
    # shellcheck disable=SC2086 # words
    "$UPROBECTL" $how -j -- "$FIXTURES/workload" --calls 3 >out 2>err || fail "exit status $?"
    expect_equal 'lines that are no records' '' "$(grep -v '^{.*}$' out)"
    expect_match 'what the command printed' '^done 3' "$(cat err)"
    expect_match 'start line' '^probing .* until it ends; its stdout goes to stderr$' "$(cat err)"
    # shellcheck disable=SC2086 # words
    "$UPROBECTL" $how --command-output said -- "$FIXTURES/workload" --calls 3 >out 2>err || fail "exit status $?"
    expect_match 'what the command printed' '^done 3' "$(cat said)"
    ! grep -q '^done' out err || fail 'the output is elsewhere, too'
    ! grep -q 'goes to stderr' err || fail 'stderr is said to be it'
    # shellcheck disable=SC2086 # words
    "$UPROBECTL" $how --command-output inherit -- "$FIXTURES/workload" --calls 3 >out 2>err || fail "exit status $?"
    expect_match 'what the command printed' '^done 3' "$(cat out)"
  done
  "$UPROBECTL" attach -o events "$FIXTURES/workload" work_six -- "$FIXTURES/workload" --calls 3 >out 2>err ||
    fail "exit status $?"
  expect_match 'the only one on stdout' '^done 3' "$(cat out)"
}

# Everything it prints comes out of the terminal: the start line says that it was left there.
leaves_terminal() {
  command -v script >/dev/null || skip 'no script(1) on this machine'
  script -qec "'$UPROBECTL' attach '$FIXTURES/workload' work_six -- sh -c 'test -t 1 && echo a terminal' 2>err" /dev/null \
    >out </dev/null || fail "exit status $?"
  expect_match 'stdout of the command' '^a terminal' "$(cat out)"
  ! grep -q 'goes to stderr' err || fail "start line: $(cat err)"
}

ends_command() {
  start_attach -d 1 "$FIXTURES/workload" work_six -- sh -c 'echo $$ >command.pid; exec sleep 1000'
  attach_ends_with 0
  ! kill -0 "$(cat command.pid)" 2>/dev/null || fail 'the command still runs'
}

# Starts a run of a command that sleeps; command.pid has its pid once it runs.
start_sleeping_command() {
  start_attach "$@" "$FIXTURES/workload" work_six -- sh -c 'echo $$ >command.pid; exec sleep 1000'
  wait_until 30 file_says command.pid . || fail 'the command does not begin'
}

is_stopped() {
  grep -q '^State:.T' "/proc/$1/status"
}

is_not_stopped() {
  ! is_stopped "$1"
}

continues_command() {
  start_sleeping_command -d 20
  command=$(cat command.pid)
  kill -STOP "$command"
  wait_until 30 is_stopped "$command" || fail 'the command is not stopped'
  kill -CONT "$(cat attach.pid)"
  wait_until 30 is_not_stopped "$command" || fail 'the command is still stopped'
  stop_attach
}

ends_stopped_command() {
  start_sleeping_command -d 20
  command=$(cat command.pid)
  kill -STOP "$command"
  wait_until 30 is_stopped "$command" || fail 'the command is not stopped'
  stop_attach
  ! kill -0 "$command" 2>/dev/null || fail 'the command still runs'
}

refuses_command() {
  "$UPROBECTL" attach -j "$FIXTURES/workload" work_six -- ./no-such-program >out 2>err
  expect_equal 'exit status' 1 "$?"
  expect_match 'message' 'cannot run ./no-such-program: no such file' "$(cat err)"
}

ends_after_events() {
  start_workload target --calls 40
  start_attach -j -d 120 -n 5 "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  attach_ends_with 0
  expect_equal 'events' 5 "$(count_records event)"
  expect_equal 'events in the summary' 5 "$(records summary | field events)"
  expect_equal 'shown and lost' "$(records probe | field hits)" $((5 + $(records summary | field lost)))
  file_says err '5 events in .*, 0 lost' || fail "reported as lost: $(cat err)"
}

ends_after_duration() {
  start_workload target --calls 1
  began=$(seconds_up)
  start_attach -j -d 2s "$FIXTURES/workload" work_six
  attach_ends_with 0
  took=$(($(seconds_up) - began))
  [ "$took" -ge 1 ] || fail "ended after $took s"
  [ "$took" -le 30 ] || fail "ended after $took s only"
  expect_equal 'summary records' 1 "$(count_records summary)"
  # Two seconds in nanoseconds have ten digits; 1.9 s would be too early.
  expect_match 'duration' '^([2-9]|[1-9][0-9])[0-9]{9}$' "$(records summary | field duration_ns)"
}

# In the foreground: a shell starts background processes with SIGINT ignored.
ends_on_signal() { # SIGNAL
  start_workload target --calls 10
  (
    wait_until 60 file_says err '^probing '
    let_it_call target "$started_pid"
    kill -s "$1" "$(cat attach.pid)"
  ) &
  (become_attach -j -d 120 "$FIXTURES/workload" work_six) >out 2>err
  expect_equal 'exit status' 0 "$?"
  expect_equal 'events' 10 "$(count_records event)"
  expect_equal 'summary records' 1 "$(count_records summary)"
  expect_equal 'detached cleanly' true "$(records summary | field detached_cleanly)"
  ! file_says err 'error' || fail 'there is an error'
}

leaves_nothing_when_killed() {
  start_workload target --calls 10
  code=$(code_of target "$started_pid")
  start_attach -j -d 120 "$FIXTURES/workload" work_six
  kill -KILL "$(cat attach.pid)"
  wait_until 30 file_says status .
  wait_until 20 code_is target "$started_pid" "$code" || fail 'a breakpoint is left in the target'
  let_it_call target "$started_pid"
}

# A small file system of the scenario's own.
with_disk() { # FUNCTION
  mkdir disk
  mount -t tmpfs -o size=128k tmpfs disk || skip 'tmpfs cannot be mounted'
  ("$1")
  verdict=$?
  umount -l disk
  return "$verdict"
}

outlives_full_disk() { with_disk outlives_full_disk_there; }
outlives_full_disk_there() {
  start_workload first --calls 1000
  first_pid=$started_pid
  start_workload second --calls 10
  start_attach -j -d 120 -o disk/out "$FIXTURES/workload" work_six
  let_it_call first "$first_pid"
  wait_until 60 file_says err 'warning: cannot write the output: no space left on device: events wait' ||
    fail "not reported: $(cat err)"
  [ ! -s status ] || fail 'the run has ended'
  mount -o remount,size=16m disk
  let_it_call second "$started_pid"
  wait_until 60 file_says err 'the output is written again' || fail "not reported: $(cat err)"
  stop_attach
  cp disk/out out
  expect_equal 'events and lost' 1010 "$(($(count_records event) + $(records summary | field lost)))"
  expect_equal 'lines that are no records' '' "$(grep -v '^{.*}$' out)"
  expect_equal 'events of the second' 10 "$(count_records event "pid=$started_pid")"
  rm disk/out
  # To the end there is no room: no record is left in part, and it is a failure.
  mount -o remount,size=128k disk
  "$UPROBECTL" attach -j -o disk/out "$FIXTURES/workload" work_six -- "$FIXTURES/workload" --calls 1000 >out 2>err
  expect_equal 'exit status' 1 "$?"
  expect_match 'error' 'error: cannot write the output: no space left on device' "$(cat err)"
  expect_equal 'lines that are no records' '' "$(grep -v '^{.*}$' disk/out)"
  lost=$(sed -n 's/.* events in [^,]*, \([0-9]*\) lost.*/\1/p' err)
  expect_equal 'written and lost' 1000 "$(($(grep -c '"type":"event"' disk/out) + lost))"
}

# 4 MiB wait: more than that is missing.
saves_around_gap() { with_disk saves_around_gap_there; }
saves_around_gap_there() {
  start_workload first --calls 120000
  first_pid=$started_pid
  start_workload second --calls 10
  start_attach -j -d 120 --save disk/run "$FIXTURES/workload" work_six
  let_it_call first "$first_pid" 120
  wait_until 60 file_says err 'the run cannot be saved for now: cannot write the output: no space left on device' ||
    fail "not reported: $(cat err)"
  let_it_call second "$started_pid"
  wait_until 60 has_event_of "$started_pid"
  mount -o remount,size=64m disk
  wait_until 60 file_says err 'the run is saved again' || fail "not reported: $(cat err)"
  stop_attach
  events=$(count_records event)
  rm out
  "$UPROBECTL" report -j disk/run >out 2>err || fail "report fails: $(cat err)"
  missing=$(records lost | grep 'there was no space to save the run' | field count | awk '{ n += $1 } END { print n + 0 }')
  expect_equal 'saved and missing' "$events" "$(($(count_records event) + missing))"
  [ "$missing" -gt 0 ] || fail 'there is no gap'
}

has_event_of() { grep -q "\"type\":\"event\".*\"pid\":$1," out; }

reopens_output() {
  echo before >events
  start_workload first --calls 7
  first_pid=$started_pid
  start_workload second --calls 5
  start_attach -j -d 120 --append -o events "$FIXTURES/workload" work_six
  let_it_call first "$first_pid"
  wait_until 60 has_row_count 9 events # with the line from before, and that of the start
  mv events events.1
  kill -USR1 "$(cat attach.pid)"
  wait_until 60 test -e events || fail 'there is no new file'
  let_it_call second "$started_pid"
  stop_attach
  expect_equal 'what was there' before "$(head -n 1 events.1)"
  expect_equal 'events in the first' 7 "$(grep -c '"type":"event"' events.1)"
  mv events out
  expect_equal 'events in the second' 5 "$(count_records event)"
  expect_equal 'summary' 12 "$(records summary | field events)"
}

has_row_count() { [ "$(wc -l <"$2")" -ge "$1" ]; }

follows_truncation() {
  start_workload first --calls 7
  first_pid=$started_pid
  start_workload second --calls 5
  start_attach -j -d 120 -o events "$FIXTURES/workload" work_six
  let_it_call first "$first_pid"
  wait_until 60 has_row_count 8 events
  : >events
  let_it_call second "$started_pid"
  stop_attach
  mv events out
  expect_equal 'lines that are no records' '' "$(grep -av '^{.*}$' out)"
  expect_equal 'events' 5 "$(count_records event)"
}

# Sets the clock of the machine: for guests.
clock_scenario() {
  scenario 'TIME follows a clock that is set, and so does that of a saved run' follows_clock
}

set_clock() { # SECONDS
  date -s "@$(($(date +%s) + $1))" >set 2>&1 || fail "the clock cannot be set: $(cat set)"
}

follows_clock() {
  start_workload first --calls 2
  first_pid=$started_pid
  start_workload second --calls 2
  start_attach -d 120 --save run "$FIXTURES/workload" work_six
  let_it_call first "$first_pid"
  wait_until 60 has_row_count 2 out
  set_clock 7200
  wait_until 60 file_says err 'warning: the clock was set forward by 2h 0m: .* became ' || fail "not reported: $(cat err)"
  let_it_call second "$started_pid"
  stop_attach
  set_clock -7200
  expect_match 'where it was set' '<clock>	the clock was set forward by 2h 0m: ' "$(sed -n 3p out)"
  hours=$(sed -n '1p;$p' out | cut -c 1-2 | tr '\n' ' ' | awk '{ print ($2 - $1 + 24) % 24 }')
  [ "$hours" -eq 2 ] || [ "$hours" -eq 3 ] || fail "TIME went on by $hours hours: $(cat out)"
  "$UPROBECTL" report run >again 2>err || fail "report fails: $(cat err)"
  expect_same_lines 'the saved run' out again
}

marks_losses() {
  start_workload first --calls 3000
  first_pid=$started_pid
  start_workload second --calls 1
  start_attach -d 120 --all-processes --object "$FIXTURES/messages.bpf.o" --program-name tell_entry \
    --map messages "$FIXTURES/workload" work_six
  attach=$(cat attach.pid)
  kill -STOP "$attach"
  let_it_call first "$first_pid"
  kill -CONT "$attach"
  wait_until 60 file_says err 'warning: [0-9]* events* lost so far: ring buffer full' || fail "not reported: $(cat err)"
  let_it_call second "$started_pid"
  stop_attach
  expect_equal 'lines of losses' 1 "$(grep -c '<lost>' out)"
  lost=$(sed -n 's/.*	-	-	-	<lost>	\([0-9]*\) events: ring buffer full$/\1/p' out)
  expect_equal 'shown and lost' 3001 "$(($(grep -c 'messages' out) + lost))"
  expect_match 'the line before the last event' '<lost>' "$(tail -n 2 out | head -n 1)"
}

# More than what waits for a reader, less than what the kernel's buffer holds.
events_of_slow_reader=30000

feeds_slow_reader() {
  # The command's own output follows the events, as it ends before them.
  "$UPROBECTL" attach -j "$FIXTURES/workload" work_six -- "$FIXTURES/workload" --calls "$events_of_slow_reader" 2>err |
    { sleep 2 && cat >out; }
  expect_equal 'hits' "$events_of_slow_reader" "$(records probe | field hits)"
  lost=$(records summary | field lost)
  expect_equal 'received and lost' "$events_of_slow_reader" $(($(count_records event) + lost))
  # An emulated machine may hit faster than a buffer is emptied, but then that is the reason.
  [ "$lost" -eq 0 ] || expect_equal 'reasons' 'ring buffer full' "$(records lost | field reason | sort -u)"
}

tells_unread() {
  mkfifo unread
  (
    exec 3<unread
    wait_until 200 file_says err 'lost:'
    cat <&3 >out
  ) &
  "$UPROBECTL" attach -j -o unread "$FIXTURES/workload" work_six -- "$FIXTURES/workload" --calls "$events_of_slow_reader" \
    >printed 2>err || fail 'attach ends with an error'
  wait
  expect_match 'warning' 'events lost: output is blocked: nothing reads it' "$(cat err)"
  lost=$(sed -n 's/.* events in [^,]*, \([0-9]*\) lost.*/\1/p' err)
  expect_equal 'received and lost' "$events_of_slow_reader" $(($(grep -c '"type":"event".*}$' out) + lost))
}

# All are sent before anything is read: the array holds less, the pipe nothing until the run has ended.
accounts_for_array() { # ENDING
  needs_kernel 6.0 # PERF_FORMAT_LOST
  sent=30000
  duration=120
  ending=$1
  set --
  case $ending in
    duration) duration=4s ;;
    max-events) set -- -n 5 ;;
    command)
      "$UPROBECTL" attach -j --object "$FIXTURES/stacks.bpf.o" --program-name plain "$FIXTURES/workload" work_six \
        -- "$FIXTURES/workload" --calls "$sent" 2>err | { sleep 2 && cat >out; }
      expect_equal 'received and lost' "$sent" $(($(count_records event) + $(records summary | field lost)))
      return
      ;;
  esac
  start_workload target --calls "$sent"
  mkfifo pipe
  (
    exec 3<pipe
    wait_until 100 test -e sent
    [ "$ending" = closed ] || cat <&3 >out
    exec 3<&-
    touch read
  ) &
  (
    wait_until 60 file_says err '^probing '
    attach=$(cat attach.pid)
    kill -STOP "$attach"
    let_it_call target "$started_pid"
    touch sent
    [ "$ending" != closed ] || wait_until 20 test -e read
    case $ending in INT | TERM) kill -s "$ending" "$attach" ;; esac
    kill -CONT "$attach"
  ) &
  (become_attach -j -d "$duration" -p "$started_pid" -o pipe "$@" --object "$FIXTURES/stacks.bpf.o" \
    --program-name plain "$FIXTURES/workload" work_six) >printed 2>err || fail 'attach ends with an error'
  wait_until 60 test -e read || fail 'the reader does not come to the end'
  reported=$(sed -n 's/^\([0-9]*\) events\{0,1\} in [^,]*, \([0-9]*\) lost.*/\1 \2/p' err | awk '{ print $1 + $2 }')
  case $ending in
    closed) expect_equal 'written and lost' "$sent" "$reported" ;;
    max-events) # which the summary for people leaves out
      expect_equal 'events' 5 "$(count_records event)"
      expect_equal 'received and lost' "$sent" $((5 + $(records summary | field lost)))
      ;;
    *)
      expect_equal 'received and lost' "$sent" $(($(count_records event) + $(records summary | field lost)))
      expect_equal 'reported' "$sent" "$reported"
      ;;
  esac
}

ends_on_closed_pipe() {
  start_workload target --calls 200 --delay-us 10000
  (
    wait_until 60 file_says err '^probing '
    kill -USR1 "$started_pid"
  ) &
  began=$(seconds_up)
  {
    (become_attach -j -d 120 "$FIXTURES/workload" work_six) 2>err
    echo $? >status
  } | head -n 1 >out
  attach_ends_with 0
  took=$(($(seconds_up) - began))
  [ "$took" -lt 60 ] || fail "ended after $took s only"
  expect_equal 'lines read' 1 "$(wc -l <out | tr -d ' ')"
  ! file_says err 'error' || fail 'there is an error'
}

ends_with_target() {
  start_workload target --calls 10
  start_attach -j -d 120 -p "$started_pid" "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  began=$(seconds_up)
  kill -USR1 "$started_pid" # past --hold: it exits
  attach_ends_with 0
  took=$(($(seconds_up) - began))
  [ "$took" -lt 60 ] || fail "ended after $took s only"
  expect_equal 'events' 10 "$(count_records event)"
  expect_equal 'summary records' 1 "$(count_records summary)"
}

# TIME PID TID COMM FUNCTION ARGUMENTS
writes_text() {
  start_workload target --calls 10
  start_attach -d 120 -p "$started_pid" "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'lines' 10 "$(wc -l <out | tr -d ' ')"
  expect_equal 'pids' "$started_pid" "$(cut -f 2 out | sort -u)"
  expect_equal 'tids' "$started_pid" "$(cut -f 3 out | sort -u)"
  expect_equal 'comms' workload "$(cut -f 4 out | sort -u)"
  expect_equal 'functions' work_six "$(cut -f 5 out | sort -u)"
  expect_equal 'lines on stderr' yes "$([ "$(wc -l <err)" -ge 2 ] && echo yes)"
}

# The end of a run in which work's only probe did not fire; keeps its reason for a later scenario.
expect_silence() { # KIND PROCESSES-MAPPING FUNCTION
  attach_ends_with 0
  expect_equal 'events' 0 "$(count_records event)"
  expect_equal 'hits' 0 "$(records probe | field hits)"
  expect_equal 'processes mapping' "$2" "$(records probe | field processes_mapping)"
  expect_equal 'probes silent' 1 "$(records summary | field probes_silent)"
  reason=$(records probe | field reason)
  case $reason in '' | null) fail 'no reason given' ;; esac
  printf '%s\n' "$reason" >"$scratch/../reason-$1"
  file_says err "$3" || fail 'the probe is not named on stderr'
}

explains_unmapped() {
  start_attach -j -d 1 "$FIXTURES/greet.apk!/$library/libgreet.so" greet_scale
  expect_silence unmapped 0 greet_scale
}

explains_uncalled() {
  start_workload target
  start_attach -j -d 1 "$FIXTURES/workload" work_silent
  expect_silence uncalled 1 work_silent
}

# A process runs on with the file it was started from; the path leads to another one.
# The file is gone, but not for the process that runs it.
names_removed_file() {
  cp "$FIXTURES/workload" removed
  start_program target ./removed --calls 1 --hold
  rm removed
  "$UPROBECTL" attach -d 60 -p "$started_pid" ./removed work_six >out 2>err && fail 'a missing file is probed'
  expect_match 'hint' 'a process maps a file of this name: give it without its folder: removed$' "$(cat err)"
  start_attach -d 60 -p "$started_pid" removed work_six
  stop_attach
}

explains_replaced() {
  cp "$FIXTURES/workload" program
  start_program target ./program --wait --hold --calls 5
  cp "$FIXTURES/workload" program.new
  mv -f program.new program
  start_attach -j -d 3 "$PWD/program" work_six
  let_it_call target "$started_pid"
  expect_silence replaced 0 work_six
}

explains_copy() {
  mkdir asked mapped
  cp "$FIXTURES/workload" asked/program
  cp "$FIXTURES/workload" mapped/program
  start_program target mapped/program --wait --hold --calls 5
  start_attach -j -d 1 -p "$started_pid" "$PWD/asked/program" work_six
  expect_silence copy 0 work_six
  expect_match 'reason' "process $started_pid \(program\) maps another copy of it: .*/mapped/program$" "$reason"
}

explains_child() {
  # shellcheck disable=SC2016 # expanded by the inner shell
  start_program target sh -c '"$FIXTURES/workload" --wait --hold & wait'
  start_attach -j -d 1 -p "$started_pid" "$FIXTURES/workload" work_six
  expect_silence child 0 work_six
  expect_match 'reason' '\(workload\), a descendant.* --follow' "$reason"
  for child in $(cat "/proc/$started_pid/task/$started_pid/children"); do echo "$child" >>"$scratch/pids"; done
}

explains_differently() {
  expect_equal 'different reasons' 5 "$(cat "$scratch"/../reason-* | sort -u | wc -l | tr -d ' ')"
}

# Not of this run, as bpf-census tells: one that holds probes of each mechanism, one that comes and goes.
start_others() {
  start_workload others --calls 1
  workload_pid=$started_pid
  for mechanism in $(mechanisms perf perf-ioctl tracefs auto); do
    start_stranger "$UPROBECTL" attach -d 120 -p "$started_pid" --mechanism "$mechanism" "$FIXTURES/workload" work_six
    wait_until 60 file_says "stranger.$stranger" '^probing ' || fail "$mechanism: $(cat "stranger.$stranger")"
  done
  # shellcheck disable=SC2016 # expanded by the inner shell
  start_stranger sh -c 'while :; do "$@"; done' sh "$UPROBECTL" attach -q -d 20ms -p "$started_pid" \
    "$FIXTURES/workload" work_count
}
stranger=0
strangers=
start_stranger() {
  stranger=$((stranger + 1))
  (exec env -u UPROBECTL_SUITE "$@") >"stranger.$stranger" 2>&1 &
  strangers="$strangers $!"
  echo $! >>"$scratch/pids"
}
# Those that are killed would leave events in tracefs.
end_others() {
  # shellcheck disable=SC2086 # several
  kill -TERM $strangers "$workload_pid"
  wait
}

ignores_others() {
  "$FIXTURES/bpf-census" >earlier || fail "$(cat earlier)"
  start_others
  "$FIXTURES/bpf-census" >now
  for kind in program map link event; do
    [ "$(grep -c "^$kind " now)" -gt "$(grep -c "^$kind " earlier)" ] || fail "no new $kind of others"
  done
  wait_until 20 nothing_is_left earlier left || fail "$(cat left)"
  end_others
}

sees_what_is_left() {
  start_others
  for mechanism in $(mechanisms perf tracefs auto); do
    "$FIXTURES/bpf-census" >earlier
    start_attach -d 120 -p "$started_pid" --mechanism "$mechanism" "$FIXTURES/workload" work_silent
    ! wait_until 2 nothing_is_left earlier "left.$mechanism" || fail "$mechanism: a run that goes on is not seen"
    for kind in program map process; do
      grep -q "^$kind " "left.$mechanism" || fail "$mechanism: no $kind: $(cat "left.$mechanism")"
    done
    cp "left.$mechanism" "seen.$mechanism"
    stop_attach
    wait_until 20 nothing_is_left earlier "left.$mechanism" || fail "$mechanism: $(cat "left.$mechanism")"
  done
  expect_match 'link' '^link ' "$(cat seen.auto seen.perf)"
  expect_match 'event' '^event uprobectl_' "$(cat seen.tracefs)"
  with_pins sees_pins
  end_others
}
sees_pins() {
  "$FIXTURES/bpf-census" >earlier
  "$UPROBECTL" load "$FIXTURES/calls.bpf.o" --pin pins/a >out 2>err || fail "load: $(cat err)"
  ! wait_until 2 nothing_is_left earlier left || fail 'pins are not seen'
  expect_match 'pins' '^program ' "$(cat left)"
  "$UPROBECTL" load --unpin pins/a >out 2>err || fail "unpin: $(cat err)"
  wait_until 20 nothing_is_left earlier left || fail "$(cat left)"
}

explains_ended_command() {
  for functions in work_silent 'work_six work_silent'; do
    # shellcheck disable=SC2086 # words
    "$UPROBECTL" attach -j -o out "$FIXTURES/workload" $functions -- "$FIXTURES/workload" --calls 3 \
      >said 2>err || fail "exit status $?"
    expect_match 'reason' 'but not called' \
      "$(records probe symbol=work_silent | field reason)"
    expect_equal 'processes mapping' 1 "$(records probe symbol=work_silent | field processes_mapping)"
  done
  "$UPROBECTL" attach -j -o out "$FIXTURES/workload" work_silent -- true 2>err || fail "exit status $?"
  expect_match 'reason of another program' '^process [0-9]+ has ended' \
    "$(records probe | field reason)"
}

explains_ended_child() {
  # shellcheck disable=SC2016 # expanded by the inner shell
  "$UPROBECTL" attach -j -o out "$FIXTURES/workload" work_six -- \
    sh -c '"$FIXTURES/workload" --calls 3; true' >said 2>err || fail "exit status $?"
  expect_match 'reason' 'a descendant.* --follow' \
    "$(records probe | field reason)"
}

tells_early_end() {
  start_workload target --calls 3
  first=$started_pid
  start_workload other --calls 3
  start_attach -d 120 -p "$first" -p "$started_pid" "$FIXTURES/workload" work_six
  let_it_call target "$first"
  kill -USR1 "$first" # past --hold
  wait_until 30 file_says err "^process $first (workload) has ended after " || fail "not reported: $(cat err)"
  ! file_says err 'run ends early' || fail 'the other one is left'
  let_it_call other "$started_pid"
  kill -USR1 "$started_pid"
  attach_ends_with 0
  expect_match 'end' "process $started_pid \(workload\) has ended after" "$(cat err)"
  expect_match 'early' '^no probed process is left: the run ends early$' "$(cat err)"
  "$UPROBECTL" attach "$FIXTURES/workload" work_six -- "$FIXTURES/workload" --calls 3 >out 2>err
  ! file_says err 'has ended' || fail "the end of a command is expected: $(cat err)"
}
