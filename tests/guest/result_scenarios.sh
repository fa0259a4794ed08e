# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch, started_pid: set by the harness and the suite
# What users' programs collect: types of records, maps, forms of members, conditions and counts.

# What a kernel can change.
kernel_result_scenarios() {
  scenario 'object: what stands in maps of all kinds is printed' prints_maps
  scenario 'object: stack ids and stack tables have function names, also when the process has ended' names_stacks
  scenario 'object: --interval prints maps several times, --clear empties them' clears_maps
}

result_scenarios() {
  scenario 'object: records of a type that only debug information has are those of a loader with libbpf' agrees_with_libbpf
  scenario 'object: --as shows members in another form' shows_forms
  scenario 'object: --if compares members of records' filters_records
  scenario 'object: records are counted by their members, in a run and in a saved one' counts_by_members
  scenario 'object: report selects, counts and measures saved records as the run does' reports_records
  scenario 'object: records and maps of public programs are readable' reads_public_programs
  scenario 'object: what is wrong with --record, --as, --map and --if is said' refuses_wrong_results
}

# The object, without its bloom filter for older kernels.
kernel_has_bloom_filters() { kernel_is_at_least 5.16; }
copy_results() {
  if kernel_has_bloom_filters; then
    cp "$FIXTURES/results.bpf.o" results.bpf.o
  else
    cp "$FIXTURES/results_without_bloom.bpf.o" results.bpf.o
  fi
}

attach_results() { # ARGUMENT…
  copy_results
  start_attach -d 120 -p "$started_pid" --object results.bpf.o "$@" "$FIXTURES/workload" work_six
}

# The loader has the structure as C has it.
agrees_with_libbpf() {
  [ -x "$FIXTURES/libbpf-loader" ] || skip 'there is no libbpf to build the loader with'
  start_workload target --calls 7
  "$FIXTURES/libbpf-loader" "$FIXTURES/results.bpf.o" "$FIXTURES/workload" work_six "$started_pid" 7 >expected 2>loader.err &
  loader=$!
  echo "$loader" >>"$scratch/pids"
  wait_until 60 file_says expected '^ready'
  attach_results -j
  let_it_call target "$started_pid"
  wait "$loader" || fail "the loader has failed: $(cat loader.err)"
  stop_attach
  sed -i '/^ready/d' expected
  records event map=sent | sed 's/.*"record"://;s/,"raw":null}$//' >actual
  expect_same_lines 'records' expected actual
  expect_equal 'their type' call "$(records event | field record_type | sort -u)"
}

entries() { # MAP
  records map_entry "map=$1" | sed 's/.*"key"://;s/,"time_ns":.*//' | LC_ALL=C sort
}

prints_maps() {
  if kernel_has_bloom_filters; then
    bloom='--map seen'
  else
    bloom=
    attach_fails_with 1 -d 1 --object "$FIXTURES/results.bpf.o" "$FIXTURES/workload" work_six
    expect_match 'no bloom filters' \
      "map 'seen': this kernel has no maps of type 'bloom_filter' .Linux 5.16 or later.$" "$(cat err)"
  fi
  start_workload target --calls 5
  # shellcheck disable=SC2086 # an option with its value, or nothing
  attach_results -j --map recent --map routes --map waiting --map pile $bloom --map outer --map by_cpu \
    --map calls --map unused_limit --map .bss --map distributions
  let_it_call target "$started_pid"
  stop_attach
  for i in 1 2 3 4 5; do echo "$i,\"value\":$((i * i)),\"sum\":null"; done >expected
  entries recent >actual
  expect_same_lines 'an LRU hash map' expected actual
  for i in 1 2 3 4 5; do echo "{\"bits\":24,\"address\":\"0a000${i}00\"},\"value\":$i,\"sum\":null"; done >expected
  entries routes >actual
  expect_same_lines 'an LPM trie' expected actual
  for i in 1 2 3 4 5; do echo "$((i - 1)),\"value\":$i,\"sum\":null"; done >expected
  entries waiting >actual
  expect_same_lines 'a queue' expected actual
  for i in 1 2 3 4 5; do echo "$((i - 1)),\"value\":$((6 - i)),\"sum\":null"; done >expected
  entries pile >actual
  expect_same_lines 'a stack' expected actual
  expect_equal 'an inner map' '0,"value":5,"sum":null' "$(entries 'outer\[1\]')"
  expect_match 'a map with a value for each CPU' '^0,"value":\[[0,]*\],"sum":0$' "$(entries by_cpu | head -n 1)"
  expect_match 'its sum' '^1,"value":\[.*\],"sum":15$' "$(entries by_cpu | tail -n 1)"
  [ -z "$bloom" ] || expect_match 'a bloom filter' "map 'seen' is a bloom filter: it can only be asked" "$(cat err)"
  expect_match 'a global variable' '"map":"results.bss","key":"calls","value":5,' "$(records map_entry)"
  expect_match 'a constant' '"map":"results.rodata","key":"unused_limit","value":7,' "$(records map_entry)"
  expect_match 'all variables' '"map":"results.bss","key":0,"value":\{"calls":5\},' "$(records map_entry)"
  expect_equal 'slots in JSON' '0,"value":{"slots":[1,2,2,0,0,0,0,0],"count":5},"sum":null' "$(entries distributions)"

  start_workload target --calls 5
  attach_results --map distributions
  let_it_call target "$started_pid"
  stop_attach
  cat >expected <<'END'
distributions	0	count=5
     slots               : count    distribution
         0 -> 1          : 1        |********************                    |
         2 -> 3          : 2        |****************************************|
         4 -> 7          : 2        |****************************************|
END
  expect_same_lines 'slots as bcc draws them' expected out
}

names_stacks() {
  attach_results_to_command -j --map by_stack --map stacks
  expect_match 'the stack of a key' '"key":\{"pid":[0-9]+,"stack_id":\["work_six \(' \
    "$(records map_entry map=by_stack)"
  expect_match 'a stack of the table' '"value":\["work_six \(' "$(records map_entry map=stacks)"
}
attach_results_to_command() {
  copy_results
  "$UPROBECTL" attach -d 120 --object results.bpf.o "$@" "$FIXTURES/workload" work_six -- \
    "$FIXTURES/workload" --calls 3 >out 2>err || fail "attach: $(cat err)"
}

shows_forms() {
  start_workload target --calls 1
  attach_results --map sent --map recent --map routes --as name=text --as sent.when=hex --as recent.key=hex \
    --as recent=hex --as routes.address=ip --as argument=address
  let_it_call target "$started_pid"
  stop_attach
  expect_match 'a record' 'when=0x3e9 pid=[0-9]* step=FIRST argument=.* address=127.0.0.1 name="b" ' "$(cat out)"
  expect_match 'a key and a value' "^recent	0x1	0x1$" "$(cat out)"
  expect_match 'an address in a key' "^routes	bits=24 address=10.0.1.0	1$" "$(cat out)"
}

clears_maps() {
  start_workload target --calls 3
  attach_results -j --map recent --map by_cpu --interval 200ms --clear
  let_it_call target "$started_pid"
  wait_until 60 printed_empty
  stop_attach
  expect_equal 'entries' 3 "$(count_records map_entry map=recent)"
  expect_equal 'the sum of all times' 6 "$(records map_entry map=by_cpu key=1 | field sum | awk '{ sum += $1 } END { print sum }')"
}
# The map is printed again after it was emptied.
printed_empty() { records map_entry map=by_cpu key=1 | grep -A 1 '"sum":[1-9]' | grep -q '"sum":0'; }

filters_records() {
  start_workload target --calls 9
  attach_results -j --if 'argument < -2 && step == FIRST' --if 'detail.rest == 4097' -n 2
  let_it_call target "$started_pid"
  attach_ends_with 0
  expect_equal 'arguments' '-5 -9' "$(records event | sed 's/.*"argument":\([-0-9]*\).*/\1/' | tr '\n' ' ' | sed 's/ $//')"
  attach_fails_with 1 -d 1 --object "$FIXTURES/results.bpf.o" --if 'argumnt == 1' "$FIXTURES/workload" work_six
  expect_match 'a name that no record has' "error: .*--if 'argumnt == 1': none of the records has a member 'argumnt'" "$(cat err)"
  attach_fails_with 1 -d 1 --object "$FIXTURES/results.bpf.o" --if 'step == THIRD' "$FIXTURES/workload" work_six
  expect_match 'a name that is not an enumerator' "error: .*--if 'step == THIRD': .* has no enumerator 'THIRD'" "$(cat err)"
}

# The calls of the records in `out`, by their argument.
calls_of_records() { # FILE
  sed -n 's/.*"record":{"when":10*\([1-9]\).*/\1/p' "$1" | tr '\n' ' ' | sed 's/ $//'
}

# Of nine calls, each with the calls that it selects. The address is shown in another form than it was sent in.
reports_records() {
  start_workload target --calls 9
  attach_results -j --as argument=hex --save events
  let_it_call target "$started_pid"
  stop_attach
  while read -r expected condition; do
    "$UPROBECTL" report -j --if "$condition" events >found 2>err || fail "report --if '$condition': $(cat err)"
    expect_equal "calls with $condition" "$(echo "$expected" | tr , ' ')" "$(calls_of_records found)"
  done <<END
7,8,9 argument < -6
1,5,9 step == FIRST
2,3,6,7 step & SECOND
1,2 address == 16777343 && when <= 1002
2 name == "c"
3,4 pid == $started_pid && detail.rest == 4097 && argument in {-3, -4}
3 \$pid == 0 || argument == -3
END
  "$UPROBECTL" report -j --if 'argument < -6' events >found 2>err || fail "report: $(cat err)"
  expect_match 'the summary' '"type":"summary","events":3,' "$(cat found)"
  for options in '-j --if argument<-2&&step==FIRST' '--count' '--count --by step --measure when' \
    '--count --by step,pid --measure argument --top 2' '--histogram --measure when' \
    '--histogram --measure argument --if step==FIRST'; do
    # shellcheck disable=SC2086 # words
    "$UPROBECTL" report $options events >found 2>err || fail "report $options: $(cat err)"
    start_workload target --calls 9
    # shellcheck disable=SC2086
    attach_results --as argument=hex $options
    let_it_call target "$started_pid"
    stop_attach
    [ -s found ] || fail "nothing is shown with $options"
    for each in found out; do
      sed -i -E 's/[0-9]+/&/; s/"pid":[0-9]+//; s/"(time_ns|since_ns)":[0-9]+//g; /"type":"(event|count|histogram)"|	/!d' $each
      sed -i -E "s/	[0-9]{3,}	sent\$/	PID	sent/" $each
    done
    expect_same_lines "what is shown with $options" out found
  done
  expect_equal 'numbers' "$(printf 'sent\tvalue\t9\t1001\t')" "$(
    "$UPROBECTL" report --histogram --measure when events 2>err | cut -f 1-4 | sed -n '1p' | tr -d '\n'; printf '\t')"
  report_refuses 'none of the records has a member .argumnt.' --if 'argumnt == 1'
  report_refuses 'has no enumerator .THIRD.' --if 'step == THIRD'
  report_refuses "--histogram cannot be answered from this run: records of a user's program have no latency" --histogram
  report_refuses "--min-latency cannot be answered from this run: records of a user's program have no latency" --min-latency 1ms
  report_refuses '--interval cannot be answered from this run: its records have no time' --count --interval 1s
  report_refuses '--by stack cannot be answered from this run: its events have no stacks' --count --by stack
  report_refuses '--measure .*only integers can be measured|--measure: .*only numbers' --count --by step --measure detail
}
report_refuses() { # MESSAGE OPTION…
  wanted=$1
  shift
  "$UPROBECTL" report "$@" events >found 2>err && fail "report takes $*"
  expect_match "why not $*" "$wanted" "$(cat err)"
}

counts_by_members() {
  start_workload target --calls 8
  attach_results --count --by step --save counted
  let_it_call target "$started_pid"
  stop_attach
  cat >expected <<'END'
2	0	sent
2	FIRST	sent
2	FIRST|SECOND	sent
2	SECOND	sent
END
  LC_ALL=C sort out >actual
  expect_same_lines 'counts' expected actual
  start_workload target --calls 8
  attach_results --save events
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'events' 8 "$(grep -c '	sent	' out)"
  "$UPROBECTL" report events --count --by step 2>err | LC_ALL=C sort >actual || fail "report: $(cat err)"
  expect_same_lines 'counts of saved events' expected actual
  "$UPROBECTL" report counted 2>err | LC_ALL=C sort >actual || fail "report: $(cat err)"
  expect_same_lines 'saved counts' expected actual
  "$UPROBECTL" report -j events >again 2>err || fail "report: $(cat err)"
  expect_equal 'records again' 8 "$(grep -c '"record_type":"call","record":{"when":100' again)"
}

refuses_wrong_results() {
  attach_fails_with 1 -d 1 --object "$FIXTURES/results.bpf.o" --record other=call "$FIXTURES/workload" work_six
  expect_match 'message' "no buffer 'other' is read" "$(cat err)"
  expect_match 'hint' 'use one of: sent' "$(cat err)"
  attach_fails_with 1 -d 1 --object "$FIXTURES/results.bpf.o" --record stacks=call "$FIXTURES/workload" work_six
  expect_match 'message' "map 'stacks' has no records" "$(cat err)"
  attach_fails_with 2 -d 1 --object "$FIXTURES/results.bpf.o" --as a=b "$FIXTURES/workload" work_six
  expect_match 'message' "invalid value 'a=b' \(expected \[MAP.\]FIELD=address, ip" "$(cat err)"
  attach_fails_with 2 -d 1 --object "$FIXTURES/results.bpf.o" --clear "$FIXTURES/workload" work_six
  attach_fails_with 1 -d 1 --object "$FIXTURES/results.bpf.o" --map nothing "$FIXTURES/workload" work_six
  expect_match 'message' "the program has no map 'nothing'" "$(cat err)"
  start_workload target --calls 1
  start_attach -d 120 -p "$started_pid" --object "$FIXTURES/rings.bpf.o" --program-name tell_counted \
    "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  expect_match 'why a record is bytes' "records of map 'counted' are shown as bytes: no type has its name and its size of 32 bytes" \
    "$(cat err)"
}

# Programs of bcc and others, at a function of the workload instead of those that they are for.
reads_public_programs() {
  objects=${UPROBECTL_CORPUS:-/nonexistent}/bpf/objects.tar.xz
  [ -e "$objects" ] || skip 'UPROBECTL_CORPUS is not set'
  tar -xJf "$objects" || fail 'the objects cannot be unpacked'
  # struct event of a ring buffer "rb": only in the debug information.
  attach_public 2 tut_cuda_events.o --program-name cuda_malloc_enter
  expect_equal 'the type of a record' event "$(records event map=rb | field record_type | sort -u)"
  expect_match 'a record' '"comm":"workload","type":"CUDA_EVENT_MALLOC","mem":\{"size":2\},' "$(records event | head -n 1)"
  # What is sent is the beginning of struct probe_SSL_data_t.
  attach_public 1 bpftime_sslsniff.o --program-name probe_SSL_rw_enter --program-name probe_SSL_write_exit
  expect_equal 'the type of a part' probe_SSL_data_t "$(records event map=perf_SSL_events | field record_type)"
  expect_match 'a part' '"len":21,.*"comm":"workload"' "$(records event)"
  # work_six(i, …) returns 6i+15: as malloc() of i bytes.
  attach_public 3 bcc_memleak.o --set stack_flags=256 --program-name malloc_enter --program-name malloc_exit \
    --map-entries combined_allocs=8 --map-entries stack_traces=64 --map allocs
  for i in 1 2 3; do
    entry=$(records map_entry map=allocs "key=$((6 * i + 15))")
    expect_match "allocation $i" "\"value\":\\{\"size\":$i,\"timestamp_ns\":" "$entry"
    expect_match "its stack" "\"stack_id\":\\[\"[a-z_]*\\+0x" "$entry"
  done
  attach_public 3 bcc_memleak.o --set stack_flags=256 --set combined_only=1 --program-name malloc_enter \
    --program-name malloc_exit --map-entries combined_allocs=8 --map-entries stack_traces=64 --map combined_allocs \
    --as combined_allocs.key=stack
  expect_match 'sums of a stack' '"key":\[".*"\],"value":\{"total_size":6,"number_of_allocs":3,' "$(records map_entry)"
}
attach_public() { # CALLS OBJECT OPTION…
  calls=$1
  object=$2
  shift 2
  start_workload target --calls "$calls"
  start_attach -j -d 120 -p "$started_pid" --object "$object" "$@" "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
}
