// SPDX-License-Identifier: Apache-2.0
#include "verify/details.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::verify {

namespace {

using ChangeRow = std::tuple<output::Change, std::string, std::string, std::string>;

resolve::PointDetails with_structure(std::vector<resolve::DetailMember> members) {
  resolve::PointDetails details{.parameters = {{{.name = "item", .type = "Item *"}}},
                                .result = "int"};
  details.structures.push_back(std::make_shared<const resolve::DetailStructure>(
      resolve::DetailStructure{.name = "Item", .members = std::move(members)}));
  return details;
}

std::vector<ChangeRow> compare(const resolve::PointDetails& recorded,
                               const resolve::PointDetails& current) {
  std::vector<ChangeRow> rows;
  for (const DetailChange& change : compare_details(recorded, current, Arch::x86_64, false))
    rows.emplace_back(change.change, change.reason.value_or(change.member),
                      change.recorded.value_or("none"), change.found.value_or("none"));
  return rows;
}

} // namespace

TEST_CASE("members move, change their types and disappear") {
  const resolve::PointDetails recorded = with_structure(
      {{.name = "id", .type = "int", .size = 4},
       {.name = "flag", .type = "int", .offset = 4, .size = 4, .bit_offset = 3, .bit_size = 1},
       {.name = "old", .type = "long", .offset = 8, .size = 8}});
  const resolve::PointDetails current = with_structure(
      {{.name = "id", .type = "long", .size = 8},
       {.name = "flag", .type = "int", .offset = 8, .size = 4, .bit_offset = 3, .bit_size = 1},
       {.name = "added", .type = "int", .offset = 12, .size = 4}});
  CHECK(compare(recorded, current) ==
        std::vector<ChangeRow>{
            {output::Change::member_moved, "Item.id", "0 (4 bytes)", "0 (8 bytes)"},
            {output::Change::type_changed, "Item.id", "int", "long"},
            {output::Change::member_moved, "Item.flag", "4 (4 bytes), bits 3+1",
             "8 (4 bytes), bits 3+1"},
            {output::Change::member_moved, "Item.old", "8 (8 bytes)", "none"}});
  CHECK(compare(recorded, recorded).empty());
}

TEST_CASE("a record that has the first members only does not lose the others") {
  const resolve::PointDetails recorded =
      with_structure({{.name = "first", .type = "int", .size = 4}});
  const resolve::PointDetails current =
      with_structure({{.name = "first", .type = "int", .size = 4},
                      {.name = "last", .type = "int", .offset = 4, .size = 4}});
  CHECK(compare(recorded, current).empty());
}

TEST_CASE("the members of a structure that is only declared are not checked") {
  const resolve::PointDetails recorded = with_structure({{.name = "id", .type = "int", .size = 4}});
  CHECK(compare(recorded, with_structure({})) ==
        std::vector<ChangeRow>{
            {output::Change::not_checked, "the members of 'Item' are not known", "none", "none"}});
}

TEST_CASE("another type leads to other structures") {
  const resolve::PointDetails recorded = with_structure({{.name = "id", .type = "int", .size = 4}});
  const resolve::PointDetails current{.parameters = {{{.name = "item", .type = "Thing *"}}},
                                      .result = "int"};
  CHECK(compare(recorded, current) ==
        std::vector<ChangeRow>{{output::Change::type_changed, "item", "Item *", "Thing *"}});
}

TEST_CASE("locations are compared if both are known") {
  const auto with_location = [](std::optional<std::string> location) {
    resolve::PointDetails details{
        .parameters = {{{.name = "n", .type = "int", .location = location}}}};
    details.variables.push_back({.name = "counter", .type = "long", .location = "[0x4010]"});
    return details;
  };
  resolve::PointDetails current = with_location("rsi");
  CHECK(compare(with_location(std::nullopt), current).empty());
  CHECK(compare(with_location("rdi"), current) ==
        std::vector<ChangeRow>{{output::Change::arguments, "n", "rdi", "rsi"}});
  current.variables.front().location = "[0x4020]";
  CHECK(compare(with_location("rsi"), current) ==
        std::vector<ChangeRow>{{output::Change::arguments, "counter", "[0x4010]", "[0x4020]"}});
  current.variables.clear();
  CHECK(compare(with_location("rsi"), current) ==
        std::vector<ChangeRow>{{output::Change::type_changed, "counter", "long", "none"}});
}

TEST_CASE("exits in a cold part before the function are negative") {
  resolve::PointDetails recorded;
  recorded.exits = {{-176, 16}};
  resolve::PointDetails current;
  current.exits = {{-192, 16}};
  CHECK(compare(recorded, current) == std::vector<ChangeRow>{{output::Change::exits_changed, "",
                                                              "-0xb0, +0x10", "-0xc0, +0x10"}});
}

TEST_CASE(
    "a library that pages of 16 KiB could not map loses nothing by another rule of segments") {
  resolve::PointDetails recorded{.pages = {"segment_alignment"}};
  CHECK(compare(recorded, {.pages = {"relro", "segment_alignment"}}).empty());
  CHECK(compare(recorded, {.pages = {"archive_alignment"}}) ==
        std::vector<ChangeRow>{
            {output::Change::page_size, "it breaks the rule archive_alignment", "none", "none"}});
  recorded.pages.clear();
  CHECK(compare(recorded, {.pages = {"relro"}}) ==
        std::vector<ChangeRow>{
            {output::Change::page_size, "it breaks the rule relro", "none", "none"}});
}

TEST_CASE("code whose relative addresses have changed is not other code, unlike another constant") {
  const resolve::PointDetails recorded{.code = "488d3d001000008b4708c3"}; // lea 0x1000(%rip), %rdi
  CHECK(compare(recorded, {.code = "488d3d002000008b4708c3"}).empty());
  CHECK(compare(recorded, {.code = "488d3d002000008b4710c3"}) ==
        std::vector<ChangeRow>{{output::Change::code_changed, "", "488d3d001000008b4708c3",
                                "488d3d002000008b4710c3"}});
  CHECK(compare({.code = "not hexadecimal"}, {.code = "90"}).size() == 1);
}

} // namespace uprobectl::verify
