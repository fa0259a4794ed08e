# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch: set by the harness and the suite
# Functions of a program and of two libraries in one run. fixtures/targets/app.c says how often each
# is called. They need a C library, so guests do not have them.

target_scenarios() {
  scenario 'targets: a program and its libraries are in one tree' nests_across_files
  scenario 'targets: counts are exact in each file, and sums are saved' counts_in_files
  scenario 'targets: each file has its own types and conditions' types_in_files
  scenario 'targets: --args and --exclude tell functions of several files apart' selects_in_files
  scenario 'targets: with -p they are names of mapped libraries' finds_mapped_files
  scenario 'targets: an unhit function is explained by its own file' explains_in_files
  scenario 'targets: a file that does not exist is the failure of its functions' reports_missing_files
  scenario 'targets: children that run the program are followed in all files' follows_in_files
  scenario 'targets: a plan has all files' plans_for_files
  for mechanism in $(mechanisms perf tracefs); do
    scenario "targets: they are probed through $mechanism" counts_through "$mechanism"
  done
  scenario 'targets: f@FILE is the function of one source file' finds_by_source_file
}

app=$FIXTURES/targets-app
till=$FIXTURES/libtill.so
stock=$FIXTURES/libstock.so

attach_app() { # ARGUMENT…
  "$UPROBECTL" attach -o out -d 60 --command-output said "$@" -- "$app" 2>err || fail "attach fails: $(cat err)"
  expect_equal 'the program' 'sum 790' "$(cat said)"
}

nests_across_files() {
  attach_app --graph --args none "$app" work "$till:till_*" "$stock:stock_take"
  cut -f 6 out | sed 's/([^ ]*[^)]*)/()/; s/ = .*;$/;/; s/ = .*$//' >tree
  expect_equal 'the calls' "$(for _ in 1 2 3; do
    echo 'targets-app:work() {
  libtill.so:till_sell() {
    libstock.so:stock_take();
  } libtill.so:till_sell
  libstock.so:stock_take();
} targets-app:work'
  done)" "$(cat tree)"
  attach_app --report --report-function libstock.so:stock_take -j "$app" work "$till:till_sell" "$stock:stock_take"
  for caller in work till_sell; do
    expect_equal "calls of stock_take by $caller" 3 "$(records call_edge caller=$caller | grep '"callee":"stock_take"' | field calls)"
  done
}

counts_in_files() {
  attach_app --count --save run "$app" work helper "$till:till_sell" "$stock:stock_take" "$stock:helper"
  expect_equal 'counts' '12 targets-app:helper
3 libtill.so:till_sell
3 targets-app:work
6 libstock.so:helper
6 libstock.so:stock_take' "$(tr '\t' ' ' <out | sort)"
  sort out >run_out
  "$UPROBECTL" report run >out 2>err || fail "report fails: $(cat err)"
  expect_equal 'the saved run' "$(cat run_out)" "$(sort out)"
}

# The types are those of each file: `sale` is known in libtill.so only, `item` of libstock.so is a string.
types_in_files() {
  attach_app --args "$till:till_sell=sale->number,sale->item" "$app" work "$till:till_sell" "$stock:stock_take"
  expect_equal 'values' 'targets-app:work(number=1)
libtill.so:till_sell sale->number=1, sale->item="milk"
libstock.so:stock_take(count=1, item="milk")
libstock.so:stock_take(count=10, item="bread")
targets-app:work(number=2)
libtill.so:till_sell sale->number=2, sale->item="tea"
libstock.so:stock_take(count=1, item="tea")
libstock.so:stock_take(count=20, item="bread")
targets-app:work(number=3)
libtill.so:till_sell sale->number=3, sale->item="milk"
libstock.so:stock_take(count=1, item="milk")
libstock.so:stock_take(count=30, item="bread")' "$(cut -f 5,6 out | tr '\t' ' ' | sed 's/ $//')"
  attach_app -j --if 'arg0 > 0 && number == 2' "$app" work "$till:helper@till.c"
  expect_equal 'calls with the number' 'helper work' "$(records event | field symbol | sort | tr '\n' ' ' | sed 's/ $//')"
}

selects_in_files() {
  attach_app -j --args libtill.so:helper=a:u8@arg0 --args "$stock:helper=b:u16@arg0" --exclude 'libstock.so:stock_*' \
    --exclude targets-app:work "$app" '[hw]*' "$till:helper" "$stock:*[a-z]" --all
  for each in 'u8 9' 'u16 6'; do
    expect_equal "events with ${each% *}" "${each#* }" "$(records event | grep -c "\"type\":\"${each% *}\"")"
  done
  expect_equal 'what is left out' 0 "$(records event | grep -Ec '"symbol":"(stock_take|work)"')"
  expect_equal 'other helpers' 12 "$(records event symbol=helper | grep -c '"file":"[^"]*/targets-app"')"
}

finds_mapped_files() {
  mkfifo gate
  "$app" --hold <gate >said &
  app_pid=$!
  echo "$app_pid" >>"$scratch/pids"
  exec 3>gate
  wait_until 10 grep -q libstock.so "/proc/$app_pid/maps" || fail 'the library is not mapped'
  start_attach -j --count -p "$app_pid" "$app" work libtill.so:till_sell stock:stock_take
  echo >&3
  attach_ends_with 0
  expect_equal 'counts' 'stock_take 6 till_sell 3 work 3' "$(for function in stock_take till_sell work; do
    echo "$function $(records count symbol=$function | field count)"
  done | tr '\n' ' ' | sed 's/ $//')"
}

explains_in_files() {
  attach_app "$app" work "$stock:stock_unused" "$FIXTURES/libsoak.so:soak_*"
  expect_match 'a function that is not called' '^uprobectl: warning: libstock.so:stock_unused: never hit: ' "$(cat err)"
  grep '^uprobectl: warning: libstock.so:stock_unused: ' err >unused
  ! grep -q 'does not map' unused || fail "$(cat unused)"
  expect_match 'a library that is not mapped' 'libsoak.so:soak_[a-z_]*: never hit: .*was not seen to map this file' "$(cat err)"
}

reports_missing_files() {
  if "$UPROBECTL" attach -d 60 "$app" work ./libnone.so:f -- "$app" >out 2>err; then fail 'a missing file is not an error'; fi
  expect_match 'the error' '^uprobectl: error: ./libnone.so: ' "$(cat err)"
  expect_match 'what follows' '1 of 2 functions cannot be probed, so nothing was attached' "$(cat err)"
  if "$UPROBECTL" attach -j -o out --keep-going -d 60 "$app" work ./libnone.so:f -- "$app" >said 2>err; then
    fail 'a missing file is not an error'
  fi
  expect_equal 'events' 3 "$(count_records event symbol=work)"
  expect_equal 'the record of the error' 1 "$(records error target=./libnone.so | grep -c '"request":"f"')"
}

follows_in_files() {
  "$UPROBECTL" attach -j --count -o out -d 60 --follow --command-output said "$app" work "$till:till_sell" "$stock:stock_take" \
    -- sh -c "$app; $app" 2>err || fail "attach fails: $(cat err)"
  expect_equal 'counts' '12 6 6' "$(for function in stock_take till_sell work; do
    records count symbol=$function | field count
  done | tr '\n' ' ' | sed 's/ $//')"
}

plans_for_files() {
  write_plan --count "$app" work "$till:till_sell" "$stock:stock_take"
  attach_app -j --plan plan
  expect_equal 'counts' '6 3 3' "$(for function in stock_take till_sell work; do
    records count symbol=$function | field count
  done | tr '\n' ' ' | sed 's/ $//')"
}

counts_through() { # MECHANISM
  attach_app --count --mechanism "$1" "$app" work "$till:till_sell" "$stock:stock_take"
  expect_equal 'counts' '3 libtill.so:till_sell
3 targets-app:work
6 libstock.so:stock_take' "$(tr '\t' ' ' <out | sort)"
}

finds_by_source_file() {
  attach_app --count "$app" helper@app.c "$till:helper@receipt.c" "$till:helper@targets/till.c"
  expect_equal 'counts' '12 targets-app:helper
3 libtill.so:helper
6 libtill.so:helper' "$(tr '\t' ' ' <out | sed 's/ (0x[0-9a-f]*)$//' | sort)"
}
