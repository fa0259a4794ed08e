# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Calls of functions whose prototypes are known. Those of libc are made by fixtures/workload/calls.c,
# which is not static as the programs of guests are.

described_scenarios() {
  scenario '--prototypes describes functions of a program' shows_described_functions
}

known_scenarios() {
  scenario 'known functions show their arguments as in a call' shows_known_arguments
  scenario 'calls of known functions have their results and errno' shows_known_calls
  scenario 'errno is that of the calling thread, or not shown' shows_errno_of_threads
  in_scope mechanisms || return 0 # the same on each architecture
  scenario '--args has precedence over what is known of a function' prefers_asked_arguments
  scenario 'conditions and counts by failures and errno of known functions' compares_failures
  scenario 'products of two values are weighed and measured' multiplies_values
  scenario '--weight size of known functions is that of all elements' weighs_elements
  scenario 'counts and histograms know the names and types of known functions' measures_known_calls
  scenario 'plans have the names of known functions' plans_known_calls
  scenario 'a name that a known function does not have is an error that lists its names' offers_known_names
}

readonly known_functions='open read write close mkdir mmap socket connect getenv
  pthread_mutex_trylock access setsockopt'

needs_libc() {
  [ -e "$FIXTURES/calls" ] && "$FIXTURES/calls" || skip 'no libc.so.6 is here'
}

attach_known() { # OPTION…
  needs_libc
  # shellcheck disable=SC2086 # the functions are words
  "$UPROBECTL" attach -d 60 "$@" libc.so.6 $known_functions -- "$FIXTURES/calls" >out 2>err ||
    fail "attach fails: $(cat err)"
}

expect_calls() { # COLUMN…
  awk -F '\t' -v columns="$*" 'BEGIN { last = split(columns, column, " ") }
    { text = ""; for (i = 1; i <= last; i++) text = text (i > 1 ? " " : "") $column[i]; print text }' out |
    sed 's/0x[0-9a-f]*[1-9a-f][0-9a-f]*/ADDRESS/g' >calls
  while read -r line; do
    grep -qxF -e "$line" calls || fail "missing call '$line' among: $(tail -n 14 calls | tr '\n' ';')"
  done
}

shows_known_arguments() {
  attach_known --entry
  expect_calls 5 <<'END'
open("/dev/zero", O_RDONLY|O_CLOEXEC)
open("/nonexistent/file", O_RDWR|O_CREAT|O_EXCL, 0644)
read(-1, ADDRESS, 3)
write(-1, "four", 4)
close(-1)
mkdir("/dev", 0755)
mmap(NULL, 0, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0x0)
socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC, 17)
connect(-1, 127.0.0.1:80, 16)
getenv("NO_SUCH_NAME")
pthread_mutex_trylock(ADDRESS)
access("/dev", R_OK|X_OK)
setsockopt(-1, SOL_TCP, TCP_NODELAY, 01000000, 4)
END
}

# calloc(1000, 2000) and reallocarray(NULL, 30, 400).
weighs_elements() {
  needs_libc
  "$UPROBECTL" attach -q -d 60 --stack --weight size --folded out.folded libc.so.6 calloc reallocarray -- \
    "$FIXTURES/calls" >out 2>err || fail "attach fails: $(cat err)"
  expect_equal 'bytes' 'calloc 2000000 reallocarray 12000 ' \
    "$(sed -n 's/.*;main;.*\(calloc\|reallocarray\) /\1 /p' out.folded | sort | tr '\n' ' ')"
  "$UPROBECTL" attach -d 60 --count --by stack --measure size libc.so.6 calloc -- "$FIXTURES/calls" \
    >out 2>err || fail "attach fails: $(cat err)"
  expect_match 'the warning' "calloc: 'size' is that of one element" "$(cat err)"
}

# Of one call each the program fails in read, write, close, mkdir, mmap, socket, connect and setsockopt, in one
# of two calls of open, in one of two of read; the errors are those of the manual pages.
compares_failures() {
  needs_libc
  needs_types
  count_calls() { # CONDITION FUNCTION…
    condition=$1
    shift
    "$UPROBECTL" attach -q -d 60 --count --if "$condition" libc.so.6 "$@" -- "$FIXTURES/calls" >out 2>err ||
      fail "attach fails with '$condition': $(cat err)"
    awk '{ print $1, $2 }' out | sed 's/@.*//; s/__//' | sort -k 2 | tr '\n' ' '
  }
  expect_equal 'failed' '1 mkdir 1 open 1 read ' "$(count_calls failed open mkdir read)"
  expect_equal 'not failed' '1 read ' "$(count_calls '!failed' read)"
  expect_equal 'a mapping' '1 mmap ' "$(count_calls 'failed && size == 0' mmap)"
  expect_equal 'an error that is returned' '1 pthread_mutex_trylock ' "$(count_calls failed pthread_mutex_trylock)"
  expect_equal 'errno by name' '1 open ' "$(count_calls 'errno == ENOENT' open)"
  expect_equal 'errno by number' '1 open ' "$(count_calls 'errno in {2, 99}' open)"
  expect_equal 'another errno' '1 open ' "$(count_calls 'errno != ENOENT' open)"
  expect_equal 'no errno' '1 read ' "$(count_calls '!errno' read)"
  expect_equal 'both ends' '1 read ' "$(count_calls 'fd == -1 && errno == EBADF && latency < 10s' read)"
  expect_equal 'nothing' '' "$(count_calls 'errno == EPERM' read)"
  # Of events, too, which have more readings.
  "$UPROBECTL" attach -q -d 60 --if 'errno == ENOENT || latency > 1000.5s' --latency --save run libc.so.6 open read -- \
    "$FIXTURES/calls" >out 2>err || fail "attach fails: $(cat err)"
  expect_equal 'the event' '= -1 ENOENT' "$(cut -f 7 out)"
  "$UPROBECTL" attach -q -d 60 --latency --save run libc.so.6 open read mkdir -- "$FIXTURES/calls" >out 2>err ||
    fail "attach fails: $(cat err)"
  expect_equal 'of the saved run' '3' "$("$UPROBECTL" report -q --if failed run | wc -l)"
  expect_equal 'its errno' '1' "$("$UPROBECTL" report -q --if 'errno == EEXIST' run | wc -l)"
  "$UPROBECTL" report -q --count --by errno run >out 2>err || fail "report fails: $(cat err)"
  expect_equal 'its counts' '1 0 1 0 1 EBADF 1 EEXIST 1 ENOENT ' \
    "$(awk '{ print $1, $2 }' out | sort | tr '\n' ' ')"
  "$UPROBECTL" attach -q -d 60 --count --by failed,errno libc.so.6 open read mkdir -- "$FIXTURES/calls" >out 2>err ||
    fail "attach fails: $(cat err)"
  expect_equal 'counts' '1 false 0 1 false 0 1 true EBADF 1 true EEXIST 1 true ENOENT ' \
    "$(awk '{ print $1, $2, $3 }' out | sort | tr '\n' ' ')"
  ! "$UPROBECTL" attach -q -d 1 --if failed libc.so.6 getenv -- "$FIXTURES/calls" >out 2>err || fail 'getenv is accepted'
  expect_match 'without a rule' "getenv.*its prototype does not say which results mean failure" "$(cat err)"
  expect_match 'what to write' "--if 'ret < 0'" "$(cat err)"
  ! "$UPROBECTL" attach -q -d 1 --if errno libc.so.6 pthread_mutex_trylock -- "$FIXTURES/calls" >out 2>err ||
    fail 'errno of pthread_mutex_trylock is accepted'
  expect_match 'without errno' 'does not say that it sets errno' "$(cat err)"
}

# calloc(1000, 2000) and reallocarray(NULL, 30, 400).
multiplies_values() {
  needs_libc
  for value in 'count*size' 'size * count'; do
    "$UPROBECTL" attach -q -d 60 --stack --weight "$value" --folded out.folded libc.so.6 calloc reallocarray -- \
      "$FIXTURES/calls" >out 2>err || fail "attach fails: $(cat err)"
    expect_equal "weight $value" 'calloc 2000000 reallocarray 12000 ' \
      "$(sed -n 's/.*;main;.*\(calloc\|reallocarray\) /\1 /p' out.folded | sort | tr '\n' ' ')"
  done
  "$UPROBECTL" attach -q -j -d 60 --histogram --measure 'count*size' --if 'count >= 30' libc.so.6 reallocarray -- \
    "$FIXTURES/calls" >out 2>err || fail "attach fails: $(cat err)"
  records histogram | sed 's/"buckets.*//' >histogram
  expect_equal 'histogram' '1 12000 12000' "$(field count <histogram) $(field min <histogram) $(field max <histogram)"
  "$UPROBECTL" attach -q -j -d 60 --count --by count --measure 'count*size' libc.so.6 reallocarray -- \
    "$FIXTURES/calls" >out 2>err || fail "attach fails: $(cat err)"
  expect_equal 'sum' 12000 "$(records count | field sum)"
  # read(3, data, 3) = 3 and read(-1, data, 3) = -1: a product of both ends, with a sign.
  "$UPROBECTL" attach -q -j -d 60 --count --by size --measure 'size*ret' libc.so.6 read -- "$FIXTURES/calls" \
    >out 2>err || fail "attach fails: $(cat err)"
  expect_equal 'sum of both ends' '2 6' "$(records count | field count) $(records count | field sum)"
  ! "$UPROBECTL" attach -q -d 1 --count --by fd --measure 'fd*data' libc.so.6 write -- "$FIXTURES/calls" >out 2>err ||
    fail 'a product with a text is accepted'
  expect_match 'a text' 'only integers can be measured' "$(cat err)"
}

# read() returns 3 and -1.
measures_known_calls() {
  needs_libc
  for value in ret size; do
    "$UPROBECTL" attach -q -j -d 60 --histogram --measure $value libc.so.6 read -- "$FIXTURES/calls" >out 2>err ||
      fail "attach fails: $(cat err)"
    records histogram | sed 's/"buckets.*//' >"$value"
  done
  expect_equal 'results' '2 -1 3 1' "$(field count <ret) $(field min <ret) $(field max <ret) $(field negative <ret)"
  expect_equal 'sizes' '2 3 3' "$(field count <size) $(field min <size) $(field max <size)"
  for condition in 'ret >= 3' 'ret < 3' 'fd == -1' 'size < 4 && fd < 0'; do
    "$UPROBECTL" attach -q -d 60 --count --if "$condition" libc.so.6 read -- "$FIXTURES/calls" >out 2>err ||
      fail "attach fails: $(cat err)"
    expect_match "$condition" '^1	read' "$(cat out)"
  done
}

plans_known_calls() {
  needs_libc
  for options in '--count --if size<4' '--count --if ret<0' '--count --by size' '--histogram --measure size'; do
    # shellcheck disable=SC2086 # words
    "$UPROBECTL" attach -q --write-plan plan $options libc.so.6 read >out 2>err || fail "no plan: $(cat err)"
    # shellcheck disable=SC2086
    "$UPROBECTL" attach -q -j -d 60 $options libc.so.6 read -- "$FIXTURES/calls" >direct 2>err ||
      fail "attach fails: $(cat err)"
    "$UPROBECTL" attach -q -j -d 60 --plan plan -- "$FIXTURES/calls" >out 2>err || fail "attach fails: $(cat err)"
    for file in direct out; do
      grep -E '"type":"(count|histogram)"' $file | sed -E 's/^\{//; s/,"[a-z_]*(time|since)_ns":[0-9]+//g' >"$file.known"
    done
    grep -qE '"(count|total)":[1-9]' direct.known || fail "no count with $options: $(cat direct)"
    cmp direct.known out.known || fail "another result with $options: $(cat out)"
  done
}

offers_known_names() {
  needs_libc
  for options in '--if bites>1' '--histogram --measure bites'; do
    # shellcheck disable=SC2086 # words
    ! "$UPROBECTL" attach -q -d 1 $options libc.so.6 read -- "$FIXTURES/calls" >out 2>err || fail "$options is accepted"
    expect_match "$options" 'arguments are: (data, fd, size|fd, data, size)' "$(cat err)"
    # shellcheck disable=SC2086
    ! "$UPROBECTL" attach -q --write-plan plan $options libc.so.6 read >out 2>err || fail "a plan with $options is made"
    expect_match "a plan with $options" 'arguments are: (data, fd, size|fd, data, size)' "$(cat err)"
  done
}

# The errors are those of the manual pages.
shows_known_calls() {
  # shellcheck disable=SC2046
  attach_known $(kernel_has_multi || echo --latency)
  needs_types
  cat >expected <<'END'
open("/nonexistent/file", O_RDWR|O_CREAT|O_EXCL, 0644) = -1 ENOENT
read(-1, ADDRESS, 3) = -1 EBADF
write(-1, "four", 4) = -1 EBADF
close(-1) = -1 EBADF
mkdir("/dev", 0755) = -1 EEXIST
mmap(NULL, 0, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0x0) = MAP_FAILED EINVAL
socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC, 17) = -1 EPROTONOSUPPORT
connect(-1, 127.0.0.1:80, 16) = -1 EBADF
getenv("NO_SUCH_NAME") = NULL
pthread_mutex_trylock(ADDRESS) = EBUSY
access("/dev", R_OK|X_OK) = 0
END
  expect_calls 5 7 <expected
  expect_match 'what a function has written' '^read\([0-9]+, "\\x00\\x00\\x00", 3\) = 3$' \
    "$(grep -F '"\x00' calls)"
  # A pattern also matches functions that are not known, and internal ones of a debug file.
  # shellcheck disable=SC2046
  "$UPROBECTL" attach -d 60 $(kernel_has_multi || echo --latency) libc.so.6 'open*' -- "$FIXTURES/calls" >out 2>err ||
    fail "attach fails: $(cat err)"
  head -n 1 expected >first
  expect_calls 5 7 <first
  # An IFUNC resolver of glibc, and a function that may not return.
  "$UPROBECTL" attach -d 60 libc.so.6 open execve -- "$FIXTURES/calls" >out 2>err || fail "attach fails: $(cat err)"
  expect_equal 'entries' 'open("/dev/zero", O_RDONLY|O_CLOEXEC)' "$(awk -F '\t' '/zero/ { print $5 $7 }' out)"
  "$UPROBECTL" attach -d 60 libc.so.6 strlen -- "$FIXTURES/calls" >out 2>err || fail "attach fails: $(cat err)"
  expect_match 'a resolver' '^strlen(_ifunc|@.* arg0=)' "$(cut -f 5,6 out | tr '\t' ' ')"
  attach_known --json
  expect_equal 'kinds of events in JSON' entry "$(records event | field kind | sort -u)"
}

# The program tells its own errno of each call. On arm64 that of a process made by vfork() or by a clone()
# of the program's own is not known.
shows_errno_of_threads() {
  needs_libc
  "$UPROBECTL" attach -d 60 --latency --follow libc.so.6 access close unlink rmdir readlink -- "$FIXTURES/errnos" >out 2>err ||
    fail "attach fails: $(cat err)"
  needs_types
  grep '^[a-z]*(.*) = -1 E' err >expected
  [ "$(uname -m)" != aarch64 ] || sed -i '/^rmdir/s/ E.*//; /^readlink/s/ E.*//' expected
  expect_equal 'calls of the program' 6 "$(wc -l <expected)"
  expect_calls 5 7 <expected
}

prefers_asked_arguments() {
  attach_known --args none
  expect_match 'registers' '^arg0=0x[0-9a-f]+ arg1=0xc2 arg2=0x1a4 ' \
    "$(awk -F '\t' '$5 ~ /^open/ && $6 ~ /arg1=0xc2/ { print $6 }' out)"
  attach_known --args open=name:str
  expect_equal 'what was asked for' 'name="/nonexistent/file"' \
    "$(awk -F '\t' '$5 ~ /^open/ && $6 ~ /nonexistent/ { print $6 }' out)"
}

shows_described_functions() {
  cat >described <<'END'
type small = s32{one=1,two=2,*}
library work*
work_six(a:small, b:u64, c:x32 if a&2) = s32
END
  "$UPROBECTL" attach -d 60 --latency --prototypes described "$FIXTURES/workload" work_six \
    -- "$FIXTURES/workload" --calls 3 >out 2>err || fail "attach fails: $(cat err)"
  expect_equal 'calls' 'work_six(one, 2) = 21 work_six(two, 3, 0x4) = 27 work_six(3, 4, 0x5) = 33 ' \
    "$(awk -F '\t' '$5 ~ /^work_six/ { printf "%s %s ", $5, $7 }' out)"
  # A list selects what is shown, the known names mean the same with it.
  "$UPROBECTL" attach -q -d 60 --prototypes described --args first:s32@arg0 --if 'b == 3 && a == 2' \
    "$FIXTURES/workload" work_six -- "$FIXTURES/workload" --calls 3 >out 2>err || fail "attach fails: $(cat err)"
  expect_equal 'the second call' 'first=2' "$(cut -f 6 out)"
  printf '%s\n' 'library types-registers' 'registers_step(pace:s32) = s32' >described
  for value in pace step; do
    "$UPROBECTL" attach -q -d 60 --prototypes described --count --by $value --if "$value > 1" \
      "$FIXTURES/types/types-registers" registers_step -- "$FIXTURES/types/types-registers" >out 2>err ||
      fail "attach fails: $(cat err)"
    expect_equal "counted by $value" '1	2	registers_step,1	3	registers_step,' "$(sort out | tr '\n' ',')"
  done
  ! "$UPROBECTL" attach -d 1 --prototypes described --count --by pase "$FIXTURES/types/types-registers" registers_step \
    >out 2>err || fail 'a name that nobody has is accepted'
  expect_match 'the name' "pase" "$(cat err)"
  echo 'work_six(a:s32)' >described
  ! "$UPROBECTL" attach -d 1 --prototypes described "$FIXTURES/workload" work_six >out 2>err ||
    fail 'a table without a library is accepted'
  expect_match 'the position of the mistake' 'described: line 1, column 1: expected .library' "$(cat err)"
}
