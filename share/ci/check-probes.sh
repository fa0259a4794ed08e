#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Verifies recorded probe points in a CI job: the GitHub Action, the GitLab template and the Gradle
# task beside this file run it. Needs sha256sum, and curl or wget for a URL.
#
#   UPROBECTL_PROGRAM  path or URL of the program uprobectl
#   UPROBECTL_SHA256   its SHA-256, as SHA256SUMS of the release has it
#   UPROBECTL_RECORD   the record of `uprobectl resolve --record`
#   UPROBECTL_PLAN     instead of a record: the plan of `uprobectl attach --write-plan`
#   UPROBECTL_TARGETS  the files to verify, one a line; default: the recorded ones
#   UPROBECTL_FORMAT   as for --format; default: text
#   UPROBECTL_REPORT   write the verdict to this file instead of stdout
#   UPROBECTL_FAIL_ON  as for --fail-on
#   UPROBECTL_SYMBOLS  folder or ZIP with the symbols of stripped libraries
#
# Exit status: 0 if nothing changed that matters, 1 if something did or could not be checked, 2 if
# nothing was verified: the program is missing or not the expected one, or the options are wrong.
set -eu

fail() {
  echo "check-probes: error: $1" >&2
  exit 2
}

[ -n "${UPROBECTL_PROGRAM:-}" ] || fail "UPROBECTL_PROGRAM is not set: give the path or URL of uprobectl"
[ -n "${UPROBECTL_SHA256:-}" ] || fail "UPROBECTL_SHA256 is not set: SHA256SUMS of the release has it"
[ -n "${UPROBECTL_RECORD:-}${UPROBECTL_PLAN:-}" ] || fail "UPROBECTL_RECORD is not set: give the record to verify"
[ -z "${UPROBECTL_RECORD:-}" ] || [ -z "${UPROBECTL_PLAN:-}" ] ||
  fail "UPROBECTL_RECORD cannot be combined with UPROBECTL_PLAN"

folder=$(mktemp -d) || fail "cannot make a temporary folder"
trap 'rm -rf "$folder"' EXIT
trap 'exit 2' HUP INT TERM

# The copy is what is checked and run, whatever happens to the file meanwhile.
program=$folder/uprobectl
case $UPROBECTL_PROGRAM in
  *://*)
    if command -v curl >/dev/null; then
      curl --fail --silent --show-error --location --retry 3 --output "$program" -- "$UPROBECTL_PROGRAM" ||
        fail "cannot download $UPROBECTL_PROGRAM"
    elif command -v wget >/dev/null; then
      wget -q -O "$program" -- "$UPROBECTL_PROGRAM" || fail "cannot download $UPROBECTL_PROGRAM"
    else
      fail "a URL needs curl or wget"
    fi
    ;;
  *)
    cp -- "$UPROBECTL_PROGRAM" "$program" || fail "cannot read $UPROBECTL_PROGRAM"
    ;;
esac
found=$(sha256sum <"$program") || fail "cannot compute a SHA-256: is sha256sum installed?"
found=${found%% *}
[ "$found" = "$UPROBECTL_SHA256" ] ||
  fail "$UPROBECTL_PROGRAM has SHA-256 $found, expected $UPROBECTL_SHA256"
chmod 755 "$program"

if [ -n "${UPROBECTL_PLAN:-}" ]; then
  command='diff'
  set -- --plan "$UPROBECTL_PLAN"
else
  command='resolve'
  set -- --verify "$UPROBECTL_RECORD"
fi
[ -z "${UPROBECTL_FAIL_ON:-}" ] || set -- "$@" --fail-on "$UPROBECTL_FAIL_ON"
[ -z "${UPROBECTL_SYMBOLS:-}" ] || set -- "$@" --symbols "$UPROBECTL_SYMBOLS"
set -- "$@" --
newline='
'
rest=${UPROBECTL_TARGETS:-}$newline
while [ -n "$rest" ]; do
  target=${rest%%"$newline"*}
  rest=${rest#*"$newline"}
  [ -z "$target" ] || set -- "$@" "$target"
done

# The page of a GitHub run shows this file. Errors are those of the run below.
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
  "$program" "$command" --quiet --format markdown "$@" >>"$GITHUB_STEP_SUMMARY" 2>/dev/null || :
fi
[ -z "${UPROBECTL_REPORT:-}" ] || set -- --output "$UPROBECTL_REPORT" "$@"
status=0
"$program" "$command" --format "${UPROBECTL_FORMAT:-text}" "$@" || status=$?
exit "$status"
