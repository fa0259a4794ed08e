// SPDX-License-Identifier: Apache-2.0
#include "resolve/methods.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::resolve {

namespace {

std::string name_of(std::string class_name, std::string name) {
  return native_name({.return_type = "void",
                      .class_name = std::move(class_name),
                      .name = std::move(name),
                      .parameters = {}});
}

} // namespace

TEST_CASE("a native method's name in its library is escaped as JNI says") {
  CHECK(name_of("com.foo.Bar", "baz9") == "Java_com_foo_Bar_baz9");
  CHECK(name_of("a_b.C$D", "e_f") == "Java_a_1b_C_00024D_e_1f");
  CHECK(name_of("a.B", "access-x") == "Java_a_B_access_0002dx");
}

TEST_CASE("characters beyond ASCII are escaped by their UTF-16 units") {
  CHECK(name_of("Gr\xc3\xb6\xc3\x9f\x65", "x") == "Java_Gr_000f6_000dfe_x");
  CHECK(name_of("a.B", "\xe4\xb8\xad") == "Java_a_B__04e2d");
  CHECK(name_of("a.B", "\xf0\x9d\x94\xb8") == "Java_a_B__0d835_0dd38"); // U+1D538
  CHECK(name_of("a.B", "\xc3") == "Java_a_B__000c3");                   // cut off
}

TEST_CASE("the name of an overloaded native method has its parameters") {
  const auto parameters = [](std::vector<std::string> types) {
    return native_parameters(
        {.return_type = "void", .class_name = "a.B", .name = "c", .parameters = std::move(types)});
  };
  CHECK(parameters({}) == "__");
  CHECK(parameters({"int", "java.lang.String"}) == "__ILjava_lang_String_2");
  CHECK(parameters({"long[][]", "a_b.C$D[]"}) == "___3_3J_3La_1b_C_00024D_2");
}

} // namespace uprobectl::resolve
