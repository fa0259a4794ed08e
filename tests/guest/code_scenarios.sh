# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch, started_pid: set by the harness and the suite
# Processes whose code is not that of the file: hooked, copied, writable, shared, dropped from
# memory. fixtures/workload/rewrites.c counts its calls and wrong results itself: 40 and 0 if it is
# left alone.

code_scenarios() {
  scenario 'a hooked function is refused, and the hook goes on' refuses_hooked
  scenario 'a function that is hooked while it is probed ends its process, which is explained' explains_hooking
  scenario 'a breakpoint of a debugger is refused, and stays' refuses_breakpoint
  scenario 'code with a breakpoint of another uprobe is probed' shares_breakpoint
  scenario 'code that was replaced by anonymous memory is refused' refuses_copied
  scenario 'a program that copies its code ends by a copied breakpoint, which is explained' explains_copying
  scenario 'frames in replaced code keep their names and callers' names_copied
  scenario 'writable code is refused, unless it had the breakpoint before' refuses_writable
  scenario 'calls of a shared mapping are known to be missing' reports_shared
  scenario 'a breakpoint that was dropped from memory marks the count' reports_dropped
  scenario 'code that stays as it is causes no message' is_silent_about_code
  scenario 'a probed file that is overwritten loses its probes before that' detaches_written_file
  scenario 'a probed file that is replaced keeps its probes, and its count is incomplete' reports_replaced_file
  scenario 'a file that overlayfs has copied up is not said to be uncalled' explains_copy_up
}

start_rewriting() { # MODE
  start_program rewrites "$FIXTURES/rewrites" "$1" wait hold
}

# The program's own counts after its calls.
expect_untouched() { # HOOKED STOPS
  let_it_call rewrites "$started_pid"
  expect_equal 'calls' "done 40 hooked $1 stops $2 wrong 0" "$(grep '^done' rewrites)"
}

refuses_hooked() {
  start_rewriting hooked
  attach_fails_with 1 -p "$started_pid" -d 1s "$FIXTURES/rewrites" rewrites_work
  expect_match 'error' "'rewrites_work' cannot be probed: process $started_pid \(rewrites\) has changed its code in memory: there is a jump to 0x[0-9a-f]+ in .*/rewrites" "$(cat err)"
  attach_fails_with 1 --dry-run -p "$started_pid" "$FIXTURES/rewrites" rewrites_work
  expect_match 'error of a dry run' 'has changed its code in memory' "$(cat err)"
  # Without -p its process would get the breakpoint as well.
  attach_fails_with 1 -d 1s "$FIXTURES/rewrites" rewrites_work
  expect_match 'hint' 'by their pids: -p PID' "$(cat err)"
  start_attach --count -d 120s --keep-going -p "$started_pid" "$FIXTURES/rewrites" rewrites_work rewrites_outer
  file_says err 'has changed its code in memory' || fail '--keep-going does not say what it leaves out'
  kill -TERM "$(cat attach.pid)"
  attach_ends_with 1
  start_attach -j -d 120s -p "$started_pid" "$FIXTURES/rewrites" 'rewrites_[ow]*'
  expect_match 'warning' "'rewrites_work' \(matched by 'rewrites_\[ow\]\*'\) is skipped: process $started_pid .* has changed its code" "$(cat err)"
  expect_untouched 40 0
  stop_attach
  expect_equal 'hits of the other function' 40 "$(records probe symbol=rewrites_outer | field hits)"
}

explains_hooking() {
  start_attach --count "$FIXTURES/rewrites" rewrites_work -- "$FIXTURES/rewrites" hooks
  attach_ends_with 1
  expect_match 'error' 'error: the command ended by signal 5 \(SIGTRAP\): it .*copied code while it was probed, and has run a breakpoint' "$(cat err)"
}

refuses_breakpoint() {
  [ -r "$uprobe_events" ] || skip 'without tracefs it may be that of another uprobe'
  start_rewriting breakpoint
  attach_fails_with 1 -p "$started_pid" -d 1s "$FIXTURES/rewrites" rewrites_work
  expect_match 'error' 'has (a breakpoint there that is not a uprobe|changed its code)' "$(cat err)"
  expect_untouched 0 1
}

shares_breakpoint() {
  start_rewriting plain
  start_attach --count -d 120s -p "$started_pid" "$FIXTURES/rewrites" rewrites_work
  "$UPROBECTL" attach --count -d 300ms -p "$started_pid" "$FIXTURES/rewrites" rewrites_work >second 2>second-err
  expect_equal 'status of the second' 0 "$?"
  ! file_says second-err incomplete || fail "the second misses something: $(cat second-err)"
  expect_untouched 0 0
  stop_attach
  file_says out '^40' || fail "counts: $(cat out)"
}

refuses_copied() {
  start_rewriting copied
  attach_fails_with 1 -p "$started_pid" -d 1s "$FIXTURES/rewrites" rewrites_work
  expect_match 'error' "process $started_pid \(rewrites\) has replaced this part of the file by anonymous memory: it cannot be probed" "$(cat err)"
  expect_untouched 0 0
}

explains_copying() {
  start_attach --count "$FIXTURES/rewrites" rewrites_work -- "$FIXTURES/rewrites" copies
  attach_ends_with 1
  expect_match 'error' 'error: the command ended by signal 5 \(SIGTRAP\): it .*copied code' "$(cat err)"
}

names_copied() {
  start_rewriting copied-outer
  start_attach -j -d 120s -n 5 --stack --if 'caller == rewrites_outer' -p "$started_pid" "$FIXTURES/rewrites" rewrites_work
  let_it_call rewrites "$started_pid"
  attach_ends_with 0
  expect_equal 'stacks with the names of both' 5 "$(count_frames rewrites_outer main)"
  start_rewriting copied-outer
  start_attach -d 120s -n 5 --caller -p "$started_pid" "$FIXTURES/rewrites" rewrites_work
  let_it_call rewrites "$started_pid"
  attach_ends_with 0
  expect_equal 'callers' 5 "$(grep -c rewrites_outer out)"
}

count_frames() { # FUNCTION CALLER: events with frames of both
  records event | grep "\"symbol\": *\"$1\"" | grep -c "\"symbol\": *\"$2\""
}

refuses_writable() {
  start_rewriting writable
  attach_fails_with 1 -p "$started_pid" -d 1s "$FIXTURES/rewrites" rewrites_work
  expect_match 'error' "process $started_pid \(rewrites\) has its code in writable memory, where the kernel puts no breakpoints" "$(cat err)"
  expect_untouched 0 0
  start_attach --count "$FIXTURES/rewrites" rewrites_work -- "$FIXTURES/rewrites" writable
  attach_ends_with 0
  file_says out '^40' || fail "counts: $(cat out)"
  ! file_says err incomplete || fail "$(cat err)"
}

reports_shared() {
  start_rewriting shared
  start_attach -j -d 120s --count -p "$started_pid" "$FIXTURES/rewrites" rewrites_work
  expect_untouched 0 0
  stop_attach
  expect_match 'warning' 'rewrites_work: the count is incomplete: .* maps its code shared \(MAP_SHARED\)' "$(cat err)"
  expect_equal 'hits' 40 "$(records probe | field hits)"
  expect_match 'record' 'MAP_SHARED' "$(records probe | field reason)"
}

reports_dropped() {
  # While the run goes on.
  start_attach -j --count "$FIXTURES/rewrites" rewrites_work rewrites_outer -- "$FIXTURES/rewrites" drops now hold
  wait_until 60 file_says err 'rewrites_work: the count is incomplete: the breakpoint is not in the memory' ||
    fail 'no warning during the run'
  wait_until 60 file_says err '^done' || fail 'the program does not finish its calls'
  stop_attach
  expect_equal 'hits' 20 "$(records probe symbol=rewrites_work | field hits)"
  expect_equal 'record of the other' null "$(records probe symbol=rewrites_outer | field reason)"
  # At the end.
  start_rewriting drops
  start_attach -j -d 120s --count -p "$started_pid" "$FIXTURES/rewrites" rewrites_work
  let_it_call rewrites "$started_pid"
  expect_match 'record' 'breakpoint is not in the memory' "$(stop_attach && records probe | field reason)"
}

is_silent_about_code() {
  start_rewriting plain
  start_attach -j -d 120s -p "$started_pid" "$FIXTURES/rewrites" 'rewrites_*' main
  expect_untouched 0 0
  stop_attach
  ! grep -Eq 'incomplete|changed|copied|replaced' err || fail "$(cat err)"
  expect_equal 'hits' 40 "$(records probe symbol=rewrites_work | field hits)"
}

# From then on the kernel probes the upper file. The process runs the lower one, and its mappings show
# one inode for both.
explains_copy_up() {
  mkdir lower upper work merged
  cp "$FIXTURES/workload" lower/copied-up
  mount -t overlay overlay -o "lowerdir=$PWD/lower,upperdir=$PWD/upper,workdir=$PWD/work" merged 2>/dev/null ||
    skip 'no overlayfs'
  start_program target ./merged/copied-up --wait --hold --calls 5
  touch merged/copied-up
  start_attach -j -d 120 -p "$started_pid" ./merged/copied-up work_six
  let_it_call target "$started_pid"
  stop_attach
  kill -KILL "$started_pid"
  umount -l merged
  expect_equal 'hits' 0 "$(records probe | field hits)"
  expect_match 'reason' "the breakpoint is not in the memory of process $started_pid .*overlayfs" \
    "$(records probe | field reason)"
  ! file_says err 'not called' || fail "$(cat err)"
}

# The writer waits until the probes are detached, so the program that is run next meets none.
detaches_written_file() {
  cp "$FIXTURES/tasks" tasks
  start_attach -j -d 120s ./tasks grind
  ./tasks executes 0 none >before || fail 'the program fails before its file is written'
  cat "$FIXTURES/workload" >tasks
  "$UPROBECTL" list-probes --json >left
  ./tasks --calls 3 >after || fail 'the program that was written fails'
  kill -TERM "$(cat attach.pid)"
  attach_ends_with 1
  expect_match 'error' 'error: ./tasks: the file was opened for writing after .*, so its probes were detached' "$(cat err)"
  ! grep "$scratch.*/tasks" left || fail 'a breakpoint is left in the new code'
  expect_equal 'hits' 10 "$(records probe | field hits)"
  expect_match 'reason' 'the count is incomplete: the file was opened for writing' "$(records probe)"
}

reports_replaced_file() {
  cp "$FIXTURES/tasks" tasks
  start_attach -j -d 120s ./tasks grind
  ./tasks executes 0 none >before || fail 'the program fails'
  cp "$FIXTURES/tasks" new
  mv new tasks
  wait_until 60 file_says err 'warning: ./tasks: the file was replaced after' || fail 'attach does not say so'
  ./tasks executes 0 none >after || fail 'the new program fails'
  stop_attach
  expect_equal 'hits' 10 "$(records probe | field hits)"
  expect_match 'reason' 'the count is incomplete: the file was replaced' "$(records probe)"
}
