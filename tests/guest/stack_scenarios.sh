# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch, started_pid, library: set by the harness and the suite
# User stacks of hits: function by function, as fixtures/stacks/depths.c calls them.

stack_scenarios() {
  for mechanism in $(different_mechanisms multi perf perf-ioctl tracefs); do
    scenario "$mechanism: --stack unwinds code without frame pointers" unwinds_plain "$mechanism"
  done
  scenario '--stack through a perf buffer' unwinds_plain "$perf" --buffer perf
  scenario '--stack with --latency is the stack of the entry' unwinds_calls
  scenario '--stack with --latency through a perf buffer' unwinds_calls --buffer perf
  scenario '--stack at a return is the stack of the caller' unwinds_returns
  for how in '' '--return' '--latency' '--return --return-at trampoline' '--stack=fp'; do
    scenario "--caller names the calling function: ${how:-entries}" names_callers "$how"
  done
  scenario '--caller of a static probe' names_callers_of_static_probe
  scenario 'a stack of the program before an exec is of that one' unwinds_before_exec
  scenario 'with --follow children that run already are watched, too' watches_children
  scenario 'a stack longer than the copy is truncated and counted, and --stack-size is suggested' cuts_long_stacks
  scenario 'a library mapped from an archive is unwound and named' unwinds_archive
  for mechanism in $(mechanisms multi perf tracefs); do
    scenario "$mechanism: --stack goes beyond functions with return probes" unwinds_nested_returns "$mechanism"
  done
  scenario '--stack continues beyond nested return probes with a perf buffer' unwinds_nested_returns "$perf" --buffer perf
  scenario '--stack with --latency continues beyond nested return probes' unwinds_nested_calls
  scenario '--stack with --latency continues beyond nested return probes with a perf buffer' unwinds_nested_calls --buffer perf
  scenario '--stack continues beyond functions that end by a jump' unwinds_jumps
  scenario '--stack continues beyond the maximum number of return probes' unwinds_deep_returns
  scenario '--stack continues beyond a return probe of another tool' unwinds_beyond_another
  scenario 'a stack that ends at a return probe of another tool says so' names_return_probe
  scenario 'a perf event array of a program has stacks with --stack' adds_stacks events plain --stack
  scenario 'records of a map named _with_stack have stacks' adds_stacks events_with_stack with_stack
  scenario '--stack with a ring buffer names perf event arrays' refuses_ring
}

# What stacks look like, which no kernel changes.
shape_scenarios() {
  scenario '--stack of a deep recursion' unwinds_recursion
  scenario '--stack of the handler of a signal' unwinds_signal
  scenario 'the stack below a handler that has its own is said not to be copied' names_other_stack
  scenario 'a stack of Go ends where its goroutine begins, and no warning says otherwise' unwinds_goroutines
  scenario 'a larger --stack-size completes a truncated stack' takes_long_stacks
  scenario '--stack-size bytes are copied, wherever in a page the stack begins' copies_whole_size
  scenario 'a stack that ends before --stack-size bytes is copied to its end' copies_to_the_end
  scenario '--stack=fp has the direct caller, too' walks_ways
  scenario '--stack=fp through a perf buffer' walks_ways --buffer perf
  scenario '--stack=fp has the caller where a function has no frame yet' walks_before_frame
  scenario '--caller names the caller where a function has no frame yet' names_caller_before_frame
  scenario '--stack=fp of a static probe on the first byte of a function has the caller' \
    walks_static_probe
  scenario '--stack=fp of a program has the direct caller at a function, too' \
    walks_ways --object "$FIXTURES/stacks.bpf.o" --program-name plain
  scenario '--count --stack=fp counts each of 4096 stacks' counts_many_stacks --count --stack=fp
  scenario '--count --by stack counts each of 4096 stacks' counts_many_stacks --count --by stack
  scenario '--open --stack=fp has the stacks of 4096 open spans' counts_many_stacks \
    --open --stack=fp --span 'left=ways_leaf..ways_before:arg0/arg0'
}

# Slow in an emulated guest.
full_table_scenarios() {
  scenario 'hits whose stacks the kernel cannot store are all counted' counts_without_stacks
}

# Stack tests that do not depend on the kernel.
saved_stack_scenarios() {
  scenario 'truncating a mapped file loses its frames, not the run' loses_truncated
  scenario '--keep-stacks restores return addresses replaced by return probes' keeps_replaced_returns
  scenario '--count --stack counts unwound stacks, --folded writes them' counts_unwound
  scenario 'a stack that is cut off has no other beginning where stacks are counted' counts_cut_off
  scenario 'a flame graph has the command for its title' draws_flame_graph
  scenario 'a flame graph of stacks counted in the kernel shows hits' draws_counted_calls
  scenario '--folded takes the stacks that the name of a map promises' folds_promised_stacks
  scenario 'debug-unwind unwinds stacks of --keep-stacks' keeps_stacks
  scenario 'stacks that cannot be saved are warned of once, with their number' counts_unsaved_stacks
  scenario 'on a full disk no half of a stack is left, and one warning says why' leaves_no_half_stacks
  scenario 'the installed program reports opens and connects with their stacks' tells_opens_and_connects
}

# serve(), which the compiler has inlined, is called by main alone.
names_callers() { # OPTIONS
  # shellcheck disable=SC2086 # options
  "$UPROBECTL" attach -j -d 60 --caller $1 "$FIXTURES/shop" shop_order -- "$FIXTURES/shop" >out 2>err ||
    fail "attach fails: $(cat err)"
  expect_equal 'callers of shop_order' "CALLS main" \
    "$(records event | grep -o '"caller":{"index":1,[^}]*' | grep -o '"symbol":"[^"]*"' |
      sed 's/"symbol":"\(.*\)"/\1/' | sort | uniq -c | sed 's/^ *[0-9]* /CALLS /')"
}

# The probe point is in its function.
names_callers_of_static_probe() {
  "$UPROBECTL" usdt attach -j -d 60 --caller "$FIXTURES/probes" "shop:*" -- "$FIXTURES/probes" >out 2>err ||
    fail "attach fails: $(cat err)"
  expect_match 'the caller' '"stack":null,"stack_end":null,"caller":\{"index":1,.*"symbol":"' "$(records event | head -n 1)"
}

# "a<b<main" for each event: names as far as main, of the program's own functions.
chains() {
  awk '
    function finish() { if (chain != "") print chain; chain = ""; done = 0 }
    /^    #0 / { finish() }
    /^    #/ && !done {
      name = $2; sub(/\+0x[0-9a-f]+$/, "", name)
      if (name ~ /^(depth_|ways_|greet_|main$)/) chain = chain (chain == "" ? "" : "<") name
      if (name == "main") done = 1
    }
    END { finish() }'
}

expect_chains() { # EXPECTED
  expect_equal 'stacks' "$1" "$(chains <out | sort | uniq -c | sed 's/^ *//')"
}

attach_depths() { # SCENE CALLS LEVELS FUNCTION OPTION…
  scene=$1 calls=$2 levels=$3 function=$4
  shift 4
  "$UPROBECTL" attach -d 120 "$@" "$FIXTURES/depths" "$function" -- "$FIXTURES/depths" "$scene" "$calls" "$levels" \
    >out 2>err || fail "attach fails: $(cat err)"
}

unwinds_plain() { # MECHANISM OPTION…
  needs "$1"
  mechanism=$1
  shift
  attach_depths plain 30 0 depth_leaf --stack --mechanism "$mechanism" "$@"
  expect_chains '30 depth_leaf<depth_middle<depth_outer<main'
  ! grep -q '^    (' out || fail "a stack is not whole: $(grep '^    (' out)"
  ! grep -q warning err || fail "a warning: $(cat err)"
}

unwinds_calls() { # OPTION…
  attach_depths plain 5 0 depth_middle --stack --latency --return-at trampoline "$@"
  expect_chains '5 depth_middle<depth_outer<main'
  attach_depths plain 5 0 depth_middle --stack --latency --return-at ret "$@"
  expect_chains '5 depth_middle<depth_outer<main'
}

unwinds_returns() {
  attach_depths plain 5 0 depth_middle --stack --return --return-at trampoline
  expect_chains '5 depth_outer<main'
}

unwinds_recursion() {
  attach_depths recursive 2 200 depth_leaf --stack
  expect_equal 'frames' 402 "$(grep -c ' depth_recursive+' out)"
  expect_equal 'ends' 2 "$(grep -c ' main+' out)"
}

unwinds_signal() {
  attach_depths signal 3 0 depth_leaf --stack
  expect_chains '3 depth_leaf<depth_handler<depth_raises<main'
}

# raise() was called on the stack of main.
names_other_stack() {
  attach_depths alternate 3 0 depth_leaf --stack
  expect_equal 'the reasons' '3 (the stack at 0x... was not copied: a signal handler runs on a stack of its own)' \
    "$(sed -n 's/^    (\(.*\) at 0x[0-9a-f]* /(\1 at 0x... /p' out | sort | uniq -c | sed 's/^ *//')"
  expect_equal 'handlers' 3 "$(grep -c '^    #1 depth_handler+' out)"
  expect_match 'the warning' 'a signal handler runs on a stack of its own' "$(cat err)"
  ! grep -q -e --stack-size err || fail "a size is suggested: $(cat err)"
}

loses_truncated() {
  "$UPROBECTL" attach -d 60 --stack "$FIXTURES/shrinks" shrink_leaf -- "$FIXTURES/shrinks" "$scratch/copy" 5 \
    >out 2>err || fail "attach fails: $(cat err)"
  expect_equal 'events' 10 "$(grep -c '^    #0 ' out)"
  expect_equal 'frames before' 5 "$(grep -c ' shrink_first+' out)"
  expect_equal 'frames after what is lost' 0 "$(grep -c ' shrink_second+' out)"
  if [ "$(uname -m)" = aarch64 ]; then # frame pointers lead beyond the lost file
    file_says out ' main+0x[0-9a-f]* (shrinks.*) by frame pointer' || fail 'no stack goes on after it'
    return
  fi
  expect_match 'the reason' 'copy cannot be read: it changed size' "$(cat out err)"
}

unwinds_before_exec() {
  needs_types
  attach_depths execs 10 0 depth_leaf --stack --follow
  expect_chains '10 depth_leaf<depth_middle<depth_outer<depth_execs<main'
  expect_whole
}

has_child() { grep -qsx "PPid:[[:space:]]*$1" /proc/[0-9]*/status; }

# The child makes others, which have ended when their stacks are looked at.
watches_children() {
  needs_types
  "$FIXTURES/depths" forks 300 >target &
  target=$!
  echo "$target" >>"$scratch/pids"
  wait_until 30 has_child "$target" || fail 'it has no child'
  "$UPROBECTL" attach -n 5 -d 120 --follow -p "$target" --stack "$FIXTURES/depths" depth_leaf >out 2>err ||
    fail "attach fails: $(cat err)"
  expect_chains '5 depth_leaf<depth_middle<depth_outer<depth_forks<main'
  expect_whole
}

# The functions in the copy. arm64 keeps the caller below a function's variables, x86-64 above them.
chain_of_long_stack() {
  case $library in
  *arm64*) echo 'depth_leaf<depth_middle<depth_wide<main' ;;
  *) echo 'depth_leaf<depth_middle<depth_wide' ;;
  esac
}

cuts_long_stacks() {
  attach_depths wide 4 0 depth_leaf --stack --stack-size 16384
  expect_chains "4 $(chain_of_long_stack)"
  expect_match 'warning' '4 of 4 stacks truncated.*--stack-size 32768' "$(cat err)"
  attach_depths wide 4 0 depth_leaf --stack --stack-size 16384 --json
  expect_equal 'truncated' 4 "$(records summary | field stacks_truncated)"
  expect_equal 'failed' 0 "$(records summary | field stacks_failed)"
}

# The stacks end less than a quarter of a page before the end of the copy. The copy has one
# end of a page in it, or two, and its last byte is at any position of a page.
copies_whole_size() {
  for room in 0 5000 12000; do
    attach_depths steps 1 "$room" depth_leaf --stack --stack-size $((room + 256))
    expect_equal 'positions of the stack pointer in a page' 256 "$(grep -x '[0-9]*' err)"
    expect_chains '256 depth_leaf<depth_middle<depth_roomy<depth_steps'
  done
}

# The C library keeps some 2,500 bytes at the end of the stack.
copies_to_the_end() {
  for size in 4096 6000 8192 16384 65528; do
    attach_depths threads 3 0 depth_leaf --stack --stack-size "$size"
    expect_chains '3 depth_leaf<depth_middle<depth_outer<depth_thread'
    ! grep -q '^    (' out || fail "a stack of $size bytes is not whole: $(grep '^    (' out)"
  done
}

takes_long_stacks() {
  attach_depths wide 4 0 depth_leaf --call-graph dwarf,65528
  expect_chains '4 depth_leaf<depth_middle<depth_wide<main'
}

walks_ways() { # OPTION…
  "$UPROBECTL" attach -d 120 --stack=fp "$@" "$FIXTURES/ways" ways_leaf -- "$FIXTURES/ways" 3 >out 2>err ||
    fail "attach fails: $(cat err)"
  expect_chains '1 ways_leaf<ways_left<main
3 ways_leaf<ways_left<ways_both<main
3 ways_leaf<ways_right<ways_both<main'
}

# So many that hundreds of them share one of the kernel's 16,384 hashes with another one.
counts_many_stacks() { # OPTION…
  case $* in *--span*) function= ;; *) function=ways_leaf ;; esac
  # shellcheck disable=SC2086 # no function with --span
  "$UPROBECTL" attach -d 120 "$@" "$FIXTURES/ways" $function -- "$FIXTURES/ways" 12 many >out 2>err ||
    fail "attach fails: $(cat err)"
  expect_equal 'rows' 4096 "$(wc -l <out | tr -d ' ')"
  expect_equal 'rows of one hit with its callers' 4096 "$(grep -c '^1	.*	ways_leaf .* < ways_branch.* < main+' out)"
  ! file_says err 'without a stack' || fail "stacks are missing: $(cat err)"
}

# The hits have 32,768 stacks, each with two callers; the kernel stores at most 24,576.
counts_without_stacks() {
  "$UPROBECTL" attach -d 120 --count --stack=fp "$FIXTURES/ways" ways_leaf -- "$FIXTURES/ways" 16 many >out 2>err ||
    fail "attach fails: $(cat err)"
  expect_equal 'hits' 65536 "$(awk '{ sum += $1 } END { print sum }' out)"
  missing=$(grep -v 'ways_branch' out | cut -f 1)
  [ "$missing" -ge 16384 ] || fail "only $missing hits have no stack"
  expect_match 'warning' "^uprobectl: warning: $missing hits counted without a stack" "$(cat err)"
}

# Its first instruction has four bytes.
walks_before_frame() {
  "$UPROBECTL" attach -d 120 --stack=fp "$FIXTURES/ways" ways_late+4 -- "$FIXTURES/ways" 3 late >out 2>err ||
    fail "attach fails: $(cat err)"
  expect_chains '3 ways_late<ways_before<main'
}

names_caller_before_frame() {
  "$UPROBECTL" attach -j -d 120 --caller "$FIXTURES/ways" ways_late+4 -- "$FIXTURES/ways" 3 late >out 2>err ||
    fail "attach fails: $(cat err)"
  expect_equal 'callers of ways_late' 3 "$(records event | grep -c '"caller":{"index":1,[^}]*"symbol":"ways_before"')"
}

# The program has no frame pointers, so only the caller is known.
walks_static_probe() {
  [ "$(uname -m)" = x86_64 ] || skip 'the probe is in assembly of x86-64'
  "$UPROBECTL" usdt attach -d 120 --stack=fp "$FIXTURES/probes" shelf:entry -- "$FIXTURES/probes" --calls 3 \
    >out 2>err || fail "attach fails: $(cat err)"
  expect_equal 'callers' 3 "$(grep -cE '^    #1 (tell_shelf|main)(\.[a-z.0-9]*)?\+0x' out)"
}

unwinds_archive() {
  "$UPROBECTL" attach -d 120 --stack "$FIXTURES/greet.apk!/$library/libgreet.so" greet_add -- \
    "$FIXTURES/apk-host" "$FIXTURES/greet.apk!/$library/libgreet.so" greet_total 3 >out 2>err ||
    fail "attach fails: $(cat err)"
  expect_chains '3 greet_add<greet_total<main'
  expect_equal 'offsets' 3 "$(grep -c "greet_total+0x[0-9a-f]* (greet.apk!/$library/libgreet.so+0x" out)"
}

expect_whole() {
  ! grep '^    (' out >reasons || fail "a stack is not whole: $(cat reasons)"
  ! grep -E 'stacks (cut|not)' err >reasons || fail "stacks are not whole: $(cat reasons)"
}

attach_nested() { # SCENE OPTION…
  scene=$1
  shift
  "$UPROBECTL" attach -d 120 --stack --return-at trampoline "$@" "$FIXTURES/depths" 'depth_*' -- \
    "$FIXTURES/depths" "$scene" 5 >out 2>err || fail "attach fails: $(cat err)"
}

unwinds_nested_returns() { # MECHANISM OPTION…
  needs "$1"
  needs_types
  mechanism=$1
  shift
  attach_nested plain --entry --return --mechanism "$mechanism" "$@"
  expect_chains '5 depth_leaf<depth_middle<depth_outer<main
10 depth_middle<depth_outer<main
10 depth_outer<main
5 main'
  expect_whole
}

unwinds_nested_calls() { # OPTION…
  needs_types
  attach_nested plain --latency "$@"
  expect_chains '5 depth_leaf<depth_middle<depth_outer<main
5 depth_middle<depth_outer<main
5 depth_outer<main'
  expect_whole
}

unwinds_jumps() {
  needs_types
  attach_nested jumps --entry --return
  expect_chains '15 depth_hops<main
5 depth_jumps<depth_hops<main
5 depth_leaf<depth_middle<depth_hops<main
10 depth_middle<depth_hops<main
5 main'
  expect_whole
  attach_nested jumps --latency
  expect_chains '5 depth_hops<main
5 depth_jumps<depth_hops<main
5 depth_leaf<depth_middle<depth_hops<main
5 depth_middle<depth_hops<main'
  expect_whole
}

# The kernel replaces 64 return addresses of a thread, and no more.
unwinds_deep_returns() {
  needs_types
  attach_depths recursive 1 63 depth_recursive --stack --return --return-at trampoline
  expect_equal 'ends' 64 "$(grep -c ' main+' out)"
  expect_equal 'frames' $((63 * 64 / 2)) "$(grep -c ' depth_recursive+' out)"
  expect_whole
}

# A program that waits in depth_outer, now and then, with a return probe on that.
start_return_probe() {
  "$FIXTURES/depths" waits 100000 >target &
  target=$!
  echo "$target" >>"$scratch/pids"
  "$UPROBECTL" attach -d 120 -p "$target" --return --return-at trampoline "$FIXTURES/depths" depth_outer >other 2>&1 &
  other=$!
  echo "$other" >>"$scratch/pids"
  wait_until 30 file_says other depth_outer || fail "the other does not attach: $(cat other)"
}

stop_return_probe() {
  kill -INT "$other"
  wait "$other"
}

unwinds_beyond_another() {
  needs_types
  start_return_probe
  "$UPROBECTL" attach -n 3 -d 120 -p "$target" --stack "$FIXTURES/depths" depth_leaf >out 2>err ||
    fail "attach fails: $(cat err)"
  stop_return_probe
  expect_chains '3 depth_leaf<depth_middle<depth_outer<main'
  expect_whole
}

# On arm64 the addresses at which to restore them are not known.
keeps_replaced_returns() {
  needs_types
  case $library in
  *arm64*) reason='a return probe has replaced' ;;
  *) reason='the saved stack does not have the bytes' ;;
  esac
  attach_depths wide 2 0 'depth_*' --stack --return --return-at trampoline --stack-size 8192 --keep-stacks kept
  expect_match 'warning' 'stacks truncated' "$(cat err)"
  for saved in kept/*; do
    "$UPROBECTL" debug-unwind "$saved" >unwound 2>>err || fail "debug-unwind fails: $(cat err)"
    expect_match 'end' "$reason" "$(cat unwound err)"
  done
}

names_return_probe() {
  start_return_probe
  "$UPROBECTL" attach -n 3 -d 120 -p "$target" --object "$FIXTURES/stacks.bpf.o" --program-name with_stack \
    "$FIXTURES/depths" depth_leaf >out 2>err || fail "attach fails: $(cat err)"
  stop_return_probe
  expect_chains '3 depth_leaf<depth_middle<depth_outer'
  expect_equal 'reasons' 3 "$(grep -c '^    (a return probe has replaced' out)"
  expect_match 'warning' '3 of 3 stacks incomplete.* return probe' "$(cat err)"
}

counts_unwound() {
  attach_depths plain 40 0 depth_leaf --count --stack --folded folded
  expect_equal 'count' 40 "$(grep depth_leaf out | cut -f 1)"
  expect_match 'frames' 'depth_leaf [^<]*< depth_middle\+[^<]*< depth_outer\+[^<]*< main\+' "$(cut -f 3 out)"
  expect_match 'folded' '(^|;)main;depth_outer;depth_middle;depth_leaf 40$' "$(cat folded)"
}

counts_cut_off() {
  attach_depths wide 4 0 depth_leaf --count --stack --stack-size 16384 --folded folded
  expect_match 'frames' 'depth_leaf [^<]*< depth_middle\+[^<]*< depth_wide\+.*< \[truncated\]$' "$(cut -f 3 out)"
  expect_match 'folded' '^\[truncated\];.*depth_wide;depth_middle;depth_leaf 4$' "$(cat folded)"
  attach_depths wide 4 0 depth_leaf --count --stack --stack-size 16384 --json
  expect_equal 'ends' stack_too_short "$(records count | field stack_end)"
}

draws_flame_graph() {
  attach_depths plain 7 0 depth_leaf --stack=dwarf --flamegraph out.svg
  ! file_says out depth_leaf || fail "events on stdout: $(cat out)"
  expect_match 'that they are not shown' '^events are not shown, only their stacks are written' "$(cat err)"
  expect_match 'events in the summary' '^7 events in ' "$(cat err)"
  expect_match 'title' 'uprobectl attach .*--stack=dwarf' "$(cat out.svg)"
  expect_match 'function' 'depth_outer' "$(cat out.svg)"
  "$UPROBECTL" attach -d 5 --stack --flamegraph no/such/folder.svg "$FIXTURES/depths" depth_leaf >out 2>err &&
    fail 'a bad path is taken'
  expect_match 'error' 'no/such/folder.svg: no such file or directory' "$(cat err)"
  "$UPROBECTL" attach -j --stack --flamegraph /dev/full "$FIXTURES/depths" depth_leaf -- true >out 2>err &&
    fail 'a picture that cannot be written is no failure'
  expect_match 'message' '^uprobectl: error: /dev/full: no space left on device$' "$(cat err)"
  expect_equal 'record of the error' '/dev/full: no space left on device' "$(records error | field message)"
}

draws_counted_calls() {
  attach_depths plain 7 0 depth_leaf --count --latency --stack=fp --flamegraph out.svg
  expect_match 'weight' '7 of 7 hits, 100.00%' "$(cat out.svg)"
}

folds_promised_stacks() {
  attach_depths plain 5 0 depth_leaf --object "$FIXTURES/stacks.bpf.o" --program-name with_stack --folded folded
  expect_match 'folded' '(^|;)main;depth_outer;depth_middle;depth_leaf 5$' "$(cat folded)"
  "$UPROBECTL" attach -d 5 --object "$FIXTURES/greetings.bpf.o" --folded folded "$FIXTURES/depths" depth_leaf \
    >out 2>err && fail 'lines of no stacks are taken'
  expect_match 'error' 'no map carries stacks' "$(cat err)"
}

keeps_stacks() {
  attach_depths wide 4 0 depth_leaf --stack --stack-size 8192 --keep-stacks kept
  "$UPROBECTL" debug-unwind kept/stack-1 >unwound 2>>err || fail "debug-unwind fails: $(cat err)"
  expect_equal 'frames' "$(chain_of_long_stack)" \
    "$(cut -f 3 unwound | sed -n 's/^\(depth_[a-z]*\|main\).*/\1/p' | tr '\n' '<' | sed 's/<$//')"
  expect_match 'status' '1 stack saved in kept' "$(cat err)"
}

# Cut off in two to four functions, as the stack begins at one address or another.
counts_unsaved_stacks() {
  attach_depths recursive 2 20 'depth_*' --stack --stack-size 256 --keep-stacks missing/kept
  expect_equal 'warnings' 2 "$(grep -c 'missing/kept: no such file or directory' err)"
  expect_match 'number' 'and [1-9] more like it: a stack cannot be saved: missing/kept' "$(cat err)"
  attach_depths recursive 2 20 'depth_*' --stack --stack-size 256 --keep-stacks missing/kept -v
  [ "$(grep -c 'missing/kept: no such file or directory' err)" -ge 2 ] || fail '-v does not tell each'
  ! file_says err 'more like it: a stack' || fail '-v does not tell each'
}

leaves_no_half_stacks() {
  unshare --mount true 2>/dev/null || skip 'no unshare'
  mkdir full
  unshare --mount sh -c 'mount -t tmpfs -o size=16k none full && "$@"; code=$?; ls full/kept >left; exit $code' sh \
    "$UPROBECTL" attach -d 120 --stack --stack-size 256 --keep-stacks full/kept "$FIXTURES/depths" 'depth_*' \
    -- "$FIXTURES/depths" recursive 2 20 >out 2>err || fail "attach fails: $(cat err)"
  expect_equal 'left' '' "$(cat left)"
  expect_equal 'warnings' 2 "$(grep -c 'no space left on device' err)"
  expect_match 'number' 'and [1-9] more like it: a stack cannot be saved: full/kept/stack-1/' "$(cat err)"
}

adds_stacks() { # MAP PROGRAM OPTION…
  map=$1 program=$2
  shift 2
  attach_depths plain 5 0 depth_leaf --object "$FIXTURES/stacks.bpf.o" --program-name "$program" "$@"
  expect_chains '5 depth_leaf<depth_middle<depth_outer<main'
  expect_equal 'records' 5 "$(grep -c "	$map	pid=" out)"
}

refuses_ring() {
  "$UPROBECTL" attach -d 5 --stack --object "$FIXTURES/greetings.bpf.o" \
    "$FIXTURES/depths" depth_leaf >out 2>err &&
    fail 'a ring buffer is taken'
  expect_match 'error' 'is a ring buffer, which cannot carry user stacks' "$(cat err)"
  expect_match 'hint' 'BPF_MAP_TYPE_PERF_EVENT_ARRAY' "$(cat err)"
}

tells_opens_and_connects() {
  "$FIXTURES/bpf-census" >/dev/null 2>&1
  "$UPROBECTL" attach -d 120 --object "$FIXTURES/opens_and_connects.bpf.o" -- "$FIXTURES/depths" system 2 >all 2>err ||
    fail "attach fails: $(cat err)"
  grep -A 40 'comm="depths"' all >out
  expect_match 'opens' 'call="open" comm="depths" target="/etc/passwd"' "$(cat out)"
  expect_match 'connects' 'call="connect" comm="depths" target="127.000.000.001" port=9' "$(cat out)"
  expect_match 'stacks' 'depth_opens<main' "$(chains <out)"
  expect_match 'stacks' 'depth_connects<main' "$(chains <out)"
}

unwinds_goroutines() {
  [ -e "$FIXTURES/goroutines" ] || skip 'no Go compiler was there when the fixtures were built'
  "$UPROBECTL" attach -j -n 20 -d 100 --stack "$FIXTURES/goroutines" main.add -- "$FIXTURES/goroutines" 60 \
    >out 2>err || fail 'attach ends with an error'
  expect_equal 'stacks' 20 "$(count_records event)"
  expect_equal 'how they end' 'outermost' "$(records event | field stack_end | sort -u)"
  expect_equal 'not unwound' 0 "$(records summary | field stacks_failed)"
  ! file_says err warning || fail "$(cat err)"
}
