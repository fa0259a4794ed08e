# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch: set by the harness
# Parameters and results by their names and types in debug information: programs of fixtures/types,
# whose main calls each function once, if nothing else is said.

typed_scenarios() {
  scenario 'parameters have the names and types of the source' shows_parameters
  scenario 'results have their types, and memory that the caller provides is followed' shows_results
  scenario 'a tail call has no result, the called function that of its type' shows_tail_calls
  scenario 'JSON has nested objects with the names of the source' writes_typed_json
  scenario '--args none shows registers' shows_registers_on_demand
  scenario '--args picks values as the source names them' picks_values
  scenario '--args of a function takes its spellings, and leaves others as they are' picks_of_one
  scenario '--args says which name it does not know' refuses_unknown_names
  scenario '--if compares values by their names' compares_by_name
  scenario 'a parameter with the name of a register is the parameter' prefers_parameters
  scenario 'argN and ret are compared by their types' compares_by_type
  scenario 'a histogram measures by names and types' measures_by_type
  scenario 'a variable that the program has a copy of is the copy' reads_copied_variables
  scenario 'hits of a source line have its variables' shows_variables_of_lines
  scenario 'types of libstdc++' shows_library_types types-library
  ! in_scope mechanisms || # the same on each architecture
    scenario 'types of libstdc++, strings of the old ABI' shows_library_types types-library-old-abi
  scenario 'types of libc++' shows_library_types types-libcxx
  scenario 'types of the standard library with other members are shown by these' shows_other_layouts
  scenario 'classes without members have a value' shows_empty_classes
  scenario 'variables of inline and anonymous namespaces are those of the outer one' finds_visible_variables
  scenario 'parameters that cannot be read at the entry are read after the prologue' reads_after_prologues \
    types-prologues
  scenario 'parameters of clang are read after the prologue' reads_after_prologues types-prologues-clang
  scenario 'what needs the entry keeps it' stays_at_entries
  scenario 'types of Rust' shows_rust_types
  scenario 'types of optimized Rust' shows_optimized_rust_types
  scenario 'slices of texts of Rust' shows_rust_texts
  scenario 'types of Go' shows_go_types
  scenario 'interfaces of Go have the type and the beginning of their value' shows_go_interfaces
  scenario 'lambdas are functions and parameters' shows_lambdas
  scenario 'lambdas of clang are functions and parameters' shows_clang_lambdas
  scenario 'strings are shown where clang has only declared what they are made of' shows_clang_texts
}

base_class_scenarios() {
  scenario 'members of virtual base classes are found in each object' finds_virtual_bases
}

attach_types() { # OPTION… FUNCTION…
  attach_to types "$@"
}

attach_to() { # PROGRAM OPTION… FUNCTION…
  program=$FIXTURES/types/$1
  shift
  "$UPROBECTL" attach -d 60 "$@" -- "$program" >out 2>err || fail "attach fails: $(cat err)"
}

# Each call as FUNCTION(PARAMETERS) RESULT, in the order of the returns.
calls() {
  awk -F '\t' '{ print $5, $7 }' out
}

picks_of_one() {
  for spelling in tails::make 'make(int, int)' 'tails::make(int, int)' 'tails::ma*'; do
    attach_to types-tails --args "$spelling=y" "$FIXTURES/types/types-tails" tails::make tails::swap
    expect_equal "calls with $spelling" 'tails::make(int, int) y=2
tails::swap(x=2, y=3) ' "$(awk -F '\t' '{ print $5, $6 }' out)"
  done
}

shows_tail_calls() {
  attach_to types-tails --latency --return-at ret "$FIXTURES/types/types-tails" 'tails::*'
  expect_equal 'calls' 'tails::make(x=1, y=2) left by a tail call
tails::swap(x=2, y=3) = {x=3, y=2}
tails::choose(number=1) left by a tail call
tails::pick(number=2) = Color::green
tails::choose(number=-1) = Color::red
tails::forward(number=3) left by a tail call
tails::ignore(number=4) returned' "$(calls)"
  attach_to types-tails --latency --return-at ret --args ret "$FIXTURES/types/types-tails" tails::make tails::choose
  expect_equal 'results' 'tails::make(int, int) left by a tail call
tails::choose(int) left by a tail call
tails::choose(int) = Color::red' "$(calls)"
  # A condition on a result that does not exist yet does not hold.
  attach_to types-tails --latency --return-at ret --if 'ret.x == 3' "$FIXTURES/types/types-tails" tails::make tails::swap
  expect_equal 'calls with a condition' 'tails::swap(x=2, y=3) = {x=3, y=2}' "$(calls)"
  attach_to types-tails -j --latency --return-at ret "$FIXTURES/types/types-tails" tails::make
  expect_match 'the record' '"return_value":null,"left_by":"tail_call"' "$(cat out)"
  # A jump is followed to where the called function returns, and a uretprobe is hit then.
  for way in auto trampoline; do
    attach_to types-tails --latency --return-at "$way" "$FIXTURES/types/types-tails" tails::make tails::choose tails::forward
    expect_equal "calls by $way" 'tails::make(x=1, y=2) = {x=3, y=2}
tails::choose(number=1) = Color::green
tails::choose(number=-1) = Color::red
tails::forward(number=3) returned' "$(calls)"
  done
}

# The function of one event with its parameters, and its result.
shown() { # FUNCTION
  awk -F '\t' -v name="$1(" 'index($5, name) == 1 { print $5 }' out
}
result_of() { # FUNCTION
  awk -F '\t' -v name="$1(" 'index($5, name) == 1 { print $7 }' out
}

shows_parameters() {
  attach_types "$FIXTURES/types/types" 'shop::*'
  expect_match 'a reference, a bool and an enumerator' \
    '^shop::Store::add\(this=0x[0-9a-f]+, item=\{id=7, name="box", price=2\.5\}, gift=true, color=Color::blue\)$' \
    "$(shown shop::Store::add)"
  expect_equal 'integers of all sizes' \
    "shop::integers(a=-1, b=65535, c=-100000, d=9223372036854775808, e=12, f='x')" "$(shown shop::integers)"
  expect_equal 'parameters on the stack' \
    'shop::many(a=1, b=-2, c=3, d=-4, e=5, f=-6, g=7, h=-8, i=9, j=-10, k="eleven")' "$(shown shop::many)"
  expect_equal 'structures in registers' \
    "shop::points(a={x=1, y=-2}, b={first=-3, second='p'}, c={x=5, y=-6})" "$(shown shop::points)"
  expect_equal 'structures in registers and on the stack' \
    "shop::pairs(a={first=1, second='a'}, b={first=2, second='b'}, c={first=3, second='c'}, d={first=4, second='d'})" \
    "$(shown shop::pairs)"
  expect_equal 'a large structure' 'shop::large(a={numbers=[-1, -2, -3, -4]}, b=5)' "$(shown shop::large)"
  expect_equal 'a copy' 'shop::by_value(a={id=7, name="box", price=2.5}, b=20)' "$(shown shop::by_value)"
  expect_equal 'strings' 'shop::join(a="left ", b="right, longer than a short string")' "$(shown shop::join)"
  expect_equal 'enumerations, bit-fields and unions' \
    'shop::enums(a=Color::green, b=access_write, c={ready=1, level=17, delta=-5, rest=99}, d={number=21, text="\x15"})' \
    "$(shown shop::enums)"
  expect_equal 'a number of 128 bits' 'shop::wide(a=1, b=-92233720368547758080, c=true)' "$(shown shop::wide)"
  expect_match 'owners and pointers' '^shop::owners\(a=0x[0-9a-f]+, b=0x[0-9a-f]+\)$' "$(shown shop::owners)"
  expect_match 'references and vectors' \
    '^shop::pointers\(a=0x[0-9a-f]+, b=0x[0-9a-f]+, c=0x[0-9a-f]+, d=\{.*kind=7, more=8\}, e=\[31, 32\]\)$' \
    "$(shown shop::pointers)"
  expect_match 'rows of arrays' \
    '^shop::grids\(a=\{cells=\[\[1, 2, 3\], \[4, 5, 6\]\], names=\["north", "south"\]\}, b=0x[0-9a-f]+\)$' \
    "$(shown shop::grids)"
  expect_equal 'floating-point numbers, after the prologue' \
    'shop::floats(a=1, b=2.5, c={a=3.5, b=4.5}, d=5, e=6.5)' "$(shown shop::floats)"
}

shows_results() {
  attach_types --latency "$FIXTURES/types/types" shop::Store::add shop::points shop::make_large shop::join \
    shop::Store::scale
  # 7 + 1 + 4
  expect_equal 'a number' '= 12' "$(result_of shop::Store::add)"
  expect_equal 'a structure in registers' '= {x=6, y=-8}' "$(result_of shop::points)"
  expect_equal 'a structure in memory' '= {numbers=[-8, 9, 1, 4]}' "$(result_of shop::make_large)"
  expect_equal 'a string' '= "left right, longer than a short string"' "$(result_of shop::join)"
  expect_equal 'a product' '= 18' "$(result_of shop::Store::scale)"
}

writes_typed_json() {
  attach_types -j "$FIXTURES/types/types" shop::Store::add shop::enums
  expect_match 'a structure is an object' \
    '\{"name":"item","type":"const shop::Item&","value":\{"id":7,"name":"box","price":2\.5\},"error":null\}' \
    "$(records event symbol=_ZN4shop5Store3addERKNS_4ItemEbNS_5ColorE)"
  expect_match 'an enumerator is its name' '"type":"shop::Color","value":"Color::green"' \
    "$(records event | grep '"a","type":"shop::Color"')"
  attach_types -j --latency "$FIXTURES/types/types" shop::floats
  expect_match 'a value in a vector register' '"name":"b","type":"double","value":null,"error":"in a vector register"' \
    "$(records event | grep '"b","type":"double"')"
}

shows_registers_on_demand() {
  attach_types -j --args none "$FIXTURES/types/types" shop::Store::add
  expect_match 'six registers' '"arguments":\[\{"name":"arg0","type":"x64".*"name":"arg5"' "$(records event)"
}

picks_values() {
  attach_types --args 'item.name, item.price, this->total, total, gift' "$FIXTURES/types/types" shop::Store::add
  expect_match 'members' 'item\.name="box", item\.price=2\.5, this->total=0, total=0, gift=true$' "$(cat out)"
  attach_types --args 'item.name, given:u8@arg2, gift' --if 'given == 1 && item.id == 7' \
    "$FIXTURES/types/types" shop::Store::add
  expect_match 'a type of its own among them' 'item\.name="box", given=1, gift=true$' "$(cat out)"
  attach_types --args 'a->y,*a,(*b)->x,e[1],d.more,counter' "$FIXTURES/types/types" shop::pointers
  expect_match 'pointers' 'a->y=4, \*a=\{x=3, y=4\}, \(\*b\)->x=3, e\[1\]=32, d\.more=8, counter=5$' "$(cat out)"
  attach_types --args 'a->name, (*b).id' "$FIXTURES/types/types" shop::owners
  expect_match 'owners' 'a->name="box", \(\*b\)\.id=7$' "$(cat out)"
  attach_types --args 'a.cells[1][2], a.cells[0], a.names[1], b[1][0]' "$FIXTURES/types/types" shop::grids
  expect_match 'rows' 'a\.cells\[1\]\[2\]=6, a\.cells\[0\]=\[1, 2, 3\], a\.names\[1\]="south", b\[1\]\[0\]=4$' \
    "$(cat out)"
  # As in registers: floating-point parameters do not count.
  attach_types --args 'arg0, arg1' --if 'arg1==5' "$FIXTURES/types/types" shop::floats
  expect_match 'parameters by position' 'arg0=1, arg1=5$' "$(cat out)"
  attach_types -r --args 'ret.y' "$FIXTURES/types/types" shop::points
  expect_match 'of the result' 'ret\.y=-8' "$(cat out)"
  attach_types --latency --args 'arg0' "$FIXTURES/types/types" shop::points
  expect_match 'the result beside them' 'arg0=\{x=1, y=-2\}	= \{x=6, y=-8\}	' "$(cat out)"
}

refuses_unknown_names() {
  ! "$UPROBECTL" attach -d 60 --args item.nmae "$FIXTURES/types/types" shop::Store::add -- "$FIXTURES/types/types" >out 2>err ||
    fail 'an unknown member is accepted'
  expect_match 'error' "'item\.nmae': const shop::Item has no member 'nmae'" "$(cat err)"
  expect_match 'hint' "did you mean 'name'" "$(cat err)"
  ! "$UPROBECTL" attach -d 60 --args itme "$FIXTURES/types/types" shop::Store::add -- "$FIXTURES/types/types" >out 2>err ||
    fail 'an unknown name is accepted'
  expect_match 'error' "shop::Store::add has no parameter or variable 'itme'" "$(cat err)"
  expect_match 'hint' "did you mean 'item'" "$(cat err)"
  ! "$UPROBECTL" attach -d 60 --args 'a.cells[2]' "$FIXTURES/types/types" shop::grids -- "$FIXTURES/types/types" >out 2>err ||
    fail 'a row past the end is accepted'
  expect_match 'error' "int\[2\]\[3\] has 2 elements" "$(cat err)"
  refuses_condition 'shop::nowhere == 1' ", at character 1, before 'shop::nowhere" ''
  "$UPROBECTL" attach --count -d 60 --by item.id --measure item.id "$FIXTURES/types/types" _start shop::Store::add \
    -- "$FIXTURES/types/types" >out 2>err || fail "a function without types before another one: $(cat err)"
  refuses_condition 'gift && item.nmae == "x"' ", at character 14, before 'nmae" "did you mean 'name'"
  refuses_condition 'gift && thred == "x"' ", at character 9, before 'thred" "did you mean 'thread'"
  refuses_condition 'color in {Color::red, Color::bleu}' ", at character 23, before 'Color::bleu" "did you mean 'blue'"
  refuses_condition 'gift && item.id == 2147483648' "int cannot have this value, at character 20, before" ''
  refuses_condition 'item.id == "x"' "cannot be compared with a string, at character 12, before" ''
}

refuses_condition() { # CONDITION ERROR HINT
  ! "$UPROBECTL" attach -d 60 --if "$1" "$FIXTURES/types/types" shop::Store::add -- "$FIXTURES/types/types" >out 2>err ||
    fail "$1 is accepted"
  expect_match 'error' "$2" "$(cat err)"
  expect_match 'hint' "$3" "$(cat err)"
}

finds_virtual_bases() {
  attach_types "$FIXTURES/types/types" shop::shared
  expect_match 'in a structure' \
    '^shop::shared\(a=\{_vptr[.$]Base=0x[0-9a-f]+, kind=7, _vptr[.$]Shared=0x[0-9a-f]+, own=9\}\)$' "$(shown shop::shared)"
  attach_types --args 'a.kind, a.own' "$FIXTURES/types/types" shop::shared
  expect_match 'by path' 'a\.kind=7, a\.own=9$' "$(cat out)"
  attach_types --no-fault --args 'a.kind' "$FIXTURES/types/types" shop::shared
  expect_match 'without page faults' 'a\.kind=7$' "$(cat out)"
  expect_equal 'a condition' 1 "$(hits_if 'a.kind == 7 && a.own == 9' shop::shared)"
  expect_equal 'another condition' 0 "$(hits_if 'a.kind != 7' shop::shared)"
}

# The number of events with a condition.
hits_if() { # CONDITION FUNCTION
  attach_types -j --if "$1" "$FIXTURES/types/types" "$2"
  count_records event
}

compares_by_name() {
  expect_equal 'a member' 1 "$(hits_if 'item.id == 7 && gift' shop::Store::add)"
  expect_equal 'another member' 0 "$(hits_if 'item.id > 7' shop::Store::add)"
  expect_equal 'an enumerator' 1 "$(hits_if 'color == Color::blue' shop::Store::add)"
  expect_equal 'another enumerator' 0 "$(hits_if 'color == shop::Color::red' shop::Store::add)"
  expect_equal 'negation' 0 "$(hits_if '!gift' shop::Store::add)"
  expect_equal 'a negative number' 1 "$(hits_if 'c < -99999' shop::integers)"
  expect_equal 'a bit-field' 1 "$(hits_if 'c.delta == -5 && c.level == 17' shop::enums)"
  expect_equal 'a character' 1 "$(hits_if "f == 'x'" shop::integers)"
  expect_equal 'a std::string' 1 "$(hits_if 'b *= "longer than" && b ^= right' shop::join)"
  expect_equal 'another std::string' 0 "$(hits_if 'b $= short' shop::join)"
  expect_equal 'a char pointer' 1 "$(hits_if 'k ^= el && k != "els"' shop::many)"
  expect_equal 'a set of enumerators' 1 "$(hits_if 'color in {Color::red, blue}' shop::Store::add)"
  expect_equal 'behind a pointer' 1 "$(hits_if 'a->y == 4 && e[1] > 31' shop::pointers)"
}

registers_hits() { # OPTION… FUNCTION…
  attach_to types-registers -q "$@"
  wc -l <out
}

prefers_parameters() {
  program=$FIXTURES/types/types-registers
  for condition in 'cs == "text"' 'ip == 1' 'flags == 2' 'x0 == 3' 'lr == 4' 'flags & 2'; do
    expect_equal "$condition" 1 "$(registers_hits --if "$condition" "$program" registers_named)"
  done
  expect_equal 'another number' 0 "$(registers_hits --if 'flags & 0xd' "$program" registers_named)"
  attach_to types-registers --count --by flags,ip "$program" registers_named
  expect_equal 'the key' '1	2	1	registers_named' "$(cat out)"
}

# The values are what the program prints.
reads_copied_variables() {
  library=$FIXTURES/libshared-counts.so
  "$FIXTURES/shared-counter" >counted 2>/dev/null || skip 'programs of guests are static'
  "$UPROBECTL" attach -d 120 --args counted,label "$library" count_more --command-output said -- \
    "$FIXTURES/shared-counter" >out 2>err || fail "attach fails: $(cat err)"
  expect_equal 'values' "$(cat counted)" "$(sed -n 's/.*counted=\([0-9]*\),.*/\1/p' out)"
  expect_match 'warning' "'label' is read from the file's own storage" "$(cat err)"
  ! file_says err "'counted'" || fail "$(cat err)"
  "$UPROBECTL" attach -q -d 120 --count --if 'counted > 5' "$library" count_more --command-output said -- \
    "$FIXTURES/shared-counter" >out 2>err || fail "attach fails: $(cat err)"
  expect_equal 'condition' '2	count_more' "$(cat out)"
  # A variable that another file defines: through the GOT, and as a copy in the program.
  for where in "$library count_more" "$FIXTURES/shared-counter print_counted"; do
    # shellcheck disable=SC2086 # TARGET and FUNCTION
    "$UPROBECTL" attach -q -d 120 --args optind $where --command-output said -- "$FIXTURES/shared-counter" >out 2>err ||
      fail "attach fails: $(cat err)"
    expect_equal "optind at $where" '10 20 30' "$(sed -n 's/.*optind=//p' out | xargs)"
  done
  "$UPROBECTL" attach -q -d 120 --args counted "$FIXTURES/shared-counter" print_counted --command-output said -- \
    "$FIXTURES/shared-counter" >out 2>err || fail "attach fails: $(cat err)"
  expect_equal 'values of the copy' "$(cat counted)" "$(sed -n 's/.*counted=//p' out)"
}

compares_by_type() {
  program=$FIXTURES/types/types-registers
  expect_equal 'parameter' 2 "$(registers_hits --if 'arg0 > 1' "$program" registers_step)"
  expect_equal 'result' 2 "$(registers_hits -r --if 'ret > 1' "$program" registers_step)"
  expect_equal 'result of a call' 3 "$(registers_hits --latency --if 'ret <= -1' "$program" registers_step)"
  attach_fails_with 1 -r --if 'ret > 0' "$program" registers_half
  expect_match 'a number that cannot be compared' "'ret': .*floating-point|ret > 0.*floating-point" "$(cat err)"
  attach_fails_with 1 -r --if 'ret > 0' "$program" registers_named
  expect_match 'no result' 'the function returns nothing' "$(cat err)"
  # A pattern matches such functions, too.
  attach_to types-registers -r --count --if 'ret > 1' "$program" 'registers_*'
  expect_equal 'hits of the other function' '2	registers_step (return)' "$(grep registers_step out)"
  expect_match 'warning' "registers_named: 'ret' reads a register: the function returns nothing" "$(cat err)"
}

# fixtures/types/registers.c: steps from -3 to 3.
measured_of() { # OPTION… FUNCTION
  attach_to types-registers -q -j --histogram "$@" || fail "attach fails: $(cat err)"
  records histogram | sed 's/"buckets.*//' >histogram
  echo "$(field count <histogram) $(field min <histogram) $(field max <histogram) $(field negative <histogram)"
}

measures_by_type() {
  program=$FIXTURES/types/types-registers
  for value in ret arg0 step; do
    expect_equal "$value" '7 -3 3 3' "$(measured_of --measure $value "$program" registers_step)"
  done
  expect_equal 'a parameter with the name of a register' '1 2 2 0' \
    "$(measured_of --measure flags "$program" registers_named)"
  expect_equal 'what a pointer points to' '1 116 116 0' "$(measured_of --measure '*cs' "$program" registers_named)"
  for refused in 'ret floating-point registers_half' 'ret nothing registers_named' 'pace pace registers_step'; do
    # shellcheck disable=SC2086 # words
    set -- $refused
    attach_fails_with 1 --histogram --measure "$1" "$program" "$3"
    expect_match "$refused" "--measure.*$2" "$(cat err)"
  done
}

shows_variables_of_lines() {
  attach_types --args 'a, b' "$FIXTURES/types/types" shop.cpp:108
  expect_match '128 bits on the stack' 'a=1, b=-92233720368547758080$' "$(cat out)"
  attach_types --args 'number, factor' "$FIXTURES/types/types" shop.cpp:35
  expect_match 'parameters after the prologue' 'number=-6, factor=-3$' "$(cat out)"
}

shows_library_types() { # PROGRAM
  [ -e "$FIXTURES/types/$1" ] || skip "no compiler for $1 was there when the fixtures were built"
  program=$FIXTURES/types/$1
  attach_to "$1" --latency "$program" library::strings library::views library::vectors library::long_vectors \
    library::spans library::optionals library::owners library::durations library::text_of library::count_to \
    library::half_of
  expect_equal 'strings' \
    'library::strings(empty="", inside="short", outside="a string that is allocated", copy="copied")' \
    "$(shown library::strings)"
  expect_equal 'string views' 'library::views(part="left", empty="")' "$(shown library::views)"
  expect_equal 'vectors' \
    'library::vectors(numbers=[1, -2, 3], points=[{x=5, y=6}, {x=7, y=8}], names=["one", "two"], empty=[])' \
    "$(shown library::vectors)"
  expect_equal 'the first elements' 'library::long_vectors(ten=[1, 2, 3, 4, 5, 6, 7, 8, …])' \
    "$(shown library::long_vectors)"
  expect_equal 'spans, one of them with a static extent' \
    'library::spans(numbers=[4, 5, 6], points=[{x=1, y=2}, {x=3, y=4}])' "$(shown library::spans)"
  expect_equal 'optionals' 'library::optionals(some=21, none=nullopt, point={x=9, y=10}, text="text")' \
    "$(shown library::optionals)"
  expect_match 'owners' '^library::owners\(unique=0x[0-9a-f]+, shared=0x[0-9a-f]+, null=0x0\)$' \
    "$(shown library::owners)"
  expect_equal 'durations' 'library::durations(wait=250ms, until=3s, back=-2h)' "$(shown library::durations)"
  expect_equal 'a string as the result' '= "the result is more than fits inside: 99"' "$(result_of library::text_of)"
  expect_equal 'a vector as the result' '= [1, 2, 3]' "$(result_of library::count_to)"
  expect_equal 'optionals as the results' '= 4
= nullopt' "$(result_of library::half_of)"
  attach_to "$1" --args 'unique->x, (*shared).y, null' "$program" library::owners
  expect_match 'behind owners' 'unique->x=11, \(\*shared\)\.y=14, null=0x0$' "$(cat out)"
  attach_to "$1" --args 'numbers[2], points[1].x, names[1]' "$program" library::vectors
  expect_match 'elements' 'numbers\[2\]=3, points\[1\]\.x=7, names\[1\]="two"$' "$(cat out)"
  attach_to "$1" --args 'numbers[1], points[1].y' "$program" library::spans
  expect_match 'elements of spans' 'numbers\[1\]=5, points\[1\]\.y=4$' "$(cat out)"
  attach_to "$1" --args '*some, *none, point->y, *text' "$program" library::optionals
  expect_match 'what optionals hold' '\*some=21, \*none=<no value>, point->y=10, \*text="text"$' "$(cat out)"
  attach_to "$1" -j --if '*some == 21 && *text == "text" && !(*none == 3 || *none != 3)' "$program" library::optionals
  expect_equal 'optionals in conditions' 0 "$(count_records event)"
  attach_to "$1" -j --if '*some == 21 && point->y == 10 && *text == "text"' "$program" library::optionals
  expect_equal 'what optionals hold in conditions' 1 "$(count_records event)"
  attach_to "$1" -j --if 'wait == 250 && back < 0' "$program" library::durations
  expect_equal 'durations in conditions' 1 "$(count_records event)"
  attach_to "$1" -j --if 'copy == "copied" && copy != "copie" && inside $= ort' "$program" library::strings
  expect_equal 'a string by value in conditions' 1 "$(count_records event)"
  attach_to "$1" -j --if 'copy == "copied!"' "$program" library::strings
  expect_equal 'another string by value' 0 "$(count_records event)"
  # After the view the text goes on: "left and right".
  attach_to "$1" -j --if 'part == "left" && part $= "ft" && empty == "" && !(part *= "a")' "$program" library::views
  expect_equal 'string views in conditions' 1 "$(count_records event)"
  attach_to "$1" -j --if 'part ^= "left a"' "$program" library::views
  expect_equal 'text after a string view' 0 "$(count_records event)"
}

shows_other_layouts() {
  program=$FIXTURES/types/types-layouts
  attach_to types-layouts "$program" layouts::texts layouts::others
  expect_equal 'texts of Chromium' 'layouts::texts(inside="box", outside="a text that is allocated")' \
    "$(shown layouts::texts)"
  expect_equal 'other members' \
    'layouts::others(text={owned="own", bytes=3}, numbers={first=0x, count=2}, maybe={stored=7, is_there=true}, view={__data_=0x, __size_=3})' \
    "$(shown layouts::others | sed 's/0x[0-9a-f]*/0x/g')"
  attach_to types-layouts -q --count --if 'inside == "box" && outside $= "located"' "$program" layouts::texts
  expect_equal 'texts in conditions' '1	layouts::texts' "$(sed 's/(.*//' out)"
}

shows_empty_classes() {
  program=$FIXTURES/types/types-layouts
  attach_to types-layouts --latency "$program" layouts::tags
  expect_equal 'parameters' 'layouts::tags(first=1, tag={}, order={}, last=2)' "$(shown layouts::tags)"
  expect_equal 'result' '= {}' "$(result_of layouts::tags)"
}

finds_visible_variables() {
  attach_to types-layouts --args 'layouts::total, layouts::hidden, layouts::v2::total' "$FIXTURES/types/types-layouts" layouts::tags
  expect_equal 'values' 'layouts::total=5, layouts::hidden=6, layouts::v2::total=5' "$(cut -f 6 out)"
}

# Expected values of both builds of the Rust program.
attach_to_rust() { # PROGRAM FUNCTION…
  [ -e "$FIXTURES/types/$1" ] || skip "no compiler for $1 was there when the fixtures were built"
  attach_to "$1" -j --if 'text == "left right" && text $= right && !(text *= "right ")' "$FIXTURES/types/$1" \
    values::first_word
  expect_equal 'a text in conditions' 1 "$(count_records event)"
  attach_to "$1" -j --if 'text ^= "left rightx" || text == "left"' "$FIXTURES/types/$1" values::first_word
  expect_equal 'another text' 0 "$(count_records event)"
  attach_to "$1" --latency "$FIXTURES/types/$1" values::numbers values::texts values::slices values::vectors \
    values::options values::shapes values::move_by values::first_word values::count_to values::shout \
    values::marked values::after_nothing
  expect_equal 'numbers' "values::numbers(a=-1, b=65535, c=-100000, d=9223372036854775808, e=true, f='x')" \
    "$(shown values::numbers)"
  expect_equal 'a number as the result' '= -34344' "$(result_of values::numbers)"
  expect_equal 'vectors' 'values::vectors(numbers=[4, 5], names=["one", "two"])' "$(shown values::vectors)"
  expect_equal 'options' 'values::options(some={Some=21}, none=None, text={Some="text"}, nothing=None)' \
    "$(shown values::options)"
  expect_equal 'a bool as the result' '= true' "$(result_of values::options)"
  expect_equal 'enumerations with values' \
    'values::shapes(empty=Empty, circle={Circle=2}, rectangle={Rectangle={width=3, height=4}}, color=Color::Blue)
values::shapes(empty=Empty, circle=Empty, rectangle=Empty, color=Color::Red)' "$(shown values::shapes)"
  expect_equal 'a structure behind a reference' 'values::move_by(point={x=3, y=4}, by=10)' "$(shown values::move_by)"
  expect_equal 'text' 'values::first_word(text="left right")' "$(shown values::first_word)"
  expect_equal 'a parameter after one without bytes' 'values::after_nothing(nothing={}, number=7)' \
    "$(shown values::after_nothing)"
  expect_equal 'types without bytes, and a character beyond ASCII' \
    'values::marked(mark={id=5, kind={}, unit={}}, letter="é")' "$(shown values::marked)"
  expect_equal 'text that is moved' 'values::shout(text="loud")' "$(shown values::shout)"
}

# Each call is one event, with the values that main passes.
reads_after_prologues() { # PROGRAM
  program=$FIXTURES/types/$1
  [ -e "$program" ] || skip "no compiler for $1 was there when the fixtures were built"
  attach_to "$1" "$program" prologues_floats prologues_mixed prologues_recursive prologues_with_switch
  expect_equal 'floating-point numbers' 'prologues_floats(x=2.5, n=-3, f=0.5)' "$(shown prologues_floats)"
  expect_equal 'a structure that is in two kinds of registers' \
    'prologues_mixed(m={ratio=2.25, count=9}, text="mixed")' "$(shown prologues_mixed)"
  expect_equal 'each call once' 'prologues_recursive(x=0.5, n=2)
prologues_recursive(x=1.5, n=1)
prologues_recursive(x=2.5, n=0)' "$(shown prologues_recursive)"
  expect_equal 'a function with a jump table' 'prologues_with_switch(x=1.75, n=3)' "$(shown prologues_with_switch)"
  expect_match 'they are named' 'prologues_[a-z]* and [23] others are probed after their prologues' "$(cat err)"
  attach_to "$1" -j --if 'text == "mixed"' --args 'm.ratio, m.count' "$program" prologues_mixed
  expect_match 'members' '"value":2.25' "$(cat out)"
  # The loop begins where the prologue ends.
  attach_to "$1" -v "$program" prologues_loop
  expect_match 'a loop at the end of the prologue' 'prologues_loop: its parameters are not read after its prologue: ' \
    "$(cat err)"
  expect_match 'its parameters' '^prologues_loop\(x=<[a-z0-9]*: not readable>, n=1\)$' "$(shown prologues_loop)"
  "$UPROBECTL" attach --dry-run -j "$program" prologues_floats prologues_loop >out 2>/dev/null
  expect_equal 'the dry run has the offset' 1 "$(grep -c '"uprobe_offset":"0x' out)"
  expect_match 'list-args has it, too' '^  x  *double  *<.* \(after the prologue, at \+0x[0-9a-f]*: \[.*\]\)>$' \
    "$("$UPROBECTL" list-args "$program" prologues_floats)"
}

stays_at_entries() {
  program=$FIXTURES/types/types-prologues
  attach_to types-prologues --latency "$program" prologues_floats
  expect_match 'latencies are those of whole calls' '^prologues_floats\(x=<[a-z0-9]*: not readable>, n=-3, f=<' \
    "$(shown prologues_floats)"
  attach_to types-prologues -j --stack "$program" prologues_floats
  expect_match 'stacks are those of the first instruction' '"name":"x","type":"double","value":null' "$(records event)"
  attach_to types-prologues --args n:s32@arg0 "$program" prologues_floats
  expect_match 'registers are those of the entry' 'n=-3' "$(cat out)"
  attach_to types-prologues --args n "$program" prologues_floats
  expect_match 'what can be read at the entry is' 'n=-3' "$(cat out)"
  expect_equal 'nothing is said' '' "$(grep 'after its prologue' err || :)"
}

shows_rust_types() {
  # Its location lists begin after the prologue.
  [ "$(uname -m)" != aarch64 ] || skip 'on arm64 rustc 1.63 locates few parameters at the first instruction'
  attach_to_rust types-rust-unoptimized
  expect_equal 'texts' 'values::texts(borrowed="borrowed", owned="owned", empty="")' "$(shown values::texts)"
  expect_equal 'slices' 'values::slices(numbers=[1, -2, 3], points=[{x=5, y=6}], empty=[])' "$(shown values::slices)"
  # On x86-64 the last registers are used up: half of the text and what follows are on the stack.
  attach_to types-rust-unoptimized -q --latency "$program" values::parts values::spilled values::packed
  expect_equal 'types of two scalars' \
    'values::parts(number=1, text="two", some={Some=3}, pair={__0=4, __1=5}, none=None, last=6)' "$(shown values::parts)"
  expect_equal 'their result' '= {Some=23}' "$(result_of values::parts)"
  expect_equal 'a text in a register and on the stack' \
    'values::spilled(a=1, b=2, c=3, d=4, e=5, text="six", last=7)' "$(shown values::spilled)"
  expect_equal 'what is known before a structure that C would pass in another way' \
    "values::packed(bytes=[1, 2, 3], either={Ok=4}, point=<how its type is passed is not known>, last=<how 'point' before it is passed is not known>)" \
    "$(shown values::packed)"
  attach_to_rust types-rust-unoptimized
  expect_equal 'text as the result' '= "left"' "$(result_of values::first_word)"
  expect_equal 'a vector as the result' '= [1, 2, 3]' "$(result_of values::count_to)"
  expect_equal 'a string as the result' '= "LOUD"' "$(result_of values::shout)"
  attach_to types-rust-unoptimized "$program" values::packed
  expect_equal 'all parameters after the prologue' \
    'values::packed(bytes=[1, 2, 3], either={Ok=4}, point={x=5, y=6}, last=7)' "$(shown values::packed)"
  attach_to types-rust-unoptimized --args 'numbers[1], names[1]' "$program" values::vectors
  expect_match 'elements' 'numbers\[1\]=5, names\[1\]="two"$' "$(cat out)"
  attach_to types-rust-unoptimized -j --if 'borrowed == "borrowed" && owned $= ed && empty == ""' "$program" values::texts
  expect_equal 'texts in conditions' 1 "$(count_records event)"
  attach_to types-rust-unoptimized -j --if 'borrowed ^= "borrowedx" || owned == "own"' "$program" values::texts
  expect_equal 'other texts' 0 "$(count_records event)"
}

# Nothing has the pointers of texts whose length alone is used; the results may be changed as well.
shows_optimized_rust_types() {
  attach_to_rust types-rust
  expect_equal 'what is not used' 'values::texts(borrowed=<optimized out>, owned="owned", empty=<optimized out>)' \
    "$(shown values::texts)"
  expect_equal 'a result' '= <the calling convention is not known>' "$(result_of values::first_word)"
  attach_to types-rust --args 'point.x, (*point).y, by' "$program" values::move_by
  expect_match 'members' 'point\.x=3, \(\*point\)\.y=4, by=10$' "$(cat out)"
}

shows_go_types() {
  [ -e "$FIXTURES/types/types-go" ] || skip 'no Go compiler was there when the fixtures were built'
  attach_to types-go "$FIXTURES/types/types-go" main.numbers main.texts main.slices main.pointers main.failures \
    main.passed main.total
  expect_equal 'numbers' 'main.numbers(a=-1, b=65535, c=-100000, d=9223372036854775808, e=true)' \
    "$(shown main.numbers)"
  expect_equal 'texts' 'main.texts(short="a string", empty="")' "$(shown main.texts)"
  expect_equal 'slices' 'main.slices(numbers=[1, -2, 3], names=["one", "two"], empty=[])' "$(shown main.slices)"
  expect_match 'pointers' '^main\.pointers\(item=0x[0-9a-f]+, point=\{X=7, Y=-8\}\)$' "$(shown main.pointers)"
  expect_equal 'errors' 'main.failures(none=nil, some=*errors.errorString{s="broken"})' "$(shown main.failures)"
  expect_equal 'an error that is passed on' 'main.passed(items=[], err=*errors.errorString{s="passed"})' \
    "$(shown main.passed)"
  expect_equal 'a slice' 'main.total(sizes=[20, 22])' "$(shown main.total)"
  attach_to types-go --latency "$FIXTURES/types/types-go" main.numbers main.failures main.passed main.total \
    main.described main.mixed main.many
  # -1 + 65535 - 100000 + -2^63, which wraps around
  expect_equal 'a number as the result' '= 9223372036854741342' "$(result_of main.numbers)"
  expect_equal 'a bool as the result' '= true' "$(result_of main.failures)"
  expect_equal 'two results, an error among them' '= {r0=0, r1=*errors.errorString{s="passed"}}' "$(result_of main.passed)"
  expect_equal 'results with names' '= {text="number 6", list=[6, -6], err=nil}' "$(result_of main.described)"
  expect_match 'a structure, a vector register and an array' \
    '^= \{r0=\{X=-7, Y=8\}, r1=<[a-z0-9]*: not readable>, r2=\[true\]\}$' "$(result_of main.mixed)"
  if [ "$(uname -m)" = x86_64 ]; then
    expect_equal 'one on the stack' \
      '= {a=1, b=2, c=3, d=4, e=5, f=6, g=7, h=8, text=<on the stack, where it is not read>, last=10}' \
      "$(result_of main.many)"
  fi
  attach_to types-go -j --latency --if 'ret.text == "number 6" && ret.list[1] == -6' "$FIXTURES/types/types-go" main.described
  expect_equal 'results in conditions' 1 "$(count_records event)"
  attach_to types-go --args 'item.Name, item.Sizes[1], point.Y' "$FIXTURES/types/types-go" main.pointers
  expect_match 'members' 'item\.Name="box", item\.Sizes\[1\]=5, point\.Y=-8$' "$(cat out)"
  attach_to types-go -j --if 'short == "a string" && short $= ing && empty == ""' "$FIXTURES/types/types-go" main.texts
  expect_equal 'texts in conditions' 1 "$(count_records event)"
  attach_to types-go -j --if 'short ^= "a strings" || short == "a"' "$FIXTURES/types/types-go" main.texts
  expect_equal 'other texts' 0 "$(count_records event)"
}

# At another address than it is linked for. The types are those that the debug information has at the
# address of the runtime's description.
# On arm64 nothing tells that a function of Go begins again because its stack was moved.
shown_once() { # FUNCTION
  shown "$1" | uniq
}

shows_go_interfaces() {
  program=$FIXTURES/types/types-go-interfaces
  [ -e "$program" ] || skip 'no Go compiler was there when the fixtures were built'
  attach_to types-go-interfaces "$program" main.wrapped main.opened main.numbered main.valued main.other main.anything \
    main.tables main.converted main.many
  expect_equal 'an error that begins with a text' 'main.wrapped(err=*fmt.wrapError{msg="reading: broken", …})' \
    "$(shown_once main.wrapped)"
  expect_equal 'one with several texts' 'main.opened(err=*io/fs.PathError{Op="open", …})' "$(shown_once main.opened)"
  expect_equal 'a number' 'main.numbered(err=syscall.Errno(2))' "$(shown_once main.numbered)"
  expect_match 'a structure' '^main\.valued\(err=main\.failure\{text="a value", …\}, same=0x[0-9a-f]+\)$' \
    "$(shown_once main.valued)"
  expect_match 'one without a text in front, and a null pointer' \
    '^main\.other\(err=\*main\.counted\(0x[1-9a-f][0-9a-f]*\), none=\*main\.counted\(0x0\)\)$' "$(shown_once main.other)"
  expect_equal 'any' 'main.anything(number=int(-5), text=string("some text"), flag=bool(true), none=nil)' \
    "$(shown_once main.anything)"
  expect_match 'a number that is not an integer' 'real=float64\(-1\.5\)\)$' "$(shown_once main.tables)"
  expect_equal 'methods that no symbol has' 'main.converted(s=main.named("called"))' "$(shown_once main.converted)"
  expect_equal 'several' 'main.many(a=*errors.errorString{s="first"}, b=nil, c=*errors.errorString{s="third"}, d=*errors.errorString{s=""})' \
    "$(shown_once main.many)"
  attach_to types-go-interfaces -j "$program" main.wrapped main.numbered
  expect_match 'words, type and value in JSON' \
    '"value":\{"tab":"0x[0-9a-f]+","data":"0x[1-9a-f][0-9a-f]*","type":"\*fmt\.wrapError","value":\{"msg":"reading: broken"\}\},"error":null,"truncated":true' \
    "$(cat out)"
  expect_match 'a number in JSON' '"type":"syscall\.Errno","value":2\},"error":null\}' "$(cat out)"
  attach_to types-go-interfaces --count --by err "$program" main.wrapped
  expect_match 'counts' '^1.\*fmt\.wrapError\{msg="reading: broken", …\}.main\.wrapped$' "$(cat out)"
  [ -e "$FIXTURES/types/types-go-stripped" ] || return 0
  attach_to types-go-stripped --debug-dir "$program" "$FIXTURES/types/types-go-stripped" main.wrapped
  expect_equal 'symbols of a debug file' 'main.wrapped(err=*fmt.wrapError{msg="reading: broken", …})' \
    "$(shown_once main.wrapped)"
}

shows_rust_texts() {
  [ "$(uname -m)" != aarch64 ] || skip 'on arm64 rustc 1.63 locates few parameters at the first instruction'
  program=$FIXTURES/types/types-rust-strings
  [ -e "$program" ] || skip 'no Rust compiler was there when the fixtures were built'
  attach_to types-rust-strings "$program" strings::borrowed strings::owned strings::many
  expect_equal '&[&str]' 'strings::borrowed(words=["one", "", "three"], empty=[])' "$(shown strings::borrowed)"
  expect_equal '&[String]' 'strings::owned(words=["left", "right"], limit=7)' "$(shown strings::owned)"
  expect_equal 'more texts than are captured' 'strings::many(words=["a", "b", "c", "d", …])' "$(shown strings::many)"
  attach_to types-rust-strings --args 'words[1], limit' "$program" strings::owned
  expect_match 'one text' 'words\[1\]="right", limit=7$' "$(cat out)"
  # Versions of Rust name the members differently.
  attach_to types-rust-strings "$program" strings::wrapped
  expect_match 'structures around arrays' 'strings::wrapped\(bytes=\{?[^,]*\[1, 2, 3, 4\]\}?, address=.*, limit=7\)' "$(cat out)"
}

shows_lambdas() {
  program=$FIXTURES/types/types-lambdas
  attach_to types-lambdas --latency "$program" "shop::discounted(int, int)::'lambda'(int)::operator()(int) const" \
    'shop::doubled(int)::*' shop::apply
  sed -E 's/=0x[0-9a-f]+/=POINTER/' out >pointers && mv pointers out
  case $(calls) in # clang as the compiler of all fixtures names lambdas otherwise
  *__closure*) ;;
  *) skip 'the fixtures were not built with gcc' ;;
  esac
  expect_equal 'calls' "shop::discounted(int, int)::'lambda'(int)::operator()(__closure=POINTER, amount=200) = 154
shop::apply<shop::discounted(int, int)::<lambda(int)> >(rule={__percent=25, __name=\"sale\"}, price=200) = 154
shop::doubled(int)::'lambda'(auto)::operator()<int>(__closure=POINTER, amount=21) = 42" "$(calls)"
  attach_to types-lambdas --args 'rule.__name, price' --if 'rule.__percent == 25' "$program" shop::apply
  expect_match 'what a lambda has captured' 'rule\.__name="sale", price=200$' "$(cat out)"
  attach_to types-lambdas -j --if 'rule.__percent == 26' "$program" shop::apply
  expect_equal 'a lambda that has captured something else' 0 "$(count_records event)"
}

shows_clang_texts() {
  program=$FIXTURES/types/types-texts-clang
  [ -e "$program" ] || skip 'clang was not there when the fixtures were built'
  attach_to types-texts-clang --latency "$program" shop::label shop::labels
  long=LLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLL
  expect_equal 'calls' "shop::label(text=\"short\", number=1) = 6
shop::label(text=\"$long\", number=2) = 42
shop::labels(texts=[\"short\", \"$long\"]) = 2" "$(calls)"
  attach_to types-texts-clang -q --count --if 'text == "short"' "$program" shop::label
  expect_equal 'a condition' '1	shop::label(std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char>> const&, int)' \
    "$(cat out)"
}

shows_clang_lambdas() {
  program=$FIXTURES/types/types-lambdas-clang
  [ -e "$program" ] || skip 'clang was not there when the fixtures were built'
  attach_to types-lambdas-clang --latency "$program" 'shop::discounted(int, int)::$_0::operator()' shop::apply
  sed -E 's/=0x[0-9a-f]+/=POINTER/; s/<\(lambda at .*lambdas\.cpp:([0-9]+:[0-9]+)\)>/<lambda \1>/' out >pointers && mv pointers out
  expect_equal 'calls' 'shop::discounted(int, int)::$_0::operator()(this=POINTER, amount=200) = 154
shop::apply<lambda 15:23>(rule={percent=25, name="sale"}, price=200) = 154' "$(calls)"
}
