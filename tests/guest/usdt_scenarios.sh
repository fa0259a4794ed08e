# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch, started_pid, library: set by the harness and the suite
# Static probes: fixtures/workload/probe_sites.h says what they pass.

# A program for each location: the kernel checks five thousand instructions eleven times, which takes an
# emulated machine 20 s.
usdt_scenarios() {
  for mechanism in $(mechanisms perf perf-ioctl tracefs multi); do
    if in_scope mechanisms || { [ "$mechanism" != perf-ioctl ] && [ "$mechanism" != tracefs ]; }; then
      scenario "usdt $mechanism: all points of all probes, each with its own arguments" \
        sees_all_points "$mechanism"
    fi
    if in_scope mechanisms || [ "$mechanism" = perf-ioctl ]; then
      scenario "usdt $mechanism: in an archive" sees_points_in_archive "$mechanism"
    fi
    scenario "usdt $mechanism: semaphores are counted up, and back to zero" \
      counts_semaphores "$mechanism"
  done
  scenario 'usdt: semaphores go back to zero even if uprobectl is killed' gives_semaphores_back
  ! in_scope mechanisms ||
    scenario 'usdt: a perf buffer, arguments by copies of the program' sees_all_points perf-ioctl --buffer perf
  scenario 'usdt: types, conditions and names of arguments' types_arguments
  scenario 'usdt: locations are counted and measured as one probe' sums_points
  if in_scope mechanisms; then # the same on each architecture
    scenario 'usdt: one location that is refused keeps all from being attached' attaches_all_or_none
    scenario 'usdt: with --keep-going a refused probe is left out with all its locations' leaves_probe_out
    scenario 'usdt: an unhit probe is reported once for all locations' tells_silence_once
    scenario 'usdt: a pinned program, again and again' fills_pinned_table
  fi
  scenario 'usdt: programs compiled with usdt.bpf.h find their arguments' fills_spec_table "$perf"
  scenario 'usdt: the same by multi' fills_spec_table multi
  scenario 'usdt: a sleepable program' fills_spec_table_of_sleepable
  scenario 'usdt: sections of a program name static probes, in archives too' attaches_static_sections
  scenario 'usdt: a program for static probes is not attached to functions' refuses_function
  scenario 'usdt: a program for returns is not attached to static probes' refuses_returns
  if [ "$(uname -m)" = x86_64 ]; then
    for mechanism in $(mechanisms perf multi); do
      scenario "usdt $mechanism: a probe of nop, nop5 leaves the stack of a leaf function alone" \
        spares_red_zone "$mechanism"
      scenario "usdt $mechanism: a probe of nop5 alone leaves the stack of a leaf function alone" \
        spares_red_zone_of_nop5 "$mechanism"
      scenario "usdt $mechanism: a probe of nop5 at an entry is attached" \
        probes_nop5_at_entry "$mechanism"
    done
    scenario 'usdt: a 32-bit program' sees_points_of_32_bits
  fi
  scenario "usdt: static probes of python3.11 report function calls of a script" sees_python
}

start_probes() { # ARGUMENT…
  start_program target "$FIXTURES/probes" --wait --hold "$@"
}

start_usdt() { start_attach_as 'usdt attach' "$@"; }

# The arguments of each call at the five locations of order__start.
expected_orders() { # CALLS
  number=0
  while [ "$number" -lt "$1" ]; do
    number=$((number + 1))
    echo "-$number $((1000 + number)) \"tea\""
    echo '-7 "18446744073709551614" "coffee"'
    echo "$((2 * number)) $((3 * number)) \"cake\""
    case $((number % 3)) in
      0) echo '-11 11 "red"' ;;
      1) echo '-22 22 "green"' ;;
      2) echo '-33 33 "blue"' ;;
    esac
    echo "$((4 * number)) $((5 * number)) \"juice\""
  done
}

expect_orders() { # CALLS
  expected_orders "$1" >expected
  values_of shop:order__start >actual
  expect_same_lines 'orders' expected actual
}

# After CALLS calls with all probes attached.
expect_everything() { # CALLS
  expect_orders "$1"
  values_of shop:guarded >actual
  number=0
  while [ "$number" -lt "$1" ]; do
    number=$((number + 1))
    printf '%s\n-%s\n' "$number" "$number"
  done >expected
  expect_same_lines 'guarded' expected actual
  values_of shop:weigh | sed 's/ null.*//' >actual
  number=0
  while [ "$number" -lt "$1" ]; do
    number=$((number + 1))
    echo "$number.5"
  done >expected
  expect_same_lines 'weights in memory' expected actual
  expect_match 'a weight in a register' 'vector register' "$(values_of shop:weigh | head -n 1)"
  values_of shop:parts | head -n 1 >actual
  case $(uname -m) in # of 0xfedcba9876548180 + 1
    x86_64) echo '129 -127 -32383 1985249665 "-81985529216466559"' ;;
    *) echo '1985249665 "-81985529216466559" 0' ;;
  esac >expected
  expect_same_lines 'parts of a register' expected actual
  expect_equal 'done' "$1" "$(count_records event symbol=shop:order__done)"
  expect_equal 'arguments of a probe without any' "$1" \
    "$(records event symbol=shop:order__done | grep -c '"arguments": *\[\]')"
  expect_equal 'events' "$((11 * $1 - $1))" "$(count_records event kind=usdt)"
  expect_equal 'probes hit' 5 "$(records summary | field probes_hit)"
  expect_equal 'probes silent' 0 "$(records summary | field probes_silent)"
  expect_equal 'lost' 0 "$(records summary | field lost)"
}

sees_all_points() { # MECHANISM OPTION…
  needs "$1"
  how=$1
  shift
  start_probes --calls 4
  start_usdt -j -d 120 -p "$started_pid" --mechanism "$how" "$@" \
    --args 'shop:order-start=2:str' "$FIXTURES/probes" 'shop:*'
  file_says err 'warning: shop:weigh: arg1 cannot be read .*vector register' || fail "$(cat err)"
  let_it_call target "$started_pid"
  stop_attach
  expect_everything 4
}

# Linux 6.18 makes a call of the second nop after some hits.
spares_red_zone() { # MECHANISM
  needs "$1"
  start_probes --calls 50
  start_usdt -j -d 120 -p "$started_pid" --mechanism "$1" --args 0:x64 "$FIXTURES/probes" shelf:leaf
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'what the function kept on its stack' 'leaf 1122334455667788' "$(grep '^leaf' target)"
  expect_equal 'hits' 50 "$(count_records event symbol=shelf:leaf)"
  expect_equal 'where the probe is' "$("$UPROBECTL" usdt list "$FIXTURES/probes" shelf:leaf | cut -f 1)" \
    "$(records probe | field offset)"
  expect_equal 'the same, seen by the probe' '"0x1122334455667788"' "$(values_of shelf:leaf | sort -u)"
}

spares_red_zone_of_nop5() { # MECHANISM
  needs "$1"
  start_probes --calls 50
  start_usdt -j -d 120 -p "$started_pid" --mechanism "$1" "$FIXTURES/probes" 'shelf:*'
  let_it_call target "$started_pid"
  stop_attach
  for name in leaf bare entry; do
    expect_equal 'what the function kept on its stack' "$name 1122334455667788" "$(grep "^$name" target)"
    expect_equal "hits of $name" 50 "$(count_records event "symbol=shelf:$name")"
  done
}

probes_nop5_at_entry() { # MECHANISM
  needs "$1"
  start_probes --calls 50
  start_usdt -j -d 120 -p "$started_pid" --mechanism "$1" "$FIXTURES/probes" shelf:entry
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'hits' 50 "$(count_records event symbol=shelf:entry)"
  expect_equal 'what the function returns' 'entry 1122334455667788' "$(grep '^entry' target)"
}

sees_points_of_32_bits() {
  [ -x "$FIXTURES/probes-32" ] || skip 'no 32-bit program was built'
  # The shell's status for a program that the kernel refuses (ENOEXEC).
  status=0
  # shellcheck disable=SC2016 # expanded by the inner shell
  timeout 1 sh -c 'exec "$0"' "$FIXTURES/probes-32" </dev/null >/dev/null 2>&1 || status=$?
  [ "$status" != 126 ] || skip 'this kernel runs no 32-bit programs'
  start_program target "$FIXTURES/probes-32"
  start_usdt -j -d 120 -p "$started_pid" --args 'shop:order-start=2:str' "$FIXTURES/probes-32" 'shop:*'
  let_it_call target "$started_pid"
  stop_attach
  expected_orders 3 | sed 's/"18446744073709551614"/4294967294/' >expected
  values_of shop:order__start >actual
  expect_same_lines 'orders' expected actual
  expect_equal 'parts of a register' '129 -127 -32383 1985249665 1985249665' \
    "$(values_of shop:parts | head -n 1)"
  expect_equal 'guarded' '1 -1 2 -2 3 -3' "$(values_of shop:guarded | tr '\n' ' ' | sed 's/ $//')"
}

start_probes_host() { # CALLS
  start_program target "$FIXTURES/apk-host" "$FIXTURES/probes.apk!/$library/libprobes.so" \
    shop_serve "$1" --wait --hold
}

sees_points_in_archive() { # MECHANISM
  needs "$1"
  start_probes_host 3
  start_usdt -j -d 120 -p "$started_pid" --mechanism "$1" --args 'shop:order__start=2:str' \
    "$FIXTURES/probes.apk!/$library/libprobes.so" 'shop:*'
  let_it_call target "$started_pid"
  stop_attach
  expect_everything 3
  expect_equal 'entry' "$library/libprobes.so" "$(records event | field entry | sort -u)"
}

counts_semaphores() { # MECHANISM
  needs "$1"
  start_probes --calls 6
  start_usdt -j -d 120 -p "$started_pid" --mechanism "$1" "$FIXTURES/probes" shop:guarded
  let_it_call target "$started_pid"
  stop_attach
  # One for each point.
  expect_equal 'semaphore while attached' 'semaphore 2' "$(sed -n '/^semaphore/{p;q}' target)"
  expect_equal 'events' 12 "$(count_records event symbol=shop:guarded)"
  expect_semaphore_free
}

# It tells its semaphore once more when it ends.
expect_semaphore_free() {
  kill -USR1 "$started_pid"
  wait_until 30 says_twice || fail 'it does not end'
  expect_equal 'semaphore afterwards' 'semaphore 0' "$(sed -n '/^semaphore/p' target | tail -n 1)"
}
says_twice() { [ "$(grep -c '^semaphore' target)" -eq 2 ]; }

gives_semaphores_back() {
  start_probes --calls 1
  start_usdt -j -d 120 -p "$started_pid" "$FIXTURES/probes" shop:guarded
  let_it_call target "$started_pid"
  expect_equal 'semaphore while attached' 'semaphore 2' "$(sed -n '/^semaphore/p' target)"
  kill -KILL "$(cat attach.pid)"
  wait_until 60 file_says status . || fail 'it lives on'
  wait_until 30 no_uprobectl || fail 'something of it is left'
  expect_semaphore_free
}
no_uprobectl() { ! [ -e "/proc/$(cat attach.pid)" ]; }

types_arguments() {
  start_probes --calls 3
  start_usdt -j -d 120 -p "$started_pid" --args 'id:s32,name:str@arg2,first:char@arg2+0' \
    --if 'arg1==11' --if 'id<0' "$FIXTURES/probes" shop:order-start
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'arguments' '-11 "red" "r"' "$(values_of shop:order__start)"
  expect_equal 'names' 'id name first' \
    "$(records event | grep -o '"name": *"[a-z]*"' | field name | tr '\n' ' ' | sed 's/ $//')"
}

sums_points() {
  start_probes --calls 10
  start_usdt -j -d 120 -p "$started_pid" --count --per-process --expect 50 \
    "$FIXTURES/probes" shop:order-start shop:guarded
  let_it_call target "$started_pid"
  kill -TERM "$(cat attach.pid)"
  attach_ends_with 1 # guarded has 20
  expect_equal 'counts' 2 "$(count_records count)"
  expect_equal 'orders' 50 "$(records count symbol=shop:order__start | field count)"
  expect_equal 'guarded' 20 "$(records count symbol=shop:guarded | field count)"
  file_says err 'shop:guarded: 20 hits, expected at least 50' || fail "$(cat err)"
  start_probes --calls 10
  start_usdt -j -d 120 -p "$started_pid" --histogram --measure arg0 "$FIXTURES/probes" shop:order-start
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'histograms' 1 "$(count_records histogram)"
  expect_match 'measured' '"unit": *"value", *"count": *50,' "$(records histogram)"
  expect_equal 'least' -33 "$(records histogram | field min)"
  expect_equal 'most' 40 "$(records histogram | field max)"
}

# A probe without a semaphore where a static one wants it: the kernel refuses the second.
occupy_guarded() {
  offset=$("$UPROBECTL" usdt list "$FIXTURES/probes" shop:guarded | tail -n 1 | cut -f 1)
  (exec "$UPROBECTL" attach -q -d 120 -p "$started_pid" "$FIXTURES/probes" "offset:$offset") >other.out 2>other.err &
  occupier=$!
  echo "$occupier" >>"$scratch/pids"
  wait_until 30 occupied || fail "the offset is not occupied: $(cat other.err)"
}
occupied() { "$UPROBECTL" list-probes -v 2>/dev/null | grep -F "uprobectl[$occupier]" | grep -q "$offset"; }
leave_guarded() {
  kill -TERM "$occupier"
  wait_until 30 occupier_is_gone
}
occupier_is_gone() { ! kill -0 "$occupier" 2>/dev/null; }

attaches_all_or_none() {
  start_program passing "$FIXTURES/probes" --calls 1000000000 # passes the other probes all the time
  passing_pid=$started_pid
  start_probes --calls 2
  occupy_guarded
  start_refused usdt -j -d 120 "$FIXTURES/probes" 'shop:*'
  file_says err 'shop:guarded: the kernel refuses a probe at this offset' || fail "$(cat err)"
  kill -0 "$passing_pid" || fail 'nothing was there to be seen'
  leave_guarded
  let_it_call target "$started_pid"
  expect_equal 'events' 0 "$(count_records event)"
  expect_equal 'semaphore' 'semaphore 0' "$(sed -n '/^semaphore/p' target)"
}
start_refused() { # usdt ARGUMENT…
  shift
  "$UPROBECTL" usdt attach "$@" >out 2>err
  expect_equal 'exit status' 1 "$?"
  ! file_says out '"attached"' || fail 'it says it has attached'
}

leaves_probe_out() {
  start_probes --calls 2
  occupy_guarded
  start_usdt -j -d 120 --keep-going -p "$started_pid" --args 'shop:order__start=2:str' \
    "$FIXTURES/probes" 'shop:*'
  leave_guarded
  let_it_call target "$started_pid"
  kill -TERM "$(cat attach.pid)"
  attach_ends_with 1
  expect_orders 2
  expect_equal 'guarded' 0 "$(count_records event symbol=shop:guarded)"
  expect_equal 'its points' 0 "$(count_records probe symbol=shop:guarded)"
}

tells_silence_once() {
  start_probes --calls 1
  start_usdt -j -d 1s -p "$started_pid" "$FIXTURES/probes" 'shop:order*'
  attach_ends_with 0
  expect_equal 'lines' 2 "$(grep -c 'never hit' err)"
  expect_equal 'records' 6 "$(count_records probe)"
  expect_equal 'silent' 2 "$(records summary | field probes_silent)"
}

# id, price, name and error of each record; an element at an index only newer usdt.bpf.h can say.
reported_orders() {
  records event | sed -n 's/.*"record": *{"id":\([^,]*\),"price":\([^,]*\),"name":"\([^"]*\)","cookie":\([^,]*\),"count":\([^,]*\),"first_error":\([^,}]*\).*/\1 \2 \3 \4 \5 \6/p'
}
expect_reported_orders() { # COOKIE
  cat >expected <<END
-1 1001 tea $1 3 0
-7 -2 coffee $1 3 0
2 3 cake $1 3 0
0 0  $1 3 -22
4 5 juice $1 3 0
END
  reported_orders >actual
  expect_same_lines 'orders reported' expected actual
}

fills_spec_table_of_sleepable() { fills_spec_table auto tell_patiently; }

fills_spec_table() { # MECHANISM [PROGRAM]
  needs "$1"
  start_probes --calls 1
  start_usdt -j -d 120 -p "$started_pid" --mechanism "$1" --object "$FIXTURES/orders.bpf.o" \
    --program-name "${2:-tell_order}" --record order --cookie 77 "$FIXTURES/probes" shop:order-start
  file_says err 'arg0 cannot be read .*usdt.bpf.h of this program' || fail "$(cat err)"
  let_it_call target "$started_pid"
  stop_attach
  expect_reported_orders 77
}

attaches_static_sections() {
  ln -s "$FIXTURES/probes.apk" .
  start_probes_host 1
  start_attach -j -d 120 -p "$started_pid" --object "$FIXTURES/orders.bpf.o" \
    --program-name tell_in_archive --record order
  let_it_call target "$started_pid"
  stop_attach
  expect_reported_orders 0
}

fills_pinned_table() { with_pins fills_pinned_table_there; }
fills_pinned_table_there() {
  load "$FIXTURES/orders.bpf.o" --pin pins/o || fail "load: $(cat err)"
  for run in 1 2; do
    start_probes --calls 1
    start_usdt -j -d 120 -p "$started_pid" --program pins/o/tell_order --record order \
      --cookie "$run" "$FIXTURES/probes" shop:order-start
    let_it_call target "$started_pid"
    stop_attach
    expect_reported_orders "$run"
  done
  load --unpin pins/o || fail "unpin: $(cat err)"
}

refuses_returns() {
  start_refused usdt -d 1s --object "$FIXTURES/calls.bpf.o" --program-name count_return \
    "$FIXTURES/probes" shop:order-start
  file_says err "'count_return' .* it is for returns" || fail "$(cat err)"
  start_refused usdt -d 1s --object "$FIXTURES/session.bpf.o" "$FIXTURES/probes" shop:order-start
  file_says err 'is for returns' || fail "$(cat err)"
}

refuses_function() {
  start_probes
  attach_fails_with 1 -p "$started_pid" --object "$FIXTURES/orders.bpf.o" \
    --program-name tell_order "$FIXTURES/probes" shop_serve
  file_says err 'usdt attach --object' || fail "$(cat err)"
}

# Returns fire for every function, entries where an exception is thrown into one (CPython 3.11).
sees_python() {
  python=/usr/bin/python3.11
  [ -x "$python" ] || skip 'no python3.11 on this machine'
  "$UPROBECTL" usdt list "$python" 2>/dev/null | grep -q 'python:function__return' ||
    skip 'python3.11 on this machine has no static probes'
  cat >script.py <<'END'
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
def bake(count): return count + 1
def sell(count): return bake(count)
def customers():
    while True:
        try: yield 1
        except ValueError: pass
queue = customers()
next(queue)
print("ready", flush=True)
signal.sigwait({signal.SIGUSR1})
for count in range(3): sell(count)
for count in range(2): queue.throw(ValueError())
print("done", flush=True)
signal.sigwait({signal.SIGUSR1})
END
  start_program target "$python" script.py
  start_usdt -j -d 120 -p "$started_pid" --args file:str@arg0,function:str@arg1,line:s32@arg2 \
    "$python" 'python:function-*'
  let_it_call target "$started_pid"
  stop_attach
  values_of python:function__return | sed -n 's,^"[^"]*/script.py" ,,p' >actual
  for _ in 1 2 3; do printf '"bake" 3\n"sell" 4\n'; done >expected
  printf '"customers" 7\n"customers" 7\n' >>expected
  expect_same_lines 'returns' expected actual
  values_of python:function__entry | sed -n 's,^"[^"]*/script.py" ,,p' >actual
  printf '"customers" 7\n"customers" 7\n' >expected
  expect_same_lines 'entries' expected actual
}
