// SPDX-License-Identifier: Apache-2.0
#include "util/json_size.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

using namespace uprobectl;

TEST_CASE("the depth of JSON is that of its lists and objects outside of strings") {
  CHECK(measure_json("").depth == 0);
  CHECK(measure_json("1").depth == 0);
  CHECK(measure_json("[]").depth == 1);
  CHECK(measure_json(R"({"a":[1,{"b":2}],"c":{}})").depth == 3);
  CHECK(measure_json(R"("[[[[")").depth == 0);
  CHECK(measure_json(R"(["\"[[","\\",[1]])").depth == 2);
}

TEST_CASE("ends of lists without a begin do not hide what follows") {
  CHECK(measure_json("]]]][[").depth == 2);
}

TEST_CASE("a value of JSON is counted for each list, object, comma and colon") {
  CHECK(measure_json("1").values == 0);
  CHECK(measure_json("[1,2,3]").values == 3);
  CHECK(measure_json(R"({"a":1,"b":[2]})").values == 5);
  CHECK(measure_json(R"(["a,b:c"])").values == 1);
}

TEST_CASE("a record of 256 levels can be parsed, a deeper one cannot") {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  CHECK(is_parsable_record(nested(256)));
  CHECK_FALSE(is_parsable_record(nested(257)));
  CHECK(is_parsable_record("[" + std::string((1 << 20) - 1, ',')));
  CHECK_FALSE(is_parsable_record("[" + std::string(1 << 20, ',')));
}

TEST_CASE("an object of JSON is counted for each brace that opens outside of strings") {
  CHECK(measure_json(R"([{"a":{}},"{{",{}])").objects == 3);
}

TEST_CASE("a record of more than 16,384 objects cannot be parsed") {
  std::string record = "[{}";
  for (std::size_t i = 1; i < 16'384; ++i) record += ",{}";
  CHECK(is_parsable_record(record + "]"));
  CHECK_FALSE(is_parsable_record(record + ",{}]"));
}

TEST_CASE("objects of the lists of one depth are taken out of JSON") {
  const auto parts = split_json(R"([{"a":1}, {"b":[{"c":"}"}]}])", 1);
  REQUIRE(parts);
  CHECK(parts->rest == "[0, 1]");
  CHECK(parts->objects == std::vector<std::string_view>{R"({"a":1})", R"({"b":[{"c":"}"}]})"});
  const auto deeper = split_json(R"({"x":[{"y":1}],"z":{"y":{"w":2}}})", 2);
  REQUIRE(deeper);
  CHECK(deeper->rest == R"({"x":[0],"z":{"y":{"w":2}}})");
  CHECK(deeper->objects == std::vector<std::string_view>{R"({"y":1})"});
}

TEST_CASE("a list of objects and others is not taken apart, nor an object without an end") {
  for (const auto* const text : {"[{},1]", "[[]]", "[\"{}\"]", "[null,{}]", "[{}, {"}) {
    CAPTURE(text);
    CHECK_FALSE(split_json(text, 1));
  }
}
