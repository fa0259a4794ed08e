# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Functions of the guest suites: TAP, waiting, starting things, reading JSON Lines.
#
# A scenario is a function that runs in a subshell of its own, in the folder $scratch. It succeeds by
# returning; `fail REASON` and `skip REASON` end it. Whatever it started is ended for it, and then
# nothing of it may be left in the kernel. Runs under busybox sh, dash and bash.

: "${UPROBECTL:?the path of the program under test}"
: "${FIXTURES:?the folder with workload, apk-host, await, bpf-census and greet.apk}"

work=$(mktemp -d)
# A process with this variable belongs to this run (bpf_census.c).
export UPROBECTL_SUITE="$work"
test_number=0
failed_tests=0
attach_command=attach
uprobe_events=/sys/kernel/tracing/uprobe_events

# --- TAP -----------------------------------------------------------------------------------------

fail() {
  echo "$*"
  exit 1
}

skip() {
  echo "$*" >"$scratch/skip"
  exit 0
}

expect_equal() { # WHAT EXPECTED ACTUAL
  [ "$2" = "$3" ] || fail "$1: expected '$2', got '$3'"
}

expect_match() { # WHAT EXTENDED-REGEX TEXT
  printf '%s\n' "$3" | grep -Eiq -- "$2" || fail "$1: expected /$2/, got '$3'"
}

scenario() { # NAME FUNCTION [ARGUMENT…]
  name=$1
  shift
  test_number=$((test_number + 1))
  scratch=$work/$test_number
  mkdir "$scratch"
  : >"$scratch/pids"
  "$FIXTURES/bpf-census" >"$scratch/before" 2>&1
  # The scenario may change folders and variables; only its verdict comes out.
  (cd "$scratch" && "$@") >"$scratch/said" 2>&1
  verdict=$?
  end_started
  [ -z "${RECORD_SCHEMA:-}" ] || keep_records
  if [ "$verdict" -eq 0 ] && ! wait_until 20 nothing_is_left "$scratch/before" "$scratch/left"; then
    verdict=1
    printf 'left behind:\n%s\n' "$(cat "$scratch/left")" >>"$scratch/said"
  fi
  if [ "$verdict" -ne 0 ]; then
    failed_tests=$((failed_tests + 1))
    echo "not ok $test_number - $name"
    for part in said err out; do
      [ -s "$scratch/$part" ] && tail -n 8 "$scratch/$part" | cut -c 1-400 | sed "s/^/# $part: /"
    done
  elif [ -s "$scratch/skip" ]; then
    echo "ok $test_number - $name # SKIP $(cat "$scratch/skip")"
  else
    echo "ok $test_number - $name"
  fi
  rm -rf "$scratch" # a guest has its files in memory
}

# The JSON Lines in the files of the scenario, for records_are_valid: whole lines, of long runs the
# beginning and the end.
keep_records() {
  for output in "$scratch"/*; do
    [ "${output%.lines}" = "$output" ] || continue # what a page expects, with its "…"
    [ ! -f "$output" ] || { head -n 1000 "$output" && tail -n 100 "$output"; } 2>/dev/null
  done | grep -a '^{"type":.*}$' >>"$work/records"
}

# A scenario: what all others have kept is as share/uprobectl/records.schema.json has it, and has a record
# of each of these types. RECORD_SCHEMA: the script that validates.
records_are_valid() { # TYPE…
  python3 "$RECORD_SCHEMA" "$work/records" "$@" || fail 'the records are not as the schema has them'
}

finish_suite() {
  echo "1..$test_number"
  rm -rf "$work"
  [ "$failed_tests" -eq 0 ]
}

# --- the kernel ----------------------------------------------------------------------------------

kernel_is_at_least() { # MAJOR.MINOR
  release=$(uname -r)
  major=${release%%.*}
  minor=${release#*.}
  minor=${minor%%[!0-9]*}
  [ "$major" -gt "${1%.*}" ] || { [ "$major" -eq "${1%.*}" ] && [ "$minor" -ge "${1#*.}" ]; }
}

kernel_has_multi() { kernel_is_at_least 6.6; }
kernel_has_perf_links() { kernel_is_at_least 5.15; } # and cookies

# A scenario that has nothing to test on an older kernel.
needs_kernel() { # MAJOR.MINOR
  kernel_is_at_least "$1" || skip "Linux $(uname -r) is older than $1"
}

# Probes by perf events: before links on them there is only perf-ioctl.
perf=perf
kernel_has_perf_links || perf=perf-ioctl

# These mechanisms, each once, as this kernel has them.
mechanisms() { # MECHANISM…
  there=
  for one; do
    [ "$one" != perf ] || one=$perf
    case " $there " in *" $one "*) ;; *) there="$there $one" ;; esac
  done
  echo "$there"
}

# --- what may be left ----------------------------------------------------------------------------

# Compares with what bpf-census found before. Other tracers come and go on a machine that is not a guest, and
# the kernel frees BPF objects tens of milliseconds after their process has ended. So LEFT keeps only the
# objects that every census since the first one has found.
nothing_is_left() { # BEFORE LEFT
  "$FIXTURES/bpf-census" "$1" >"$2.now" 2>&1
  if [ -e "$2" ]; then
    grep -Fx -f "$2" "$2.now" >"$2.still"
    mv "$2.still" "$2"
  else
    mv "$2.now" "$2"
  fi
  [ ! -s "$2" ]
}

end_started() {
  while read -r pid; do
    kill -KILL "$pid" 2>/dev/null
  done <"$scratch/pids"
}

# --- waiting -------------------------------------------------------------------------------------

# Polls; an emulated machine is slow, so limits are generous and never what is measured. UPROBECTL_PATIENCE:
# by how much they are longer.
wait_until() { # SECONDS COMMAND…
  seconds=$(($1 * ${UPROBECTL_PATIENCE:-1}))
  shift
  if [ "$1" = file_says ]; then # more pairs may follow: one of them has to match
    shift
    "$FIXTURES/await" "$seconds" "$@"
    return
  fi
  polls=$((20 * seconds))
  until "$@"; do
    polls=$((polls - 1))
    [ "$polls" -gt 0 ] || return 1
    sleep 0.05
  done
}

file_says() { # FILE REGEX
  grep -q -- "$2" "$1" 2>/dev/null
}

seconds_up() {
  cut -d . -f 1 /proc/uptime
}

# --- starting things -----------------------------------------------------------------------------

# start_program NAME PROGRAM…: in the background, until it is ready; its pid is in $started_pid, its
# output in NAME.
start_program() {
  output=$1
  shift
  # Removes the output of an earlier run: this one may take a while to begin.
  rm -f "$output"
  "$@" </dev/null >"$output" 2>&1 &
  started_pid=$!
  echo "$started_pid" >>"$scratch/pids"
  wait_until 30 file_says "$output" '^ready' || fail "'$1' does not get ready: $(cat "$output")"
}

start_workload() { # NAME ARGUMENT…
  output=$1
  shift
  start_program "$output" "$FIXTURES/workload" --wait --hold "$@"
}

# Lets a waiting program make its calls, and waits for the last of them.
let_it_call() { # NAME PID [SECONDS]
  kill -USR1 "$2" || fail "process $2 is gone"
  wait_until "${3:-60}" file_says "$1" '^done' || fail "process $2 does not finish its calls"
}

# Becomes the program under test after telling its process id.
become_attach() {
  # shellcheck disable=SC2016,SC2086 # expanded by the inner shell; two words, some of them
  exec sh -c 'echo $$ >attach.pid; exec "$@"' sh "$UPROBECTL" $attach_command "$@"
}

# In the background: stdout in `out`, stderr in `err`, the exit status at the end in `status`.
start_attach() { start_attach_as attach "$@"; }
start_attach_as() { # 'attach' or 'usdt attach'
  attach_command=$1
  shift
  rm -f attach.pid status out err
  (
    (become_attach "$@") >out 2>err
    echo $? >status
  ) &
  wait_until 60 file_says err '^probing ' status .
  cat attach.pid >>"$scratch/pids"
  file_says err '^probing ' || fail "attach does not start: $(cat err)"
}

# Waits until attach has ended by itself and requires the exit status.
attach_ends_with() { # STATUS [SECONDS]
  wait_until "${2:-60}" file_says status . || fail 'attach does not end'
  expect_equal 'exit status' "$1" "$(cat status)"
}

stop_attach() { # [SECONDS]
  kill -TERM "$(cat attach.pid)" || fail 'attach has ended already'
  attach_ends_with 0 "$@"
}

# Runs it to its end in the foreground: for what fails at once.
attach_fails_with() { # STATUS ARGUMENT…
  wanted=$1
  shift
  "$UPROBECTL" attach "$@" >out 2>err
  expect_equal 'exit status' "$wanted" "$?"
  ! file_says err '^probing ' || fail 'attach says it is probing'
  ! file_says out '"attached"' || fail 'attach says it has attached'
}

# --- JSON Lines ----------------------------------------------------------------------------------

# Keys may come in any order and with or without a space after the colon.
records() { # TYPE [KEY=VALUE]
  if [ $# -eq 1 ]; then
    grep "\"type\": *\"$1\"" out
  else
    grep "\"type\": *\"$1\"" out | grep "\"${2%%=*}\": *\"\{0,1\}${2#*=}\"\{0,1\}[,}]"
  fi
}

count_records() {
  records "$@" | grep -c ''
}

# The key's value in one record: for what many scenarios ask, as each program that is started takes
# an emulated machine 10 ms.
value_in() { # KEY RECORD
  value=${2#*"\"$1\":"}
  value=${value# }
  case $value in
    "$2") value= ;;
    \"*)
      value=${value#\"}
      value=${value%%\"*}
      ;;
    *) value=${value%%[,\}]*} ;;
  esac
  echo "$value"
}

# The key's value, one line for each line of stdin that has it.
field() { # KEY
  sed -n -e "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p;t" -e "s/.*\"$1\": *\([^\",}]*\).*/\1/p"
}

hex_of_each() {
  while read -r number; do
    printf '0x%x\n' "$number" 2>/dev/null || echo "no number: $number"
  done
}

# "arg0 0x1 arg1 0x2 …", one line an event.
arguments_of_entries() {
  records event kind=entry | sed -n 's/.*"arguments": *\[\([^]]*\)\].*/\1/p' |
    sed -e 's/"type": *"[^"]*"//g' -e 's/"error": *[^,}]*//g' -e 's/"name": *//g' \
      -e 's/"value": *//g' -e 's/[]["{},]/ /g' -e 's/  */ /g' -e 's/^ //' -e 's/ $//' \
      -e 's/0x0*\([0-9a-f]\)/0x\1/g'
}
