// SPDX-License-Identifier: Apache-2.0
#include "verify/record_file.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::verify {

namespace {

Result<std::vector<RecordedMatch>> read_lines(std::initializer_list<const char*> lines) {
  RecordFileReader reader("folder/");
  for (const char* line : lines)
    if (auto read = reader.read_line(line); !read) return fail(std::move(read).error());
  return reader.take();
}

} // namespace

TEST_CASE("a short record has the build id of each library once, in any order") {
  const auto matches = read_lines({
      R"({"type":"record","version":1})",
      R"({"type":"point","target":"./a.so","request":"f","symbol":"f","source_file":"a.c","offset":"0x10"})",
      "",
      R"({"type":"point","target":"../b.apk!/lib/x86_64/b.so","request":"g","symbol":"g",)"
      R"("offset":"0x1010","image_offset":"0x10"})",
      R"({"type":"build","target":"./a.so","build_id":"aa"})",
  });
  REQUIRE(matches);
  REQUIRE(matches->size() == 2);
  CHECK((*matches)[0].target == "folder/a.so");
  CHECK((*matches)[0].image_offset == ImageOffset{0x10});
  CHECK((*matches)[0].build_id == "aa");
  CHECK((*matches)[0].source_file == "a.c");
  CHECK_FALSE((*matches)[1].source_file);
  CHECK((*matches)[0].line == 2);
  CHECK((*matches)[1].target == "folder/../b.apk!/lib/x86_64/b.so");
  CHECK((*matches)[1].entry == "lib/x86_64/b.so");
  CHECK((*matches)[1].image_offset == ImageOffset{0x10});
  CHECK_FALSE((*matches)[1].build_id);
  CHECK((*matches)[1].line == 4);
}

TEST_CASE("match records and points may be in one file") {
  const auto matches = read_lines({
      R"({"type":"match","target":"x.so","request":"f","offset":"0x10","image_offset":"0x10"})",
      R"({"type":"point","target":"libc.so.6","request":"g","offset":"0x20"})",
  });
  REQUIRE(matches);
  REQUIRE(matches->size() == 2);
  CHECK((*matches)[0].target == "x.so");
  CHECK((*matches)[1].target == "libc.so.6"); // a name that is searched
}

TEST_CASE("a static probe in a short record") {
  const auto matches = read_lines({
      R"({"type":"point","target":"./a.so","request":"p:n","symbol":"p:n","offset":"0x10",)"
      R"("semaphore_address":"0x4040","raw_arguments":"4@%eax"})",
  });
  REQUIRE(matches);
  REQUIRE(matches->size() == 1);
  CHECK((*matches)[0].semaphore == VirtualAddress{0x4040});
  CHECK((*matches)[0].raw_arguments == "4@%eax");
}

TEST_CASE("details of a point are read") {
  const auto matches = read_lines({
      R"({"type":"point","target":"./a.so","request":"f","symbol":"f","offset":"0x10","details":)"
      R"({"parameters":[{"name":"c","type_name":"conn *"}],"result":"int","members":[{"structure":"conn",)"
      R"("name":"port","type_name":"unsigned short","offset":16,"size":2}],"exits":[4,32],"code":"f3c3",)"
      R"("pages":["relro"]}})",
  });
  REQUIRE(matches);
  REQUIRE(matches->size() == 1);
  REQUIRE((*matches)[0].details);
  const resolve::PointDetails& details = *(*matches)[0].details;
  REQUIRE(details.parameters);
  REQUIRE(details.parameters->size() == 1);
  CHECK((*details.parameters)[0].type == "conn *");
  CHECK(details.result == "int");
  REQUIRE(details.structures.size() == 1);
  CHECK(details.structures[0]->name == "conn");
  REQUIRE(details.structures[0]->members.size() == 1);
  CHECK(details.structures[0]->members[0].offset == 16);
  CHECK(details.exits == std::vector<std::int64_t>{4, 32});
  CHECK(details.pages == std::vector<std::string>{"relro"});
}

TEST_CASE("a damaged record is one error") {
  const auto [line, message] = GENERATE(table<const char*, const char*>({
      {R"({"type":"record"})", "version: expected a number"},
      {R"({"type":"record","version":-1})",
       "version: expected a number of at most 18446744073709551615"},
      {R"({"type":"record","version":2})", "version 2 of records is not supported, only 1"},
      {R"({"type":"build","target":"./a.so"})", "build_id: expected text"},
      {R"({"type":"point","request":"f","offset":"0x1"})", "target: expected text"},
      {R"({"type":"point","target":"a","request":"f"})",
       R"(offset: expected a hexadecimal number in quotes, such as "0x1a20")"},
      {R"({"type":"point","target":"a","request":"f","offset":12})",
       R"(offset: expected a hexadecimal number in quotes, such as "0x1a20")"},
      {R"({"type":"point","target":"a","request":"f","offset":"0x1","raw_arguments":""})",
       "symbol: expected PROVIDER:NAME"},
      {R"({"type":"point","target":"a","request":"f","offset":"0x1","details":[]})",
       "details: expected an object"},
      {R"({"type":"point","target":"a","request":"f","offset":"0x1",)"
       R"("details":{"members":[],"exits":[1,"4"]}})",
       "details.exits[1]: expected a number"},
      {R"({"type":"match","target":"a","request":"f","image_offset":"0x1"})",
       "offset: expected a number or null"},
      {R"({"type":"match","target":"a","request":"f","offset":null,"image_offset":"0x1","symbol":7})",
       "symbol: expected text"},
      {R"({"type":"usdt","target":"a","request":"p:f","offset":null,"image_offset":"0x1",)"
       R"("provider":"p","name":"f"})",
       "raw_arguments: expected text"},
      {R"({"type":"point")", "invalid JSON"},
      {R"({"target":"a"})", "record without a type"},
  }));
  const auto matches = read_lines({line});
  REQUIRE_FALSE(matches);
  CHECK(matches.error().message == message);
}

TEST_CASE("a usdt record, and the match of an inlined instance in an inner archive") {
  const auto matches = read_lines({
      R"({"type":"usdt","target":"a.so","request":"p:n","file":"/a.so","offset":"0x10",)"
      R"("image_offset":"0x10","provider":"p","name":"n","semaphore_address":"0x4040",)"
      R"("raw_arguments":"4@%eax","build_id":"aa"})",
      R"({"type":"match","target":"b.apks!*","request":"f","file":"/b.apks","container":"base.apk",)"
      R"("entry":"lib/x.so","offset":"0x1010","image_offset":"0x10","symbol":"f",)"
      R"("inlined_into":{"symbol":"main"},"inlined":"tiny"})",
      R"({"type":"match","target":"a.so","request":"g","offset":"0x1","image_offset":"0x1",)"
      R"("inlined":"tiny"})",
  });
  REQUIRE(matches);
  REQUIRE(matches->size() == 3);
  CHECK((*matches)[0].symbol == "p:n");
  CHECK((*matches)[0].semaphore == VirtualAddress{0x4040});
  CHECK((*matches)[0].build_id == "aa");
  CHECK((*matches)[1].entry == "base.apk!/lib/x.so");
  CHECK((*matches)[1].is_inlined);
  CHECK_FALSE((*matches)[2].is_inlined); // a line in an inlined function
}

TEST_CASE("paths of a record are relative to its folder") {
  CHECK(target_in_folder("./a.so", "records/") == "records/a.so");
  CHECK(target_in_folder("./a.so", ".") == "./a.so");
  CHECK(target_in_folder("a.so", "records/") == "a.so");
  CHECK(target_in_folder("/a.so", "records/") == "/a.so");
  CHECK(target_in_folder("./a.so", std::nullopt) == "./a.so");
  CHECK(relative_target("/proc/self/exe", "/proc/self") == "./exe");
  CHECK(relative_target("/proc/self/exe!/lib/x.so", "/proc") == "./self/exe!/lib/x.so");
  CHECK(relative_target("/proc/self/exe!x.so", "/proc") == "./self/exe!x.so");
  CHECK(relative_target("libc.so.6", "/proc") == "libc.so.6");
}

} // namespace uprobectl::verify
