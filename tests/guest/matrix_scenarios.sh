# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch, started_pid, library: set by the harness and the suite
# Every way to attach a probe with every kind of program: entries and returns, in a plain file and in
# an archive, of one process and of all. Hit counts are exact.

matrix_scenarios() { # 'CONTAINER FILTER'…
  for mechanism in $(mechanisms multi perf perf-ioctl tracefs); do
    for program in builtin object pinned; do
      scenario "matrix: $mechanism, $program" fills_matrix "$mechanism" "$program" "$@"
    done
  done
}

fills_matrix() { with_pins fills_matrix_there "$@"; }
fills_matrix_there() { # MECHANISM PROGRAM 'CONTAINER FILTER'…
  needs "$1"
  mechanism=$1
  program=$2
  shift 2
  for cell; do printf '%s\n' "$cell"; done >cells
  set -- "$mechanism"
  case $mechanism-$program in
    *-builtin) ;;
    perf-ioctl-pinned)
      ! kernel_has_perf_links || { refuses_ioctl_for_pins && return; }
      set -- "$1" --program pins/c/count_plain --map calls
      ;;
    *-object) set -- "$1" --object "$FIXTURES/calls.bpf.o" --program-name count_plain --map calls ;;
    multi-pinned) set -- "$1" --program pins/c/count_multi --map calls ;;
    *-pinned) set -- "$1" --program pins/c/count_plain --map calls ;;
  esac
  while read -r container filter; do
    rm -rf pins/c
    case "$*" in *pins/c*) load "$FIXTURES/calls.bpf.o" --pin pins/c || fail "load: $(cat err)" ;; esac
    fill_cell "$container" "$filter" "$@" </dev/null
    [ ! -e pins/c ] || load --unpin pins/c || fail "unpin: $(cat err)"
  done <cells
}

# The program may have been loaded for another use.
refuses_ioctl_for_pins() {
  load "$FIXTURES/calls.bpf.o" --pin pins/c || fail "load: $(cat err)"
  attach_fails_with 1 -d 1 --mechanism perf-ioctl --program pins/c/count_plain "$FIXTURES/workload" work_six
  load --unpin pins/c
}

start_caller() { # NAME CONTAINER CALLS
  if [ "$2" = plain ]; then
    start_workload "$1" --calls "$3"
  else
    start_program "$1" "$FIXTURES/apk-host" "$FIXTURES/greet.apk!/$library/libgreet.so" greet_add "$3" \
      --wait --hold
  fi
}

fill_cell() { # CONTAINER FILTER MECHANISM [PROGRAM OPTION…]
  container=$1
  filter=$2
  mechanism=$3
  shift 3
  start_caller other "$container" 7
  other=$started_pid
  start_caller target "$container" 20
  calls=27
  [ "$filter" = all ] || calls=20
  [ "$filter" = all ] || set -- "$@" -p "$started_pid"
  if [ "$container" = plain ]; then
    start_attach -j -d 120 --mechanism "$mechanism" --entry --return "$@" "$FIXTURES/workload" work_six
  else
    start_attach -j -d 120 --mechanism "$mechanism" --entry --return "$@" \
      "$FIXTURES/greet.apk!/$library/libgreet.so" greet_add
  fi
  let_it_call other "$other"
  let_it_call target "$started_pid"
  stop_attach
  kill -KILL "$other" "$started_pid"
  cell="$container file, $filter"
  expect_equal "mechanism ($cell)" "$mechanism" "$(records attached | field mechanism)"
  expect_equal "hits ($cell)" "$((2 * calls))" "$(records probe | field hits)"
  expect_equal "detached cleanly ($cell)" true "$(records summary | field detached_cleanly)"
  case "$*" in
    *--map*) expect_equal "counted by the program ($cell)" "$((2 * calls))" "$(value_of calls)" ;;
    *)
      expect_equal "entries ($cell)" "$calls" "$(count_records event kind=entry)"
      expect_equal "returns ($cell)" "$calls" "$(count_records event kind=return)"
      ;;
  esac
}
