# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Task files of UprobeStats: Java methods by their signatures, pinned programs, atoms on a socket.

task_scenarios() {
  scenario 'a method of a task file fires, and its atom arrives byte for byte' runs_task atom_arrives
  scenario 'the binary form of a task file runs' runs_task binary_runs
  scenario 'records lost by a full buffer are counted and reported' runs_task tells_lost
  scenario 'a process that starts later is waited for, and another follows one that dies' runs_task follows_processes
  scenario 'a task without a process fails, and the other runs' runs_task misses_process
  scenario 'a probe that cannot be placed does not stop the others' runs_task goes_on
  scenario '--all-or-nothing runs nothing if one probe fails' runs_task all_or_nothing
  scenario 'methods refused by the policy are not probed' runs_task keeps_policy
  scenario 'a mapped file is preferred to the order of file_paths' runs_task prefers_mapped
  scenario 'the mapped file is reported for later processes, too' runs_task tells_mapped
  scenario 'records of earlier runs are passed over, and counted' runs_task passes_over_stale
  scenario 'two tasks run at once, each for its own time' runs_task two_at_once
  scenario 'atoms that the socket refuses are counted' runs_task counts_refused
  scenario 'tasks with different atoms for one map send none, and print its records once' runs_task atoms_differ
  scenario 'tasks with equal atoms for one map send each once' runs_task atoms_alike
  scenario 'a signal while a process is waited for is the one error' runs_task ends_waiting
  scenario 'a run that waits for a process ends if its output is closed' runs_task reader_goes
  scenario 'a task fails at once if the kernel attaches no probe' runs_task nothing_placed
  scenario 'arguments are 32-bit numbers in the atoms of Android 15' runs_task narrow_atoms
  scenario 'what the chosen service rejects is not run' runs_task keeps_to_service
  scenario 'selected transactions are reported, and logged with the fields of their filter' runs_task selects_transactions
  scenario 'filters that a killed run has left are replaced' runs_task replaces_filters
  scenario 'transactions of a task that has ended are skipped' runs_task skips_transactions
  scenario 'a filter that another run has set is an error' runs_task keeps_filters
  scenario 'a task for any app takes the first that starts, and no other' runs_task takes_first_app
}

app_name=com.example.shop
detail=prog_GenericInstrumentation_uprobe_call_detail
detail_map=map_GenericInstrumentation_call_detail_buf
stamp=prog_GenericInstrumentation_uprobe_call_timestamp_1
stamp_map=map_GenericInstrumentation_call_timestamp_buf
sell='int com.example.shop.Till.sell(int, long, boolean, java.lang.String)'
grade='int com.example.shop.Till.grade(int)'

# With the programs pinned as on Android.
runs_task() { # FUNCTION
  mkdir pins
  mount -t bpf bpf pins || fail 'cannot mount a bpf file system'
  (
    "$UPROBECTL" load "$FIXTURES/GenericInstrumentation.o" --naming uprobestats --pin pins/u >/dev/null ||
      fail 'the programs cannot be loaded'
    "$1"
  )
  verdict=$?
  [ ! -s attach.pid ] || kill -KILL "$(cat attach.pid)" 2>/dev/null
  umount pins
  return "$verdict"
}

probe() { # PROGRAM METHOD [FILE…]
  printf 'probe_configs { bpf_name: "%s" method_signature: "%s" file_paths: [' "$1" "$2"
  shift 2
  [ $# -gt 0 ] || set -- "$FIXTURES/java-app.odex"
  separator=
  for path; do
    printf '%s"%s"' "$separator" "$path"
    separator=', '
  done
  echo '] }'
}

task() { # SECONDS MAP [PROCESS]; its probes on stdin
  echo 'tasks {'
  cat
  printf 'bpf_maps: "%s" target_process_name: "%s" duration_seconds: %s\n' "$2" "${3:-$app_name}" "$1"
  echo 'statsd_logging_config { atom_id: 915 primitive_argument_positions: [0, 2] } }'
}

start_app() { # NAME [ARGUMENT…]
  app_output=$1
  shift
  start_program "$app_output" "$FIXTURES/java-app" "$FIXTURES/java-app.odex" --wait --hold "$@"
}

start_tasks() { # [OPTION…]
  start_attach --config tasks.textproto --bpffs pins/u --json "$@"
}

probe_statuses() {
  records probe | field status | tr '\n' ' '
}

atom_arrives() {
  start_program atoms "$FIXTURES/datagrams" statsd
  start_app app --calls 2
  app=$started_pid
  probe "$detail" "$sell" /nowhere/shop.odex "$FIXTURES/java-app.odex" | task 5 "$detail_map" >tasks.textproto
  start_tasks --statsd=statsd
  let_it_call app "$app"
  attach_ends_with 0
  expect_equal 'records' 4 "$(count_records event kind=record)"
  expect_equal 'their type' 4 "$(count_records event record_type=CallResult)"
  expect_equal 'hits' 4 "$(records probe status=attached | field hits)"
  expect_equal 'symbol' "$sell" "$(records probe | field symbol)"
  expect_equal 'program' "$detail" "$(records probe | field bpf_name)"
  expect_equal 'processes' 1 "$(records probe | field processes_mapping)"
  # A log header of 11 bytes and a tag, then: object of 4 elements, time, atom 915, the first argument
  # and the third, which is whether the first is odd.
  header='05.{4}.{16}73746174|05.{4}.{16}74617473'
  body() { printf '070401.{16}009303000001%s01%s' "$1" "$2"; }
  sed 1d atoms >datagrams
  expect_equal 'datagrams' 4 "$(wc -l <datagrams | tr -d ' ')"
  line=0
  for arguments in '0100000000000000 0100000000000000' 'ffffffffffffffff 0000000000000000' \
    '0200000000000000 0000000000000000' 'feffffffffffffff 0000000000000000'; do
    line=$((line + 1))
    expect_match "datagram $line" "^($header)$(body "${arguments% *}" "${arguments#* }")\$" "$(sed -n "${line}p" datagrams)"
  done
  expect_match 'closing words' '4 atoms sent' "$(cat err)"
}

binary_runs() {
  start_app app --calls 1
  app=$started_pid
  probe "$detail" "$grade" | task 600 "$detail_map" >tasks.textproto
  "$UPROBECTL" resolve -q --config tasks.textproto --binary tasks >resolved || fail 'no binary form'
  start_attach --config tasks --bpffs pins/u --json
  let_it_call app "$app"
  wait_until 10 file_says out '"type":"event"' || fail 'no record'
  stop_attach
  expect_equal 'hits' 3 "$(records probe | field hits)"
}

# The map has room for 2730, and its reader is stopped.
tells_lost() {
  start_app app --calls 3000
  app=$started_pid
  probe "$detail" "$sell" | task 600 "$detail_map" >tasks.textproto
  start_tasks
  kill -STOP "$(cat attach.pid)"
  let_it_call app "$app"
  kill -CONT "$(cat attach.pid)"
  stop_attach
  hits=$(records probe | field hits)
  lost=$(records summary | field lost)
  expect_equal 'hits' 6000 "$hits"
  [ "$lost" -gt 0 ] || fail 'nothing was lost'
  expect_equal 'received and lost' "$hits" $(($(count_records event kind=record) + lost))
  expect_match 'warning' "$lost records lost: the buffer was full" "$(cat err)"
}

follows_processes() {
  probe "$detail" "$grade" | task 600 "$detail_map" >tasks.textproto
  attach_fails_with 1 --config tasks.textproto --bpffs pins/u
  expect_match 'message' "task 1: no process named '$app_name' is running" "$(cat err)"
  start_tasks --wait -v
  expect_match 'message' "waiting for a process named '$app_name'" "$(cat err)"
  start_app first --calls 1
  first=$started_pid
  wait_until 20 file_says out '"attached"' || fail 'the first is not attached to'
  let_it_call first "$first"
  kill -KILL "$first"
  start_app second --calls 2
  second=$started_pid
  wait_until 20 file_says err "process $second is probed" || fail 'the second is not attached to'
  wait_until 10 one_probe_there || fail 'the probe of the first stays'
  let_it_call second "$second"
  wait_until 10 nine_records || fail "records: $(count_records event)"
  stop_attach
  expect_equal 'hits' 9 "$(records probe | field hits)"
}

nine_records() { [ "$(count_records event)" -ge 9 ]; }

one_probe_there() {
  # shellcheck disable=SC2012 # what each descriptor is
  [ "$(ls -l "/proc/$(cat attach.pid)/fd" | grep -c 'anon_inode:.perf_event')" -eq 1 ]
}

misses_process() {
  start_app app --calls 1
  app=$started_pid
  {
    probe "$stamp" "$grade" | task 5 "$stamp_map" com.example.sho
    probe "$detail" "$grade" | task 5 "$detail_map"
  } >tasks.textproto
  start_tasks
  let_it_call app "$app"
  attach_ends_with 1
  expect_match 'message' "task 1: no process named 'com.example.sho' is running" "$(cat err)"
  expect_equal 'statuses' 'failed attached ' "$(probe_statuses)"
  expect_equal 'records' 3 "$(count_records event)"
}

one_of_two_fails() {
  start_app app --calls 1
  app=$started_pid
  {
    probe "$detail" 'void com.example.shop.Till.idle(int)'
    probe "$detail" "$grade"
  } | task 5 "$detail_map" >tasks.textproto
}

goes_on() {
  one_of_two_fails
  start_tasks
  let_it_call app "$app"
  attach_ends_with 1
  expect_match 'message' 'task 1, probe 1 .*idle.* compiled' "$(cat err)"
  expect_equal 'statuses' 'failed attached ' "$(probe_statuses)"
  expect_equal 'records' 3 "$(count_records event)"
}

all_or_nothing() {
  one_of_two_fails
  attach_fails_with 1 --config tasks.textproto --bpffs pins/u --json --all-or-nothing
  expect_equal 'statuses' 'failed failed ' "$(probe_statuses)"
  expect_match 'message' 'not run: another probe or task failed' "$(cat err)"
}

keeps_policy() {
  start_app app --calls 1
  app=$started_pid
  {
    probe "$detail" "$grade" | task 5 "$detail_map"
    {
      probe "$stamp" "$sell"
      probe "$stamp" "$grade"
    } | task 5 "$stamp_map"
  } >tasks.textproto
  echo 'com.example.shop.Till.grade # and no other' >policy
  start_tasks --policy policy
  let_it_call app "$app"
  attach_ends_with 1
  expect_equal 'statuses' 'refused attached attached ' "$(probe_statuses)"
  expect_match 'message' "task 2, probe 1 .*sell.* is rejected by policy policy" "$(cat err)"
  expect_equal 'hits' '3 3 ' "$(records probe status=attached | field hits | tr '\n' ' ')"
}

prefers_mapped() {
  cp "$FIXTURES/java-app.odex" "$FIXTURES/java-app.vdex" .
  start_app app --calls 1
  app=$started_pid
  probe "$detail" "$grade" "$PWD/java-app.odex" "$FIXTURES/java-app.odex" | task 5 "$detail_map" >tasks.textproto
  start_tasks
  let_it_call app "$app"
  attach_ends_with 0
  expect_match 'warning' "process $app maps $FIXTURES/java-app.odex, which is probed, and not $PWD" "$(cat err)"
  expect_equal 'records' 3 "$(count_records event)"
  # If no file is mapped, a mapped file of the same jar is named.
  probe "$detail" "$grade" "$PWD/java-app.odex" | task 1 "$detail_map" >tasks.textproto
  start_tasks
  attach_ends_with 0
  expect_match 'warning' "process $app maps none of file_paths, but another build of the same jar: .*/java-app.odex" "$(cat err)"
  expect_equal 'hits' 0 "$(records probe | field hits)"
  # It is probed once, however many paths lead to it.
  ln -s java-app.odex again.odex
  ln -s java-app.vdex again.vdex
  probe "$detail" "$grade" "$PWD/java-app.odex" "$PWD/again.odex" | task 1 "$detail_map" >tasks.textproto
  start_tasks
  attach_ends_with 0
  expect_equal 'probes' 1 "$(records attached | field probes)"
}

# When it is attached to it maps nothing yet.
tells_mapped() {
  cp "$FIXTURES/java-app.odex" "$FIXTURES/java-app.vdex" .
  {
    probe "$detail" "$grade" "$PWD/java-app.odex" "$FIXTURES/java-app.odex"
    probe "$detail" "$sell" "$PWD/java-app.odex" "$FIXTURES/java-app.odex"
  } | task 600 "$detail_map" >tasks.textproto
  start_tasks --wait
  start_app app --calls 1
  app=$started_pid
  wait_until 20 file_says out '"attached"' || fail 'it is not attached to'
  let_it_call app "$app"
  wait_until 10 file_says out '"type":"event"' || fail 'no record'
  stop_attach
  expect_equal 'files' "$FIXTURES/java-app.odex $FIXTURES/java-app.odex " "$(records probe | field file | tr '\n' ' ')"
  expect_equal 'processes' '1 1 ' "$(records probe | field processes_mapping | tr '\n' ' ')"
  expect_match 'closing words' '0 probes hit, 0 unhit, 2 unknown' "$(cat err)"
}

passes_over_stale() {
  start_app app --calls 1
  app=$started_pid
  start_attach -d 120s -p "$app" --program "pins/u/$detail" --map pins/u/map_GenericInstrumentation_lost \
    "$FIXTURES/java-app.odex" com.example.shop.Till.grade
  let_it_call app "$app"
  stop_attach
  probe "$detail" "$grade" | task 1 "$detail_map" >tasks.textproto
  start_tasks
  attach_ends_with 0
  expect_match 'warning' "$detail_map: 3 records skipped" "$(cat err)"
  expect_equal 'records' 0 "$(count_records event)"
}

two_at_once() {
  start_app app --calls 1
  app=$started_pid
  {
    probe "$stamp" "$sell" | task 1 "$stamp_map"
    probe "$detail" "$grade" | task 600 "$detail_map"
  } >tasks.textproto
  start_tasks
  wait_until 20 file_says out '"type":"probe"' || fail 'the first task does not end'
  let_it_call app "$app"
  wait_until 10 file_says out '"type":"event"' || fail 'no record'
  stop_attach
  expect_equal 'hits' '0 3 ' "$(records probe | field hits | tr '\n' ' ')"
  expect_equal 'records' 3 "$(count_records event record_type=CallResult)"
  expect_equal 'other records' 0 "$(count_records event record_type=CallTimestamp)"
}

counts_refused() {
  start_app app --calls 1
  app=$started_pid
  probe "$detail" "$grade" | task 600 "$detail_map" | sed 's/\[0, 2\]/[0]/' >tasks.textproto
  start_tasks --statsd=nobody
  let_it_call app "$app"
  wait_until 10 file_says out '"type":"event"' || fail 'no record'
  stop_attach
  expect_match 'warning' '3 atoms refused by statsd' "$(cat err)"
}

# One map under two spellings.
two_log_one_map() { # ATOM of the second
  start_program atoms "$FIXTURES/datagrams" statsd
  start_app app --calls 1
  app=$started_pid
  {
    probe "$detail" "$sell" | task 5 "$detail_map"
    probe "$detail" "$grade" | task 5 "$PWD/pins/u/$detail_map" | sed "s/915/$1/; s/\[0, 2\]/[0]/"
  } >tasks.textproto
  [ "$1" != 915 ] || sed -i 's/\[0, 2\]/[0]/' tasks.textproto
  start_tasks --statsd=statsd
  let_it_call app "$app"
  attach_ends_with 0
  expect_equal 'records' 5 "$(count_records event)"
}

atoms_differ() {
  two_log_one_map 916
  expect_match 'warning' "$detail_map: no atoms are sent for its records while tasks 1 and 2 both run" "$(cat err)"
  expect_match 'closing words' '0 atoms sent' "$(cat err)"
}

atoms_alike() {
  two_log_one_map 915
  expect_match 'closing words' '5 atoms sent' "$(cat err)"
}

ends_waiting() {
  probe "$detail" "$grade" | task 600 "$detail_map" >tasks.textproto
  start_tasks --wait
  kill -TERM "$(cat attach.pid)"
  attach_ends_with 130
  expect_match 'error' 'interrupted before a process to probe was found' "$(cat err)"
  expect_equal 'errors' 1 "$(grep -c 'error:' err)"
}

reader_goes() {
  probe "$detail" "$grade" | task 600 "$detail_map" >tasks.textproto
  {
    timeout 30 "$UPROBECTL" attach --config tasks.textproto --bpffs pins/u --wait --json 2>err
    echo $? >status
  } | true
  expect_equal 'exit status' 0 "$(cat status)"
  ! file_says err 'error:' || fail 'there is an error'
}

# A file that is written to after it was opened is not probed.
nothing_placed() {
  cp "$FIXTURES/java-app.odex" "$FIXTURES/java-app.vdex" .
  probe "$detail" "$grade" "$PWD/java-app.odex" | task 600 "$detail_map" >tasks.textproto
  start_tasks --wait
  printf 'x' >>java-app.odex
  start_app app --calls 1
  attach_ends_with 1
  expect_equal 'statuses' 'failed ' "$(probe_statuses)"
  expect_equal 'attached' 0 "$(count_records attached)"
}

narrow_atoms() {
  start_program atoms "$FIXTURES/datagrams" statsd
  start_app app --calls 1
  app=$started_pid
  probe "$detail" "$sell" | task 600 "$detail_map" >tasks.textproto
  start_tasks --statsd=statsd --service android15
  let_it_call app "$app"
  wait_until 20 has_lines atoms '^05' 2 || fail 'no datagrams'
  stop_attach
  sed 1d atoms >datagrams
  expect_match 'first datagram' '070401.{16}009303000000010000000001000000$' "$(sed -n 1p datagrams)"
  expect_match 'second datagram' '070401.{16}009303000000ffffffff0000000000$' "$(sed -n 2p datagrams)"
}

keeps_to_service() {
  probe "$detail" "$grade" | task 5 "$detail_map" >tasks.textproto
  attach_fails_with 1 --config tasks.textproto --bpffs pins/u --service android16
  expect_match 'message' 'UprobeStats of Android 16 and later rejects it: task 1, probe 1: fully_qualified_class_name is missing' "$(cat err)"
}

# The table is of two interfaces: their names are in the objects that binder-app has.
transactions() { # SECONDS FILTER…
  echo 'tasks { probe_configs { bpf_name: "prog_Binder_uprobe_exec_transact_internal"'
  echo 'fully_qualified_class_name: "android.os.Binder" method_name: "execTransactInternal"'
  echo 'fully_qualified_parameters: ["int", "android.os.Parcel", "android.os.Parcel", "int", "int"]'
  seconds=$1
  shift
  for filter; do echo "binder_transaction_filters { $filter }"; done
  echo "} bpf_maps: 'map_Binder_output_buf' target_process_name: 'system_server' duration_seconds: $seconds }"
}

shop_code() { # CODE ATOM
  echo "interface_name: 'com.example.IShop' method_configs { method_id: $1 atom_config { atom_id: $2 atom_field_positions: [CALLING_UID, INTERFACE_NAME, CODE] } }"
}
bank="interface_name: 'com.example.IBank' method_configs { method_id: 1 event_service_config {} }"

start_binder() { # CALLS
  "$UPROBECTL" load "$FIXTURES/Binder.o" --naming uprobestats --pin pins/u >/dev/null || fail 'Binder.o cannot be loaded'
  start_program server "$FIXTURES/binder-app" "$FIXTURES/binder-app.odex" --wait --hold --calls "$1"
  server=$started_pid
}

# No file is named: it is one that the process maps.
selects_transactions() {
  start_program atoms "$FIXTURES/datagrams" statsd
  start_binder 2
  transactions 600 "$(shop_code 2 915)" "$bank" >tasks.textproto
  start_tasks --statsd=statsd --service android16
  let_it_call server "$server"
  wait_until 20 has_lines atoms '^05' 2 || fail 'no datagrams'
  stop_attach
  expect_equal 'records' 4 "$(count_records event record_type=BinderTransaction)"
  expect_equal 'all of them' 4 "$(count_records event)"
  expect_equal 'interfaces' 'com.example.IShop com.example.IBank com.example.IShop com.example.IBank ' \
    "$(grep -o 'com.example.I[A-Z][a-z]*' out | tr '\n' ' ')"
  expect_equal 'file' "$FIXTURES/binder-app.odex" "$(records probe | field file)"
  expect_match 'warning' "transactions of 'com.example.IBank' are not sent to DynamicInstrumentationEventService" "$(cat err)"
  # Object of 5 elements, time, atom 915, user id (annotated: is_uid, true), "com.example.IShop", code 2.
  sed 1d atoms >datagrams
  expect_equal 'datagrams' 2 "$(wc -l <datagrams | tr -d ' ')"
  line=0
  for uid in 11270000 12270000; do
    line=$((line + 1))
    expect_match "datagram $line" "070501.{16}009303000010${uid}010501"'0211000000636f6d2e6578616d706c652e4953686f700002000000$' \
      "$(sed -n "${line}p" datagrams)"
  done
  # Nothing is left in the table.
  transactions 1 "$(shop_code 2 915)" >tasks.textproto
  start_tasks
  attach_ends_with 0
  ! file_says err 'left by an earlier run' || fail "left: $(cat err)"
}

replaces_filters() {
  start_binder 1
  transactions 600 "$(shop_code 1 915)" >tasks.textproto
  start_tasks
  kill -KILL "$(cat attach.pid)"
  wait_until 20 file_says status . || fail 'it cannot be killed'
  transactions 600 "$(shop_code 2 915)" >tasks.textproto
  start_tasks
  expect_match 'warning' "'com.example.IShop' was left by an earlier run and is replaced" "$(cat err)"
  let_it_call server "$server"
  wait_until 10 file_says out '"type":"event"' || fail 'no record'
  stop_attach
  expect_equal 'records' 1 "$(count_records event)"
  expect_match 'record' '"code": *2' "$(records event)"
}

skips_transactions() {
  start_binder 1
  {
    transactions 1 "$(shop_code 1 915)"
    transactions 600 "$bank"
  } >tasks.textproto
  start_tasks
  wait_until 20 file_says out '"type":"probe"' || fail 'the first task does not end'
  let_it_call server "$server"
  wait_until 10 file_says out '"type":"event"' || fail 'no record'
  stop_attach
  expect_match 'records' 'com.example.IBank' "$(records event)"
  expect_equal 'their number' 1 "$(count_records event)"
  expect_match 'warning' '1 transaction skipped: no binder_transaction_filters select them' "$(cat err)"
}

keeps_filters() {
  start_binder 1
  transactions 600 "$(shop_code 1 915)" >tasks.textproto
  start_tasks
  "$UPROBECTL" attach --config tasks.textproto --bpffs pins/u >other 2>other.err
  expect_equal 'exit status' 1 "$?"
  expect_match 'message' "'com.example.IShop' is selected by another run" "$(cat other.err)"
  expect_match 'reader' "map_Binder_output_buf is open in process $(cat attach.pid) \(uprobectl\)" "$(cat other.err)"
  let_it_call server "$server"
  wait_until 10 file_says out '"type":"event"' || fail 'the filter is gone'
  stop_attach
}

# The zygote forks an app at each signal.
takes_first_app() {
  probe "$detail" "$grade" | task 600 "$detail_map" |
    sed 's/target_process_name: "[^"]*"/target_process_selection: ANY_APP_PROCESS_ON_START/' >tasks.textproto
  start_program zygote "$FIXTURES/java-app" "$FIXTURES/java-app.odex" --wait --hold --calls 1 --zygote 10123
  zygote=$started_pid
  start_next_app 1
  before=$app
  start_tasks
  expect_match 'status' 'waiting for the first app that starts' "$(cat err)"
  start_next_app 2
  first=$app
  wait_until 20 file_says out '"attached"' || fail "it is not attached to: $(cat err)"
  start_next_app 3
  for each in "$before" "$first" "$app"; do kill -USR1 "$each"; done
  wait_until 20 has_lines zygote '^done' 3 || fail 'the apps do not call'
  wait_until 10 file_says out '"type":"event"' || fail 'no record'
  stop_attach
  expect_equal 'hits' 3 "$(records probe | field hits)"
  expect_equal 'records' 3 "$(count_records event)"
}

start_next_app() { # NUMBER
  kill -USR1 "$zygote"
  wait_until 20 has_lines zygote '^app ' "$1" || fail 'the zygote forks no app'
  app=$(grep '^app ' zygote | tail -n 1 | cut -d ' ' -f 2)
  echo "$app" >>"$scratch/pids"
}

has_lines() { # FILE REGEX NUMBER
  [ "$(grep -c "$2" "$1")" -ge "$3" ]
}
