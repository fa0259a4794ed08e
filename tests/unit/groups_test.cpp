// SPDX-License-Identifier: Apache-2.0
// The values of --by.
#include "events/groups.hpp"

#include <catch2/catch.hpp>

using namespace uprobectl;

namespace {

// "path comm=thread name" and the like, or the message of the error.
std::string described(std::string_view text, std::span<const ArgumentList> declared = {}) {
  const auto groups = parse_groups(text, declared);
  if (!groups) return groups.error().message;
  std::string all;
  for (const GroupValue& each : groups->by)
    all += (all.empty() ? "" : " ") + each.text + (each.fact ? "!" : "");
  return all;
}

ArgumentList list_of(std::string_view text) {
  auto list = parse_arguments(text);
  REQUIRE(list);
  return *list;
}

std::string implied(std::string_view text) {
  const auto groups = parse_groups(text, {});
  REQUIRE(groups);
  const auto list = implied_arguments(*groups);
  if (!list) return list.error().message;
  std::string all;
  for (const ArgumentSpec& each : list->arguments) all += "place " + each.name + ' ';
  for (const ValuePath& each : list->paths) all += "path " + each.text + ' ';
  return all;
}

} // namespace

TEST_CASE("values to count by are names, paths and facts of the thread") {
  CHECK(described("path") == "path");
  CHECK(described("path,comm,tid,pid,stack") == "path comm! tid! pid! stack!");
  CHECK(described("req->size, ret") == "req->size ret");
}

TEST_CASE("a declared argument has precedence over a fact of its name") {
  const std::vector lists = {list_of("pid:s32,sig:s32")};
  CHECK(described("pid,comm", lists) == "pid comm!");
}

TEST_CASE("values to count by are not empty, repeated or too many") {
  CHECK(described("") == "missing value in '' (expected for example path, comm or arg0)");
  CHECK(described("a,,b") == "missing value in 'a,,b' (expected for example path, comm or arg0)");
  CHECK(described("a,b,a") == "'a' given twice");
  CHECK(described("a,b,c,d,e,f,g,h,i") == "more than 8 values");
}

TEST_CASE("without --args values are read from their location, or by debug information") {
  CHECK(implied("arg0,arg3") == "place arg0 place arg3 ");
  CHECK(implied("ret") == "place ret path ret ");
  CHECK(implied("path,ret") == "path path path ret ");
  CHECK(implied("comm,stack").empty());
  CHECK(implied("a b").starts_with("--by: 'a b'"));
}

TEST_CASE("values to count by must be among those of --args") {
  auto groups = parse_groups("a,b", {});
  REQUIRE(groups);
  std::vector lists = {list_of("a:u64,c:u32"), list_of("f=b:str")};
  CHECK(limit_arguments(*groups, lists));
  groups->measured = "d";
  const auto limited = limit_arguments(*groups, lists);
  REQUIRE(!limited);
  CHECK(limited.error().message == "--measure: 'd' is not among the values of --args");
}

TEST_CASE("strings of many values are shorter, so that a key holds them") {
  const auto longest = [](std::string_view text) {
    return max_group_string(*parse_groups(text, {}));
  };
  CHECK(longest("a") == 128);
  CHECK(longest("a,b") == 128);
  CHECK(longest("a,b,c") == 101);
  CHECK(longest("a,b,c,d,e,f,g,h") == 8);
}

TEST_CASE("the average of measured values is that of signed numbers") {
  CHECK(average_of({.count = 3, .measured = 2, .sum = static_cast<record_u64>(-3)}) == -1.5);
}
