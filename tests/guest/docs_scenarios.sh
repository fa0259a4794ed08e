# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch, library, folder: set by the harness and the suite
# The pages of docs/ that are about running programs: each command of a ```console block is run, and
# each line below it must come out, "…" standing for anything.

docs_scenarios() {
  for page in attach bpf-programs; do
    scenario "docs: the commands of $page.md print the documented output" runs_page "$page"
  done
  scenario 'docs: the attach commands of usdt.md print the documented output' runs_usdt_page
}

# Those that only list are the business of tests/integration/docs_usdt.py.
runs_usdt_page() {
  mkdir bin
  ln -s "$UPROBECTL" bin/uprobectl
  PATH=$scratch/bin:$PATH
  cp "$FIXTURES/probes" "$FIXTURES/probes.apk" .
  take_page_apart "${DOCS:-$folder/../../docs}/usdt.md"
  attached=0
  for command in [0-9]*.command; do
    grep -q 'usdt attach' "$command" || continue
    attached=$((attached + 1))
    number=${command%.command}
    sed -i "s|lib/x86_64|$library|g" "$number.command" "$number.lines"
    run_command_of_page "$number"
  done
  [ "$attached" -ge 6 ] || fail "only $attached commands attach"
}

# Commands as 1.command, 2.command …, what is to come out as 1.lines ….
take_page_apart() { # PAGE
  awk '
    /^```console/ { inside = 1; next }
    /^```/ { inside = 0; next }
    !inside { next }
    /^\$ / { number++; print substr($0, 3) >(number ".command"); printf "" >(number ".lines"); next }
    { print >(number ".lines") }
  ' "$1"
}

# A regular expression for a whole line.
pattern_of() { # LINE
  printf '%s' "$1" | sed -e 's/[][\\.*^$/+?(){}|]/\\&/g' -e 's/…/.*/g' -e 's/^/^/' -e 's/$/$/'
}

# The pages assume: an app that runs out of its APK, and the program in PATH.
prepare_app() {
  mkdir bin
  ln -s "$UPROBECTL" bin/uprobectl
  PATH=$scratch/bin:$PATH
  cp "$FIXTURES/greet.apk" app.apk
  cp "$FIXTURES/greetings.bpf.o" "$FIXTURES/latency.bpf.o" .
  cp "$FIXTURES/apk-host" app
  ./app "app.apk!/$library/libgreet.so" greet_add 1000000 --delay-us 20000 >app.out 2>&1 &
  echo $! >>"$scratch/pids"
  wait_until 30 file_says app.out '^ready' || fail "the app does not start: $(cat app.out)"
  cp "$FIXTURES/workload" tool
}

runs_page() { # PAGE
  prepare_app
  mounted=
  if ! grep -q ' /sys/fs/bpf bpf ' /proc/mounts; then
    mount -t bpf bpf /sys/fs/bpf || fail 'cannot mount a bpf file system'
    mounted=1
  fi
  take_page_apart "${DOCS:-$folder/../../docs}/$1.md"
  number=1
  while [ -e "$number.command" ]; do
    sed -i "s|lib/arm64-v8a|$library|g" "$number.command" "$number.lines"
    run_command_of_page "$number"
    number=$((number + 1))
  done
  [ "$number" -gt 4 ] || fail "only $((number - 1)) commands are in $1.md"
  [ -z "$mounted" ] || umount /sys/fs/bpf
}

run_command_of_page() { # NUMBER
  sh "./$1.command" >"$1.out" 2>&1
  # Not said on a terminal, which the pages show.
  sed -i 's/; its stdout goes to stderr$//' "$1.out"
  while IFS= read -r line; do
    [ "$line" = … ] && continue
    grep -Eq -- "$(pattern_of "$line")" "$1.out" ||
      fail "no '$line' after '$(cat "$1.command")': $(cat "$1.out")"
  done <"$1.lines"
}
