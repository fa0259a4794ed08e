// SPDX-License-Identifier: Apache-2.0
// The values of --by.
#include "events/groups.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::events {

namespace {

// "path comm=thread name" and the like, or the message of the error.
std::string described(std::string_view text, std::span<const ArgumentList> declared = {}) {
  const auto groups = parse_groups(text, declared);
  if (!groups) return groups.error().message;
  std::string all;
  for (const GroupValue& each : groups->by)
    all += (all.empty() ? "" : " ") + each.text + (each.built_in ? "!" : "");
  return all;
}

ArgumentList list_of(std::string_view text) {
  auto list = parse_arguments(text);
  REQUIRE(list);
  return *list;
}

} // namespace

TEST_CASE("values to count by are names, paths and built-in variables") {
  CHECK(described("path") == "path");
  CHECK(described("path,comm,tid,pid,stack") == "path comm! tid! pid! stack!");
  CHECK(described("req->size, ret") == "req->size ret");
}

TEST_CASE("a declared argument has precedence over a built-in variable of its name") {
  const std::vector lists = {list_of("pid:s32,sig:s32")};
  CHECK(described("pid,comm", lists) == "pid comm!");
  CHECK(described("pid,$pid,$comm", lists) == "pid $pid! $comm!");
  CHECK(described("$size") == "'$size' is not a value");
}

TEST_CASE("values to count by are not empty, repeated or too many") {
  CHECK(described("") == "missing value in '' (expected for example path, comm or arg0)");
  CHECK(described("a,,b") == "missing value in 'a,,b' (expected for example path, comm or arg0)");
  CHECK(described("a,b,a") == "'a' given twice");
  CHECK(described("a,b,c,d,e,f,g,h,i") == "more than 8 values");
  CHECK(described("a b") == "'a b' is not a value");
}

TEST_CASE("values to count by are known at the entry or at the return") {
  const auto reads = [](std::string_view text) {
    const GroupSpec groups = *parse_groups(text, {});
    return std::pair(groups.reads_arguments(), groups.reads_result());
  };
  CHECK(reads("arg0,comm") == std::pair(true, false));
  CHECK(reads("ret") == std::pair(false, true));
  CHECK(reads("ret->size,arg0") == std::pair(true, true));
  CHECK(reads("comm,stack") == std::pair(false, false));
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

} // namespace uprobectl::events
