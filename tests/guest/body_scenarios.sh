# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # started_pid: set by the harness
# Functions in several bodies. fixtures/workload/bodies.c counts the calls of each body itself.

body_scenarios() {
  scenario 'a name counts the calls of all bodies of its function, each by its own name' counts_bodies
  scenario '--no-clones counts the function alone' counts_function_alone
  scenario 'a call through a jump table is counted once' counts_jumps_once
  scenario '--exclude and --args mean all bodies as FUNCTION does' names_bodies_alike
  scenario 'functions of one name in two files have two rows' tells_files_apart
}

probe_bodies() { # FUNCTION… OPTION…
  start_program bodies "$FIXTURES/bodies"
  start_attach -j -d 120 -p "$started_pid" "$FIXTURES/bodies" "$@"
  let_it_call bodies "$started_pid"
  stop_attach
  expect_equal 'calls' 'done weigh 10 30 gone 7 grind 8 tally 3 5' "$(grep '^done' bodies)"
}

# "SYMBOL HITS" of each probe.
hits_by_symbol() {
  records probe | while IFS= read -r line; do
    echo "$(printf '%s\n' "$line" | field symbol) $(printf '%s\n' "$line" | field hits)"
  done | tr -d '"' | sort | tr '\n' ';'
}

counts_bodies() {
  probe_bodies weigh gone
  expect_equal 'hits' 'gone.constprop.0 7;weigh 10;weigh.specialized.1 30;' "$(hits_by_symbol)"
  expect_match 'warning' "'weigh' has compiler clones, which are included .*: weigh.specialized.1" "$(cat err)"
}

counts_function_alone() {
  probe_bodies --no-clones weigh
  expect_equal 'hits' 'weigh 10;' "$(hits_by_symbol)"
  attach_fails_with 1 --no-clones -d 1s "$FIXTURES/bodies" gone
  expect_match 'error' "no function 'gone', only its clones: gone.constprop.0" "$(cat err)"
}

counts_jumps_once() {
  probe_bodies grind
  expect_equal 'hits' 'grind.cfi 8;' "$(hits_by_symbol)"
  probe_bodies 'grin*'
  expect_equal 'hits of a pattern' 'grind.cfi 8;' "$(hits_by_symbol)"
}

names_bodies_alike() {
  probe_bodies '[gw][re]i[gn]*' gone --exclude weigh
  expect_equal 'hits without weigh' 'gone.constprop.0 7;grind.cfi 8;' "$(hits_by_symbol)"
  probe_bodies weigh gone --args weigh=number:s32
  expect_equal 'numbers of the clone' "$(seq 0 29)" \
    "$(records event symbol=weigh.specialized.1 | grep -oE '"value": *[0-9]+' | grep -oE '[0-9]+')"
  expect_equal 'arguments of the other' 0 "$(records event symbol=gone.constprop.0 | grep -c '"number"')"
}

tells_files_apart() {
  start_program bodies "$FIXTURES/bodies"
  start_attach -d 120 --all --count -p "$started_pid" "$FIXTURES/bodies" tally
  let_it_call bodies "$started_pid"
  stop_attach
  expect_equal 'calls' 'done weigh 10 30 gone 7 grind 8 tally 3 5' "$(grep '^done' bodies)"
  expect_equal 'counts' '5 3 ' "$(grep tally out | cut -f 1 | tr '\n' ' ')"
  expect_equal 'rows that differ' 2 "$(grep tally out | cut -f 2- | sort -u | wc -l)"
}
