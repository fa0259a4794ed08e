# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch, started_pid, library: set by the harness and the suite
# Users' programs instead of the built-in one: compiled objects, and pinned programs.

# What a kernel can change.
kernel_program_scenarios() {
  scenario 'pinned: only hits of this run are counted' counts_hits_of_the_run
  scenario 'object: records of a ring buffer and a perf buffer, read by their types' reads_records
  scenario 'object: the cookie reaches the program by multi' passes_cookie multi
  scenario 'object: sections say where, in archives too' attaches_by_sections
  scenario 'object: a tracepoint needs no uprobe' attaches_tracepoint
  scenario 'object: session programs need session links' runs_sessions
  scenario 'pinned: a multi program never reaches a perf event' refuses_deadly_mechanism
  scenario 'pinned: a plain program is not attached by multi' refuses_wrong_kind
  scenario 'object: each program goes where its section says, and its hits there are counted' runs_each_program
  scenario 'object: variables, their parts and maps are set up before the first hit' sets_up_object
  scenario 'object: programs that libbpf skips do not keep others from being attached' skips_programs
  scenario 'pinned: global variables are shown by name; a program of an unknown type is named' shows_globals_of_pin
  scenario 'object: programs of a tail-call map are loaded with the one that is named' loads_tail_calls
}

program_scenarios() {
  scenario 'object: a return program is attached to returns without --return' counts_returns_by_section
  scenario 'object: --record names the type, --map the buffer' names_type_and_map
  scenario 'object: the cookie reaches the program' passes_cookie "$perf"
  scenario 'object: records lost by a full ring buffer are counted' counts_lost
  scenario 'object: records lost of a ring buffer are counted by NAME_lost_samples' counts_lost_samples
  scenario 'object: what nothing counts as lost is not known' admits_unknown_losses
  scenario 'a pinned program is attached to entries or returns by its section' keeps_direction_of_pin
  scenario 'object: records lost by a full perf event array are counted, including the last ones' counts_lost_of_array plain
  scenario 'object: lost records with stacks are counted' counts_lost_of_array with_stack
  scenario 'object: -v explains silence while the run goes on' explains_silence_of_object
  scenario 'object: bpf_printk is shown on stderr' with_tracing_on shows_printk
  scenario 'object: --printk and doctor say that tracing is switched off, and how to switch it on' names_silence
  scenario 'pinned: a pin of a map is rejected as a program' refuses_pinned_map
  scenario 'object: programs whose sections name nothing need a FUNCTION' needs_function
  scenario 'object: the pair of entry and return runs at exits on request' runs_pair_at_exits
  scenario 'object: --program-name locates programs, of kprobes too' attaches_by_name
  scenario 'object: /proc/self/exe is the command' attaches_to_command
  scenario 'object: in a container the pid that a program sees is not known' refuses_pid_in_container
  scenario 'object: a map of two objects is one map by --share-maps' shares_maps
  scenario 'object: a thousand programs, and a map that is too large' runs_many_programs
  scenario 'object: public objects run whole' runs_public_objects
  scenario 'object: several programs are attached to a function by --program-name' attaches_several_programs
  scenario 'object: global variables are shown by name' shows_globals
  scenario 'object: records that are longer or shorter than their type are decoded as far as they go' reads_other_sizes
  scenario 'pinned: maps have their whole names' names_maps_of_pin
  scenario 'object: --printk prints with -q, too' with_tracing_on prints_quietly
}

# The `value` of the map's only entry.
value_of() { # MAP
  records map_entry "map=$1" | sed -n 's/.*"value": *\([0-9]*\).*/\1/p'
}

counts_returns_by_section() {
  start_workload target --calls 20
  start_attach -j -d 120 -p "$started_pid" --object "$FIXTURES/calls.bpf.o" --program-name count_return \
    --set step=3 --map calls "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'counted by the program' 60 "$(value_of calls)"
  expect_equal 'hits' 20 "$(records probe | field hits)"
}

counts_hits_of_the_run() { with_pins counts_hits_of_the_run_there; }
counts_hits_of_the_run_there() {
  load "$FIXTURES/calls.bpf.o" --pin pins/c || fail "load: $(cat err)"
  for run in 1 2; do
    start_workload target --calls 5
    start_attach -j -d 120 -p "$started_pid" --program pins/c/count_plain --map pins/c/calls \
      "$FIXTURES/workload" work_six
    let_it_call target "$started_pid"
    stop_attach
    expect_equal 'counted by the program so far' "$((5 * run))" "$(value_of calls)"
    expect_equal 'hits of this run' 5 "$(records probe | field hits)"
  done
  load --unpin pins/c || fail "unpin: $(cat err)"
}

attach_messages() { # PID ARGUMENT…
  attach_messages_pid=$1
  shift
  start_attach -j -d 120 -p "$attach_messages_pid" --object "$FIXTURES/messages.bpf.o" \
    --program-name tell_entry "$@" "$FIXTURES/workload" work_six
}

# The object needs the cookie of the probe.
reads_records() {
  start_workload target --calls 3
  if ! kernel_has_perf_links; then
    attach_fails_with 1 -d 1 -p "$started_pid" --object "$FIXTURES/messages.bpf.o" --program-name tell_entry \
      "$FIXTURES/workload" work_six
    expect_match 'hint' 'this kernel does not have the helper bpf_get_attach_cookie' "$(cat err)"
    expect_match 'hint' 'the verifier said: .*invalid func unknown#174' "$(tr '\n' ' ' <err)"
    return
  fi
  attach_messages "$started_pid"
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'records' 6 "$(count_records event kind=record)"
  for i in 1 2 3; do
    echo "\"record\":{\"cookie\":0,\"pid\":$started_pid,\"what\":\"CALLED\",\"first\":-$i,\"comm\":\"workload\",\"detail\":{\"bytes\":\"ab000000\",\"small\":5,\"rest\":4097}},\"raw\":null"
  done >expected
  records event map=messages | sed 's/.*"record":/"record":/;s/}$//' >actual
  expect_same_lines 'messages' expected actual
  expect_equal 'their type' message "$(records event map=messages | field record_type | sort -u)"
  for i in 1 2 3; do echo "\"record\":{\"first\":$i},\"raw\":null"; done >expected
  records event map=samples | sed 's/.*"record":/"record":/;s/}$//' >actual
  expect_same_lines 'samples' expected actual
}

names_type_and_map() {
  start_workload target --calls 2
  attach_messages "$started_pid" --map samples --map sums --record sample
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'records' 2 "$(count_records event)"
  expect_equal 'of that map' 2 "$(count_records event map=samples)"
  expect_match 'the table at the end' '"map":"sums","key":"CALLED","value":\{"first":3\}' "$(records map_entry)"
  "$UPROBECTL" attach -d 1 --object "$FIXTURES/messages.bpf.o" --program-name tell_entry --record massage \
    "$FIXTURES/workload" work_six >out 2>err && fail 'an unknown type is taken'
  expect_match 'hint' "did you mean 'message'" "$(cat err)"
}

passes_cookie() { # MECHANISM
  needs "$1"
  start_workload target --calls 1
  attach_messages "$started_pid" --mechanism "$1" --cookie 0x1122334455
  let_it_call target "$started_pid"
  stop_attach
  expect_match 'record' '"cookie":73588229205,' "$(records event map=messages)"
}

# The ring buffer is only read when the program is stopped: 64 KiB hold no 3000 records of 56 bytes.
counts_lost() {
  start_workload target --calls 3000
  attach_messages "$started_pid" --map messages
  attach=$(cat attach.pid)
  kill -STOP "$attach"
  let_it_call target "$started_pid"
  kill -CONT "$attach"
  stop_attach
  received=$(count_records event map=messages)
  lost=$(records lost | field count | awk '{ sum += $1 } END { print sum + 0 }')
  [ "$lost" -gt 0 ] || fail "nothing was lost of 3000, $received were received"
  expect_equal 'received and lost' 3000 "$((received + lost))"
  expect_equal 'lost in the summary' "$lost" "$(records summary | field lost)"
}

# 64 KiB hold no 3000 records of 40 bytes.
# While the workload "target" calls, nothing is read.
call_unread() {
  attach=$(cat attach.pid)
  kill -STOP "$attach"
  let_it_call target "$started_pid"
  kill -CONT "$attach"
  stop_attach
}

fill_ring() { # PROGRAM [OPTION…]
  program=$1
  shift
  start_workload target --calls 3000
  start_attach "$@" -d 120 -p "$started_pid" --object "$FIXTURES/rings.bpf.o" --program-name "$program" \
    "$FIXTURES/workload" work_six
  call_unread
}

counts_lost_samples() {
  fill_ring tell_counted -j --map counted
  lost=$(records summary | field lost)
  [ "$lost" -gt 0 ] || fail 'nothing was lost of 3000'
  expect_equal 'received and lost' 3000 "$(($(count_records event) + lost))"
  expect_match 'warning during the run' "^uprobectl: warning: $lost events* lost so far: ring buffer full$" "$(cat err)"
}

admits_unknown_losses() {
  fill_ring tell_uncounted -j
  [ "$(count_records event)" -lt 3000 ] || fail 'nothing was lost of 3000'
  expect_equal 'lost' null "$(records summary | field lost)"
  expect_match 'summary' "events in .*, lost: not known \\(the program has no map 'lost' or 'uncounted_lost_samples'\\), 1 of 1" \
    "$(cat err)"
}

keeps_direction_of_pin() { with_pins keeps_direction_of_pin_there; }
keeps_direction_of_pin_there() {
  load "$FIXTURES/calls.bpf.o" --pin pins/c || fail "load: $(cat err)"
  for program in count_plain:entry count_return:return; do
    start_workload target --calls 1
    start_attach -d 120 -p "$started_pid" --program "pins/c/${program%:*}" "$FIXTURES/workload" work_six
    expect_equal "where ${program%:*} is" "${program#*:}" \
      "$("$UPROBECTL" list-probes -v | grep -F "$FIXTURES/workload	" | cut -f 4)"
    ! grep -q 'is not known' err || fail "it is not known: $(cat err)"
    let_it_call target "$started_pid"
    stop_attach
  done
  # Without the list that load makes.
  rm pins/c/uprobectl_pins
  start_workload target --calls 1
  start_attach -d 120 -p "$started_pid" --program pins/c/count_return "$FIXTURES/workload" work_six
  expect_match 'warning' 'count_return: whether the program is for entries or returns is not known' "$(cat err)"
  let_it_call target "$started_pid"
  stop_attach
}

# The kernel tells of what was lost only when there is room again: here there is none until all were sent.
counts_lost_of_array() { # PROGRAM
  needs_kernel 6.0 # PERF_FORMAT_LOST
  start_workload target --calls 30000
  start_attach -j -d 120 -p "$started_pid" --object "$FIXTURES/stacks.bpf.o" --program-name "$1" \
    "$FIXTURES/workload" work_six
  call_unread
  lost=$(records summary | field lost)
  [ "$lost" -gt 0 ] || fail "nothing was lost of 30000, $(count_records event) were received"
  expect_equal 'received and lost' 30000 "$(($(count_records event) + lost))"
  expect_equal 'hits' 30000 "$(records probe | field hits)"
}

explains_silence_of_object() {
  start_workload target --calls 1
  start_attach -v -d 120 -p "$started_pid" --object "$FIXTURES/stacks.bpf.o" --program-name plain \
    "$FIXTURES/workload" work_six
  wait_until 30 file_says err 'work_six: not hit so far: ' || fail "nothing is explained: $(cat err)"
  stop_attach
  expect_match 'summary' '0 of 1 probes hit' "$(cat err)"
}

attaches_by_sections() {
  [ "$FIXTURES" = /fixtures ] || skip 'the sections name /fixtures, which this machine has elsewhere'
  needs_kernel 5.15
  start_workload target --calls 4
  workload=$started_pid
  start_program greeter "$FIXTURES/apk-host" "$FIXTURES/greet.apk!/$library/libgreet.so" greet_add 6 --wait --hold
  start_attach -j -d 120 --object "$FIXTURES/messages.bpf.o" --map messages
  let_it_call target "$workload"
  let_it_call greeter "$started_pid"
  stop_attach
  expect_equal 'of work_six, both ways' 8 "$(records event | grep -c "\"pid\":$workload,")"
  expect_equal 'of the archive' 6 "$(records event | grep -c "\"pid\":$started_pid,")"
  for program in tell_entry tell_return; do
    expect_equal "hits of $program" 4 "$(hits_of $program work_six)"
  done
}

attaches_tracepoint() {
  start_attach -j -d 120 --object "$FIXTURES/opens.bpf.o"
  expect_match 'start line' '^probing 0 functions in all processes and running 1 program for all processes' "$(cat err)"
  sh -c 'echo $$ >shell.pid; cat shell.pid >/dev/null'
  stop_attach
  grep -q "\"record\":{\"pid\":$(cat shell.pid)}" out || fail "no open of $(cat shell.pid): $(head -n 5 out)"
  expect_equal 'mechanism' null "$(records attached | field mechanism)"
}

# A kernel oops clears it. The machine gets back what it had.
with_tracing_on() { # FUNCTION
  tracing_on=/sys/kernel/tracing/tracing_on
  if [ "$(cat $tracing_on)" = 0 ]; then
    trap 'echo 0 >$tracing_on' EXIT
    echo 1 >$tracing_on
  fi
  "$1"
}

# For this process and its children other files lie over those of tracefs.
names_silence() {
  unshare -m true 2>/dev/null || skip 'no unshare'
  echo 0 >zero
  for file in tracing_on events/bpf_trace/bpf_trace_printk/enable; do
    path=/sys/kernel/tracing/$file
    [ -e "$path" ] || continue # before Linux 5.9 there is no such event
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare -m sh -c 'mount --bind zero "$1" && shift && exec "$@"' sh "$path" \
      "$UPROBECTL" attach -q -d 60 --printk --object "$FIXTURES/opens.bpf.o" -- true >out 2>err
    expect_equal "$file: exit status" 0 "$?"
    expect_equal "$file" \
      "uprobectl: warning: --printk: bpf_printk prints nothing: $path is 0" \
      "$(grep printk err | sed 's/, as after a kernel oops//; s/ (echo 1 >.*)$//')"
    expect_match "$file: what to do" "\(echo 1 >$path\)$" "$(cat err)"
  done
  # shellcheck disable=SC2016
  unshare -m sh -c 'mount --bind zero /sys/kernel/tracing/tracing_on && exec "$@"' sh "$UPROBECTL" doctor >out
  expect_match 'doctor' '^tracing_on	no	0, as after.*	echo 1 >/sys/kernel/tracing/tracing_on$' "$(grep ^tracing_on out)"
}

shows_printk() {
  start_workload target --calls 2
  attach_messages "$started_pid" --set says=1 --printk
  let_it_call target "$started_pid"
  stop_attach
  grep -q 'bpf_trace_printk: what 1 first 1$' err || fail "said: $(cat err)"
  grep -q 'bpf_trace_printk: what 1 first 2$' err || fail "said: $(cat err)"
}

runs_sessions() {
  start_workload target --calls 5
  if "$UPROBECTL" doctor | grep -q '^uprobe_session	yes'; then
    start_attach -j -d 120 -p "$started_pid" --object "$FIXTURES/session.bpf.o" --map calls \
      "$FIXTURES/workload" work_six
    let_it_call target "$started_pid"
    stop_attach
    expect_equal 'mechanism' session "$(records attached | field mechanism)"
    expect_equal 'both ways' 10 "$(value_of calls)"
    return
  fi
  attach_fails_with 1 -j -p "$started_pid" --object "$FIXTURES/session.bpf.o" "$FIXTURES/workload" work_six
  expect_match 'message' 'this kernel has no uprobe session links' "$(cat err)"
}

# Through a perf event it would take the kernel down; whether that lives tells the next scenario.
refuses_deadly_mechanism() { with_pins refuses_deadly_mechanism_there; }
refuses_deadly_mechanism_there() {
  needs multi
  load "$FIXTURES/messages.bpf.o" --pin pins/m || fail "load: $(cat err)"
  for mechanism in $(mechanisms perf perf-ioctl tracefs); do
    attach_fails_with 1 -d 1 --mechanism "$mechanism" --program pins/m/tell_archive "$FIXTURES/workload" work_six
    expect_match 'message' 'loaded for uprobe_multi' "$(cat err)"
  done
  load --unpin pins/m
  start_workload target --calls 2
  start_attach -j -d 120 -p "$started_pid" --mechanism "$perf" "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'events afterwards' 2 "$(count_records event)"
}

refuses_wrong_kind() { with_pins refuses_wrong_kind_there; }
refuses_wrong_kind_there() {
  needs multi
  load "$FIXTURES/calls.bpf.o" --pin pins/c || fail "load: $(cat err)"
  attach_fails_with 1 -d 1 --mechanism multi --program pins/c/count_plain "$FIXTURES/workload" work_six
  expect_match 'message' 'loaded for perf events' "$(cat err)"
  load --unpin pins/c
}

refuses_pinned_map() { with_pins refuses_pinned_map_there; }
refuses_pinned_map_there() {
  load "$FIXTURES/calls.bpf.o" --pin pins/c || fail "load: $(cat err)"
  attach_fails_with 1 -d 1 --program pins/c/calls "$FIXTURES/workload" work_six
  expect_match 'message' 'this pin is not a program' "$(cat err)"
  attach_fails_with 1 -d 1 --program pins/c/nothing "$FIXTURES/workload" work_six
  expect_match 'message' 'pins/c/nothing: no such file' "$(cat err)"
  attach_fails_with 1 -d 1 --program pins/c/count_plain --map pins/c "$FIXTURES/workload" work_six
  expect_match 'message' 'pins/c: a folder .expected a pin' "$(cat err)"
  expect_match 'hint' 'use one of: pins/c/calls, pins/c/calls_rodata$' "$(cat err)"
  attach_fails_with 1 -d 1 --program pins/c/count_plain --map callers "$FIXTURES/workload" work_six
  expect_match 'message' "the program has no map 'callers'" "$(cat err)"
  load --unpin pins/c
}

needs_function() {
  attach_fails_with 1 -d 1 --object "$FIXTURES/calls.bpf.o" --program-name count "$FIXTURES/workload" work_six
  expect_match 'message' "no program 'count'" "$(cat err)"
  attach_fails_with 1 -d 1 --object "$FIXTURES/calls.bpf.o"
  expect_match 'warning' "'count_plain' .*does not name a probe" "$(cat err)"
  expect_match 'message' 'some: no file, program or library of this name' "$(cat err)"
}

# The count of a program of whole.bpf.o.
count_of() { # PROGRAM [MAP]
  case $1 in
    ON_ENTRY) key=0 ;; ON_RETURN) key=1 ;; BY_FUNCTION) key=2 ;;
    BY_PROCESS) key=3 ;; BY_REGISTERS) key=4 ;; SET_UP) key=5 ;;
  esac
  records map_entry "map=${2:-counts}" | sed -n "s/.*\"key\": *$key,\"value\": *\([0-9]*\).*/\1/p"
}

hits_of() { # PROGRAM FUNCTION
  records probe "program=$1" | grep "\"symbol\": *\"$2\"" | field hits
}

# Lets the program call each function seven times, and ends the run of whole.bpf.o, as an object or as its pins.
expect_seven_calls() {
  let_it_call target "$started_pid"
  stop_attach
  for expected in ON_ENTRY:14 ON_RETURN:14 BY_FUNCTION:7 BY_PROCESS:7; do
    expect_equal "counted by ${expected%:*}" "${expected#*:}" "$(count_of "${expected%:*}")"
  done
  for each in on_entry:work_six on_entry:work_count on_return:work_six on_return:work_count \
    by_function:work_six by_process:work_six; do
    expect_equal "hits of $each" 7 "$(hits_of "${each%:*}" "${each#*:}")"
  done
}

runs_each_program() {
  start_workload target --calls 7
  start_attach -j -d 120 -p "$started_pid" --object "$FIXTURES/whole.bpf.o" --map counts \
    "$FIXTURES/workload" work_six work_count
  expect_match 'caution' 'replace return addresses' "$(cat err)"
  for skipped in by_registers set_up; do
    expect_match "$skipped" "program '$skipped' .*is skipped: its section begins with" "$(cat err)"
  done
  expect_seven_calls
  expect_equal 'records of programs' 6 "$(count_records probe)"
}

runs_pair_at_exits() {
  start_workload target --calls 5
  start_attach -j -d 120 -p "$started_pid" --object "$FIXTURES/whole.bpf.o" --program-name on_entry \
    --program-name on_return --return-at ret --map counts "$FIXTURES/workload" work_six
  ! grep -q 'replace return addresses' err || fail "uretprobes are used: $(cat err)"
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'entries' 5 "$(count_of ON_ENTRY)"
  expect_equal 'returns' 5 "$(count_of ON_RETURN)"
}

attaches_by_name() {
  start_workload target --calls 3
  start_attach -j -d 120 -p "$started_pid" --object "$FIXTURES/whole.bpf.o" --program-name on_entry=work_count \
    --program-name on_entry=work_silent --program-name "by_registers=$FIXTURES/workload:work_six" --map counts \
    "$FIXTURES/workload"
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'entries' 3 "$(count_of ON_ENTRY)"
  expect_equal 'of the kprobe' 3 "$(count_of BY_REGISTERS)"
  expect_equal 'hits of work_count' 3 "$(hits_of on_entry work_count)"
  expect_equal 'hits of work_silent' 0 "$(hits_of on_entry work_silent)"
  attach_fails_with 1 -d 1 --object "$FIXTURES/whole.bpf.o" --program-name on_entry=work_six
  expect_match 'hint' 'use --program-name on_entry=TARGET:FUNCTION' "$(cat err)"
}

attaches_to_command() {
  "$UPROBECTL" attach -j -d 120 --object "$FIXTURES/whole.bpf.o" --program-name by_process --map counts \
    -- "$FIXTURES/workload" --calls 6 >out 2>err || fail "attach: $(cat err)"
  expect_equal 'counted' 6 "$(count_of BY_PROCESS)"
  attach_fails_with 1 -d 1 --object "$FIXTURES/whole.bpf.o" --program-name by_process
  expect_match 'message' '/proc/self/exe: a section of the program means the probed program' "$(cat err)"
}

# Each call adds 1000000 for the pid, 3 * 10000, 7 * 100 and 21.
sets_up_object() {
  start_workload target --calls 2
  printf '# people\n{id=4,name=eve}=1000\n\n{id=5,name=ann}=21\n' >people
  for fill in '{id=5,name=ann}=21' @people; do
    "$UPROBECTL" attach -j -d 120 --object "$FIXTURES/whole.bpf.o" --program-name set_up --map counts \
      --set pid=%pid --set 'settings.ids[1]=7' --set 'settings.person={5,ann}' --set address=0x30000000000000000 \
      --fill weights "$fill" "$FIXTURES/workload" work_six -- "$FIXTURES/workload" --calls 2 >out 2>err ||
      fail "attach: $(cat err)"
    expect_equal "with $fill" 2061442 "$(count_of SET_UP)"
  done
  attach_fails_with 1 -d 1 --object "$FIXTURES/whole.bpf.o" --program-name set_up --set pid=%pid \
    "$FIXTURES/workload" work_six
  expect_match 'message' 'there is no process' "$(cat err)"
  attach_fails_with 1 -d 1 --object "$FIXTURES/whole.bpf.o" --program-name set_up --map-entries weights=1 \
    --fill weights @people "$FIXTURES/workload" work_six
  expect_match 'full' "people, line 4: .*entry '.id=5,name=ann.=21' cannot be made: the map is full, with 1 entries" \
    "$(cat err)"
  expect_match 'hint' 'hint: request a larger map: --map-entries weights=N' "$(cat err)"
  attach_fails_with 1 -d 1 --object "$FIXTURES/whole.bpf.o" --program-name set_up --fill counts 6=1 \
    "$FIXTURES/workload" work_six
  expect_match 'index' "entry '6=1' cannot be made: the map has the indexes 0 to 5" "$(cat err)"
}

refuses_pid_in_container() {
  unshare -pf --mount-proc true 2>/dev/null || skip 'no unshare'
  unshare -pf --mount-proc "$UPROBECTL" attach --object "$FIXTURES/whole.bpf.o" --program-name set_up --set pid=%pid \
    "$FIXTURES/workload" work_six -- "$FIXTURES/workload" --calls 1 >out 2>err
  expect_equal 'exit status' 1 "$?"
  expect_match 'message' 'set pid=%pid: in this pid namespace, the pid that the program sees is not known' "$(cat err)"
}

shares_maps() {
  cp "$FIXTURES/whole.bpf.o" other.bpf.o
  # Without the option both maps are shown, with the names of their objects.
  for expected in '8 --share-maps' '4'; do
    map=counts
    if [ "$expected" = 4 ]; then map=other.bpf.o:counts; fi
    start_workload target --calls 4
    # shellcheck disable=SC2086 # an option, or nothing
    start_attach -j -d 120 -p "$started_pid" --object "$FIXTURES/whole.bpf.o" --object other.bpf.o ${expected#*[0-9]} \
      --program-name on_entry --map counts "$FIXTURES/workload" work_six
    let_it_call target "$started_pid"
    stop_attach
    expect_equal 'entries' "${expected%% *}" "$(count_of ON_ENTRY "$map")"
  done
}

runs_many_programs() {
  attach_fails_with 1 -d 1 --object "$FIXTURES/many.bpf.o" "$FIXTURES/workload" work_six
  expect_equal 'errors' 1 "$(grep -c 'uprobectl: error: ' err)"
  expect_match 'message' "many.bpf.o: map 'large' would take 8192 MiB" "$(cat err)"
  needs multi
  start_workload target --calls 3
  start_attach -j -d 120 -p "$started_pid" --object "$FIXTURES/many.bpf.o" --map-entries large=1 --map large \
    "$FIXTURES/workload" work_six
  expect_match 'note' '1000 programs run at the entry of each FUNCTION: .* and 990 more' "$(cat err)"
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'counted by all' 3000 "$(value_of large)"
  expect_equal 'hits' 3 "$(hits_of program_999 work_six)"
}

# Public objects, as their projects publish them.
runs_public_objects() {
  objects=${UPROBECTL_CORPUS:-/nonexistent}/bpf/objects.tar.xz
  [ -e "$objects" ] || skip 'UPROBECTL_CORPUS is not set'
  tar -xJf "$objects" || skip 'no tar with xz'
  # bcc's gethostlatency: a pair that names no function. Its events are calls with an argument.
  start_workload target --calls 9
  start_attach -j -d 120 -p "$started_pid" --object bcc_gethostlatency.o "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'entries' 9 "$(hits_of handle_entry work_six)"
  expect_equal 'returns' 9 "$(hits_of handle_return work_six)"
  # bcc's funclatency: programs of kprobes and of fentry.
  start_workload target --calls 9
  start_attach -j -d 120 -p "$started_pid" --object bcc_funclatency.o --program-name dummy_kprobe \
    --program-name dummy_kretprobe "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'entries' 9 "$(hits_of dummy_kprobe work_six)"
  expect_equal 'returns' 9 "$(hits_of dummy_kretprobe work_six)"
  # libbpf-rs: three programs of uprobe.multi that name no function.
  start_workload target --calls 9
  start_attach -j -d 120 -p "$started_pid" --object rs_uprobe_multi.o "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  for program in handle__uprobe_multi handle__uprobe_multi_with_opts handle__uprobe_multi_with_non_default_opts; do
    expect_equal "$program" 9 "$(hits_of $program work_six)"
  done
}

# The sections of sections.bpf.o name ./workload.
start_sections() { # CALLS [OPTION…]
  calls=$1
  shift
  [ -e workload ] || ln -s "$FIXTURES/workload" workload
  start_workload target --calls "$calls"
  start_attach -j -d 120 -p "$started_pid" --object "$FIXTURES/sections.bpf.o" "$@"
  let_it_call target "$started_pid"
  stop_attach
}

# The order of variables is up to the compiler.
expect_globals() { # CALLS SUM LARGEST
  for variable in "\"calls\":$1," "\"sum\":$2," "\"largest\":\\[$3,0\\]"; do
    expect_match "variable $variable" "\"map\":\"sections.bss\",\"key\":0,.*$variable" "$(records map_entry map=sections.bss)"
  done
}

skips_programs() {
  start_sections 3
  expect_equal 'records of the program with a probe' 6 "$(count_records event)"
  for skipped in "'optional' .*is skipped: its section begins with '?'" "'bare' .*does not name a probe" \
    "'helper' .*libbpf does not attach programs of such a section" "'classify' .*libbpf does not attach"; do
    expect_match 'warning' "program $skipped" "$(cat err)"
  done
  start_sections 2 --program-name optional --map .bss
  expect_globals 0 2000 0
}

attaches_several_programs() {
  start_sections 2 --program-name placed --program-name optional --map .bss ./workload work_six
  expect_globals 2 2003 2
  attach_fails_with 1 -d 1 --object "$FIXTURES/sections.bpf.o" --program-name placed --program-name plcaed \
    ./workload work_six
  expect_match 'message' "no program 'plcaed'" "$(cat err)"
}

shows_globals() {
  start_sections 4 --map .bss --map sections.rodata
  expect_globals 4 10 4
  expect_match 'constants' '"map":"sections.rodata","key":0,"value":\{"color":"RED"\}' "$(records map_entry)"
  for value in GREEN:5 -3:-3 BLUE:-3; do
    start_sections 1 --set "color=${value%:*}" --record large
    expect_match "color=${value%:*}" "\"more\":\\[1,2,${value#*:},0," "$(records event)"
  done
  attach_fails_with 1 -d 1 --object "$FIXTURES/sections.bpf.o" --set color=PINK ./workload work_six
  expect_match 'hint' 'or one of: RED, GREEN, BLUE' "$(cat err)"
}

shows_globals_of_pin() { with_pins shows_globals_of_pin_there; }
shows_globals_of_pin_there() {
  if kernel_is_at_least 5.14; then
    load "$FIXTURES/sections.bpf.o" --pin pins/s || fail "load: $(cat err)"
    [ ! -e pins/s/optional ] || fail 'the optional program is pinned'
  else
    load "$FIXTURES/sections.bpf.o" --pin pins/s && fail 'it loads a program of an unknown type'
    expect_match 'message' "program 'helper': this kernel has no programs of type 'syscall' .Linux 5.14 or later.$" \
      "$(cat err)"
    expect_match 'hint' 'hint: load others: --program-name NAME$' "$(cat err)"
    load "$FIXTURES/sections.bpf.o" --program-name placed --pin pins/s || fail "load: $(cat err)"
  fi
  start_workload target --calls 3
  start_attach -j -d 120 -p "$started_pid" --program pins/s/placed --map .bss "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  expect_globals 3 6 3
  load --unpin pins/s || fail "unpin: $(cat err)"
}

reads_other_sizes() {
  start_sections 1 --record small
  expect_match 'a longer record' '"record":\{"id":7,"<rest>":"0100000002000000(00){52}"\},"raw":null' \
    "$(records event | head -n 1)"
  start_sections 1 --record large
  expect_match 'a shorter record' '"record":\{"id":7,"more":\[1,2\]\},"raw":null' "$(records event | tail -n 1)"
}

names_maps_of_pin() { with_pins names_maps_of_pin_there; }
names_maps_of_pin_there() {
  load "$FIXTURES/sections.bpf.o" --program-name placed --pin pins/s || fail "load: $(cat err)"
  start_workload target --calls 1
  start_attach -j -d 120 -p "$started_pid" --program pins/s/placed "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'name' records_of_this_program "$(records event | field map | sort -u)"
  expect_match 'losses' "no map 'lost' or 'records_of_this_program_lost_samples'" "$(cat err)"
  load --unpin pins/s || fail "unpin: $(cat err)"
}

loads_tail_calls() {
  start_workload target --calls 3
  start_attach -j -d 120 -p "$started_pid" --object "$FIXTURES/loaders.bpf.o" --map uprobectl_test_shared \
    "$FIXTURES/workload" work_six
  expect_match 'size' "map 'sized_by_loader' has no size.* gets 10240 entries" "$(cat err)"
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'counted by both' 303 "$(value_of uprobectl_test_shared)"
  [ ! -e /sys/fs/bpf/uprobectl_test_shared ] || fail 'attach has left a pin'
}

prints_quietly() {
  "$UPROBECTL" attach -q -d 120 --object "$FIXTURES/messages.bpf.o" --program-name tell_entry --set says=1 --printk \
    "$FIXTURES/workload" work_six -- "$FIXTURES/workload" --calls 1 >out 2>err || fail "attach: $(cat err)"
  grep -q 'bpf_trace_printk: what 1 first 1$' err || fail "said: $(cat err)"
}
