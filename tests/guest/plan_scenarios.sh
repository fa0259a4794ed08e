# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # library: set by the suite; started_pid: by the harness
# Plans that attach --write-plan makes with symbols, and attach --plan attaches without.

plan_scenarios() {
  scenario 'a plan finds in the stripped program what attach finds in the other one' plans_stripped
  scenario 'a plan probes returns where the other program has them' plans_returns
  scenario 'a plan starts and stops as its options say' plans_bounds
  scenario 'a plan of a library probes it in an APK' plans_archive_entry
  scenario 'a plan for another build attaches nothing' plans_other_build
  scenario 'a plan knows the parameters that are called as registers are' plans_parameters
}

write_plan() { # ARGUMENT…
  "$UPROBECTL" attach -q --write-plan plan "$@" >out 2>err || fail "no plan: $(cat err)"
  [ -s plan ] || fail 'the plan is empty'
  [ ! -s out ] || fail "more than the plan: $(cat out)"
}

# Prints the events of a run on one day of the shop.
shop_events() { # PROGRAM ARGUMENT…
  program=$1
  shift
  "$UPROBECTL" attach -j -d 120 "$@" -- "$program" >out 2>err || fail "attach fails: $(cat err)"
  records event | while IFS= read -r event; do
    for key in kind symbol demangled image_offset left_by return_value; do
      printf '%s ' "$(value_in "$key" "$event")"
    done
    printf '%s\n' "$event" | sed 's/.*"arguments": *\(\[[^]]*\]\).*/\1/'
  done
}

plans_stripped() {
  write_plan --args bytes:u64 --if 'bytes>20' "$FIXTURES/shop" shop_take
  shop_events "$FIXTURES/shop" --args bytes:u64 --if 'bytes>20' "$FIXTURES/shop" shop_take >direct
  shop_events "$FIXTURES/shop-stripped" --plan plan "$FIXTURES/shop-stripped" >planned
  cmp direct planned || fail "other events: $(cat planned)"
  # fixtures/workload/shop.c
  expect_equal 'bytes' '24 100 100 4096 100000' \
    "$(records event | sed 's/.*"value": *\([0-9]*\).*/\1/' | tr '\n' ' ' | sed 's/ $//')"
}

plans_returns() {
  write_plan --latency --args none "$FIXTURES/shop" 'shop_[ob]*'
  grep -q '"returns"' plan || fail "no exits: $(cat plan)"
  shop_events "$FIXTURES/shop" --latency --args none "$FIXTURES/shop" 'shop_[ob]*' | sort >direct
  shop_events "$FIXTURES/shop-stripped" --plan plan "$FIXTURES/shop-stripped" | sort >planned
  sed -i 's/ [^ ]*$//' direct planned # pointers among the arguments differ
  cmp direct planned || fail "other events: $(cat planned)"
  expect_equal 'orders' 3 "$(grep -c shop_order planned)"
  expect_equal 'boxes' 4 "$(grep -c shop_boxes planned)"
}

plans_bounds() {
  write_plan --start-on shop_bake --stop-on shop_ship "$FIXTURES/shop" shop_boxes shop_take
  shop_events "$FIXTURES/shop" --start-on shop_bake --stop-on shop_ship "$FIXTURES/shop" shop_boxes shop_take \
    --args none | cut -d ' ' -f 2 >direct
  shop_events "$FIXTURES/shop-stripped" --plan plan --args none "$FIXTURES/shop-stripped" | cut -d ' ' -f 2 >planned
  [ -s direct ] || fail 'no events'
  cmp direct planned || fail "other events: $(cat planned)"
}

plans_archive_entry() {
  write_plan --entry --return "$FIXTURES/libgreet.so" greet_add
  start_program target "$FIXTURES/apk-host" "$FIXTURES/greet.apk!/$library/libgreet.so" greet_add 20 --wait --hold
  start_attach -j -d 120 -p "$started_pid" --plan plan "$FIXTURES/greet.apk!/$library/libgreet.so"
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'entries' 20 "$(count_records event kind=entry)"
  expect_equal 'returns' 20 "$(count_records event kind=return)"
  known=$(sed -n 's/^function greet_add .* archive offset //p' target)
  expect_equal 'offset in the archive' "$known" "$(records probe | field offset | sort -u)"
  # By its name alone it is found among the mapped files.
  start_attach -j -d 120 -p "$started_pid" --plan plan libgreet.so
  stop_attach
  expect_equal 'offset by name' "$known" "$(records probe | field offset | sort -u)"
}

# The count, the group or the measured value of the lines of a file, without times.
sums_of() { # FILE
  grep -E '"type":"(count|histogram|event)"' "$1" |
    grep -oE '"(count|total|by|minimum|maximum|sum|arguments)": ?("[^"]*"|[0-9-]+|[[{][^]}]*[]}])'
}

# A run without a plan compares the parameters of these names, and so does one with it.
plans_parameters() {
  command -v strip >/dev/null || skip 'no strip on this machine'
  program=$FIXTURES/types/types-registers
  strip -o stripped "$program"
  for option in '--if flags==2' '--count --by ip' '--histogram --measure flags'; do
    # shellcheck disable=SC2086 # words
    write_plan $option "$program" registers_named
    # shellcheck disable=SC2086 # words
    "$UPROBECTL" attach -q -j -d 120 $option "$program" registers_named -- "$program" >direct 2>err || fail "$option: $(cat err)"
    "$UPROBECTL" attach -q -j -d 120 --plan plan ./stripped -- ./stripped >planned 2>err || fail "$option: $(cat err)"
    [ -n "$(sums_of direct)" ] || fail "$option: no values: $(cat direct)"
    expect_equal "$option" "$(sums_of direct)" "$(sums_of planned)"
  done
  ! "$UPROBECTL" attach -q --write-plan plan --histogram --measure steps "$program" registers_named >out 2>err ||
    fail 'a plan of an unknown name'
  expect_match 'an unknown name' "registers_named has no parameter or variable 'steps'" "$(cat err)"
}

plans_other_build() {
  write_plan "$FIXTURES/shop" shop_order
  attach_fails_with 1 -d 1 --plan plan "$FIXTURES/libgreet.so"
  expect_match 'both build ids' 'it is for build id [0-9a-f]{40}, the file has build id [0-9a-f]{40}$' "$(cat err)"
}
