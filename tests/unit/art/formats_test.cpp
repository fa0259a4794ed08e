// SPDX-License-Identifier: Apache-2.0
#include "art/dex.hpp"
#include "art/dex_search.hpp"
#include "art/oat_format.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::art {

using namespace std::string_literals;

namespace {

std::string type_of(std::string_view descriptor) {
  std::string text;
  append_type(descriptor, text);
  return text;
}

std::string utf8(std::string_view modified) {
  std::string text;
  append_utf8(modified, text);
  return text;
}

} // namespace

TEST_CASE("type descriptors are converted to Java type names") {
  CHECK(type_of("V") == "void");
  CHECK(type_of("Z") == "boolean");
  CHECK(type_of("J") == "long");
  CHECK(type_of("[[I") == "int[][]");
  CHECK(type_of("Lcom/foo/Bar$Inner;") == "com.foo.Bar$Inner");
  CHECK(type_of("[Ljava/lang/String;") == "java.lang.String[]");
  // No descriptors: as they are.
  CHECK(type_of("X") == "X");
  CHECK(type_of("Lcom/foo") == "Lcom/foo");
  CHECK(type_of("[") == "[");
  CHECK(type_of("").empty());
}

TEST_CASE("modified UTF-8 becomes UTF-8") {
  CHECK(utf8("ma\xc3\x9f") == "ma\xc3\x9f");
  CHECK(utf8("\xed\xa0\xb5\xed\xb4\xb8") == "\xf0\x9d\x94\xb8"); // U+1D538
  CHECK(utf8("a\xc0\x80z") == "a\0z"s);
  CHECK(utf8("\xed\xa0\xb5") == "\xed\xa0\xb5"); // half a pair
}

TEST_CASE("LEB128 numbers have at most five bytes") {
  const auto next = [](std::string_view bytes) { return Leb128(as_bytes(bytes), 0).next(); };
  CHECK(next("\x7f") == 127U);
  CHECK(next("\x80\x01") == 128U);
  CHECK(next("\xff\xff\xff\xff\x0f") == 0xffffffffU);
  CHECK_FALSE(next("\x80\x80\x80\x80\x80\x01"));
  CHECK_FALSE(next("\x80"));
  CHECK_FALSE(next(""));
}

TEST_CASE("a location names an archive and the DEX file in it") {
  CHECK(split_location("/system/framework/a.jar").archive == "/system/framework/a.jar");
  CHECK(split_location("/system/framework/a.jar").entry == "classes.dex");
  CHECK(split_location("/x/y!z.apk!classes2.dex").archive == "/x/y!z.apk");
  CHECK(split_location("/x/y.apk!classes2.dex").entry == "classes2.dex");
  CHECK(split_location("/x/y.apk:classes3.dex").archive == "/x/y.apk"); // Android 8
  CHECK(split_location("/x/y:z.apk").archive == "/x/y:z.apk");
}

TEST_CASE("checksums of VDEX files lie where the version says") {
  const auto read = [](std::string bytes) { return parse_vdex(as_bytes(bytes)); };
  const std::string two = "\1\0\0\0\2\0\0\0"s; // checksums 1 and 2
  const std::vector<std::uint32_t> both = {1, 2};
  const std::string zeros(40, '\0');
  CHECK(read("vdex010\0\2\0\0\0"s + zeros.substr(0, 12) + two)->checksums == both);
  CHECK(read("vdex019\0"s + "002\0\2\0\0\0"s + zeros.substr(0, 4) + two)->checksums == both);
  CHECK(read("vdex021\0"s + "000\0\2\0\0\0"s + zeros.substr(0, 12) + two)->checksums == both);
  CHECK(read("vdex027\0\1\0\0\0"s + "\0\0\0\0\x18\0\0\0\x08\0\0\0"s + two)->checksums == both);
  CHECK(read("vdex010\0\2\0\0\0"s + zeros.substr(0, 12) + two.substr(1)).error().kind ==
        ErrorKind::corrupt);
  CHECK(read("vdex028\0"s + zeros).error().message == "unsupported VDEX version 028");
  CHECK(read("vdex005\0"s + zeros).error().kind == ErrorKind::unsupported);
  CHECK(read("vdex02x\0"s + zeros).error().kind == ErrorKind::corrupt);
  CHECK(read("dex\n039\0"s + zeros).error().kind == ErrorKind::corrupt);
}

TEST_CASE("values of the store may be padded, or empty") {
  const std::string store = "a-key\0value\0\0\0\0b-key\0last\0"s;
  CHECK(find_store_value(as_bytes(store), "a-key") == "value");
  CHECK(find_store_value(as_bytes(store), "b-key") == "last");
  CHECK(find_store_value(as_bytes(store), "value").empty());
  CHECK(find_store_value({}, "a-key").empty());
}

} // namespace uprobectl::art
