# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # set by the harness
# Spans of --span against fixtures/workload/jobs.c, which prints how many jobs it has begun and ended.

span_scenarios() {
  for buffer in ring perf; do
    scenario "spans through a $buffer buffer: each that ended is an event, counts are those of the program" \
      counts_spans $buffer
  done
  scenario 'spans that have not ended are listed, and summed by the stack of their beginning' lists_open_spans
  scenario 'conditions, counts and the shortest duration of spans' selects_spans
}

job_span='job=job_begin..job_end:job->id/id'

needs_spans() { # BUFFER
  [ "$1" != ring ] || kernel_is_at_least 5.8 || skip 'no ring buffer'
}

run_jobs() { # THREADS PAIRS OPTION…
  threads=$1
  pairs=$2
  shift 2
  "$UPROBECTL" attach -j -d 120 --command-output log "$@" "$FIXTURES/jobs" -- "$FIXTURES/jobs" "$threads" "$pairs" \
    >out 2>err || fail "attach fails: $(cat err)"
}

counts_spans() { # BUFFER
  needs_spans "$1"
  # A thread begins a thousandth of its jobs twice, and ends a five hundredth twice.
  run_jobs 2 1000 --buffer "$1" --span "$job_span"
  expect_equal 'what the program did' '{"begun":2004,"ended":2000,"begun_again":2,"not_begun":4,"open":2}' "$(cat log)"
  records span_summary >summary
  for pair in begun=2004 ended=2000 begun_again=2 not_begun=4 open=2 without_room=0 unread_keys=0 null_keys=3; do
    expect_equal "${pair%=*}" "${pair#*=}" "$(field "${pair%=*}" <summary)"
  done
  lost=$(records lost | field count | awk '{ sum += $1 } END { print sum + 0 }')
  expect_equal 'events and lost ones' 2000 $(($(count_records span) + lost))
  # Thread 1 has the keys 17 to 32.
  expect_equal 'keys' 32 "$(records span | field key | sort -u | grep -c '')"
}

lists_open_spans() {
  run_jobs 3 100 --open --span "$job_span"
  expect_equal 'keys' '1000000 1000001 1000002 ' "$(records span | field key | sort | tr '\n' ' ')"
  expect_equal 'durations' 3 "$(records span duration_ns=null | grep -c '"age_ns":[1-9]')"
  # 5 of 1000 bytes, 20 of 10, one of 31 and one that was grown to 70000.
  run_jobs 1 1 --open --stack --weight size --span 'heap=make_thing..drop_thing:ret/thing' \
    --span 'heap=grow_thing..grow_thing:ret/thing' --span 'heap=make_into%return..drop_thing:*arg0/thing'
  expect_equal 'the largest' 'grow_thing 70000' \
    "$(records count | sed -n '1s/^{"type":"count","symbol":"\([^"]*\)".*"sum":\([0-9]*\).*/\1 \2/p')"
  expect_equal 'what was not dropped' '27 75231' \
    "$(records count | sed -n 's/.*"count":\([0-9]*\).*"sum":\([0-9]*\).*/\1 \2/p' | awk '{ n += $1; s += $2 } END { print n, s }')"
  expect_equal 'open' 27 "$(records span_summary | field open)"
}

selects_spans() {
  # job_begin() has the size 100 where it begins a job again.
  run_jobs 2 1000 --if size==100 --span "$job_span"
  expect_equal 'begun by the condition' '2 2' "$(records span_summary | field begun) $(count_records span)"
  run_jobs 2 100 --count --histogram --span "$job_span"
  expect_equal 'counted' 200 "$(records count | field count)"
  expect_equal 'measured' 200 "$(records histogram | sed 's/"buckets.*//' | field count)"
  run_jobs 2 100 --min-latency 100s --span "$job_span"
  expect_equal 'shorter' '200 0' "$(records span_summary | field shorter) $(count_records span)"
}
