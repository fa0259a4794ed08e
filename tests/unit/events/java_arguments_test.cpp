// SPDX-License-Identifier: Apache-2.0
#include "capture_points.hpp"
#include "events/java_method.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

namespace uprobectl::events {

namespace {

// "name:type@register" or "name:type@sp+N", as ART's compiler passes them.
std::string placed(const resolve::JavaMethod& method, CodeKind kind = CodeKind::native) {
  std::string text;
  for (const JavaArgument& argument : java_arguments(method, kind)) {
    if (!text.empty()) text += ' ';
    text += fmt::format("{}:{}@", argument.spec.name, to_string(argument.spec.type));
    if (!argument.spec.problem.empty())
      text += "unreadable";
    else if (argument.machine_register)
      text += register_names()[*argument.machine_register];
    else
      text += fmt::format("sp+{}", argument.stack_offset);
  }
  return text;
}

CapturePlan java_plan_of(const CaptureSpec& inspection, const resolve::JavaMethod& method,
                         CodeKind kind = CodeKind::native) {
  std::vector<resolve::ProbePoint> points(1);
  points[0].binary = std::make_shared<resolve::ProbedBinary>();
  points[0].symbol = "int com.foo.Bar.baz()";
  points[0].java = std::make_shared<resolve::JavaMethod>(method);
  auto plan = CapturePlan::make(inspection, capture_points(points, {.kind = kind, .strings = {}}));
  INFO((plan ? "" : plan.error().message));
  REQUIRE(plan);
  return std::move(*plan);
}

} // namespace

TEST_CASE("parameters of every type are typed, references have 32 bits") {
  const resolve::JavaMethod method{.return_type = "void",
                                   .parameters = {"boolean", "byte", "char", "short", "int"},
                                   .is_static = true};
#if defined(__x86_64__)
  CHECK(placed(method) == "arg0:bool@rsi arg1:s8@rdx arg2:u16@rcx arg3:s16@r8 arg4:s32@r9");
#else
  CHECK(placed(method) == "arg0:bool@x1 arg1:s8@x2 arg2:u16@x3 arg3:s16@x4 arg4:s32@x5");
#endif
  const resolve::JavaMethod references{.return_type = "void",
                                       .parameters = {"java.lang.String", "int[]", "com.foo.Bar"}};
#if defined(__x86_64__)
  CHECK(placed(references) == "this:ptr@rsi arg0:jstring@rdx arg1:ptr@rcx arg2:ptr@r8");
#else
  CHECK(placed(references) == "this:ptr@x1 arg0:jstring@x2 arg1:ptr@x3 arg2:ptr@x4");
#endif
  for (const JavaArgument& argument : java_arguments(references, CodeKind::native))
    CHECK(argument.size == 4);
}

TEST_CASE("stack parameters follow the slots of all earlier parameters") {
  const resolve::JavaMethod method{
      .return_type = "void", .parameters = {"int", "long", "int", "int", "int", "long", "int"}};
  // Slots of 4 bytes: this 0, then 1, 2-3, 4, 5, 6, 7-8, 9, after the 8 of the ArtMethod. On
  // x86-64 the return address lies before them.
#if defined(__x86_64__)
  CHECK(placed(method) == "this:ptr@rsi arg0:s32@rdx arg1:s64@rcx arg2:s32@r8 arg3:s32@r9 "
                          "arg4:s32@sp+40 arg5:s64@sp+44 arg6:s32@sp+52");
#else
  CHECK(placed(method) == "this:ptr@x1 arg0:s32@x2 arg1:s64@x3 arg2:s32@x4 arg3:s32@x5 "
                          "arg4:s32@x6 arg5:s64@x7 arg6:s32@sp+44");
#endif
}

TEST_CASE("floating-point parameters take no integer register, but a location on the stack") {
  resolve::JavaMethod method{
      .return_type = "void", .parameters = {"float", "int", "double", "int"}, .is_static = true};
#if defined(__x86_64__)
  CHECK(placed(method) == "arg0:f32@unreadable arg1:s32@rsi arg2:f64@unreadable arg3:s32@rdx");
#else
  CHECK(placed(method) == "arg0:f32@unreadable arg1:s32@x1 arg2:f64@unreadable arg3:s32@x2");
#endif
  // The ninth is in memory, where it can be read: after eight slots of 8 bytes.
  method.parameters = std::vector<std::string>(9, "double");
#if defined(__x86_64__)
  CHECK(placed(method).ends_with(" arg8:f64@sp+80"));
#else
  CHECK(placed(method).ends_with(" arg8:f64@sp+72"));
#endif
}

TEST_CASE("each argument of 32-bit Java code is an error") {
  CHECK(placed({.return_type = "void", .parameters = {"int"}}, CodeKind::native_32) ==
        "this:ptr@unreadable arg0:s32@unreadable");
}

TEST_CASE("a method's plan reads its parameters, and its result at the return") {
  CaptureSpec inspection;
  inspection.pair_calls = true;
  const resolve::JavaMethod method{
      .return_type = "boolean", .parameters = {"long", "java.lang.String"}, .is_static = true};
  const auto plan = java_plan_of(inspection, method);
  const point_plan& made = plan.plans()[0];
  REQUIRE(made.reading_count == 3);
  // Integers first.
  CHECK(made.readings[0].size == 8);
  CHECK(made.readings[0].is_signed == 1);
  CHECK(made.readings[1].phase == PHASE_RETURN);
  CHECK(made.readings[1].size == 1);
  CHECK(made.readings[2].form == READ_JAVA_STRING);
  CHECK(made.readings[2].size == 4);
  CHECK(made.readings[2].capacity == 128);
  inspection.pair_calls = false;
  CHECK(java_plan_of(inspection, method).plans()[0].reading_count == 2);
}

TEST_CASE("a list for a method names this and its parameters") {
  CaptureSpec inspection;
  inspection.arguments.push_back(*parse_arguments("this:x32,id:s32,arg1:s32"));
  const resolve::JavaMethod method{.return_type = "void", .parameters = {"int", "short"}};
  const auto plan = java_plan_of(inspection, method);
  const point_plan& made = plan.plans()[0];
  const auto arguments = java_arguments(method, CodeKind::native);
  REQUIRE(made.reading_count == 3);
  CHECK(made.readings[0].base == arguments[0].machine_register);
  CHECK(made.readings[1].base == arguments[1].machine_register);
  CHECK(made.readings[2].base == arguments[2].machine_register);
  CHECK(made.readings[2].size == 2);
}

TEST_CASE("a method of many parameters is read as far as a record has room") {
  const resolve::JavaMethod method{.return_type = "void",
                                   .parameters = std::vector<std::string>(36, "int")};
  const auto plan = java_plan_of({}, method);
  CHECK(plan.plans()[0].reading_count == 32);
  CHECK(plan.describe_problems(0) ==
        std::vector<std::string>{"arg31 cannot be read (a record can hold 32 values)",
                                 "arg32 cannot be read (a record can hold 32 values)",
                                 "arg33 cannot be read (a record can hold 32 values)",
                                 "arg34 cannot be read (a record can hold 32 values)",
                                 "arg35 cannot be read (a record can hold 32 values)"});
}

TEST_CASE("conditions on a method count its parameters, with their types") {
  CaptureSpec inspection;
  inspection.filter = *parse_filter("arg1<0");
  const auto plan = java_plan_of(
      inspection, {.return_type = "void", .parameters = {"int", "short"}, .is_static = true});
  const filter_term& made = plan.filters().filters[0].terms[0];
  CHECK(made.value.size == 2);
  CHECK(made.is_signed == 1);
  CHECK(made.value.base ==
        java_arguments({.return_type = "void", .parameters = {"int", "short"}, .is_static = true},
                       CodeKind::native)[1]
            .machine_register);
}

TEST_CASE("a result has the size and the sign of the signature, as a parameter has") {
  CaptureSpec inspection;
  inspection.pair_calls = true;
  inspection.arguments.push_back(*parse_arguments("a:u64@arg0,b:s64@arg1,c:u64@ret"));
  const auto sizes_of = [&](const char* result) {
    const auto plan = java_plan_of(
        inspection, {.return_type = result, .parameters = {"int", "char"}, .is_static = true});
    std::string text;
    for (const reading& each : std::span(plan.plans()[0].readings, plan.plans()[0].reading_count))
      text += fmt::format("{}{} ", each.is_signed != 0 ? 's' : 'u', 8 * each.size);
    return text;
  };
  CHECK(sizes_of("int") == "s32 u16 s32 ");
  CHECK(sizes_of("char") == "s32 u16 u16 ");
  CHECK(sizes_of("long") == "s32 u16 u64 ");
}

TEST_CASE("a result that no probe can read is refused, as a parameter is") {
  const auto error_of = [](std::string_view list, const resolve::JavaMethod& method) {
    CaptureSpec inspection;
    inspection.pair_calls = true;
    inspection.arguments.push_back(*parse_arguments(list));
    std::vector<resolve::ProbePoint> points(1);
    points[0].symbol = "baz";
    points[0].binary = std::make_shared<resolve::ProbedBinary>();
    points[0].java = std::make_shared<resolve::JavaMethod>(method);
    const auto plan = CapturePlan::make(inspection, capture_points(points));
    return plan ? "no error" : plan.error().message;
  };
  const resolve::JavaMethod method{
      .return_type = "float", .parameters = {"double"}, .is_static = true};
  CHECK(error_of("x:x64@arg0", method) ==
        "baz: arg0: in a vector register, which a probe cannot read");
  CHECK(error_of("x:x64@ret", method) ==
        "baz: ret: in a vector register, which a probe cannot read");
  CHECK(error_of("x:x64@arg1", method) == "baz: arg1: the method has 1 parameter");
}

TEST_CASE("methods with different parameters get different plans") {
  std::vector<resolve::ProbePoint> points(3);
  for (resolve::ProbePoint& point : points)
    point.binary = std::make_shared<resolve::ProbedBinary>();
  points[0].java =
      std::make_shared<resolve::JavaMethod>(resolve::JavaMethod{"void", {"int"}, false});
  points[1].java =
      std::make_shared<resolve::JavaMethod>(resolve::JavaMethod{"void", {"int"}, true});
  points[2].java =
      std::make_shared<resolve::JavaMethod>(resolve::JavaMethod{"void", {"int"}, false});
  const auto plan = CapturePlan::make({}, capture_points(points));
  REQUIRE(plan);
  CHECK(plans_of(*plan, 3) == std::vector<std::uint32_t>{0, 1, 0});
}

TEST_CASE("characters of Java strings become UTF-8") {
  CHECK(latin1_to_utf8(uprobectl::as_bytes("K\xe4se\x7f\x80\xff")) == "Käse\x7f\xc2\x80ÿ");
  const std::string_view text("\xe5\x65 \0\x3c\xd8\x4e\xdf", 8); // 日, a space, an apple
  CHECK(utf16_to_utf8(uprobectl::as_bytes(text)) == "日 🍎");
  const std::string_view halves("\x4e\xdf\x3c\xd8\x41\0\x3c\xd8\x7f", 9);
  CHECK(utf16_to_utf8(uprobectl::as_bytes(halves)) == "\xef\xbf\xbd\xef\xbf\xbd"
                                                      "A\xef\xbf\xbd");
  CHECK(utf16_to_utf8({}).empty());
}

} // namespace uprobectl::events
