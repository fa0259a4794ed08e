# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch, started_pid, library: set by the harness and the suite
# docs/cookbook.md: each question is a scenario. The commands of its ```console blocks are run, and must
# say exactly what stands below them, but for what is another each time (as_any_run) and the order of
# lines: those of stdout and stderr come as they come.

cookbook_scenarios() {
  cookbook=${DOCS:-$folder/../../docs}/cookbook.md
  sed -n 's/^## //p' "$cookbook" >"$work/questions"
  while IFS= read -r question <&9; do
    scenario "cookbook: $question" answers_question "$question"
  done 9<"$work/questions"
}

# The section of one question, taken apart as any page is (docs_scenarios.sh).
answers_question() { # QUESTION
  awk -v question="## $1" '/^## / { inside = $0 == question } inside' "$cookbook" >section.md
  take_page_apart section.md
  [ -e 1.command ] || fail 'no command is there'
  prepare_shop
  number=1
  while [ -e "$number.command" ]; do
    sed -i "s|lib/arm64-v8a|$library|g" "$number.command" "$number.lines"
    says_exactly "$number"
    number=$((number + 1))
  done
}

# The files and processes that the section uses.
prepare_shop() {
  mkdir bin
  ln -s "$UPROBECTL" bin/uprobectl
  PATH=$scratch/bin:$PATH
  cp "$FIXTURES/shop" "$FIXTURES/shop-stripped" .
  if grep -q ways ./*.command; then cp "$FIXTURES/ways" .; fi
  if grep -q jq ./*.command; then
    command -v jq >/dev/null || skip 'no jq on this machine'
  fi
  if grep -q ./calls ./*.command; then
    ldconfig -p 2>/dev/null | grep -q libc.so.6 || skip 'programs of guests are static'
    cp "$FIXTURES/calls" .
  fi
  if grep -q java-app.odex ./*.command; then
    cp "$FIXTURES/java-app.odex" "$FIXTURES/java-app.vdex" .
    printf '%s\n' 'com.acme.Checkout -> com.example.shop.Till:' '    1:4:int rate(int):20:23 -> grade' >mapping.txt
  fi
  if grep -q tombstone_00 ./*.command; then make_tombstone; fi
  if grep -q -e app.apk -e --app-dir ./*.command; then
    cp "$FIXTURES/greet.apk" app.apk
    cp "$FIXTURES/apk-host" app
    start_program app.out ./app "app.apk!/$library/libgreet.so" greet_total 1000000 --delay-us 20000
  fi
  if grep -q -e 'pidof shop' -e '-p shop' -e --uid ./*.command; then start_program shop.out ./shop --open; fi
}

# A crash in native and in Java code. Where shop_bake is depends on the build.
make_tombstone() {
  printf '%s\n' 'com.acme.Checkout -> a.b:' '    1:3:int com.acme.Tax.of(int):30:32 -> a' \
    '    1:3:int rate(int):21 -> a' 'com.acme.NoCoins -> a.f:' >mapping.txt
  "$UPROBECTL" resolve --json ./shop shop_bake >baker.json
  address=$(sed 's/.*"address":"0x\([0-9a-f]*\)".*/\1/' baker.json)
  build_id=$(sed 's/.*"build_id":"\([0-9a-f]*\)".*/\1/' baker.json)
  {
    echo 'backtrace:'
    printf '      #00 pc %016x  /data/local/tmp/shop (BuildId: %s)\n' "0x$address" "$build_id"
    echo '      #01 pc 000000000001c3e4  /data/app/com.acme/oat/arm64/base.odex (a.b.a+100)'
    echo 'Caused by: a.f: no coins'
    printf '\tat a.b.a(SourceFile:2)\n'
  } >tombstone_00
}

says_exactly() { # NUMBER
  if grep -q '#|$' "$1.lines"; then on_terminal "$1"; else sh "./$1.command" >"$1.out" 2>&1; fi
  as_any_run "$1.lines"
  as_any_run "$1.out"
  cmp -s "$1.lines.any" "$1.out.any" ||
    fail "'$(cat "$1.command")' says '$(cat "$1.out")', as any run: $(diff "$1.lines.any" "$1.out.any")"
}

# Where a page shows what a terminal does: without a line of numbers above a histogram.
on_terminal() { # NUMBER
  mounted_terminals=
  if ! grep -q ' /dev/pts ' /proc/mounts; then
    mkdir -p /dev/pts
    mount -t devpts devpts /dev/pts || fail 'no terminals'
    mounted_terminals=1
  fi
  "$FIXTURES/on-terminal" sh "./$1.command" | tr -d '\r' >"$1.out" 2>&1
  [ -z "$mounted_terminals" ] || umount /dev/pts
}

# The start line says more than on a terminal, which the page shows. Times, durations, pids and addresses are of one run; registers' names are the machine's, and so are the
# number of calls in a second and the rows that latencies fall into. A slow machine warns while it runs,
# too, which the last line says again. What remains must be the same.
as_any_run() { # FILE
  tab=$(printf '\t')
  sed -E \
    -e "s/^[0-2][0-9]:[0-5][0-9]:[0-5][0-9]\.[0-9]{6}${tab}[0-9]+${tab}[0-9]+${tab}/TIME PID TID /" \
    -e "s/${tab}r15=.* rdi=0x1 .*/ REGISTERS/" -e "s/${tab}x0=0x1 x1=0x2 .*/ REGISTERS/" \
    -e "s/^([0-9]+)${tab}[0-9]+${tab}shop/\\1 PID shop/" \
    -e 's/ < main\+.*/ < main/' -e 's/\+0x[0-9a-f]+ \((ways|shop)/ (\1/g' -e 's/\(shop\+0x[0-9a-f]+\)$/(shop)/' \
    -e 's/; its stdout goes to stderr$//' -e 's/process [0-9]+/process PID/g' -e 's/0x[0-9a-f]{6,}/ADDRESS/g' \
    -e '/\[[0-9.]+(ns|us|ms|s), .*\|$/d' -e '/^uprobectl: warning: .* so far: /d' \
    -e 's/pc [0-9a-f]{16}  /pc ADDRESS  /' -e 's/BuildId: [0-9a-f]+/BuildId: ID/' \
    -e 's/[0-9]+(\.[0-9]+)?(ns|us|ms|s)([^a-z]|$)/DURATION\3/g' "$1" >"$1.any"
  # "N calls" of a rate: twice or thrice in the time, and never none.
  case $(cat "$number.command") in *--interval*) rates "$1.any" ;; esac
  sort -o "$1.any" "$1.any"
}

rates() { # FILE
  sed -E -i "s/^[1-9][0-9]*($(printf '\t')| hits)/SOME\\1/" "$1"
  sort -u -o "$1" "$1"
}
