# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch, started_pid: set by the harness
# An app on Android's own libc (bionic), with Android's folders, its library in an APK (fixtures/bionic).
# libc.so is that of the corpus (unwind/apk_rx_arm64, of Android 12); the linker is ours, because the code of
# the corpus' linker64 is blank. Only for guests: it fills /apex, /data and /system.

bionic_app=com.example.parcels
app_folder="/data/app/~~a1B2c3D4e5F6g7H8i9J0kL==/$bionic_app-mN0pQ1rS2tU3vW4xY5zA6b=="
app_library="$app_folder/base.apk!/lib/arm64-v8a/libparcels.so"
bionic=/apex/com.android.runtime/lib64/bionic

bionic_scenarios() {
  scenario 'bionic: a library in an APK by --app, with typed values' bionic_typed_values
  scenario 'bionic: stacks through libc.so, by call frame information and by frame pointers' bionic_stacks
  scenario 'bionic: stacks of threads, with times, of a library that is loaded by descriptor' bionic_threads
  scenario 'bionic: the graph of calls' bionic_graph
  scenario 'bionic: memory of libc.so that is never freed' bionic_heap
  scenario 'bionic: waits for mutexes of libc.so' bionic_locks
  scenario 'bionic: names of a running app' bionic_names
}

needs_bionic() {
  [ -e "$FIXTURES/bionic/linker64" ] || skip 'clang was not there when the fixtures were built'
  [ -e "$FIXTURES/bionic/libc.so" ] || skip 'UPROBECTL_CORPUS is not set'
  [ ! -e "$app_folder" ] || return 0
  mkdir -p "$bionic" /apex/com.android.runtime/bin /system/bin /system/lib64 "$app_folder"
  chmod 755 /data /data/app
  cp "$FIXTURES/bionic/linker64" /apex/com.android.runtime/bin
  cp "$FIXTURES/bionic/libc.so" "$FIXTURES/bionic/libdl.so" "$bionic"
  cp "$FIXTURES/bionic/app_process64" /system/bin
  cp "$FIXTURES/bionic/parcels.apk" "$app_folder/base.apk"
  ln -s /apex/com.android.runtime/bin/linker64 /system/bin/linker64
  ln -s "$bionic/libc.so" "$bionic/libdl.so" /system/lib64
  cat >/system/bin/pm <<END
#!/bin/sh
case \$* in
"path $bionic_app") echo 'package:$app_folder/base.apk' ;;
list*) echo 'package:$bionic_app uid:10123' ;;
esac
END
  # shellcheck disable=SC2016 # expanded by the script
  printf '%s\n' '#!/bin/sh' 'case $1 in ro.product.cpu.abilist) echo arm64-v8a ;; esac' >/system/bin/getprop
  chmod 755 /system/bin/* /apex/com.android.runtime/bin/linker64
}

# Starts the app, which waits for a signal. It makes ROUNDS rounds of calls, with three parcels each.
start_bionic_app() { # ROUNDS [OFFSET]
  needs_bionic
  # shellcheck disable=SC2016 # expanded by the inner shell, which knows exec -a
  start_program target "$FIXTURES/as-user" 10123 - /bin/sh -c 'exec -a "$0" /system/bin/app_process64 "$@"' \
    "$bionic_app" "$app_library" "$@"
}

# Attaches while the app makes its calls.
attach_to_app() { # ROUNDS ARGUMENT…
  start_bionic_app "$1"
  shift
  start_attach -d 120 "$@"
  let_it_call target "$started_pid"
  stop_attach
}

bionic_typed_values() {
  attach_to_app 2 --app "$bionic_app" --latency libparcels.so 'parcels::Depot::store'
  cut -f 5,7 out | tr '\t' ' ' | sed 's/0x[0-9a-f]*/ADDRESS/g' >seen
  cat >expected <<'END'
parcels::Depot::store(this=ADDRESS, parcel={id=1, grams=300, size=Size::medium, to={city="Bern", zip=89001}}, shelf=0, fragile=false) = 1
parcels::Depot::store(this=ADDRESS, parcel={id=2, grams=200, size=Size::large, to={city="Ulm", zip=89002}}, shelf=0, fragile=false) = 2
parcels::Depot::store(this=ADDRESS, parcel={id=3, grams=100, size=Size::medium, to={city="Bern", zip=89003}}, shelf=0, fragile=true) = 1003
parcels::Depot::store(this=ADDRESS, parcel={id=1, grams=300, size=Size::medium, to={city="Bern", zip=89001}}, shelf=1, fragile=false) = 101
parcels::Depot::store(this=ADDRESS, parcel={id=2, grams=200, size=Size::large, to={city="Ulm", zip=89002}}, shelf=1, fragile=false) = 102
parcels::Depot::store(this=ADDRESS, parcel={id=3, grams=100, size=Size::medium, to={city="Bern", zip=89003}}, shelf=1, fragile=true) = 1103
END
  expect_equal 'values' "$(cat expected)" "$(cat seen)"
}

# One line a frame of the first event: the function and its file.
frames_of_first() {
  sed -n -e 's/^    #\([0-9]*\) \(.*\)+0x[0-9a-f]* (\([^ ]*\)+0x[0-9a-f]*)$/\1 \2 \3/p' \
    -e 's/^    #\([0-9]*\) \(.*\) (\([^ ]*\)+0x[0-9a-f]*)$/\1 \2 \3/p' out | awk '$1 < last { exit } { last = $1 + 1; print }'
}

bionic_stacks() {
  attach_to_app 1 -p "$bionic_app" --stack=dwarf libparcels.so 'parcels::by_weight'
  frames_of_first >seen
  cat >expected <<'END'
0 parcels::by_weight(void const*, void const*) base.apk!/lib/arm64-v8a/libparcels.so
1 qsort libc.so
2 parcels::Depot::sort() base.apk!/lib/arm64-v8a/libparcels.so
3 run_depot base.apk!/lib/arm64-v8a/libparcels.so
4 main app_process64
5 __libc_init libc.so
END
  expect_equal 'frames by call frame information' "$(cat expected)" "$(cat seen)"
  attach_to_app 1 -p "$bionic_app" --stack=fp "$app_library" 'parcels::by_weight'
  frames_of_first >seen
  # libc.so ends its call frame information there (BIONIC_STOP_UNWIND), but not the chain of frames.
  echo '6 start_main app_process64' >>expected
  expect_equal 'frames by frame pointers' "$(cat expected)" "$(cat seen)"
}

bionic_threads() {
  # The entry begins at the first multiple of 16 KiB.
  start_bionic_app 1 16384
  start_attach -j -d 120 -p "$started_pid" --latency --stack libparcels.so 'parcels::pass_door'
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'calls' 6 "$(count_records event)"
  expect_equal 'threads' 2 "$(records event | field tid | sort -u | grep -c '')"
  # Each call holds the mutex for 2 ms.
  records event | field latency_ns >durations
  while read -r took; do
    [ "$took" -ge 2000000 ] || fail "a call took $took ns"
  done <durations
  expect_equal 'durations' 6 "$(grep -c '' <durations)"
  expect_match 'a stack of a thread' '"symbol":"_ZN7parcels5carryEPv".*"symbol":"_ZL15__pthread_startPv".*"symbol":"__start_thread"' \
    "$(records event | head -n 1)"
}

# The calls without addresses, times and threads.
bionic_graph() {
  attach_to_app 1 --graph -p "$bionic_app" libparcels.so run_depot 'parcels::receive' 'parcels::Depot::sort' 'parcels::by_weight'
  cut -f 6 out | sed 's/0x[0-9a-f]*/ADDRESS/g' >seen
  cat >expected <<'END'
run_depot(rounds=1) {
  parcels::receive(id=1, grams=300) = ADDRESS;
  parcels::receive(id=2, grams=200) = ADDRESS;
  parcels::receive(id=3, grams=100) = ADDRESS;
  parcels::Depot::sort(this=ADDRESS) {
    parcels::by_weight(a=ADDRESS, b=ADDRESS) = 100;
    parcels::by_weight(a=ADDRESS, b=ADDRESS) = 200;
    parcels::by_weight(a=ADDRESS, b=ADDRESS) = 100;
  } parcels::Depot::sort() = 100
} run_depot = 1112
END
  expect_equal 'calls' "$(cat expected)" "$(cat seen)"
}

# Each round has blocks of 1001, 1002 and 1003 bytes; the first is never freed. Those of scudo, which malloc
# calls, do not count.
bionic_heap() {
  attach_to_app 2 -j -p "$bionic_app" --span heap --open --stack=fp --weight size libc.so
  expect_equal 'spans' '6 4 2 0 0' \
    "$(for key in begun ended open begun_again not_begun; do records span_summary | field "$key"; done | xargs)"
  expect_equal 'stacks' 1 "$(count_records count)"
  expect_equal 'blocks' 2 "$(records count | field count)"
  expect_match 'functions' '"symbol":"malloc".*"symbol":"_ZN7parcels7receiveElt".*"symbol":"run_depot".*"symbol":"main".*"symbol":"__libc_init"' \
    "$(records count)"
}

# Its locks are those of the two threads, and of stdio in the main thread.
bionic_locks() {
  attach_to_app 1 -j -p "$bionic_app" --return-at callee --span locks libc.so
  records span_summary | grep '"mutex-wait"' >waits
  expect_equal 'waits that have not ended' 0 "$(field open <waits)"
  expect_equal 'waits' "$(field begun <waits)" "$(records span name=mutex-wait | grep -c '')"
  records span name=mutex-wait | field tid | sort | uniq -c >threads
  expect_equal 'threads' 3 "$(grep -c '' <threads)"
  while read -r count thread; do
    [ "$count" -ge 3 ] || fail "thread $thread has waited $count times"
  done <threads
  # A contended pthread_mutex_lock() ends by a jump, which is followed: the hold begins where it returns.
  records span name=mutex-hold >held
  expect_equal 'threads that hold' 3 "$(field tid <held | sort -u | grep -c '')"
  expect_equal 'threads that unlock what they have locked' "$(field tid <held)" "$(field end_tid <held)"
}

bionic_names() {
  start_bionic_app 1
  "$UPROBECTL" list-symbols -p "$started_pid" libparcels.so | cut -f 4- | sort >seen
  printf 'local\tfunction\t%s\n' 'parcels::Depot::sort()' 'parcels::Depot::store(parcels::Parcel&, int, bool)' \
    'parcels::by_weight(void const*, void const*)' 'parcels::carry(void*)' 'parcels::pass_door(int)' \
    'parcels::receive(long, unsigned short)' >expected
  sed -i '1i global\tfunction\trun_depot' expected
  expect_same_lines 'functions of the library' expected seen
  expect_equal 'a function of libc.so by its name' "0x7b0c8	libc.so	qsort@@LIBC" \
    "$("$UPROBECTL" resolve -p "$started_pid" libc.so qsort)"
}
