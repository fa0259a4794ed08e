# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # scratch: set by the harness
# Parameters and results by their names and types in debug information: fixtures/types/shop.cpp, whose
# main calls each function once.

typed_scenarios() {
  scenario 'parameters have the names and types of the source' shows_parameters
  scenario 'results have their types, and memory that the caller provides is followed' shows_results
  scenario 'JSON has nested objects with the names of the source' writes_typed_json
  scenario '--args none shows registers' shows_registers_on_demand
  scenario '--args picks values as the source names them' picks_values
  scenario '--args says which name it does not know' refuses_unknown_names
  scenario '--if compares values by their names' compares_by_name
  scenario 'hits of a source line have its variables' shows_variables_of_lines
}

attach_types() { # OPTION… FUNCTION…
  "$UPROBECTL" attach -d 60 "$@" -- "$FIXTURES/types/types" >out 2>err || fail "attach fails: $(cat err)"
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
  expect_match 'owners and pointers' '^shop::owners\(a=0x[0-9a-f]+, b=0x[0-9a-f]+\)$' "$(shown shop::owners)"
  expect_match 'references and vectors' \
    '^shop::pointers\(a=0x[0-9a-f]+, b=0x[0-9a-f]+, c=0x[0-9a-f]+, d=\{.*kind=7, more=8\}, e=\[31, 32\]\)$' \
    "$(shown shop::pointers)"
  expect_match 'vector registers' '^shop::floats\(a=1, b=<[a-z]+[0-9]+: not readable>, .*, d=5, e=<[a-z]+[0-9]+: not readable>\)$' \
    "$(shown shop::floats)"
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
  attach_types -j "$FIXTURES/types/types" shop::Store::add shop::enums shop::floats
  expect_match 'a structure is an object' \
    '\{"name":"item","type":"const shop::Item&","value":\{"id":7,"name":"box","price":2\.5\},"error":null\}' \
    "$(records event symbol=_ZN4shop5Store3addERKNS_4ItemEbNS_5ColorE)"
  expect_match 'an enumerator is its name' '"type":"shop::Color","value":"Color::green"' \
    "$(records event | grep '"a","type":"shop::Color"')"
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
  attach_types --args 'a->y,*a,(*b)->x,e[1],d.more,counter' "$FIXTURES/types/types" shop::pointers
  expect_match 'pointers' 'a->y=4, \*a=\{x=3, y=4\}, \(\*b\)->x=3, e\[1\]=32, d\.more=8, counter=5$' "$(cat out)"
  attach_types --args 'a->name, (*b).id' "$FIXTURES/types/types" shop::owners
  expect_match 'owners' 'a->name="box", \(\*b\)\.id=7$' "$(cat out)"
  attach_types -r --args 'ret.y' "$FIXTURES/types/types" shop::points
  expect_match 'of the result' 'ret\.y=-8' "$(cat out)"
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

shows_variables_of_lines() {
  attach_types --args 'number, factor' "$FIXTURES/types/types" shop.cpp:35
  expect_match 'parameters behind the prologue' 'number=-6, factor=-3$' "$(cat out)"
}
