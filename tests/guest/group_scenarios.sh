# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch, started_pid: set by the harness and the suite
# Counts by values: the groups are those that jq or awk make of the single events of the same calls.

group_scenarios() {
  scenario '--by ret alone counts returns' groups_results
  scenario '--by cpu and tid counts all hits of both threads' groups_processors
  scenario '--by a string that is cut says so, and keeps the groups of its beginning' groups_cut_strings
  scenario '--by stack counts ways, and weighs a flame graph by --measure' groups_stacks
  scenario 'records of a program are counted by their stacks, in a run and in a saved one' groups_stacks_of_records
  scenario 'code made at run time is named by its perf map' names_jitted_code map 'jitted by a map'
  scenario 'code made at run time is named by its jitdump file' names_jitted_code dump jitted_by_dump
  scenario 'code made at run time is named anew when its memory is used again' names_jitted_code_again
}

# With jq, or for machines that are not emulated.
more_group_scenarios() {
  scenario '--by counts equal strings together, as jq does with the events' groups_strings
  scenario '--by several values and the thread, with sums and averages' groups_several
  scenario '--by values of the entry with the result of the call' groups_pairs
  scenario '--by counts hits that do not fit into the table' groups_too_many
  scenario '--by with --interval adds up to the total' groups_by_interval
}

readonly taking='number:s64,text:str,flags:x32'

# The same calls twice: as events, and counted.
count_filtered() { # BY [OPTION…]
  "$UPROBECTL" attach -j -d 60 --args "$taking,result:s64@ret" --latency "$FIXTURES/filtered" filtered_take \
    -- "$FIXTURES/filtered" >events 2>err || fail "attach fails: $(cat err)"
  by=$1
  shift
  "$UPROBECTL" attach -j -d 60 --args "$taking" --count --by "$by" "$@" "$FIXTURES/filtered" filtered_take \
    -- "$FIXTURES/filtered" >out 2>err || fail "attach fails: $(cat err)"
  expect_equal 'lost' 0 "$(records summary | field lost)"
}

# fixtures/workload/filtered.c: two threads with 40 calls each.
groups_processors() {
  "$UPROBECTL" attach -q -d 60 --count --by tid,cpu "$FIXTURES/filtered" filtered_take -- "$FIXTURES/filtered" \
    >out 2>err || fail "attach fails: $(cat err)"
  expect_equal 'hits of each thread' '40 40' "$(awk '{ hits[$2] += $1 } END { for (each in hits) print hits[each] }' out | xargs)"
  expect_equal 'processors' '' "$(awk '$3 !~ /^[0-9]+$/' out)"
}

needs_jq() { command -v jq >/dev/null || skip 'no jq on this machine'; }

jq_of() { # FILE PROGRAM
  jq -c -s -S "$2" "$1" || fail "jq fails: $2"
}

groups_strings() {
  needs_jq
  count_filtered text
  expect_equal 'groups' \
    "$(jq_of events '[.[] | select(.type == "event") | .arguments[] | select(.name == "text") | [.value, .truncated]]
       | group_by(.) | map({of: .[0], n: length}) | sort_by(.of)')" \
    "$(jq_of out '[.[] | select(.type == "count") | {of: [.by[0].value, .by[0].truncated], n: .count}] | sort_by(.of)')"
  expect_equal 'highest first' '' "$(records count | field count | awk 'NR > 1 && $1 > last { print } { last = $1 }')"
}

groups_several() {
  needs_jq
  count_filtered flags,comm --measure number
  expect_equal 'groups' \
    "$(jq_of events '[.[] | select(.type == "event") | {comm, a: (.arguments | map({(.name): .value}) | add)}
         | {of: [.a.flags, .comm], number: .a.number}] | group_by(.of)
       | map({of: .[0].of, n: length, measured: length, sum: (map(.number) | add)}) | map(. + {average: (.sum / .n)})')" \
    "$(jq_of out '[.[] | select(.type == "count")
       | {of: (.by | map(.value)), n: .count, measured, sum, average}] | sort_by(.of)')"
}

groups_pairs() {
  needs_jq
  count_filtered text --measure ret
  # Twice the number, less 20: of two numbers 16 apart in each of two threads.
  expect_equal 'groups' \
    "$(jq_of events '[.[] | select(.type == "event") | {of: (.arguments[] | select(.name == "text").value), r: (.arguments[] | select(.name == "number").value * 2 - 20)}]
       | group_by(.of) | map({of: .[0].of, n: length, sum: (map(.r) | add)})')" \
    "$(jq_of out '[.[] | select(.type == "count") | {of: .by[0].value, n: .count, sum}] | sort_by(.of)')"
  "$UPROBECTL" attach -j -d 60 --args "$taking" --count --by text,ret --measure latency "$FIXTURES/filtered" filtered_take \
    -- "$FIXTURES/filtered" >out 2>err || fail "attach fails: $(cat err)"
  expect_equal 'results of a text' '"0xffffffffffffffec" "0xc"' \
    "$(jq -r -s '[.[] | select(.type == "count" and .by[0].value == "") | .by[1].value | tojson] | sort | reverse | join(" ")' out)"
  expect_equal 'latencies without a sum' 0 "$(jq_of out '[.[] | select(.type == "count" and (.sum > 0 | not))] | length')"
}

groups_results() {
  "$UPROBECTL" attach -d 60 --args ret:s64 --count --by ret "$FIXTURES/filtered" filtered_take \
    -- "$FIXTURES/filtered" >out 2>err || fail "attach fails: $(cat err)"
  # 2 * i - 20 for -8 to 31, of two threads.
  expect_equal 'results' "$(awk 'BEGIN { for (i = -8; i < 32; i++) printf "2 %s\n", i * 2 - 20 }' | sort)" \
    "$(awk -F '\t' '{ print $1, $2 }' out | sort)"
  expect_match 'that they are returns' 'filtered_take \(return\)$' "$(head -n 1 out)"
}

# 70000 keys of two hits each, and one hit more, for a table of 65536.
groups_too_many() {
  "$UPROBECTL" attach -j -d 120 --count --by arg0 "$FIXTURES/ways" ways_leaf -- "$FIXTURES/ways" 70000 >all 2>err ||
    fail "attach fails: $(cat err)"
  grep -v '"type":"count"' all >out
  expect_equal 'groups' 65536 "$(grep -c '"type":"count"' all)"
  expect_equal 'counted hits' 131073 "$(grep '"type":"count"' all | field count | awk '{ sum += $1 } END { print sum }')"
  expect_equal 'lost hits' 8928 "$(records lost | field count | awk '{ sum += $1 } END { print sum }')"
  expect_equal 'why' 'more processes, stacks or values than can be counted' "$(records lost | field reason | sort -u)"
  expect_equal 'hits' 140001 "$(records probe | field hits)"
  rm all
  # With an interval the hits that the table lacks are reported while the run goes on, too.
  "$UPROBECTL" attach -d 120 --count --by arg0 --interval 500ms "$FIXTURES/ways" ways_leaf -- "$FIXTURES/ways" 70000 \
    >out 2>err || fail "attach fails: $(cat err)"
  expect_equal 'counted hits, with the rows of what is missing' 140001 "$(awk -F '\t' '{ sum += $1 } END { print sum }' out)"
  expect_equal 'missing hits' 8928 "$(awk -F '\t' '$2 == "<lost>" { sum += $1 } END { print sum }' out)"
  expect_match 'warning' 'events* lost so far: more processes, stacks or values than can be counted' "$(cat err)"
}

groups_cut_strings() {
  "$UPROBECTL" attach -d 60 --args "$taking" --count --by text --max-string 63 "$FIXTURES/filtered" filtered_take \
    -- "$FIXTURES/filtered" >out 2>err || fail "attach fails: $(cat err)"
  sixty=123456789012345678901234567890123456789012345678901234567890
  # Of 63 characters a string is whole. Those of 64, 65 and 124 begin with the same.
  expect_equal 'a whole string' "6	\"${sixty}123\"	filtered_take" "$(grep -F "\"${sixty}123\"	" out)"
  expect_equal 'cut strings' "18	\"${sixty}123\"…	filtered_take" "$(grep -F '…	' out)"
}

groups_by_interval() {
  start_workload target --calls 300 --threads 10
  start_attach -j -d 120 -p "$started_pid" --count --by arg0 --interval 100ms "$FIXTURES/workload" work_six
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'the sum' 3000 "$(records count | field count | awk '{ sum += $1 } END { print sum }')"
}

# Three ways of the program `ways`, with their counts.
expect_ways() { # WHAT FILE
  expect_equal "$1" '1 ways_leaf<ways_left<main
100 ways_leaf<ways_left<ways_both<main
100 ways_leaf<ways_right<ways_both<main' \
    "$(sed 's/+0x[0-9a-f]* (/ (/g; s/ ([^)]*)//g; s/ < /</g; s/<main.*/<main/' "$2" | awk -F '\t' '{ print $1, $NF }' | sort)"
}

groups_stacks_of_records() {
  for option in --stack '--by stack' --stack=fp; do
    # shellcheck disable=SC2086 # words
    "$UPROBECTL" attach -d 120 --count $option --folded folded --object "$FIXTURES/stacks.bpf.o" --program-name plain \
      "$FIXTURES/ways" ways_leaf -- "$FIXTURES/ways" 100 >out 2>err || fail "attach $option fails: $(cat err)"
    expect_ways "ways with $option" out
    expect_match 'the map' '^100	events	' "$(cat out)"
    expect_match 'folded' '(^|;)main;ways_both;ways_left;ways_leaf 100$' "$(cat folded)"
    expect_match 'the number of records' '^201 records' "$(cat err)"
  done
  for object in "--object $FIXTURES/stacks.bpf.o --program-name plain" ''; do
    # shellcheck disable=SC2086
    "$UPROBECTL" attach -d 120 --stack --save run $object "$FIXTURES/ways" ways_leaf -- "$FIXTURES/ways" 100 >out 2>err ||
      fail "attach fails: $(cat err)"
    for option in --stack '--by stack'; do
      # shellcheck disable=SC2086
      "$UPROBECTL" report --count $option run >found 2>err || fail "report $option fails: $(cat err)"
      expect_ways "ways of a saved run with $option $object" found
    done
    "$UPROBECTL" report --count --by pid,stack --top 2 run >found 2>err || fail "report fails: $(cat err)"
    expect_equal 'the first rows' '100 100' "$(cut -f 1 found | tr '\n' ' ' | sed 's/ $//')"
  done
}

groups_stacks() {
  "$UPROBECTL" attach -d 120 --count --by stack --measure arg0 --folded folded --flamegraph picture.svg "$FIXTURES/ways" \
    ways_leaf -- "$FIXTURES/ways" 100 >out 2>err || fail "attach fails: $(cat err)"
  expect_ways 'ways' out
  expect_match 'the unit of the picture' 'part of [0-9]+ arg0\.' "$(cat picture.svg)"
}

names_jitted_code_again() {
  for walk in dwarf fp; do
    "$UPROBECTL" attach -d 60 --stack=$walk --folded folded --save saved "$FIXTURES/jitted" jitted_leaf \
      -- "$FIXTURES/jitted" again >out 2>err || fail "attach fails: $(cat err)"
    expect_match "the first name, with $walk" 'main;jitted by a map;jitted_leaf 3$' "$(cat folded)"
    expect_match "the second name, with $walk" 'main;jitted again;jitted_leaf 3$' "$(cat folded)"
    "$UPROBECTL" report --folded reported saved >out 2>err || fail "report fails: $(cat err)"
    expect_equal "the names of the saved run, with $walk" "$(cat folded)" "$(cat reported)"
  done
}

# fixtures/workload/jitted.c
names_jitted_code() { # map|dump NAME
  set -- "$1" "$2" "$([ "$1" = map ] || pwd)"
  for walk in dwarf fp; do
    # shellcheck disable=SC2086 # no folder, no word
    "$UPROBECTL" attach -j -d 60 --stack=$walk --folded folded "$FIXTURES/jitted" jitted_leaf \
      -- "$FIXTURES/jitted" "$1" $3 >out 2>err || fail "attach fails: $(cat err)"
    expect_match "the caller, with $walk" "main;$2;jitted_leaf 3\$" "$(cat folded)"
    expect_match 'in records' "\"symbol\":\"$2\",\"symbol_offset\":\"0x" "$(records event)"
  done
  # shellcheck disable=SC2086
  "$UPROBECTL" attach -d 60 --count --by stack "$FIXTURES/jitted" jitted_leaf \
    -- "$FIXTURES/jitted" "$1" $3 >out 2>err || fail "attach fails: $(cat err)"
  expect_match 'counted' "^3.*< $2.0x[0-9a-f]* \\(\\[anon 0x[0-9a-f]*\\]\\) < main" "$(cat out)"
}
