# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch: set by the harness
# Filters: the events of a run with --if are those that awk selects from a run without it. The program is
# fixtures/workload/filtered.c, which does the same in each run.

filter_scenarios() {
  scenario 'filters of numbers select what awk selects' filters_numbers
  if in_scope; then # the same on each architecture
    scenario 'filters of texts select what awk selects' filters_texts
    scenario 'filters of bytes select what awk selects' filters_bytes
    scenario 'filters of threads select what awk selects' filters_threads
    scenario 'filters with && || ! and parentheses select what awk selects' filters_expressions
    scenario 'a set of thousands of numbers is read from a file' filters_file
    scenario 'a set of thousands of strings is read from a file' filters_text_file
  fi
  scenario 'filters of calls are decided at the entry or at the return' filters_calls
  scenario 'a value that cannot be read decides nothing and is counted' filters_unreadable
  scenario 'a string is compared if the memory after its NUL cannot be read, before its limit' compares_last_string
  scenario 'a filter with 32 comparisons and many texts is accepted by the kernel' filters_much
  scenario 'filters of callers select the calls of functions and modules' filters_callers
  scenario 'filters of callers find the caller of a return' filters_callers_of_returns
  # Before, the kernel ends events of a process with its main thread (docs/mechanisms.md).
  ! kernel_has_multi ||
    scenario 'filters of callers outlast the main thread of a process' filters_callers_of_threads
  if in_scope mechanisms; then # the same on each architecture
    scenario 'filters of callers know libraries inside archives' filters_callers_in_archive
    scenario 'filters of callers follow children and later processes' filters_callers_of_children
    scenario 'hits before the callers of a process are known are counted' filters_callers_undecided
    scenario 'the summary counts what a filter of results lets through' filters_counted
    scenario 'filters of callers say what cannot be known' filters_callers_refused
    scenario 'filters of callers know a program that was written over another one' filters_callers_replaced
  fi
  for mechanism in $(different_mechanisms multi perf perf-ioctl tracefs); do
    scenario "$mechanism: filters of numbers and texts" filters_by_mechanism "$mechanism"
  done
}

# Prints thread, number, flags, result and text of each event, separated by tabs.
filtered_events() { # OPTION…
  "$UPROBECTL" attach -j -d 60 --args 'number:s64@arg0,text:str@arg1,flags:u32@arg2' "$@" \
    "$FIXTURES/filtered" filtered_take -- "$FIXTURES/filtered" >out 2>err || fail "attach fails: $(cat err)"
  sed -n '/^{"type":"event"/{
    s/.*"comm":"\([^"]*\)".*"name":"number"[^}]*"value":\(-*[0-9]*\).*"name":"text"[^}]*"value":"\([^"]*\)".*"name":"flags"[^}]*"value":\([0-9]*\).*/\1\t\2\t\4\t\3/p
  }' out
}

# awk knows them as thread, number, flags and text.
expect_filtered() { # AWK OPTION…
  condition=$1
  shift
  [ -s all ] || filtered_events >all
  expect_equal 'events without a filter' 80 "$(wc -l <all)"
  awk -F '\t' "{ thread = \$1; number = \$2 + 0; flags = \$3 + 0; text = \$4 } $condition" all >wanted
  filtered_events "$@" >got
  expect_equal "events with $*" "$(cat wanted)" "$(cat got)"
}

filters_numbers() {
  expect_filtered 'number == 3' --if 'number==3'
  expect_filtered 'number != 3' --if 'number != 3'
  expect_filtered 'number < -2' --if 'number < -2'
  expect_filtered 'number <= -2' --if 'number<=-2'
  expect_filtered 'number > 10' --if 'number > 0x0a'
  expect_filtered 'number >= 10' --if 'number >= 10'
  expect_filtered 'flags == 1024' --if 'flags == 1KiB'
  expect_filtered 'flags > 1000000' --if 'flags > 1MB'
  expect_filtered 'flags == 1 || flags == 4' --if 'flags & 5'
  expect_filtered 'number == -8 || number == 0 || number == 16' --if 'number in {-8, 0, 0x10, 99}'
  expect_filtered 'number != 0' --if 'number'
  expect_filtered 'number == 0' --if '!number'
  expect_filtered 'number == 5' --if 'arg0==5'
}

filters_texts() {
  expect_filtered 'text == "a"' --if 'text == "a"'
  expect_filtered 'text == ""' --if 'text == ""'
  expect_filtered 'text != "a"' --if 'text != "a"'
  expect_filtered 'text ~ /^\/etc\//' --if 'text ^= "/etc/"'
  expect_filtered 'text ~ /suffix$|tail$/' --if 'text $= suffix || text $= "tail"'
  expect_filtered 'text ~ /Xb/' --if 'text *= Xb'
  expect_filtered 'text ~ /aab$/' --if 'text $= aab'
  expect_filtered 'text ~ /^a.*b$/' --if 'text ~ "a*b"'
  expect_filtered 'text ~ /^\/[a-f].*\/[a-o].*$/' --if 'text ~ /[a-f]*/[a-o]*'
  expect_filtered 'text == "with blank"' --if 'text == "with blank"'
  expect_filtered 'text == "a" || text == "aXb"' --if 'text in {"a", "aXb"}'
  # At the end of a chunk of 64 bytes, and in a later one.
  for length in 63 64 65; do
    expect_filtered "length(text) == $length" \
      --if "text == \"$(awk -v n=$length '$4 != "" && length($4) == n { print $4; exit }' FS='\t' all)\""
  done
  expect_filtered 'text ~ /0tail$/' --if 'text *= 0tail'
  expect_filtered 'text == "a"' --if 'arg1 == "a"'
}

filters_bytes() {
  expect_filtered 'text ~ /^\/etc/' --if 'text ^= hex"2f 65 74 63"'
  expect_filtered 'text !~ /^\/etc/' --if '!(text ^= hex"2f657463")'
  expect_filtered 'text == ""' --if 'text ^= hex"00"'
  expect_filtered 'text == "a"' --if 'text ^= hex"61 00"'
  # Longer than a chunk of 64 bytes, and as long.
  sixty=123456789012345678901234567890123456789012345678901234567890
  digits=$(printf '%s' "$sixty" | od -An -v -tx1 | tr -d ' \n')
  expect_filtered "text ~ /^${sixty}1234/" --if "text ^= hex\"${digits}31323334\""
  expect_filtered "text ~ /^${sixty}1234567/" --if "text ^= hex\"${digits}31323334353637\""
  buffer_events() { # LIST CONDITION
    "$UPROBECTL" attach -j -d 60 --args "number:s64@arg0,$1" --if "$2" "$FIXTURES/filtered" filtered_take -- \
      "$FIXTURES/filtered" >out 2>err || fail "attach fails: $(cat err)"
    sed -n '/^{"type":"event"/s/.*"name":"number"[^}]*"value":\(-*[0-9]*\).*/\1/p' out | sort -n | tr '\n' ' '
  }
  [ -s all ] || filtered_events >all
  numbers_of() { # AWK
    awk -F '\t' "{ number = \$2 + 0; flags = \$3 + 0; text = \$4 } $1 { print number }" all | sort -n | tr '\n' ' '
  }
  expect_equal 'a whole buffer' "$(numbers_of 'text ~ /^aXb/')" "$(buffer_events 'data:buf[3]@arg1' 'data == hex"61 58 62"')"
  expect_equal 'another buffer' "$(numbers_of 'text !~ /^aXb/')" "$(buffer_events 'data:buf[3]@arg1' 'data != hex"61 58 62"')"
  # In a buffer with a length, that many bytes must be there. The flags are 1, 2, 4, …
  expect_equal 'a buffer with a length' "$(numbers_of 'text ~ /^\/e/ && flags >= 2')" \
    "$(buffer_events 'count:u32@arg2,data:buf[count]@arg1' 'data ^= hex"2f 65"')"
  attach_fails_with 2 --if 'arg1 == hex"2f 6"' "$FIXTURES/filtered" filtered_take
  expect_match 'the position' "expected two hexadecimal digits, at character 16, before '6\"'" "$(cat err)"
  attach_fails_with 1 --if 'arg1 == hex"2f"' "$FIXTURES/filtered" filtered_take
  expect_match 'the reason' 'the length of the buffer is not known' "$(cat err)"
}

filters_threads() {
  expect_filtered 'thread == "beta"' --if 'thread == beta'
  expect_filtered 'thread != "beta"' --if 'comm != "beta"'
  expect_filtered 'thread ~ /^al/' --if 'thread ^= al'
  expect_filtered 'thread == "alpha"' --thread alpha
  expect_filtered '1' --thread alpha --thread beta
  expect_filtered 'thread == "beta"' --not-thread alpha
  expect_filtered '0' --thread 1
  expect_filtered '1' --if 'process == filtered'
  expect_filtered '0' --if 'process == beta'
  expect_filtered '1' --if "uid == $(id -u) && cpu >= 0 && pid > 1 && tid > 1"
  expect_filtered '0' --if 'tid == 1 || pid == 1'
}

filters_expressions() {
  expect_filtered 'number < 0 && thread == "beta" || number == 30' --if 'number < 0 && thread == beta || number == 30'
  expect_filtered '!(number < 20 || text ~ /^\//) && thread == "alpha"' \
    --if '!(number < 20 || text ^= "/") && thread == alpha'
  expect_filtered 'number > 3 && (text == "a" || text ~ /b$/) && !(number > 20)' \
    --if 'number > 3 && (text == "a" || text $= "b") && !(number > 20)'
  expect_filtered 'number > 3 && number < 9' --if 'number > 3' --if 'number < 9'
}

filters_calls() { # the result is number * 2 - 20
  expect_filtered 'number < 10' --latency --if 'ret:s64 < 0'
  expect_filtered 'number < 10 || number == 20' --latency --if 'ret:s64 < 0 || number == 20'
  expect_filtered 'number < 10 || text == "aXbXc"' --latency --if 'text == "aXbXc" || ret:s64 < 0'
  expect_filtered '!(number < 10 || thread == "alpha")' --latency --if '!(ret:s64 < 0 || thread == alpha)'
  expect_filtered 'number > 2 && (number < 5 || thread == "beta" && number > 28)' --latency \
    --if 'number > 2 && (ret:s64 < -10 || thread == beta && ret:s64 > 36)'
  expect_filtered '1' --if 'latency > 0'
  expect_filtered '0' --if 'latency > 1s'
}

filters_unreadable() {
  for condition in 'arg0:str == "x"' '!(arg0:str == "x")' 'arg0:str != "x"' 'arg0:str == "x" || number > 99'; do
    expect_filtered '0' --if "$condition"
    expect_match 'lost' '80 lost' "$(cat err)"
  done
  expect_filtered 'number == 7' --if 'arg0:str == "x" || number == 7'
}

# Three others cannot be read: one is not a pointer, one is null, and one has no NUL before the end.
compares_last_string() {
  for option in --count --no-fault; do
    "$UPROBECTL" attach -d 60 $option --args 'which:s64,size:u8@arg1+0,text:str[..size]@arg1' --if 'text == "last on"' \
      "$FIXTURES/values" take_text -- "$FIXTURES/values" >out 2>err
    expect_match "with $option" ' 3 events lost: a value that --if compares could not be read' "$(cat err)"
    [ $option != --count ] || expect_equal 'count' '1	take_text' "$(grep take_text out)"
  done
  expect_equal 'text' 'which=6 size=108 text="last on"' "$(grep which out | cut -f 6)"
}

filters_much() {
  condition='number == 1'
  for i in 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
    condition="$condition || number == $i || text == \"none-$i\""
  done
  expect_filtered 'number >= 1 && number <= 16' --if "$condition || thread == none"
  expect_filtered 'number >= 1 && number <= 16' --latency --if "$condition || ret:s64 == 1"
}

filters_file() {
  awk 'BEGIN { print "# multiples of 3"; for (i = 0; i < 9000; i += 3) print i }' >ids
  expect_filtered 'number >= 0 && number % 3 == 0' --if 'number in @ids'
  printf 'a\naXb\n' | sed 's/.*/"&"/' >names
  expect_filtered 'text == "a" || text == "aXb"' --if 'text in @names'
}

# Beside the texts of the program those that differ in the last byte, or continue them.
filters_text_file() {
  [ -s all ] || filtered_events >all
  { awk 'BEGIN { for (i = 0; i < 20000; i++) print "/usr/lib/a-rather-long-name-of-a-file-that-nobody-opens/" i }'
    awk -F '\t' '$4 ~ /^[a-z\/0-9]*$/ && $4 != "" { print $4 "x"; print substr($4, 1, length($4) - 1) "~" }' all
    awk -F '\t' 'length($4) > 62 || $4 ~ /^\/etc|^a/ { print $4 }' all; } | sort -u | sed 's/.*/"&"/' >many
  expect_filtered 'length(text) > 62 || text ~ /^\/etc|^a/' --if 'text in @many'
  expect_filtered 'text != "" && length(text) < 63 && text !~ /^\/etc|^a/' --if '!(text in @many) && text != ""'
  expect_filtered 'length(text) > 62 || text ~ /^\/etc|^a/' --no-fault --if 'text in @many'
  expect_filtered 'length(text) > 62 || text ~ /^\/etc|^a/' --buffer perf --if 'text in @many'
  { cat many && echo '""'; } >more
  expect_filtered 'text == "" || number == 3' --if 'text in @more && (text == "" || number == 3)'
  { awk 'BEGIN { for (i = 0; i < 3000; i++) print "thread-" i }' && echo alpha; } >threads
  expect_filtered 'thread == "alpha"' --if 'thread in @threads && process in {filtered, none}'
  expect_filtered 'thread == "beta" && text == "a"' --if 'thread != alpha && !(thread in @threads) && text == "a"'
}

filters_by_mechanism() {
  needs "$1"
  expect_filtered 'text ~ /^\/etc\// || number == 9' --mechanism "$1" --if 'text ^= "/etc/" || number == 9'
  expect_filtered 'text ~ /^\/etc\// || number == 9' --mechanism "$1" --buffer perf \
    --if 'text ^= "/etc/" || number == 9'
}

# The numbers with which fixtures/workload/callers.c calls callers_take, as awk condition of `n`.
expect_called() { # AWK OPTION…
  condition=$1
  shift
  start_program callers "$FIXTURES/callers" wait
  start_attach -j -d 60 -p "$started_pid" --args "${called_args:-number:s64@arg0}" "$@" "$FIXTURES/callers" callers_take
  let_it_call callers "$started_pid"
  attach_ends_with 0
  awk "BEGIN {
    for (n = 0; n < 1001; n++)
      if ((n < 10 || n >= 100 && n < 110 || n >= 200 && n < 210 || n >= 300 && n < 310 || n == 1000) &&
          ($condition)) print n }" >wanted
  # Returns: the function returns the next number.
  if [ "${called_args-}" = ret:s64 ]; then
    sed -n '/^{"type":"event"/s/.*"return_value":\([0-9]*\).*/\1/p' out | awk '{ print $1 - 1 }' | sort -n >got
  else
    sed -n '/^{"type":"event"/s/.*"name":"number"[^}]*"value":\([0-9]*\).*/\1/p' out | sort -n >got
  fi
  expect_equal "calls with $*" "$(cat wanted)" "$(cat got)"
  expect_equal "lost with $*" '' "$(records lost)"
}

filters_callers() {
  expect_called '1'
  # 1000 is a call in the part that the compiler has split off.
  expect_called 'n < 10 || n == 1000' --if 'caller == callers_first'
  expect_called 'n >= 100 && n < 300' --if "caller == $FIXTURES/callers!callers_second"
  expect_called 'n == 7 || n >= 300 && n < 1000' --latency --if 'caller == main || ret == 8'
  in_scope || return 0 # the same on each architecture
  expect_called 'n >= 300 && n < 1000' --if 'caller == callers!main'
  expect_called 'n >= 100 && n < 1000' --if 'caller != callers_first'
  expect_called 'n < 300 || n == 1000' --if 'caller in {callers_first, callers_second}'
  expect_called 'n < 5 || n >= 300 && n < 1000' --if 'caller == main || caller == callers_first && number < 5'
  expect_called '1' --if "caller == $FIXTURES/callers"
  expect_called '1' --if 'caller == callers!'
  expect_called '0' --if 'caller == libnone.so'
  expect_match 'the warning' "warning: --if: no probed process has mapped 'libnone.so'" "$(cat err)"
  expect_called '0' --if 'caller == callers_third'
  expect_match 'the warning' "no probed program has the function 'callers_third'" "$(cat err)"
}

filters_callers_of_returns() {
  expect_called 'n < 10 || n == 1000' --latency --if 'caller == callers_first'
  called_args=ret:s64
  expect_called 'n < 10 || n == 1000' --return --if 'caller == callers_first'
  expect_called 'n >= 300 && n < 1000' --return --return-at trampoline --if 'caller == main'
  called_args=
  needs "$perf"
  expect_called 'n < 10 || n == 1000' --mechanism "$perf" --buffer perf --if 'caller == callers_first'
}

filters_callers_in_archive() {
  start_program host "$FIXTURES/apk-host" "$FIXTURES/greet.apk!/$library/libgreet.so" greet_add 5 --wait
  start_attach -j -d 60 -p "$started_pid" --if 'caller == apk-host!' --if 'caller != libgreet.so' \
    "$FIXTURES/greet.apk!/$library/libgreet.so" greet_add
  let_it_call host "$started_pid"
  attach_ends_with 0
  expect_equal 'calls from the program' 5 "$(count_records event)"
  expect_equal 'lost' '' "$(records lost)"
}

# The shell runs the program after a while: a new process, whose mappings are read when they appear.
filters_callers_of_children() {
  "$UPROBECTL" attach -j -d 60 --follow --args 'number:s64@arg0' --if 'caller == callers_second' \
    "$FIXTURES/callers" callers_take -- \
    sh -c "$FIXTURES/callers wait >ready & until grep -q ready ready; do sleep 0.1; done; sleep 1; kill -USR1 \$!; wait" >out 2>err ||
    fail "attach fails: $(cat err)"
  expect_equal 'calls' 20 "$(count_records event)"
}

main_thread_has_ended() { [ -z "$(cat "/proc/$1/maps")" ]; }

filters_callers_of_threads() {
  start_program callers "$FIXTURES/callers" outlive
  start_attach -j -d 60 -p "$started_pid" --args 'number:s64@arg0' --if 'caller == callers_first' \
    "$FIXTURES/callers" callers_take
  kill -USR1 "$started_pid"
  wait_until 30 main_thread_has_ended "$started_pid" || fail 'the main thread does not end'
  let_it_call callers "$started_pid"
  attach_ends_with 0
  expect_equal 'calls' 11 "$(count_records event)"
  expect_equal 'lost' '' "$(records lost)"
}

filters_callers_undecided() {
  "$UPROBECTL" attach -j -d 60 --if 'caller == main' "$FIXTURES/callers" callers_take -- "$FIXTURES/callers" >out 2>err ||
    fail "attach fails: $(cat err)"
  lost=$(records lost | sed -n 's/.*"count":\([0-9]*\).*where its code lies.*/\1/p' | awk '{ n += $1 } END { print n + 0 }')
  events=$(count_records event)
  # 10 of 41 calls are from main: each is shown, or counted as not decided.
  [ "$events" -le 10 ] && [ "$((events + lost))" -ge 10 ] && [ "$((events + lost))" -le 41 ] ||
    fail "$events events and $lost not decided"
  ! file_says err 'has the function' || fail "the function is there: $(cat err)"
}

filters_counted() {
  "$UPROBECTL" attach --count -d 60 --if 'ret > 300' "$FIXTURES/callers" callers_take -- "$FIXTURES/callers" >out 2>err ||
    fail "attach fails: $(cat err)"
  # Of 41 calls ten have numbers from 300 on, and one has 1000.
  expect_equal 'the row' 11 "$(cut -f 1 out)"
  expect_match 'the sum of the rows' '^11 hits counted in' "$(cat err)"
}

filters_callers_refused() {
  attach_fails_with 1 --if 'caller == main' "$FIXTURES/callers" callers_take+4 -- "$FIXTURES/callers"
  expect_match 'the reason' 'the return address is known only at the first instruction' "$(cat err)"
  attach_fails_with 2 --if 'caller ^= main' "$FIXTURES/callers" callers_take -- "$FIXTURES/callers"
  expect_match 'the position' "cannot compare a caller, at character 8, before '\^= main'" "$(cat err)"
}

# The code of the first program is not taken for that of the second one, which calls until it is known.
filters_callers_replaced() {
  for program in "$FIXTURES/soak-short-a" "$FIXTURES/soak-short-b" "$FIXTURES/soak-short-c"; do
    "$program" 0 0 2>/dev/null || skip 'no libc.so.6 is here'
  done
  cat >turns <<'END'
export LD_LIBRARY_PATH="$1"
cat "$1/soak-short-a" >program && chmod 700 program && ./program 20000 0 && cat "$1/soak-short-b" >program || exit 1
while :; do ./program 20000 0; done
END
  "$UPROBECTL" attach -j -q -d 60 -n 1 --follow --args text:str@arg1 --if 'caller == short_b_leaf' "$FIXTURES/libsoak.so" \
    soak_call -- sh turns "$FIXTURES" >out 2>err || fail "attach fails: $(cat err)"
  expect_match 'a call of the second one' '"value":"b:' "$(records event)"
}
