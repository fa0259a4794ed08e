# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch: set by the harness
# Locations of inlined functions, and the source lines of stacks: fixtures/workload/inlined_calls.c, which
# counts its calls; fixtures/workload/inlined_copies.c, whose calls begin at several locations; and
# fixtures/workload/inlined_relations.c, whose parameters are related.

inlined_scenarios() {
  scenario 'locations of inlined functions are hit as often as the functions are called' counts_inlined
  scenario 'an inlined call whose code the compiler has copied is hit once' counts_copied_code
  scenario 'inlined calls whose code begins at one location have a hit each' counts_two_at_one_address
  scenario 'an event says into which function and line its function is inlined' says_inlined_into
  scenario 'parameters of inlined functions have their values, in the order of the source' shows_inlined_parameters
  scenario 'parameters of inlined functions are what was passed' shows_what_was_passed
  scenario '--lines shows inlined functions as frames, with their lines' shows_lines
  scenario '--lines says that no file has debug information' says_that_no_lines_are_known
  scenario '--lines with --stack=fp and --count' counts_by_stack_with_lines
  scenario 'locations of inlined functions have no return' refuses_inlined_returns
}

run_inlined() { # OPTION… FUNCTION…; the program's output in `said`
  "$UPROBECTL" attach -d 60 --command-output said "$@" -- "$FIXTURES/inlined-calls" 20 >out 2>err ||
    fail "attach fails: $(cat err)"
}

calls_of() { # NAME
  sed -n "s/^$1 //p" said
}

counted_hits() { # SYMBOL
  records count "symbol=$1" | field count | awk '{ sum += $1 } END { print sum + 0 }'
}

counts_inlined() {
  run_inlined -j --inlined --count "$FIXTURES/inlined-calls" tiny step both spin
  for name in tiny step both; do
    expect_equal "hits of $name" "$(calls_of "$name")" "$(counted_hits "$name")"
  done
  expect_equal 'points of tiny' 3 "$(records count symbol=tiny | grep -c '"inlined_into"')"
  expect_equal 'points of both' 1 "$(records count symbol=both | grep -c '"inlined_into"')"
  # Each pass of the loop is a hit, and the record says that it may be.
  # On arm64 the entry is an instruction before the loop.
  [ "$(counted_hits spin)" = "$(calls_of spin)" ] ||
    records count symbol=spin | grep -q '"approximate":true' || fail 'spin is not approximate'
  [ "$(counted_hits spin)" -ge "$(calls_of spin)" ] || fail 'spin is hit too rarely'
  echo "spin: $(counted_hits spin) hits, $(calls_of spin) calls"
}

counts_copied_code() {
  for rounds in 20 ''; do
    # shellcheck disable=SC2086 # without a number, another copy of the code is run
    "$UPROBECTL" attach -d 60 -j --command-output said --inlined --all --count "$FIXTURES/inlined-copies" \
      prepare early -- "$FIXTURES/inlined-copies" $rounds >out 2>err || fail "attach fails: $(cat err)"
    for name in prepare early; do
      # Only gcc marks where calls begin.
      if grep -q 'GNU C' "$FIXTURES/inlined-copies" || ! records count "symbol=$name" | grep -q '"approximate":true'; then
        expect_equal "hits of $name" "$(calls_of "$name")" "$(counted_hits "$name")"
      fi
    done
    # gcc has split off a part of `early` and inlined it again: that is not a call.
    ! grep -q '"symbol":"early",.*"inlined_into":{"symbol":"early"' out || fail 'a part is taken for a call'
  done
}

# The code of `alone` begins with that of `first`, which it calls.
counts_two_at_one_address() {
  "$UPROBECTL" attach -d 60 -j --command-output said --inlined --all --count "$FIXTURES/inlined-copies" \
    alone first -- "$FIXTURES/inlined-copies" 20 >out 2>err || fail "attach fails: $(cat err)"
  # The second record names both.
  expect_equal 'hits of alone' 20 "$(grep '"type":"count","symbol":"alone"' out | field count)"
  expect_equal 'hits of first' 20 "$(grep '"type":"count","symbol":"first"' out | field count)"
}

# On arm64 the copy begins with an instruction that is not its own, which may run without it.
says_inlined_into() {
  case $(uname -m) in
    x86_64) approximate='' is_approximate=false ;;
    *) approximate=', approximate' is_approximate=true ;;
  esac
  run_inlined --inlined "$FIXTURES/inlined-calls" step
  expect_match 'event' "step \\(inlined into outer at inlined_calls\\.c:45$approximate\\)" "$(head -n 1 out)"
  run_inlined -j --inlined "$FIXTURES/inlined-calls" step
  expect_equal 'events' "$(calls_of step)" "$(count_records event symbol=step)"
  # It has its parameter by name.
  expect_match 'record' '"arguments":\[\{"name":"x","type":"int","value":[0-9]+,"error":null\}\].*"inlined_into":\{"symbol":"outer","demangled":null,"source":"[^"]*/inlined_calls\.c","line":45\},"approximate":'$is_approximate \
    "$(records event | head -n 1)"
}

# At the first instruction of the copy, where gcc gives them ranges without a length.
shows_inlined_parameters() {
  run_inlined --inlined "$FIXTURES/inlined-calls" halves
  expect_match 'event' 'halves \(inlined into swapped at inlined_calls\.c:63\).high=700, low=7$' "$(cat out)"
}

# The functions change their parameters at once. Those that are shown are related: b = 3a + 1, and
# c = a ^ 5, so that c differs from a by 1 to 5.
shows_what_was_passed() {
  "$UPROBECTL" attach -d 60 -j --command-output said --inlined "$FIXTURES/inlined-relations" change shuffle -- \
    "$FIXTURES/inlined-relations" >out 2>err || fail "attach fails: $(cat err)"
  records event | awk '
    function number(name) {
      if (!match($0, "\"name\":\"" name "\",\"type\":\"int\",\"value\":-?[0-9]+")) return "none"
      text = substr($0, RSTART, RLENGTH)
      sub(/.*:/, "", text)
      return text
    }
    {
      a = number("a"); b = number("b"); c = number("c")
      if (a == "none") next
      ++shown
      if (b != "none" && b != 3 * a + 1) print "a=" a " b=" b
      if (c != "none" && (c - a > 5 || a - c > 5 || c == a)) print "a=" a " c=" c
    }
    END { if (shown < 10) print shown " of " NR " events have a" }' >wrong
  [ ! -s wrong ] || fail "not what was passed: $(head -n 5 wrong)"
}

shows_lines() {
  run_inlined --inlined --stack --lines "$FIXTURES/inlined-calls" tiny
  line_of() { sed -n "$1p" out; }
  expect_match 'the innermost frame' '#0 tiny \[inlined\] \(inlined-calls\+0x[0-9a-f]+\) at inlined_calls\.c:15$' "$(line_of 2)"
  expect_match 'the caller' '#1 outer\+0x[0-9a-f]+ \(inlined-calls\+0x[0-9a-f]+\) at inlined_calls\.c:43$' "$(line_of 3)"
  expect_match 'the outermost' '#2 main\+0x[0-9a-f]+ \(inlined-calls\+0x[0-9a-f]+\) at inlined_calls\.c:69$' "$(line_of 4)"
  # The second call is inlined into step.
  expect_match 'three at one address' '#1 step \[inlined\] .* at inlined_calls\.c:23$' "$(grep -m 1 '#1 step' out)"
  run_inlined --stack "$FIXTURES/inlined-calls" other
  ! grep -q 'inlined_calls' out || fail 'lines without --lines'
}

says_that_no_lines_are_known() {
  run_inlined --stack --lines "$FIXTURES/inlined-calls" other
  ! grep -q 'no file of the stacks' err || fail "lines are known: $(cat err)"
  "$UPROBECTL" attach -d 60 --stack --lines "$FIXTURES/apk-host" main -- "$FIXTURES/apk-host" \
    "$FIXTURES/greet.apk!/$library/libgreet.so" greet_add 1 >out 2>err || fail "attach fails: $(cat err)"
  expect_match 'warning' 'no file of the stacks has debug information .build with -g' "$(cat err)"
}

counts_by_stack_with_lines() {
  run_inlined -j --count --stack=fp --inlined --lines "$FIXTURES/inlined-calls" step
  expect_equal 'hits' "$(calls_of step)" "$(counted_hits step)"
  expect_match 'frame' '"symbol":"step".*"line":2[0-9],"column":[0-9]+,"inlined":true' "$(records count)"
}

refuses_inlined_returns() {
  attach_fails_with 1 --inlined --latency "$FIXTURES/inlined-calls" step
  expect_match 'reason' 'does not return' "$(cat err)"
}
