// SPDX-License-Identifier: Apache-2.0
#include "events/arguments.hpp"

#include <array>
#include <catch2/catch.hpp>

namespace uprobectl::events {

using Kind = ArgumentSource::Kind;

namespace {

std::string error_of(std::string_view text) {
  const auto list = parse_arguments(text);
  return list ? "no error" : list.error().message;
}

} // namespace

TEST_CASE("a string may be limited by another argument") {
  const auto list = parse_arguments("sql:str[..size],size:s32");
  REQUIRE(list);
  CHECK(list->arguments[0].type == ArgumentType::string);
  CHECK(list->arguments[0].length_from == "size");
  CHECK(error_of("sql:str[..size]") == "'size': the list has no argument of this name");
  CHECK(error_of("sql:str[..4]").find("invalid length") != std::string::npos);
  CHECK(error_of("data:buf[..size],size:s32").find("invalid length") != std::string::npos);
}

TEST_CASE("an error in a list tells the character at which the wrong part begins") {
  const auto wrong_part = [](std::string_view text) {
    std::optional<std::size_t> at;
    CHECK_FALSE(parse_arguments(text, &at));
    return at ? std::string(text.substr(*at)) : "the list";
  };
  CHECK(wrong_part("fd:s32,1a:u8") == "1a:u8");
  CHECK(wrong_part("fd:s32,a:u33,b:u8") == "u33,b:u8");
  CHECK(wrong_part("fd:s32,a:u8@nowhere,b:u8") == "nowhere,b:u8");
  CHECK(wrong_part("fd:s32,a:u8@arg0+8->x->3,b:u8") == "x->3,b:u8");
  CHECK(wrong_part("fd:s32,a:u8@arg0+") == "");
  CHECK(wrong_part("f=fd:s32,,b:u8") == ",b:u8");
  CHECK(wrong_part("a:u8{x},b:u8") == "u8{x},b:u8");
  CHECK(wrong_part("a:u8,a:u8") == "the list");
}

TEST_CASE("arguments count by position, ret is the return value") {
  const auto list = parse_arguments("fd:s32,buf:ptr,n:u64,ret:s64");
  REQUIRE(list);
  CHECK_FALSE(list->function);
  REQUIRE(list->arguments.size() == 4);
  CHECK(list->arguments[0].type == ArgumentType::s32);
  CHECK(list->arguments[0].source == ArgumentSource{.number = 0});
  CHECK(list->arguments[2].source == ArgumentSource{.number = 2});
  CHECK(list->arguments[3].source == ArgumentSource{.kind = Kind::returned});
}

TEST_CASE("ret takes no position from the others") {
  CHECK(parse_arguments("ret:s32,fd:s32")->arguments[1].source == ArgumentSource{.number = 0});
}

TEST_CASE("an argument called argN is argument N, and positions go on from there") {
  const auto list = parse_arguments("arg1:s32,next:u64");
  REQUIRE(list);
  CHECK(list->arguments[0].name == "arg1");
  CHECK(list->arguments[0].source == ArgumentSource{.number = 1});
  CHECK(list->arguments[1].source == ArgumentSource{.number = 2});
  CHECK(list->warnings.empty());
  CHECK(parse_arguments("arg3:s32,arg0:s32")->arguments[1].source == ArgumentSource{.number = 0});
  CHECK(error_of("arg64:s32") == "'arg64' does not name a value");
  CHECK(parse_arguments("arguments:s32")->arguments[0].source == ArgumentSource{.number = 0});
}

TEST_CASE("an argument with the name of a register is that register") {
#if defined(__x86_64__)
  constexpr std::array names = {"rsi", "edi", "r9", "rbp", "orig_rax"};
#else
  constexpr std::array names = {"x1", "x19", "lr", "sp", "pstate"};
#endif
  for (const std::string name : names) {
    const auto list = parse_arguments("fd:s32," + name + ":u64");
    REQUIRE(list);
    CHECK(list->arguments[1].source ==
          ArgumentSource{.kind = Kind::machine_register, .register_name = name});
    CHECK_FALSE(list->arguments[1].by_position);
  }
  // Not what open(2) calls its second parameter.
  CHECK(parse_arguments("path:str,flags:x32")->arguments[1].source == ArgumentSource{.number = 1});
}

TEST_CASE("a name that promises another location than it has is warned of") {
  const auto warning_of = [](std::string_view text) {
    const auto list = parse_arguments(text);
    return list && list->warnings.size() == 1 ? list->warnings.front() : std::string();
  };
  CHECK(parse_arguments("arg1:s32@arg0")->arguments[0].source == ArgumentSource{.number = 0});
  CHECK(warning_of("arg1:s32@arg0") ==
        "--args: 'arg1' is read from arg0, not from what the name says");
  CHECK(warning_of("ret:s32@arg0+8") ==
        "--args: 'ret' is read from arg0+8, not from what the name says");
  CHECK(parse_arguments("arg1:s32@arg1,arg0:str@arg0+8")->warnings.empty());
#if defined(__x86_64__)
  CHECK(warning_of("rsi:s32@arg0") ==
        "--args: 'rsi' is read from arg0, not from what the name says");
  CHECK(parse_arguments("rsi:s32@esi")->warnings.empty());
  CHECK(warning_of("dx:s32,dy:s32") == "--args: 'dx' is read from the register of this name: write "
                                       "'dx:TYPE@arg0' for argument 0");
  CHECK(parse_arguments("di:s32,si:s32,rax:u64")->warnings.empty());
  CHECK(warning_of("a:s32,x0:s32") == "--args: 'x0' is a register of arm64, not of this machine: "
                                      "it is read from arg1, by its position");
  CHECK(parse_arguments("x0:s32,x1:s32")->warnings.empty());
#else
  CHECK(warning_of("x1:s32@arg0") == "--args: 'x1' is read from arg0, not from what the name says");
  CHECK(warning_of("rsi:s32") == "--args: 'rsi' is a register of x86-64, not of this machine: "
                                 "it is read from arg0, by its position");
  CHECK(parse_arguments("rdi:s32,rsi:s32")->warnings.empty());
#endif
}

TEST_CASE("an argument says where it lies") {
  const auto arguments =
      parse_arguments("a:u32@arg2+0x10,b:str@arg1,c:str@&arg0+24,d:u8@arg3-8,e:x64@ret")->arguments;
  CHECK(arguments[0].source == ArgumentSource{.number = 2, .offsets = {16}});
  CHECK(arguments[1].source == ArgumentSource{.number = 1});
  CHECK(arguments[2].source == ArgumentSource{.number = 0, .addend = 24});
  CHECK(arguments[3].source == ArgumentSource{.number = 3, .offsets = {-8}});
  CHECK(arguments[4].source == ArgumentSource{.kind = Kind::returned});
}

TEST_CASE("a list is for one function where one is named, operators included") {
  CHECK(parse_arguments("read=fd:s32")->function == "read");
  CHECK(parse_arguments("A::operator==(A const&)=self:ptr")->function == "A::operator==(A const&)");
}

TEST_CASE("buffers have a length, a number or an argument's") {
  const auto arguments = parse_arguments("a:buf[16],b:buf[n],n:u64,c:buf")->arguments;
  CHECK(arguments[0].length == 16);
  CHECK(arguments[1].length_from == "n");
  CHECK_FALSE(arguments[3].length);
  CHECK(error_of("a:buf[0]") == "'buf[0]': invalid length (expected 1 to 4096)");
  CHECK(error_of("a:buf[4097]") == "'buf[4097]': invalid length (expected 1 to 4096)");
  CHECK(error_of("a:buf[n]") == "'n': the list has no argument of this name");
  CHECK(error_of("a:buf[s],s:str") == "'s' is not an integer, so it cannot be a length");
  CHECK(error_of("a:buf[4") == "'buf[4': missing ']'");
}

TEST_CASE("an argument can be called by its number") {
  const auto list = parse_arguments("2:str,next:s32");
  REQUIRE(list);
  CHECK((list->arguments[0].by_number && list->arguments[0].name == "arg2"));
  CHECK(list->arguments[0].source.number == 2);
  CHECK((!list->arguments[1].by_number && list->arguments[1].source.number == 3));
}

TEST_CASE("values of debug information are mixed with typed ones, which they do not count among") {
  const auto list = parse_arguments("self->id,fd:s32,size:u64");
  REQUIRE(list);
  REQUIRE((list->paths.size() == 1 && list->arguments.size() == 2));
  CHECK(list->order == std::vector<std::string>{"self->id", "fd", "size"});
  CHECK(list->arguments[0].source.number == 0);
  CHECK(list->arguments[1].source.number == 1);
  CHECK(error_of("size,size:u64") == "two arguments have the name 'size'");
}

TEST_CASE("spaces around arguments with types are left out") {
  const auto list = parse_arguments("fd:s32, size:u64 ");
  REQUIRE(list);
  REQUIRE(list->arguments.size() == 2);
  CHECK(list->arguments[1].name == "size");
  CHECK(list->arguments[1].type == ArgumentType::u64);
}

TEST_CASE("what is wrong with an argument is named") {
  CHECK(error_of("") == "'': missing type (expected for example fd:s32)");
  CHECK(error_of("2x:s32") == "invalid argument name '2x'");
  CHECK(error_of("64:s32") == "invalid argument name '64'");
  CHECK(error_of("2:s32@arg1") == "'2:s32@arg1' has both a number and a source");
  CHECK(error_of("fd:integer") == "unknown type 'integer'");
  CHECK(error_of("a b") == "'a b': missing type (expected for example fd:s32)");
  CHECK(error_of("item.id,item.id") == "two arguments have the name 'item.id'");
  CHECK(error_of("fd:s32@elsewhere") == "'elsewhere' does not name a value");
  CHECK(error_of("fd:s32@arg0+x") == "'arg0+x': invalid offset");
  CHECK(error_of("fd:s32@arg64") == "'arg64' does not name a value");
  CHECK(error_of("a:s32,a:s32") == "two arguments have the name 'a'");
  CHECK(error_of("=a:s32") == "no function before '='");
  std::string many = "a0:u8";
  for (int i = 1; i < 17; ++i) many += ",a" + std::to_string(i) + ":u8";
  CHECK(error_of(many) == "more than 16 arguments");
}

TEST_CASE("types have the names of C as well") {
  const auto list = parse_arguments(
      "a:int,b:size_t,c:char*,d:const char *,e:unsigned long,f:void*,g:double@arg0+8,h:std::string");
  REQUIRE(list);
  const std::array expected = {ArgumentType::s32,    ArgumentType::u64,       ArgumentType::string,
                               ArgumentType::string, ArgumentType::u64,       ArgumentType::ptr,
                               ArgumentType::f64,    ArgumentType::cxx_string};
  REQUIRE(list->arguments.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(list->arguments[i].type == expected[i]);
}

TEST_CASE("arguments without a type are values of the source") {
  const auto list = parse_arguments("f=item.name, self->items[0].id,*p,ns::counter");
  REQUIRE(list);
  CHECK(list->function == "f");
  CHECK(list->arguments.empty());
  REQUIRE(list->paths.size() == 4);
  using StepKind = ValuePath::Step::Kind;
  const std::vector<ValuePath::Step> steps = {{.kind = StepKind::dereference, .at = 4},
                                              {.kind = StepKind::member, .name = "items", .at = 6},
                                              {.kind = StepKind::element, .at = 12},
                                              {.kind = StepKind::member, .name = "id", .at = 15}};
  CHECK((list->paths[1].variable == "self" && list->paths[1].steps == steps));
  CHECK((list->paths[2].variable == "p" && list->paths[2].steps.size() == 1));
  CHECK((list->paths[3].variable == "ns::counter" && list->paths[3].steps.empty()));
}

TEST_CASE("a value of the source has at most eight steps") {
  CHECK(parse_value_path("a->b->c->d->e->f->g->h->i"));
  const auto too_long = parse_value_path("a->b->c->d->e->f->g->h->i->j");
  REQUIRE_FALSE(too_long);
  CHECK(too_long.error().message == "'a->b->c->d->e->f->g->h->i->j' has more than 8 steps");
  for (const auto* const text :
       {"", "a.", "a[", "a[x]", "a[-1]", "(a", "a)", "1a", "a->", "*", "a b"})
    CHECK_FALSE(parse_value_path(text));
}

TEST_CASE("a floating-point argument is refused with the reason") {
  for (const auto* const type : {"f64", "double", "float"}) {
    const auto list = parse_arguments("x:" + std::string(type));
    REQUIRE_FALSE(list);
    CHECK(list.error().kind == ErrorKind::unsupported);
    CHECK(list.error().message ==
          "'" + std::string(type) + "': uprobes cannot read floating-point registers");
  }
}

TEST_CASE("what is summed up is a value, or the product of two") {
  const auto one = parse_summed_value("item->size");
  REQUIRE(one);
  CHECK_FALSE(one->is_product());
  const auto two = parse_summed_value("n * item->size");
  REQUIRE(two);
  CHECK(two->text == "n * item->size");
  REQUIRE(two->operands.size() == 2);
  CHECK(two->operands[0].text == "n");
  CHECK(two->operands[1].text == "item->size");
  CHECK_FALSE(two->uses_result());
  CHECK(parse_summed_value("n*ret")->uses_result());
  const auto pointers = parse_summed_value("*p**q");
  REQUIRE(pointers);
  CHECK(pointers->operands[1].text == "*q");
  CHECK(parse_summed_value("a*b")->names() == std::vector<std::string>{"a", "b"});
  CHECK(parse_summed_value("a")->names() == std::vector<std::string>{"a"});
  for (const char* const text : {"", "a*", "*", "a*b*c", "a*2", "a b"}) {
    INFO(text);
    CHECK_FALSE(parse_summed_value(text));
  }
}

} // namespace uprobectl::events
