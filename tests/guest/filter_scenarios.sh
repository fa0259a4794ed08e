# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch: set by the harness
# Filters: the events of a run with --if are those that awk selects from a run without it. The program is
# fixtures/workload/filtered.c, which does the same in each run.

filter_scenarios() {
  scenario 'filters of numbers select what awk selects' filters_numbers
  scenario 'filters of texts select what awk selects' filters_texts
  scenario 'filters of threads select what awk selects' filters_threads
  scenario 'filters with && || ! and parentheses select what awk selects' filters_expressions
  scenario 'filters of calls are decided at the entry or at the return' filters_calls
  scenario 'a value that cannot be read decides nothing and is counted' filters_unreadable
  scenario 'a filter with 32 comparisons and many texts is accepted by the kernel' filters_much
  scenario 'a set of thousands of numbers is read from a file' filters_file
  for mechanism in multi perf perf-ioctl tracefs; do
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

filters_by_mechanism() {
  needs "$1"
  expect_filtered 'text ~ /^\/etc\// || number == 9' --mechanism "$1" --if 'text ^= "/etc/" || number == 9'
  expect_filtered 'text ~ /^\/etc\// || number == 9' --mechanism "$1" --buffer perf \
    --if 'text ^= "/etc/" || number == 9'
}
