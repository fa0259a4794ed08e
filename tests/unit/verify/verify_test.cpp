// SPDX-License-Identifier: Apache-2.0
#include "verify/record_file.hpp"
#include "verify/verify.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::verify {

namespace {

RecordedMatch recorded(const char* symbol, std::uint64_t image_offset, std::uint64_t offset) {
  RecordedMatch match;
  match.request = symbol;
  match.symbol = symbol;
  match.image_offset = {image_offset};
  match.offset = FileOffset{offset};
  return match;
}

resolve::ProbePoint point(const char* symbol, std::uint64_t image_offset, std::uint64_t offset) {
  resolve::ProbePoint point;
  point.binary = std::make_shared<const resolve::ProbedBinary>();
  point.request = symbol;
  point.symbol = symbol;
  point.image_offset = {image_offset};
  point.offset = {offset};
  return point;
}

std::vector<output::Finding> compare(std::vector<RecordedMatch> then,
                                     std::vector<resolve::ProbePoint> now) {
  return compare_matches(then, now, "x.so", Pairing::in_one_file);
}

Result<std::optional<RecordedMatch>> read_match(std::string_view line) {
  RecordFileReader reader(std::nullopt);
  if (auto read = reader.read_line(line); !read) return fail(std::move(read).error());
  const auto matches = reader.take();
  return matches.empty() ? std::nullopt : std::optional(matches.front());
}

} // namespace

TEST_CASE("unchanged locations have no drift") {
  std::vector<resolve::ProbePoint> now(1);
  now[0] = point("f", 0x10, 0x1010);
  CHECK(compare_matches(std::vector{recorded("f", 0x10, 0x1010)}, now, "x.so", Pairing::in_one_file)
            .empty());
}

TEST_CASE("a function that lies elsewhere in its image has moved, with its archive or not") {
  std::vector<resolve::ProbePoint> now;
  now.push_back(point("f", 0x20, 0x2020));
  const auto drifts = compare({recorded("f", 0x10, 0x1010)}, std::move(now));
  REQUIRE(drifts.size() == 1);
  CHECK(drifts[0].change == output::Change::function_moved);
  CHECK(drifts[0].recorded == "0x1010");
  CHECK(drifts[0].found == "0x2020");
}

TEST_CASE("an entry that lies elsewhere in its archive takes its functions along") {
  std::vector<resolve::ProbePoint> now;
  now.push_back(point("f", 0x10, 0x5010));
  const auto drifts = compare({recorded("f", 0x10, 0x1010)}, std::move(now));
  REQUIRE(drifts.size() == 1);
  CHECK(drifts[0].change == output::Change::archive_moved);
}

TEST_CASE("missing symbols are gone, additional ones are new") {
  std::vector<resolve::ProbePoint> now;
  now.push_back(point("g", 0x10, 0x10));
  const auto drifts = compare({recorded("f", 0x10, 0x10)}, std::move(now));
  REQUIRE(drifts.size() == 2);
  CHECK(drifts[0].change == output::Change::gone);
  CHECK(drifts[0].symbol == "f");
  CHECK_FALSE(drifts[0].found);
  CHECK(drifts[1].change == output::Change::added);
  CHECK(drifts[1].symbol == "g");
  CHECK_FALSE(drifts[1].recorded);
}

TEST_CASE("another name of a recorded function is not new, a name of another function is") {
  const auto binary = std::make_shared<const resolve::ProbedBinary>();
  std::vector<resolve::ProbePoint> now;
  for (auto [name, offset] : {std::pair("added", 0x10), {"f", 0x10}, {"g", 0x20}}) {
    now.push_back(point(name, static_cast<std::uint64_t>(offset), 0x10));
    now.back().binary = binary;
  }
  drop_other_names(std::vector{recorded("f", 0x10, 0x10)}, now, Pairing::in_one_file);
  REQUIRE(now.size() == 2);
  CHECK(now[0].symbol == "f");
  CHECK(now[1].symbol == "g");
}

TEST_CASE("matches are paired by name and version") {
  auto then = recorded("f", 0x10, 0x10);
  then.version = "V1";
  auto now = point("f", 0x10, 0x10);
  now.version = "V2";
  std::vector<resolve::ProbePoint> points;
  points.push_back(std::move(now));
  CHECK(compare({then}, std::move(points)).size() == 2);
}

TEST_CASE("several locations with one name are paired in order") {
  std::vector<resolve::ProbePoint> now;
  now.push_back(point("f", 0x10, 0x10));
  now.push_back(point("f", 0x30, 0x30));
  const auto drifts =
      compare({recorded("f", 0x10, 0x10), recorded("f", 0x20, 0x20)}, std::move(now));
  REQUIRE(drifts.size() == 1);
  CHECK(drifts[0].change == output::Change::function_moved);
  CHECK(drifts[0].recorded == "0x20");
  CHECK(drifts[0].found == "0x30");
}

TEST_CASE("local functions of one name are paired by their source files") {
  const auto in_file = [](auto match, const char* file) {
    match.source_file = file;
    return match;
  };
  const std::vector then = {in_file(recorded("s", 0x10, 0x10), "a.c"),
                            in_file(recorded("s", 0x20, 0x20), "b.c")};
  std::vector<resolve::ProbePoint> swapped;
  swapped.push_back(in_file(point("s", 0x10, 0x10), "b.c"));
  swapped.push_back(in_file(point("s", 0x20, 0x20), "a.c"));
  const auto moved = compare(then, swapped);
  REQUIRE(moved.size() == 2);
  CHECK(moved[0].recorded == "0x10");
  CHECK(moved[0].found == "0x20");
  CHECK(moved[1].recorded == "0x20");
  CHECK(moved[1].found == "0x10");
  std::vector<resolve::ProbePoint> other;
  other.push_back(in_file(point("s", 0x10, 0x10), "c.c"));
  other.push_back(in_file(point("s", 0x20, 0x20), "b.c"));
  const auto replaced = compare(then, std::move(other));
  REQUIRE(replaced.size() == 2);
  CHECK(replaced[0].change == output::Change::gone);
  CHECK(replaced[1].change == output::Change::added);
  // Records of earlier versions have no files.
  CHECK(
      compare({recorded("s", 0x10, 0x10), recorded("s", 0x20, 0x20)}, std::move(swapped)).empty());
}

TEST_CASE("a match record is read back, other records are skipped") {
  const auto match = read_match(
      R"({"type":"match","target":"x.apk!/a.so","request":"f","file":"/x.apk","entry":"a.so",)"
      R"("offset":"0x1010","image_offset":"0x10","address":"0x10","symbol":"f","symbol_offset":"0x4",)"
      R"("version":null,"build_id":"abcd","key_of_tomorrow":[1]})");
  REQUIRE(match);
  REQUIRE(*match);
  CHECK((*match)->target == "x.apk!/a.so");
  CHECK((*match)->entry == "a.so");
  CHECK((*match)->offset == FileOffset{0x1010});
  CHECK((*match)->image_offset == ImageOffset{0x10});
  CHECK((*match)->symbol_offset.value == 4);
  CHECK_FALSE((*match)->version);
  CHECK((*match)->build_id == "abcd");
  const auto other = read_match(R"({"type":"error","code":"not_found"})");
  REQUIRE(other);
  CHECK_FALSE(*other);
}

TEST_CASE("the match of a compressed library has neither file nor offset") {
  const auto match = read_match(
      R"({"type":"match","target":"x.apk!/a.so","request":"f","file":null,"entry":"a.so",)"
      R"("offset":null,"image_offset":"0x10"})");
  REQUIRE(match);
  REQUIRE(*match);
  CHECK_FALSE((*match)->file);
  CHECK_FALSE((*match)->offset);
  CHECK((*match)->image_offset == ImageOffset{0x10});
}

TEST_CASE("matches of a compressed library are compared by their location in it") {
  RecordedMatch then = recorded("f", 0x10, 0);
  then.offset.reset();
  std::vector<resolve::ProbePoint> now(1);
  now[0] = point("f", 0x10, 0);
  now[0].offset.reset();
  CHECK(compare_matches(std::vector{then}, now, "x.so", Pairing::in_one_file).empty());
  now[0].image_offset = {0x20};
  const auto moved = compare_matches(std::vector{then}, now, "x.so", Pairing::in_one_file);
  REQUIRE(moved.size() == 1);
  CHECK(moved[0].change == output::Change::function_moved);
  CHECK(moved[0].recorded == "0x10");
  CHECK(moved[0].found == "0x20");
}

TEST_CASE("a library that is no longer compressed has moved, even to an offset of the same value") {
  RecordedMatch then = recorded("f", 0x10, 0);
  then.offset.reset();
  std::vector<resolve::ProbePoint> now(1);
  now[0] = point("f", 0x10, 0x10);
  const auto moved = compare_matches(std::vector{then}, now, "x.so", Pairing::in_one_file);
  REQUIRE(moved.size() == 1);
  CHECK(moved[0].change == output::Change::archive_moved);
}

TEST_CASE("invalid records are rejected") {
  for (const char* line :
       {"nonsense", "[]", "{}", R"({"type":3})", R"({"type":"match"})",
        R"({"type":"match","target":"x","request":"f","offset":16,"image_offset":"0x1"})",
        R"({"type":"match","target":"x","request":"f","offset":"0xzz","image_offset":"0x1"})",
        R"({"type":"match","target":"x","request":"f","image_offset":"0x1"})",
        R"({"type":"match","target":"x","request":"f","offset":null,"image_offset":null})"}) {
    INFO(line);
    const auto match = read_match(line);
    REQUIRE_FALSE(match);
    CHECK(match.error().kind == ErrorKind::corrupt);
  }
}

TEST_CASE("a record that is nested too deeply for the parser is rejected") {
  const auto match = read_match(R"({"type":"match","x":)" + std::string(1 << 20, '['));
  REQUIRE_FALSE(match);
  CHECK(match.error().message == "record of too many values, or nested too deeply");
}

} // namespace uprobectl::verify
