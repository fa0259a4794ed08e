# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # started_pid: set by the harness
# Runs that attach --save keeps, and report prints.

saved_scenarios() {
  scenario 'report prints what the run has printed, as text' reports_alike ''
  scenario 'report prints what the run has printed, as JSON' reports_alike --json
  scenario 'report writes the stacks that the run has written' reports_stacks
  scenario 'report does not need the files that were probed' reports_without_files
  scenario 'report names frames by the files that --debug-dir has' names_frames
  scenario 'report unwinds stacks that a run has only copied' unwinds_copied_stacks
  scenario 'report unwinds copied stacks of a library in an archive' unwinds_archive_stacks
  scenario 'report names copied stacks by the files that --debug-dir has' names_copied_stacks
  scenario 'report unwinds copied stacks of a run that is cut off' unwinds_cut_run
  scenario 'programs that are at one path one after the other name their own stacks' tells_programs_apart
  scenario 'report does not show calls below --min-latency' reports_slow_calls
  scenario 'report counts and measures events that the run has only shown' reports_totals
  scenario 'report counts events by values as the kernel counts hits' reports_values
  scenario 'report of a graph exports its calls, and counts and measures them' reports_calls
  scenario 'report of a run that is cut off anywhere has what is whole' reports_cut_runs
  scenario 'a killed run has what happened 100 ms before' reports_killed_run
  scenario 'a run is reported while it goes on' reports_stream
  scenario 'a run that cannot be saved fails, and says why' tells_unsaved
}

# Runs attach on the program `depths`, then report with the options of text and JSON.
save_depths() { # FORMAT FUNCTION OPTION…
  format=$1 function=$2
  shift 2
  # shellcheck disable=SC2086 # no word, or one
  "$UPROBECTL" attach -d 120 --save run $format "$@" --command-output said "$FIXTURES/depths" "$function" -- \
    "$FIXTURES/depths" plain 20 >live 2>err || fail "attach $* fails: $(cat err)"
  [ -s live ] || fail "attach $* prints nothing"
  # shellcheck disable=SC2086
  "$UPROBECTL" report $format run >out 2>again || fail "report of $* fails: $(cat again)"
  cmp live out || fail "report prints something else for: $format $*"
  grep -v '^probing ' err | cmp - again || fail "report has other messages for: $format $*: $(cat again)"
}

reports_alike() { # FORMAT
  save_depths "$1" depth_leaf
  save_depths "$1" 'depth_*' --args n:s32,p:str@arg1 --regs
  save_depths "$1" depth_leaf --latency --stack
  save_depths "$1" depth_leaf --stack=fp
  save_depths "$1" depth_leaf --stack --lines
  save_depths "$1" depth_middle --caller -r
  save_depths "$1" 'depth_*' --count --interval 100ms
  save_depths "$1" depth_leaf --count --stack
  save_depths "$1" depth_middle --histogram --latency
  save_depths "$1" depth_leaf -n 5 --sample 1/2
}

reports_stacks() {
  # shellcheck disable=SC2043 # more may follow
  for how in '--stack' '--stack --latency' '--count --stack=fp' '--count --stack --stack-size 256'; do
    # shellcheck disable=SC2086 # words
    "$UPROBECTL" attach -d 120 --save run $how --folded folded --flamegraph picture.svg "$FIXTURES/depths" \
      depth_leaf -- "$FIXTURES/depths" plain 20 >live 2>err || fail "attach $how fails: $(cat err)"
    "$UPROBECTL" report --folded again --flamegraph again.svg run >out 2>err || fail "report fails: $(cat err)"
    [ -s folded ] || fail "attach $how has no stacks"
    cmp folded again || fail "other lines for $how"
    cmp picture.svg again.svg || fail "another picture for $how"
    cmp live out || fail "other records for $how"
  done
  "$UPROBECTL" attach -d 120 --save run "$FIXTURES/depths" depth_leaf -- "$FIXTURES/depths" plain 1 >live 2>err ||
    fail "attach fails: $(cat err)"
  "$UPROBECTL" report --folded again run >out 2>err && fail 'stacks of a run without them are promised'
  expect_match 'error' '--folded cannot be answered from this run: it was saved without --stack' "$(cat err)"
}

reports_without_files() {
  cp "$FIXTURES/depths" depths
  "$UPROBECTL" attach -j -d 120 --save run --stack ./depths depth_leaf -- ./depths plain 3 >live 2>err ||
    fail "attach fails: $(cat err)"
  rm depths
  "$UPROBECTL" report -j run >out 2>err || fail "report fails: $(cat err)"
  expect_equal 'symbols' 3 "$(grep -c '"index":1,.*"symbol":"depth_middle"' out)"
  cmp live out || fail 'report prints something else'
}

names_frames() {
  command -v strip >/dev/null || skip 'no strip on this machine'
  mkdir symbols
  cp "$FIXTURES/depths" symbols
  strip -o depths "$FIXTURES/depths"
  "$UPROBECTL" resolve --offset-only "$FIXTURES/depths" depth_leaf >offset || fail 'depth_leaf is not found'
  "$UPROBECTL" attach -q -d 120 --save run --stack ./depths "file-offset:$(cat offset)" -- ./depths plain 3 >live 2>err ||
    fail "attach fails: $(cat err)"
  ! file_says live depth_middle || fail 'the stripped program has names'
  "$UPROBECTL" report --folded plain --debug-dir symbols run >out 2>err || fail "report fails: $(cat err)"
  expect_match 'named frames' ';depth_middle;depth_leaf 3$' "$(cat plain)"
  expect_equal 'messages' '' "$(grep -i warning err)"
  mkdir others
  "$UPROBECTL" report --debug-dir others run >out 2>err || fail "report fails: $(cat err)"
  expect_match 'that a file is missing' 'warning: depths: ' "$(cat err)"
}

# Without what differs between two runs of a program: addresses, times, process numbers.
same_of_runs() {
  sed -E 's/"pc":"0x[0-9a-f]+"//g; s/^[0-9:.]+	[0-9]+	[0-9]+/TIME PID TID/; s/"(time_ns|latency_ns|pid|tid|cpu|ns_pid)":[0-9]+//g;
    s/"arguments":\[[^]]*\]//; s/(arg0|latency)=.*//' "$1" | grep -E '^TIME|^ *#|"type":"event"|^	| truncated| incomplete'
}

# Runs attach on a program twice: it unwinds the stacks, then report does.
unwind_both() { # FORMAT WORD… (options, TARGET and FUNCTION, "--" and the command)
  format=$1
  shift
  # shellcheck disable=SC2086 # no word, or one
  "$UPROBECTL" attach -d 120 $format --command-output said "$@" >live 2>err || fail "attach $* fails: $(cat err)"
  "$UPROBECTL" attach -d 120 --unwind-on host --save run --command-output said "$@" >events 2>err2 ||
    fail "attach --unwind-on host $* fails: $(cat err2)"
  # shellcheck disable=SC2086
  "$UPROBECTL" report $format run >out 2>again || fail "report of $* fails: $(cat again)"
  same_of_runs live >wanted
  same_of_runs out >found
  [ -s wanted ] || fail "attach $* prints nothing"
  cmp wanted found || fail "report has other stacks for: $format $*: $(diff wanted found)"
  grep -E 'truncated|incomplete|--lines' err | sed -E 's/0x[0-9a-f]+//g' >wanted
  grep -E 'truncated|incomplete|--lines' again | sed -E 's/0x[0-9a-f]+//g' >found
  cmp wanted found || fail "report has other messages for: $*: $(diff wanted found)"
}

unwinds_copied_stacks() {
  for format in '' --json; do
    unwind_both "$format" --stack "$FIXTURES/depths" depth_leaf -- "$FIXTURES/depths" plain 20
    expect_equal 'named frames' 20 "$(grep -c 'depth_middle' out)"
    ! file_says events depth_middle || fail 'the run has unwound'
    unwind_both "$format" --stack "$FIXTURES/depths" depth_leaf -- "$FIXTURES/depths" signal 3
    expect_match 'the signal frame' 'signal_frame|__restore_rt|__kernel_rt_sigreturn' "$(cat out)"
    unwind_both "$format" --stack --stack-size 256 "$FIXTURES/depths" depth_leaf -- "$FIXTURES/depths" plain 3
    unwind_both "$format" --stack --lines --latency "$FIXTURES/depths" depth_leaf -- "$FIXTURES/depths" plain 3
    unwind_both "$format" --stack --return "$FIXTURES/depths" depth_leaf -- "$FIXTURES/depths" plain 3
  done
  "$UPROBECTL" attach -q -d 120 --stack --folded wanted "$FIXTURES/depths" depth_leaf -- "$FIXTURES/depths" plain 20 \
    >out 2>err || fail "attach fails: $(cat err)"
  "$UPROBECTL" attach -q -d 120 --stack --unwind-on host --save - "$FIXTURES/depths" depth_leaf -- "$FIXTURES/depths" plain 20 \
    2>err | "$UPROBECTL" report --folded found - >out 2>err2 || fail "report fails: $(cat err err2)"
  [ -s wanted ] || fail 'no folded stacks'
  cmp wanted found || fail 'report has other folded stacks'
}

unwinds_archive_stacks() {
  target="$FIXTURES/greet.apk!/$library/libgreet.so"
  for format in '' --json; do
    unwind_both "$format" --stack "$target" greet_add -- "$FIXTURES/apk-host" "$target" greet_total 1
    expect_match 'the entry' "$library/libgreet.so" "$(grep 'greet_total[^ ]*' out)"
  done
}

names_copied_stacks() {
  command -v strip >/dev/null || skip 'no strip on this machine'
  mkdir symbols
  cp "$FIXTURES/depths" symbols
  strip -o depths "$FIXTURES/depths"
  "$UPROBECTL" resolve --offset-only "$FIXTURES/depths" depth_leaf >offset || fail 'depth_leaf is not found'
  "$UPROBECTL" attach -q -d 120 --save run --stack --unwind-on host ./depths "file-offset:$(cat offset)" -- \
    ./depths plain 3 >live 2>err || fail "attach fails: $(cat err)"
  rm depths
  "$UPROBECTL" report run >out 2>err || fail "report fails: $(cat err)"
  ! file_says out depth_middle || fail 'the stripped program has names'
  expect_match 'a frame without a name' '#1 \(depths[+]0x' "$(cat out)"
  "$UPROBECTL" report --folded named --debug-dir symbols run >out 2>err || fail "report fails: $(cat err)"
  expect_match 'named frames' ';depth_middle;depth_leaf 3$' "$(cat named)"
}

# Each is written over the last one, or made anew; file systems such as ext4 give that the same inode number.
# With a name of a file for each turn's events to be waited for. Without, stacks may have no names, but no wrong ones.
tells_programs_apart() {
  for program in "$FIXTURES/soak-short-a" "$FIXTURES/soak-short-b" "$FIXTURES/soak-short-c"; do
    "$program" 0 0 2>/dev/null || skip 'no libc.so.6 is here'
  done
  cat >turns <<'END'
calls=0
for made in over anew; do
  for letter in a b c a b c; do
    [ "$made" = over ] || rm -f program
    cat "$1/soak-short-$letter" >program && chmod 700 program && LD_LIBRARY_PATH=$1 ./program 3 0 || exit 1
    calls=$((calls + 3))
    [ $# -eq 1 ] || until [ "$(grep -c '"type":"event"' "$2")" -ge $calls ]; do sleep 0.02; done
  done
done
END
  for waits_for in events ''; do
    take_turns live
    take_turns events --unwind-on host --save run
    "$UPROBECTL" report -j run >out 2>err || fail "report fails: $(cat err)"
    for file in live out; do
      expect_equal 'calls' 36 "$(grep -c '"type":"event"' $file)"
      for letter in a b c; do
        grep "\"value\":\"$letter:" $file >own || fail "no calls of $letter in $file"
        ! grep -qE "short_[^${letter}]_leaf" own || fail "stacks of $letter are named by another program: $(cat own)"
        [ -z "$waits_for" ] || expect_equal "stacks of $letter in $file" 12 "$(grep -c "short_${letter}_leaf" own)"
      done
    done
  done
}
take_turns() { # FILE OPTION…
  file=$1
  shift
  # shellcheck disable=SC2086 # no word, or one
  "$UPROBECTL" attach -j -q -d 120 --follow --args text:str@arg1 --stack "$@" "$FIXTURES/libsoak.so" soak_call -- \
    sh turns "$FIXTURES" ${waits_for:+$file} >$file 2>err || fail "attach fails: $(cat err)"
}

unwinds_cut_run() {
  "$UPROBECTL" attach -q -d 120 --save run --stack --unwind-on host "$FIXTURES/depths" depth_leaf -- \
    "$FIXTURES/depths" plain 20 >live 2>err || fail "attach fails: $(cat err)"
  size=$(wc -c <run)
  head -c $((size - 2000)) run >part
  "$UPROBECTL" report part >out 2>err || fail "report of a part fails: $(cat err)"
  expect_match 'that it is cut off' 'warning: part: the run is cut off at byte 0x' "$(cat err)"
  events=$(grep -c '#1 depth_middle' out)
  [ "$events" -gt 0 ] && [ "$events" -lt 20 ] || fail "a part has $events of 20 stacks"
  printf 'x' | dd of=run bs=1 seek=$((size - 2000)) conv=notrunc 2>/dev/null
  "$UPROBECTL" report run >out 2>err || true
  ! file_says err 'signal' || fail 'a damaged run ends report'
}

# fixtures/workload/frames.c rests 25 times, 5 of them for 200 ms.
reports_slow_calls() {
  start_program target "$FIXTURES/frames" nap --wait --hold
  start_attach -j -d 120 -p "$started_pid" --save run --latency "$FIXTURES/frames" nap
  let_it_call target "$started_pid"
  stop_attach
  "$UPROBECTL" report -j --min-latency 100ms run >out 2>err || fail "report fails: $(cat err)"
  expect_equal 'slow calls' 5 "$(count_records event)"
  expect_equal 'events of the summary' 5 "$(records summary | field events)"
}

reports_values() {
  for options in '--by n' '--by comm,n --measure n --top 2' '--by p,ret --latency'; do
    # shellcheck disable=SC2086 # words
    "$UPROBECTL" attach -d 120 --args n:s32,p:x64@arg1 --count $options "$FIXTURES/depths" 'depth_*' -- \
      "$FIXTURES/depths" plain 20 >live 2>err || fail "attach --count $options fails: $(cat err)"
    [ -s live ] || fail "attach --count $options prints nothing"
    with=
    [ "$options" = "${options% --latency}" ] || with=--latency
    # shellcheck disable=SC2086
    "$UPROBECTL" attach -d 120 --args n:s32,p:x64@arg1 $with --save run "$FIXTURES/depths" 'depth_*' -- \
      "$FIXTURES/depths" plain 20 >out 2>err || fail "attach fails: $(cat err)"
    # shellcheck disable=SC2086
    "$UPROBECTL" report --count ${options% --latency} run >out 2>err || fail "report $options fails: $(cat err)"
    cmp live out || fail "report counts something else by: $options: $(cat out)"
  done
}

reports_totals() {
  "$UPROBECTL" attach -d 120 --save run "$FIXTURES/depths" depth_leaf depth_middle -- "$FIXTURES/depths" plain 20 \
    >live 2>err || fail "attach fails: $(cat err)"
  "$UPROBECTL" report --count run >out 2>err || fail "report fails: $(cat err)"
  expect_equal 'counts' '20 depth_leaf 20 depth_middle' "$(tr '\t\n' '  ' <out | sed 's/ $//')"
  "$UPROBECTL" report --count --per-process --top 1 run >out 2>err || fail "report fails: $(cat err)"
  expect_match 'the first of each process' '^20	[0-9]+	depths	depth_leaf$' "$(cat out)"
  "$UPROBECTL" report --histogram run >out 2>err && fail 'latencies of a run without them are promised'
  expect_match 'error' '--histogram cannot be answered from this run: it was saved without --latency' "$(cat err)"
  "$UPROBECTL" attach -d 120 --save run --latency "$FIXTURES/depths" depth_leaf -- "$FIXTURES/depths" plain 20 \
    >live 2>err || fail "attach fails: $(cat err)"
  "$UPROBECTL" report --histogram run >out 2>err || fail "report fails: $(cat err)"
  expect_match 'the number of calls' '^depth_leaf	ns	20	' "$(cat out)"
}

# fixtures/flow/flow.h: 20 calls of each function; half of the inner ones are left by longjmp.
reports_calls() {
  "$UPROBECTL" attach --graph --if 'arg0 >= 0' -d 60 --forward-exit --save run -o live.trace.json -o live.pb.gz \
    -o live.pftrace --folded live.folded "$FIXTURES/flow-c" 'longjmp_*' -- "$FIXTURES/flow-c" longjmp >live 2>err ||
    fail "attach fails: $(cat err)"
  for how in '' --count --histogram; do
    # shellcheck disable=SC2086 # no word, or one
    "$UPROBECTL" report $how -o again.trace.json -o again.pb.gz -o again.pftrace --folded again.folded run >out 2>err ||
      fail "report $how fails: $(cat err)"
    for file in trace.json pftrace pb.gz folded; do
      cmp "live.$file" "again.$file" || fail "report $how exports other bytes"
    done
    gzip -dc again.pb.gz | grep -aq longjmp_inner || fail "report $how exports an empty profile"
    [ -n "$how" ] || cmp live out || fail 'report prints another tree'
  done
  expect_match 'the name of the process' '"name":"process_name","args":{"name":"flow-c"}' "$(cat again.trace.json)"
  "$UPROBECTL" report --count run >out 2>err || fail "report fails: $(cat err)"
  expect_equal 'counts' '20 longjmp_inner 20 longjmp_outer' "$(sort out | tr '\t\n' '  ' | sed 's/ $//')"
  "$UPROBECTL" report --histogram run >out 2>err || fail "report fails: $(cat err)"
  expect_equal 'measured calls' 'longjmp_inner ns 10 longjmp_outer ns 10' "$(grep '	' out | cut -f 1-3 | sort | tr '\t\n' '  ' | sed 's/ $//')"
  "$UPROBECTL" report --count --min-latency 1h run >out 2>err || fail "report fails: $(cat err)"
  expect_equal 'long calls' '' "$(cat out)"
}

# Sets $whole: how many bytes are whole chunks of those before CUT.
report_cut_run() { # CUT
  head -c "$1" run >part
  "$UPROBECTL" report -j part >out 2>err || fail "report of $1 bytes fails: $(cat err)"
  whole=$((0x$(sed -n 's/.*warning: part: the run is cut off at byte 0x\([0-9a-f]*\).*/\1/p' err)))
  head -c "$(wc -c <out)" live | cmp - out || fail "report of $1 bytes prints something else"
}

reports_cut_runs() {
  "$UPROBECTL" attach -j -d 120 --save run "$FIXTURES/depths" depth_leaf -- "$FIXTURES/depths" plain 5 >live 2>err ||
    fail "attach fails: $(cat err)"
  size=$(wc -c <run) cut=13 boundary=0
  while [ "$cut" -lt "$size" ]; do
    report_cut_run "$cut"
    [ "$whole" -le "$cut" ] || fail "of $cut bytes $whole are whole"
    [ "$whole" -eq "$cut" ] || expect_match 'where it ends' 'within a record' "$(cat err)"
    if [ "$whole" -gt "$boundary" ]; then # the end of a chunk
      boundary=$whole
      report_cut_run "$boundary"
      expect_equal 'whole bytes' "$boundary" "$whole"
      ! file_says err 'within a record' || fail "$boundary bytes are said to end within a record"
    fi
    cut=$((cut + 17))
  done
  head -c "$boundary" run >part
  echo damaged damaged damaged >>part
  "$UPROBECTL" report part >out 2>err && fail 'a damaged run is reported as whole'
  expect_match 'error' '^uprobectl: error: part: the saved run is damaged: ' "$(cat err)"
}

has_saved() { # EVENTS
  [ "$("$UPROBECTL" report -j run 2>/dev/null | grep -c '"type":"event"')" -eq "$1" ]
}

reports_killed_run() {
  start_program target "$FIXTURES/workload" --wait --hold --calls 7
  start_attach -p "$started_pid" --save run -d 100 "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  wait_until 60 has_saved 7 || fail "7 events are not saved: $("$UPROBECTL" report -j run 2>&1)"
  kill -KILL "$(cat attach.pid)"
  "$UPROBECTL" report -j run >out 2>err || fail "report fails: $(cat err)"
  expect_equal 'events' 7 "$(count_records event)"
  expect_match 'that the run did not end' '^uprobectl: warning: run: the run is cut off at byte' "$(cat err)"
  wait_until 60 file_says status .
}

reports_stream() {
  start_program target "$FIXTURES/workload" --wait --hold --calls 4
  pid=$started_pid
  ("$UPROBECTL" attach --save - -p "$pid" -d 120 "$FIXTURES/workload" work_six 2>err | tee run |
    "$UPROBECTL" report -j - >out 2>said; echo $? >status) &
  wait_until 30 file_says err '^probing ' || fail "attach does not start: $(cat err)"
  let_it_call target "$pid"
  wait_until 60 file_says out '"type":"event"' || fail 'events are not reported while the run goes on'
  kill -KILL "$pid"
  attach_ends_with 0
  expect_equal 'events' 4 "$(count_records event)"
  "$UPROBECTL" report -j run >again 2>said || fail "report fails: $(cat said)"
  cmp out again || fail 'the stream is another run'
}

tells_unsaved() {
  attach_fails_with 2 --save - -j -p "$$" "$FIXTURES/depths" depth_leaf
  mkfifo pipe
  attach_fails_with 2 --save pipe -p "$$" "$FIXTURES/depths" depth_leaf
  attach_fails_with 1 --save no/such/run -p "$$" "$FIXTURES/depths" depth_leaf
  expect_match 'error' 'cannot write no/such/run: no such file or directory' "$(cat err)"
  "$UPROBECTL" attach -j -d 60 --save out -o out "$FIXTURES/depths" depth_leaf -- true >said 2>err &&
    fail 'the records are overwritten'
  expect_match 'error' '--save would overwrite the records' "$(cat err)"
}
