#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Attaches to programs by damaged debug information, notes of static probes and plans, and to programs
# that change their own code, and compares what they print and how they end with what they do unprobed.
# run_campaign.py has made $CAMPAIGN/cases: a line is "KIND SEED PATCHES", a patch OFFSET:BYTES of
# fixtures/workload/campaign.c in hexadecimal digits, separated by commas. Runs under busybox sh.

: "${UPROBECTL:?the path of the program under test}"
: "${FIXTURES:?the folder with campaign and restless}"
: "${CAMPAIGN:?the folder that run_campaign.py has made}"

work=$(mktemp -d)
cd "$work" || exit 1
failures=0

# The exit status of the unprobed program: 7 for campaign, 6 for restless.
expected_status() { # PROGRAM ARGUMENT…
  "$@" >expected 2>/dev/null
  echo $?
}

patch_program() { # PATCHES
  cp "$FIXTURES/campaign" damaged
  chmod 755 damaged
  [ "$1" = - ] && return
  for patch in $(echo "$1" | tr ',' ' '); do
    # shellcheck disable=SC2059 # the format is the escaped bytes
    printf "$(echo "${patch#*:}" | sed 's/../\\x&/g')" |
      dd of=damaged bs=1 seek="$((0x${patch%%:*}))" conv=notrunc 2>/dev/null
  done
}

# With --keep-going the status says that something was refused, not how the program has ended. A
# program that has died of a breakpoint also has status 1 and an error: it is not as unprobed.
is_partial() { # STATUS
  [ "$1" -eq 1 ] && grep -q '^uprobectl: error:' said && ! grep -q 'ended by signal' said
}

# Either nothing is attached, with an error, or the program does what it does unprobed.
check_run() { # LABEL EXPECTED-STATUS STATUS
  label=$1
  wanted=$2
  status=$3
  if grep -q '^uprobectl: error:' said && ! grep -q '^probing ' said && [ ! -s printed ]; then
    refused=$((refused + 1))
  elif cmp -s expected printed && { [ "$status" -eq "$wanted" ] || is_partial "$status"; }; then
    attached=$((attached + 1))
  elif [ -n "$explained" ] && grep -Eq "$explained" said; then
    explained_count=$((explained_count + 1))
  else
    failures=$((failures + 1))
    wrong="$wrong $label"
    echo "# $label: status $status, expected $wanted; prints $(tr '\n' ' ' <printed | cut -c 1-80)"
    tail -n 4 said | cut -c 1-200 | sed "s/^/# $label: /"
    [ -z "${KEEP:-}" ] || cp damaged "$KEEP/$label" 2>/dev/null
  fi
}

run() { # LABEL STATUS ARGUMENT… -- PROGRAM…
  label=$1
  wanted=$2
  shift 2
  timeout 60 "$UPROBECTL" "$@" >printed 2>said
  check_run "$label" "$wanted" $?
}

run_case() { # KIND SEED PATCHES
  label=$1-$2
  # shellcheck disable=SC2086 # options are words
  case $1 in
    lines | info)
      patch_program "$3"
      run "$label" "$status_of_campaign" attach $options --inlined ./damaged 'campaign_*' -- ./damaged
      run "$label-lines" "$status_of_campaign" attach $options --all --keep-going ./damaged \
        campaign.c:28 campaign.c:33 campaign.c:42 campaign_choose:+3 -- ./damaged
      ;;
    notes)
      patch_program "$3"
      run "$label" "$status_of_campaign" usdt attach $options --keep-going ./damaged 'campaign:*' -- ./damaged
      ;;
    plans)
      patch_program -
      run "$label" "$status_of_campaign" attach -d 50 --command-output inherit --forward-exit -o events \
        --keep-going --plan "$CAMPAIGN/plan-$2" ./damaged -- ./damaged
      ;;
    restless | hooks)
      words=$2
      [ "$1" = restless ] || words="$2 hooks"
      wanted=$(expected_status "$FIXTURES/restless" $words)
      run "$label" "$wanted" attach $options "$FIXTURES/restless" 'restless_[fst]*' "restless_second+$inside" \
        -- "$FIXTURES/restless" $words
      ;;
  esac
}

# All kinds would pass if nothing was ever attached.
run_undamaged() {
  number=$((number + 1))
  refused=0
  attached=0
  explained_count=0
  wrong=
  probed=0
  for kind in lines notes plans restless; do
    seed=undamaged
    [ "$kind" != restless ] || seed=1
    run_case "$kind" "$seed" -
    ! grep -q '^probing ' said || probed=$((probed + 1))
  done
  verdict=ok
  # Lines are two runs.
  if [ "$attached" -ne 5 ] || [ "$probed" -ne 4 ]; then
    failures=$((failures + 1))
    verdict='not ok'
  fi
  echo "$verdict $number - undamaged lines, notes and plans, and a program that changes its code, are probed"
  echo "# $attached of 5 runs as unprobed, $refused refused, $probed of 4 kinds probed"
}

run_kind() { # KIND WHAT
  number=$((number + 1))
  refused=0
  attached=0
  explained_count=0
  wrong=
  status_of_campaign=$(expected_status "$FIXTURES/campaign")
  while read -r kind seed patches; do
    [ "$kind" = "$1" ] && run_case "$kind" "$seed" "$patches"
  done <"$CAMPAIGN/cases"
  verdict=ok
  [ -z "$wrong" ] || verdict='not ok'
  echo "$verdict $number - $2"
  echo "# $attached runs as unprobed, $refused refused, $explained_count explained${wrong:+; wrong:$wrong}"
}

options='-d 50 --count --command-output inherit --forward-exit -o events'
explained=
number=0
# An offset in restless_second that is not its entry, where an instruction begins.
inside=2
[ "$(uname -m)" != aarch64 ] || inside=4
status_of_campaign=$(expected_status "$FIXTURES/campaign")
run_undamaged
run_kind lines 'damaged line tables change no program'
run_kind info 'damaged debug information changes no program'
run_kind notes 'damaged notes of static probes change no program'
run_kind plans 'damaged plans change no program'
run_kind restless 'programs that fork, run others, and map, move, drop and unmap their code stay as they are'
# A breakpoint that a program copies is executed, or put back, by the program itself.
explained='breakpoint|changed the code|has changed its code|ended by signal 5 '
run_kind hooks 'programs that copy and rewrite their code stay as they are, or it is said what happened'
number=$((number + 1))
if dmesg 2>/dev/null | grep -Eq 'BUG:|Oops|general protection fault, probably'; then
  failures=$((failures + 1))
  echo "not ok $number - the kernel has no complaint"
  dmesg | grep -E 'BUG:|Oops|RIP:' | head -n 5 | sed 's/^/# /'
else
  echo "ok $number - the kernel has no complaint"
fi
echo "1..$number"
rm -rf "$work"
[ "$failures" -eq 0 ]
