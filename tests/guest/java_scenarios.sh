# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch, started_pid: set by the harness
# Compiled Java methods: fixtures/art/java_app.c says what it calls, with ART's registers.

java_scenarios() {
  scenario 'java: arguments have the names and types of the signature' types_parameters
  scenario 'java: strings are read as Latin-1 and as UTF-16' reads_java_strings
  scenario 'java: a static method has no this' knows_static_methods
  scenario 'java: values in vector registers are reported as unreadable' tells_vector_registers
  scenario 'java: arguments beyond the registers come from the stack' reads_vregs
  scenario 'java: a string that is too long is cut' cuts_java_strings
  scenario 'java: conditions and --args count parameters' counts_parameters
  scenario 'java: returns are seen at the return instructions, with their types' sees_java_returns
  scenario 'java: entry and return are one event' pairs_java_calls
  scenario 'java: a uretprobe is refused' refuses_java_trampoline
  scenario 'java: the process is found by its Android name, before it starts' finds_app_by_name
  scenario 'java: --dex names the DEX file of a method' uses_named_dex
  scenario 'java: --mapping names methods as the source does' names_methods_of_the_source
  scenario 'java: pinned GenericInstrumentation.o reports registers and times' runs_generic_programs
}

start_java() { # ARGUMENT…
  start_program target "$FIXTURES/java-app" "$FIXTURES/java-app.odex" --wait --hold "$@"
  object=$(sed -n 's/^object //p' target)
}

# Prints the events of a method of the app while it makes its calls: ARGUMENTS and the rest, without
# times. Further arguments are for attach.
probe_java() { # METHOD [ARGUMENT…]
  method=$1
  shift
  start_attach -d 120 -p "$started_pid" "$@" "$FIXTURES/java-app.odex" "com.example.shop.Till.$method"
  let_it_call target "$started_pid"
  stop_attach
}

seen() {
  cut -f 6- out | sed "s/this=$object /this /"
}

types_parameters() {
  start_java --calls 2
  probe_java sell
  expect_equal 'arguments' 'this arg0=1 arg1=5000000001 arg2=true arg3="apple"
this arg0=-1 arg1=-1 arg2=false arg3="Käse"
this arg0=2 arg1=5000000002 arg2=false arg3="apple"
this arg0=-2 arg1=-1 arg2=false arg3="Käse"' "$(seen)"
  start_java
  probe_java sell -j
  expect_equal 'types' '[{"name":"this","type":"ptr","value":"'"$object"'","error":null},{"name":"arg0","type":"s32","value":1,"error":null},{"name":"arg1","type":"s64","value":5000000001,"error":null},{"name":"arg2","type":"bool","value":true,"error":null},{"name":"arg3","type":"jstring","value":"apple","error":null,"truncated":false}]' \
    "$(records event | head -n 1 | sed 's/.*"arguments":\(\[[^]]*\]\).*/\1/')"
}

reads_java_strings() {
  start_java
  probe_java find
  expect_equal 'a null reference' 'this arg0=<null pointer> arg1=0x0' "$(seen)"
  start_java
  probe_java total
  expect_equal 'UTF-16' 'arg0=1 arg1="日本 🍎"' "$(seen)"
}

knows_static_methods() {
  start_java
  probe_java mix
  expect_equal 'arguments' 'arg0=-1 arg1=-2 arg2=65 arg3=true' "$(seen)"
}

tells_vector_registers() {
  start_java
  probe_java weigh
  vector='<in a vector register, which a probe cannot read>'
  expect_equal 'arguments' "this arg0=1 arg1=$vector arg2=$vector arg3=7" "$(seen)"
}

reads_vregs() {
  start_java
  probe_java pack
  expect_equal 'arguments' \
    'this arg0=1 arg1=2000000000002 arg2=3 arg3="box" arg4=5 arg5=6000000000006 arg6=7 arg7=-8 arg8="over"' "$(seen)"
}

cuts_java_strings() {
  start_java
  probe_java total --max-string 5
  # Two characters of two bytes and half of one.
  expect_equal 'arguments' 'arg0=1 arg1="日本"…' "$(seen)"
  start_java
  probe_java sell --max-string 3 --if arg0==1
  expect_equal 'arguments' 'this arg0=1 arg1=5000000001 arg2=true arg3="app"…' "$(seen)"
}

counts_parameters() {
  start_java --calls 3
  probe_java sell --args 'cents:s64@arg1,name:jstring@arg3' --if 'arg0==-2'
  expect_equal 'arguments' 'cents=-1 name="Käse"' "$(seen)"
  start_java --calls 3
  probe_java total --if 'arg0>2'
  expect_equal 'arguments of a static method' 'arg0=3 arg1="日本 🍎"' "$(seen)"
}

sees_java_returns() {
  start_java --calls 2
  probe_java grade --return
  expect_equal 'numbers' '= 2
= 0
= -1
= 4
= 0
= -1' "$(cut -f 7 out)"
  start_java
  probe_java find --return
  expect_equal 'a string' '= <null pointer>' "$(cut -f 7 out)"
  start_java
  probe_java weigh --return
  expect_equal 'a double' '= <in a vector register, which a probe cannot read>' "$(cut -f 7 out)"
}

pairs_java_calls() {
  start_java
  probe_java mix --latency
  expect_match 'a call' '^arg0=-1 arg1=-2 arg2=65 arg3=true	= -3	[0-9]' "$(seen)"
}

refuses_java_trampoline() {
  attach_fails_with 1 -d 1 --return --return-at trampoline "$FIXTURES/java-app.odex" com.example.shop.Till.grade
  expect_match 'the reason' "ART reads the return addresses on the stack" "$(cat err)"
  expect_match 'the way out' '--return-at ret' "$(cat err)"
}

finds_app_by_name() {
  start_attach -d 120 -p com.example.shop "$FIXTURES/java-app.odex" com.example.shop.Till.total
  start_java --calls 2
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'calls' 2 "$(seen | wc -l | tr -d ' ')"
}

uses_named_dex() {
  mkdir bare
  cp "$FIXTURES/java-app.odex" bare/app.odex
  attach_fails_with 1 -d 1 bare/app.odex com.example.shop.Till.total
  start_program target "$FIXTURES/java-app" bare/app.odex --wait --hold
  start_attach -d 120 -p "$started_pid" --dex "$FIXTURES/java-app.vdex" bare/app.odex com.example.shop.Till.total
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'arguments' 'arg0=1 arg1="日本 🍎"' "$(seen)"
}

names_methods_of_the_source() {
  printf '%s\n' 'com.acme.Checkout -> com.example.shop.Till:' '    int rate(int) -> grade' >mapping.txt
  start_java
  start_attach -j -d 120 -p "$started_pid" --mapping mapping.txt "$FIXTURES/java-app.odex" com.acme.Checkout.rate
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'the name in the file' 'int com.example.shop.Till.grade(int)' \
    "$(records event | head -n 1 | field symbol)"
  expect_equal 'the name in the source' 'int com.acme.Checkout.rate(int)' \
    "$(records event | head -n 1 | field demangled)"
}

runs_generic_programs() { with_pins runs_generic_programs_there; }
runs_generic_programs_there() {
  load "$FIXTURES/GenericInstrumentation.o" --pin pins/u --naming uprobestats || fail "load: $(cat err)"
  start_java
  start_attach -j -d 120 -p "$started_pid" --program pins/u/prog_GenericInstrumentation_uprobe_call_detail \
    "$FIXTURES/java-app.odex" com.example.shop.Till.total
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'the type' CallResult "$(records event | field record_type)"
  # The method, the first argument; an instance method would have `this` between them.
  expect_match 'the registers' '"regs":\["0x7f0000001000","0x1","0x' "$(records event)"
  start_java
  start_attach -j -d 120 -p "$started_pid" --program pins/u/prog_GenericInstrumentation_uprobe_call_timestamp_3 \
    "$FIXTURES/java-app.odex" com.example.shop.Till.total
  let_it_call target "$started_pid"
  stop_attach
  expect_match 'the time' '"record":{"event":3,"timestamp_ns":[0-9]+}' "$(records event)"
  load --unpin pins/u || fail "unpin: $(cat err)"
}
