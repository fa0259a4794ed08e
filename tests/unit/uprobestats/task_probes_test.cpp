// SPDX-License-Identifier: Apache-2.0
// Resolves a task's probe in an OAT file, and locates the arguments that it logs.
#include "oat_samples.hpp"
#include "uprobestats/task_probes.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::uprobestats {

using namespace uprobectl::test;

namespace {

LoggedMethod method_with(std::vector<std::string> parameters, bool is_static = false) {
  return {.java = resolve::JavaMethod{
              .return_type = "void", .parameters = std::move(parameters), .is_static = is_static}};
}

std::optional<std::size_t> register_of(const LoggedMethod& method, std::int32_t position) {
  return locate_argument(method, position).register_index;
}

#if defined(__x86_64__)
constexpr std::size_t argument_registers = 6; // rdi rsi rdx rcx r8 r9
#else
constexpr std::size_t argument_registers = 8; // x0 to x7
#endif

} // namespace

TEST_CASE("a method uses its own declaration if its code is shared") {
  auto image = elf::Image::open({made_sample("v244").oat, std::nullopt});
  REQUIRE(image);
  const auto read = art::OatFile::read(*image, {});
  REQUIRE(read);
  const art::OatFile& oat = *read;
  const auto greeter = oat.find_class("com.example.Greeter");
  REQUIRE(greeter);
  for (const art::Method& method : oat.class_methods(*greeter)) {
    if (!method.compiled) continue;
    const std::string signature = to_string(oat.signature(method));
    INFO(signature);
    const auto known = find_java_method(oat, method.code, signature);
    REQUIRE(known);
    // greeter.json: of those that are compiled, this one alone.
    CHECK(known->is_static == (signature == "int com.example.Greeter.count()"));
  }
  // Two constructors have this code; a method that is none of them is not judged by theirs.
  const VirtualAddress shared = oat.compiled().front().code;
  REQUIRE(oat.methods_at(shared).size() == 2);
  const auto own = find_java_method(oat, shared, "void com.example.Greeter.<init>()");
  REQUIRE(own);
  CHECK_FALSE(own->is_static);
  CHECK(own->parameters.empty());
  const auto strange = find_java_method(oat, shared, "void com.example.Greeter.other()");
  REQUIRE_FALSE(strange);
  CHECK(strange.error().message == "its class is not known");
}

TEST_CASE("an argument's register follows the method, this and earlier arguments") {
  const LoggedMethod instance = method_with({"int", "long", "java.lang.String"});
  CHECK(register_of(instance, 0) == 2U);
  CHECK(register_of(instance, 1) == 3U);
  CHECK(register_of(instance, 2) == 4U);
  const LoggedMethod plain = method_with({"int", "long"}, true);
  CHECK(register_of(plain, 0) == 1U);
  CHECK(register_of(plain, 1) == 2U);
}

TEST_CASE("float and double take no register of those that a record has") {
  const LoggedMethod method = method_with({"int", "float", "double", "int"});
  CHECK(register_of(method, 0) == 2U);
  CHECK(locate_argument(method, 1).problem ==
        "it is in a vector register, which a probe cannot read");
  CHECK(register_of(method, 3) == 3U);
}

TEST_CASE("an argument without a register has its location as the reason") {
  const LoggedMethod many = method_with(std::vector<std::string>(9, "int"));
  const auto last = static_cast<std::int32_t>(argument_registers - 3);
  CHECK(register_of(many, last) == argument_registers - 1);
  CHECK(locate_argument(many, last + 1).problem ==
        "it is on the stack, which the record does not contain");
  CHECK(locate_argument(many, 9).problem == "the method has 9 parameters (positions start at 0)");
  CHECK(locate_argument(many, -1).problem == "positions start at 0");
  LoggedMethod narrow = method_with({"int"});
  narrow.is_64bit = false;
  CHECK(locate_argument(narrow, 0).problem ==
        "the method is 32-bit code, whose registers the record does not contain");
}

TEST_CASE("unknown methods use the argument positions of the service") {
  const LoggedMethod unknown{.java = fail(ErrorKind::not_found, "no DEX")};
  CHECK(register_of(unknown, 0) == 2U);
  CHECK_FALSE(register_of(unknown, static_cast<std::int32_t>(argument_registers - 2)));
  CHECK(register_of(LoggedMethod(), 1) == 3U); // a library's function
}

TEST_CASE("methods of a task with an argument at different locations log no atom") {
  const std::vector<LoggedMethod> methods = {method_with({"int", "int"}),
                                             method_with({"int", "float"})};
  const std::vector<std::int32_t> positions = {0, 1};
  const auto arguments = locate_arguments(methods, positions);
  REQUIRE(arguments.size() == 2);
  CHECK(arguments[0].register_index == 2U);
  CHECK_FALSE(arguments[1].register_index);
  const std::vector<LoggedMethod> others = {method_with({"int"}), method_with({"int"}, true)};
  CHECK(locate_arguments(others, std::vector<std::int32_t>{0}).front().problem ==
        "argument 0: it is in different registers for the methods of the task, and records do not "
        "identify their method");
}

} // namespace uprobectl::uprobestats
