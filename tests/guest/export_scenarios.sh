# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # started_pid: set by the harness
# Exports besides the records, while a run goes on and however it ends. Their contents are read by other
# people's programs in tests/native/live_exports.py.

export_scenarios() {
  scenario 'exports do not replace the events on stdout, and have each of them' exports_beside_records
  scenario 'an export of a killed run has whole events' keeps_whole_events
  for signal in INT TERM; do
    scenario "a profile is written after SIG$signal" writes_profile_after "$signal"
  done
  scenario 'exports that cannot be written are one error each, the run goes on' tells_full_disk
  scenario 'an export whose reader goes away is one error, the run goes on' tells_closed_pipe
  scenario 'exports of counts are counters' exports_counts
}

chrome_calls() { grep -c '^{"ph":"X"' "$1"; }

exports_beside_records() {
  "$UPROBECTL" attach -j --latency -o a.trace.json -o a.pftrace -o a.pb.gz "$FIXTURES/workload" work_six work_count \
    -- "$FIXTURES/workload" --calls 50 --threads 3 >out 2>err || fail "attach fails: $(cat err)"
  expect_equal 'events' 300 "$(count_records event)"
  expect_equal 'calls in the Chrome file' 300 "$(chrome_calls a.trace.json)"
  expect_equal 'the end of the Chrome file' ']' "$(tail -n 1 a.trace.json)"
  expect_equal 'mode' -rw------- "$(stat -c %A a.pftrace)"
  [ -s a.pftrace ] || fail 'an empty trace'
  expect_equal 'magic number of the profile' '1f8b' "$(head -c 2 a.pb.gz | od -An -tx1 | tr -d ' \n')"
}

keeps_whole_events() {
  start_workload target --calls 100000 --delay-us 200
  start_attach --latency -d 120 -o killed.trace.json -p "$started_pid" "$FIXTURES/workload" work_six
  kill -USR1 "$started_pid"
  wait_until 30 file_says killed.trace.json '"ph":"X"'
  kill -KILL "$(cat attach.pid)"
  wait_until 10 file_says status .
  expect_equal 'lines that are not whole' 0 "$(sed 1d killed.trace.json | sed '$s/$/,/' | grep -cv '^{.*},$')"
}

writes_profile_after() { # SIGNAL
  start_workload target --calls 10
  start_attach -d 120 --latency --stack=dwarf -o a.folded -o a.svg -o a.pb.gz -p "$started_pid" "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  kill "-$1" "$(cat attach.pid)"
  wait_until 30 file_says status .
  expect_equal 'exit status' 0 "$(cat status)"
  expect_match 'folded' 'work_six [0-9]+$' "$(cat a.folded)"
  expect_match 'picture' '</svg>' "$(tail -n 1 a.svg)"
  [ -s a.pb.gz ] || fail 'no profile'
  expect_equal 'files' 'a.folded a.pb.gz a.svg' "$(echo a.*)"
}

tells_full_disk() {
  "$UPROBECTL" attach -j --latency --format chrome -o /dev/full "$FIXTURES/workload" work_six \
    -- "$FIXTURES/workload" --calls 25 >out 2>err
  expect_equal 'exit status' 1 "$?"
  expect_equal 'errors' 'uprobectl: error: /dev/full: no space left on device' "$(grep error err)"
  expect_equal 'events' 25 "$(count_records event)"
}

tells_closed_pipe() {
  mkfifo pipe
  head -c 1 pipe >first &
  "$UPROBECTL" attach -j --latency --format perfetto -o pipe "$FIXTURES/workload" work_six \
    -- "$FIXTURES/workload" --calls 300 --delay-us 1000 >out 2>err
  expect_equal 'exit status' 1 "$?"
  expect_equal 'errors' 'uprobectl: error: pipe: broken pipe' "$(grep error err)"
  expect_equal 'events' 300 "$(count_records event)"
}

exports_counts() {
  "$UPROBECTL" attach -j --count -o a.trace.json -o a.folded --stack=fp "$FIXTURES/workload" work_six \
    -- "$FIXTURES/workload" --calls 7 >out 2>err || fail "attach fails: $(cat err)"
  expect_match 'folded' 'work_six 7$' "$(cat a.folded)"
  "$UPROBECTL" attach -j --count -o b.trace.json "$FIXTURES/workload" work_six \
    -- "$FIXTURES/workload" --calls 7 >out 2>err || fail "attach fails: $(cat err)"
  expect_match 'counter' '"ph":"C".*"name":"work_six hits".*"args":\{"value":7\}' "$(cat b.trace.json)"
}
