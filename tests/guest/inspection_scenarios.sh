# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch, started_pid: set by the harness and the suite
# How values are shown. fixtures/workload/values.c lists the values that it passes.

inspection_scenarios() {
  scenario 'every argument type is read at every position with its limits' shows_types
  scenario 'an argument called argN or by a register is read from there' shows_named_arguments
  scenario 'functions with different --args and --if share one program' shares_a_program
  scenario 'a warning says once that clones may have other arguments' warns_of_clones
  scenario 'strings are whole, truncated or errors, but not empty if memory is unreadable' shows_strings
  scenario '--max-string is the most that is shown of a string' limits_strings
  scenario 'a string has at most as many bytes as another argument says, unless it is negative' limits_strings_by_arguments
  scenario 'buffers are as long as another argument says, up to the limit' shows_buffers
  scenario 'a buffer that ends beyond the memory of the process is not called not resident' shows_half_buffers
  scenario 'a buffer whose length cannot be read is an error' shows_buffers_without_length
  scenario 'values behind a pointer, text inside a structure' shows_memory
  scenario 'a std::string, in the object or on the heap' shows_cxx_strings
  scenario 'cxxstring is rejected if the C++ library is unknown' refuses_cxx_strings
  scenario 'booleans and characters' shows_flags
  scenario 'numbers are shown by their names, flags one by one' shows_names
  scenario 'arrays, and values behind several pointers' shows_arrays_and_chains
  scenario 'socket addresses and hexdumps' shows_addresses
  scenario 'return values have a type' shows_typed_returns
  scenario '--regs has the registers, the instruction pointer among them' shows_registers
  ways='perf-ioctl/perf tracefs/ring multi/perf'
  ! in_scope mechanisms || ways="perf/ring tracefs/perf $ways"
  for how in $ways; do
    scenario "values by mechanism and buffer: $how" shows_values_with "${how%/*}" "${how#*/}"
  done
  scenario "a pipe's reader sees an event within 100 ms" comes_in_time
}

# Probes `values`, lets it make its calls, and ends.
watch_values() { # FUNCTION… OPTION…
  start_program target "$FIXTURES/values" --wait --hold
  start_attach -j -d 120 -p "$started_pid" "$FIXTURES/values" "$@"
  let_it_call target "$started_pid"
  stop_attach
  expect_equal 'lost in the summary' 0 "$(records summary | field lost)"
}

# The values of each event as JSON has them, one line an event; after those that could not be read
# the error, after those that were cut "...".
values_of() { # SYMBOL [KEY=VALUE]
  records event "symbol=$1" | { [ $# -eq 1 ] && cat || grep "\"${2%%=*}\": *\"${2#*=}\""; } |
    while IFS= read -r line; do
      printf '%s\n' "$line" |
        grep -oE '"value": *("([^"\\]|\\.)*"|[^,}]*), *"error": *("[^"]*"|null)(, *"truncated": *true)?' |
        sed -e 's/"value": *//' -e 's/, *"truncated": *true$/.../' -e 's/, *"error": *null//' \
          -e 's/, *"error": */ /' | tr '\n' ' ' | sed 's/ $//'
      echo
    done
}

# Compares with stdin.
expect_values() { # SYMBOL [KEY=VALUE]
  cat >expected
  values_of "$@" >actual
  cmp -s expected actual ||
    fail "values of $1: $(diff expected actual | head -n 4)"
}

ten_of() { # TYPE
  for name in a b c d e f g h i j; do printf '%s:%s,' "$name" "$1"; done | sed 's/,$//'
}

# The last of ten arguments lie on the stack: four on x86-64, two on arm64.
shows_types() {
  set --
  types='s8 u8 x8 s16 u16 x16 s32 u32 x32 s64 u64 x64 ptr bool'
  for type in $types; do set -- "$@" "take_$type" --args "take_$type=$(ten_of "$type")"; done
  watch_values "$@"
  for type in $types; do
    decimal='11 12 13 14 15 16 17 18 19 20'
    hex='"0xb" "0xc" "0xd" "0xe" "0xf" "0x10" "0x11" "0x12" "0x13" "0x14"'
    case $type in
      s8) edges='-128 127 -1 0 1' numbers=$decimal ;;
      u8) edges='128 127 255 0 1' numbers=$decimal ;;
      x8) edges='"0x80" "0x7f" "0xff" "0x0" "0x1"' numbers=$hex ;;
      s16) edges='-32768 32767 -1 0 1' numbers=$decimal ;;
      u16) edges='32768 32767 65535 0 1' numbers=$decimal ;;
      x16) edges='"0x8000" "0x7fff" "0xffff" "0x0" "0x1"' numbers=$hex ;;
      s32) edges='-2147483648 2147483647 -1 0 1' numbers=$decimal ;;
      u32) edges='2147483648 2147483647 4294967295 0 1' numbers=$decimal ;;
      x32) edges='"0x80000000" "0x7fffffff" "0xffffffff" "0x0" "0x1"' numbers=$hex ;;
      s64) edges='"-9223372036854775808" "9223372036854775807" -1 0 1' numbers=$decimal ;;
      u64) edges='"9223372036854775808" "9223372036854775807" "18446744073709551615" 0 1' numbers=$decimal ;;
      x64 | ptr) edges='"0x8000000000000000" "0x7fffffffffffffff" "0xffffffffffffffff" "0x0" "0x1"' numbers=$hex ;;
      bool) edges='true true true false true' numbers='true true true true true true true true true true' ;;
    esac
    printf '%s\n' "$edges $edges" "$numbers" | expect_values "take_$type"
  done
}

# The fixture calls with 11 to 20, after the edges.
shows_named_arguments() {
  case $(uname -m) in
    x86_64) second=rsi sixth=r9 ;;
    aarch64) second=x1 sixth=x5 ;;
  esac
  watch_values take_s32 take_u16 take_u8 --args 'take_s32=arg1:s32,arg9:s32,next:s32@arg0' \
    --args "take_u16=$second:u16,$sixth:u16" --args 'take_u8=arg1:u8@arg0' --if "$second!=0"
  printf '%s\n' '2147483647 1 -2147483648' '12 20 11' | expect_values take_s32
  printf '%s\n' '32767 32768' '12 16' | expect_values take_u16
  printf '%s\n' '128' '11' | expect_values take_u8
  file_says err "warning: --args: 'arg1' is read from arg0" ||
    fail "no warning: $(cat err)"
  expect_equal 'warnings' 1 "$(grep -c '^uprobectl: warning: --args' err)"
}

shows_names() {
  watch_values take_known \
    --args 'op:s32{read=0,write=1,*},mode:x32{|O_RDONLY=0/3,O_RDWR=2/3,O_CREAT=0x40},error:errno,at:time,file:fd'
  printf '%s\n' '"write" "O_RDWR|O_CREAT|0x1000" "-ENOENT" "1970-01-02T00:00:00Z" "0<PATH>"' \
    '7 "O_RDONLY" "EAGAIN" "1970-01-01T00:00:00Z" 1000' >expected
  values_of take_known | sed 's/"0<[^>]*>"/"0<PATH>"/' >actual
  cmp -s expected actual || fail "values: $(diff expected actual)"
  watch_values take_known --args 'op:s32{read=0,write=1}'
  printf '%s\n' '"write"' '"7?"' | expect_values take_known
}

# values_of() is for values that have no commas.
shows_arrays_and_chains() {
  watch_values take_array take_outer --args 'take_array=numbers:s16[count]@arg0,count:s64@arg1,two:s16[2]@arg0' \
    --args 'take_outer=length:u32@arg0+8->16->4'
  expect_match 'an array as long as an argument says' '"name":"numbers","type":"s16\[count\]","value":\[1,-2,300\],"error":null' \
    "$(records event symbol=take_array)"
  expect_match 'an array of two' '"name":"two","type":"s16\[2\]","value":\[1,-2\],"error":null' \
    "$(records event symbol=take_array)"
  printf '%s\n' 77 | expect_values take_outer
}

shows_addresses() {
  watch_values take_address --args 'to:sockaddr[size]@arg0,size:u64@arg1'
  printf '%s\n' '"127.0.0.1:8080" 16' '"[::1]:443" 28' '"unix:/run/a socket" 110' | expect_values take_address
  start_program target "$FIXTURES/values" --wait --hold
  start_attach -d 120 -p "$started_pid" -n 1 "$FIXTURES/values" take_address --args 'to:hexdump[size]@arg0,size:u64@arg1'
  let_it_call target "$started_pid"
  attach_ends_with 0
  # AF_INET is 2; the port and the address are big-endian.
  expect_equal 'the rows' '    to  0000  02 00 1f 90 7f 00 00 01 00 00 00 00 00 00 00 00  |................|' \
    "$(grep '^    to' out)"
}

# The test of sleepable programs ends shortly after the run has begun.
has_programs() { # COUNT
  "$FIXTURES/bpf-census" "$scratch/before" >census
  [ "$(grep -c '^program' census)" = "$1" ]
}

# Each list has a value called key, in another argument or of another type.
shares_a_program() {
  start_program target "$FIXTURES/values" --wait --hold
  start_attach -j -d 120 -p "$started_pid" "$FIXTURES/values" take_text take_buffer take_s64 give_int give_long \
    --args 'take_text=key:s64,text:str' --args 'take_buffer=key:s64@arg1,data:buf[key]@arg0' \
    --args 'take_s64=a:s64,b:s64,key:s64' --args 'give_int=key:s32' --args 'give_long=key:s64,low:x16@arg0' \
    --if 'key==3' --max-string 8
  # Without cookies each probe has a copy besides.
  programs=1
  kernel_has_perf_links || programs=6
  wait_until 30 has_programs "$programs" || fail "programs: $(cat census)"
  let_it_call target "$started_pid"
  stop_attach
  printf '%s\n' '3 "xxxxxxxx"...' | expect_values take_text
  printf '%s\n' '3 null "null pointer"' | expect_values take_buffer
  printf '' | expect_values take_s64
  printf '%s\n' '3' | expect_values give_int
  printf '%s\n' '3 "0x3"' | expect_values give_long
}

# Nobody maps the library.
warns_of_clones() {
  [ "$(uname -m)" = x86_64 ] || skip 'the library is one of x86-64'
  "$UPROBECTL" attach -d 100ms --args a:s32 "$FIXTURES/kin.so" local.constprop.0 >out 2>err || fail "$(cat err)"
  expect_match 'one' "warning: the compiler may have removed or reordered arguments of the clone local.constprop.0: arg0" "$(cat err)"
  "$UPROBECTL" attach -d 100ms --if 'arg0==1' "$FIXTURES/kin.so" '*.constprop.*' '*.isra.*' >out 2>err || fail "$(cat err)"
  expect_match 'several' 'arguments of the clones [a-z.0-9]+ and 2 others: ' "$(cat err)"
  expect_equal 'warnings' 1 "$(grep -c 'the compiler may have' err)"
  "$UPROBECTL" attach -d 100ms "$FIXTURES/kin.so" local.constprop.0 >out 2>err || fail "$(cat err)"
  ! file_says err 'the compiler may have' || fail 'warned although no argument has a name'
}

repeated() { # TIMES TEXT
  printf "%$1s" '' | sed "s/ /$2/g"
}

# Addresses differ from run to run.
without_addresses() {
  sed 's/memory at 0x[0-9a-f]\{3,\}/memory at 0x.../g'
}

# The values of fixtures/workload/values.c. The fifth continues in memory that is not mapped.
strings_of_values() {
  cat <<END
1 "plain"
2 ""
3 "$(repeated 128 x)"...
4 null "null pointer"
5 "last one"...
6 "last on"
7 "hä€ \\"\\\\\\t"
8 "abcdefghijklmnopqrst"
9 "abcdefghijklmnopqrs"
10 null "memory at 0x10 cannot be read"
END
}

shows_strings() {
  watch_values take_text --args which:s64,text:str
  values_of take_text | without_addresses >actual
  strings_of_values >expected
  cmp -s expected actual || fail "strings: $(diff expected actual | head -n 5)"
}

# Nineteen are shown whole, the twentieth is one too many.
limits_strings() {
  watch_values take_text --args which:u8,text:str --max-string 19 --if 'which>=8' --if 'which<=9'
  expect_values take_text <<'END'
8 "abcdefghijklmnopqrs"...
9 "abcdefghijklmnopqrs"
END
}

limits_strings_by_arguments() {
  watch_values take_text --args 'which:s64,text:str[..which]'
  expect_values take_text <<'END'
1 "p"
2 ""
3 "xxx"
4 null "null pointer"
5 "last "
6 "last o"
7 "hä€ "
8 "abcdefgh"
9 "abcdefghi"
10 null "memory at 0x10 cannot be read"
END
  "$UPROBECTL" attach -d 60 --args 'number:s64,text:str[..number]' --if 'number < -6' --thread alpha \
    "$FIXTURES/filtered" filtered_take -- "$FIXTURES/filtered" >out 2>err || fail "attach fails: $(cat err)"
  expect_equal 'values' 'number=-8 text="abab"
number=-7 text="aabab"' "$(cut -f 6 out)"
}

# No program waits for memory here.
shows_half_buffers() {
  watch_values take_buffer --no-fault --args 'data:buf[size]@arg0,size:s64@arg1'
  expect_equal 'the half buffer' 'null "memory at 0x... cannot be read" 8' \
    "$(values_of take_buffer | without_addresses | sed -n 4p)"
}

shows_buffers() {
  watch_values take_buffer --args 'data:buf[size]@arg0,size:s64@arg1,head:buf[4]@arg0'
  values_of take_buffer | without_addresses >actual
  cat >expected <<END
"0102feff41" 5 "0102feff"
"" 0 "6e657665"
"$(repeated 128 78)"... 300 "78787878"
null "memory at 0x... cannot be read" 8 "206f6e00"
null "null pointer" 3 null "null pointer"
END
  cmp -s expected actual || fail "buffers: $(diff expected actual | head -n 5)"
}

# The length lies where nothing is: the sizes are not addresses.
shows_buffers_without_length() {
  watch_values take_buffer --args 'data:buf[size]@arg0,size:u32@arg1+0' --if arg1==5
  expect_values take_buffer <<'END'
null "its length cannot be read" null "memory at 0x5 cannot be read"
END
}

# One step of memory, and two to what a pointer in the structure points to. A value that
# cannot be read has an error with the address. Members of a null structure are not read.
shows_memory() {
  watch_values take_packet --args 'id:u32@arg0+0,length:u8@arg0+4,name:str@&arg0+8,title:str@arg0+24,bytes:buf[length]@&arg0+8'
  expect_values take_packet <<'END'
4275878552 5 "inner name" "outer" "696e6e6572"
4275878552 5 "inner name" null "null pointer" "696e6e6572"
null "null pointer" null "memory at 0x4 cannot be read" null "memory at 0x8 cannot be read" null "memory at 0x18 cannot be read" null "memory at 0x8 cannot be read"
END
}

shows_cxx_strings() {
  start_program target "$FIXTURES/throws" --wait --hold
  start_attach -j -d 120 -p "$started_pid" --args 'text:cxxstring' "$FIXTURES/throws" 'take_string*'
  let_it_call target "$started_pid"
  stop_attach
  expect_values "$(records event | field symbol | sort -u)" <<END
"short"
""
"$(repeated 100 m)"
"$(repeated 128 l)"...
"a\\u0000b"
"fifteen letters"
null "memory at 0x12 cannot be read"
END
}

refuses_cxx_strings() {
  attach_fails_with 1 -j -d 1 "$FIXTURES/values" take_text --args 'a:s64,text:cxxstring'
  expect_match 'message' "take_text: text: unknown layout of std::string" "$(cat err)"
  attach_fails_with 1 -j -d 1 "$FIXTURES/values" take_text --args 'x:f64'
  expect_match 'message' 'cannot read floating-point registers' "$(cat err)"
}

shows_flags() {
  watch_values take_flags --args yes:bool,letter:char
  expect_values take_flags <<'END'
true "Z"
false "\""
END
}

results_of() { # SYMBOL
  records event "symbol=$1" | grep -oE '"return_value": *("([^"\\]|\\.)*"|[^,}]*), *"return_error": *("[^"]*"|null)' |
    sed -e 's/"return_value": *//' -e 's/, *"return_error": *null//' -e 's/, *"return_error": */ /' |
    tr '\n' ' ' | sed 's/ $//'
}

shows_typed_returns() {
  watch_values --return give_int give_long give_unsigned give_bool give_text --args ret:s64 \
    --args give_int=ret:s32 --args give_unsigned=ret:u32 --args give_bool=ret:bool --args give_text=ret:str
  expect_equal 'give_int' '-3 -2 -1 0 1 2 3' "$(results_of give_int)"
  expect_equal 'give_long' '-3 -2 -1 0 1 2 3' "$(results_of give_long)"
  expect_equal 'give_unsigned' '4000000000 7' "$(results_of give_unsigned)"
  expect_equal 'give_bool' 'false true' "$(results_of give_bool)"
  expect_equal 'give_text' '"given" "" null "null pointer" null "memory at 0x10 cannot be read"' \
    "$(results_of give_text)"
}

# The function's address is the program's own word.
shows_registers() {
  watch_values --regs take_x64
  address=$(sed -n 's/^function take_x64 //p' target)
  case $(uname -m) in
    x86_64) names='rdi rsi rdx rcx r8 r9' counter=rip ;;
    aarch64) names='x0 x1 x2 x3 x4 x5 x6 x7' counter=pc ;;
  esac
  records event | tail -n 1 >last
  number=11
  for name in $names; do
    expect_equal "$name" "$(printf '0x%x' $number)" "$(field "$name" <last)"
    number=$((number + 1))
  done
  expect_equal "$counter" "$address" "$(field "$counter" <last)"
}

shows_values_with() { # MECHANISM BUFFER
  needs "$1"
  watch_values --mechanism "$1" --buffer "$2" --entry --return take_text take_s16 give_text \
    --args a:s64,text:str --args take_s16=ret:s16,j:s16@arg9 --args give_text=text:str,ret:str --regs
  expect_equal 'mechanism' "$1" "$(records attached | field mechanism)"
  # Buffers of several processors need not be read in turn.
  values_of take_text kind=entry | without_addresses | sort >actual
  strings_of_values | sort >expected
  cmp -s expected actual || fail "strings: $(diff expected actual | head -n 5)"
  expect_equal 'last of ten' '1 20' "$(values_of take_s16 kind=entry | sort -n | tr '\n' ' ' | sed 's/ $//')"
  expect_equal 'entries' 16 "$(count_records event kind=entry)"
  expect_equal 'returns' 16 "$(count_records event kind=return)"
  expect_equal 'returned texts' 1 "$(records event kind=return | grep -c '"return_value": *"given"')"
  expect_equal 'registers' 32 "$(records event | grep -cE '"registers": *[{]"')"
}

# Hundredths of a second since the machine began, before each line as it comes.
with_times() {
  while IFS= read -r line; do
    read -r up _ </proc/uptime
    printf '%s %s\n' "${up%.*}${up#*.}" "$line"
  done
}

# /proc/uptime has CLOCK_BOOTTIME (proc_uptime(5)), events CLOCK_MONOTONIC: `attached` has both.
count_late() { # ATTEMPT
  rm -f err times
  start_workload "target$1" --calls 10 --delay-us 250000
  (
    (become_attach -j -d 120 -p "$started_pid" "$FIXTURES/workload" work_six --args first:s64) 2>err |
      with_times >times
  ) &
  wait_until 60 file_says err '^probing ' || fail "attach does not start: $(cat err)"
  cat attach.pid >>"$scratch/pids"
  let_it_call "target$1" "$started_pid"
  kill -TERM "$(cat attach.pid)"
  wait_until 60 file_says times '"summary"' || fail 'attach does not end'
  between=$(($(field boottime <times) - $(field monotonic <times)))
  grep '"type": *"event"' times | sed 's/^\([0-9]*\) .*"time_ns": *\([0-9]*\).*/\1 \2/' >pairs
  expect_equal 'events' 10 "$(wc -l <pairs | tr -d ' ')"
  late=0
  limit=10 # hundredths of a second
  [ "${THROWAWAY_KERNEL:-}" != yes ] || limit=40 # an emulated machine takes longer for everything
  while read -r seen happened; do
    [ $((seen - (happened + between) / 10000000)) -le "$limit" ] || late=$((late + 1))
  done <pairs
}

# An emulated machine now and then stands still: half of the events are enough, and one attempt of three.
comes_in_time() {
  for attempt in 1 2 3; do
    count_late "$attempt"
    [ "$late" -gt 5 ] || return 0
  done
  fail "$late of 10 events came later than ${limit}0 ms: $(tr '\n' ';' <pairs)"
}
