// SPDX-License-Identifier: Apache-2.0
#include "symbolize/open_files.hpp"

#include "mapped_here.hpp"
#include "uprobectl/symbolize.hpp"
#include "util/mapped_file.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <sys/resource.h>

namespace uprobectl::symbolize {

using namespace uprobectl::test;

namespace {

std::vector<std::size_t> closed(std::vector<OpenFile> files, const OpenFileLimits& limits) {
  std::vector<std::size_t> indexes = choose_files_to_close(files, limits);
  std::ranges::sort(indexes);
  return indexes;
}

using Indexes = std::vector<std::size_t>;

// Opens the files at their paths.
class FilesHere final : public FileSource {
public:
  Result<MappedObject> open(const process::Mapping& mapping) override {
    auto file = MappedFile::open(mapping.path);
    if (!file) return fail(std::move(file).error());
    const auto owner = std::make_shared<const MappedFile>(std::move(*file));
    return MappedObject{owner->bytes(), owner, owner};
  }
};

process::Mapping whole_file(const std::string& path) {
  process::Mapping mapping;
  mapping.start = 0x10000;
  mapping.end = 0x20000;
  mapping.executable = mapping.readable = true;
  mapping.path = path;
  mapping.identity = identity_of(path);
  return mapping;
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd"))
    count += each.path().filename() != "." ? 1 : 0;
  return count;
}

bool is_mapped_by_nobody(const ModuleCache::FileKey& /*key*/) { return false; }

} // namespace

TEST_CASE("of unmapped files the deleted ones are closed first, then those used long ago") {
  const std::vector<OpenFile> files = {{.last_use = 5},
                                       {.is_deleted = true, .last_use = 9},
                                       {.last_use = 7},
                                       {.is_deleted = true, .last_use = 8},
                                       {.is_mapped = true, .last_use = 1}};
  CHECK(closed(files, {}).empty());
  CHECK(closed(files, {.deleted = 1}) == Indexes{3});
  CHECK(closed(files, {.unmapped = 3}) == Indexes{3});
  CHECK(closed(files, {.unmapped = 1}) == Indexes{0, 1, 3});
}

TEST_CASE("files that processes map are closed only if there are too many descriptors") {
  const std::vector<OpenFile> files = {{.is_mapped = true, .last_use = 3, .size = 100},
                                       {.is_mapped = true, .is_deleted = true, .last_use = 4},
                                       {.last_use = 9, .size = 60},
                                       {.last_use = 8, .size = 50}};
  CHECK(closed(files, {.unmapped_bytes = 100, .deleted = 0}) == Indexes{3});
  CHECK(closed(files, {.files = 2}) == Indexes{2, 3});
  CHECK(closed(files, {.files = 1}) == Indexes{1, 2, 3});
}

TEST_CASE("deleted files that no process maps are closed, but kept frames keep their names") {
  const std::string folder = temporary_folder();
  ModuleCache cache;
  FilesHere files;
  const std::size_t before = open_descriptors();
  Module* kept = nullptr;
  VirtualAddress entry;
  std::string name;
  for (int i = 0; i < 40; ++i) {
    const std::string path = folder + "/" + std::to_string(i);
    std::filesystem::copy_file("/bin/true", path);
    const process::Mapping mapping = whole_file(path);
    Module* const module = cache.module_at(mapping, FileOffset{0x1000}, {}, files);
    REQUIRE(module->image() != nullptr);
    if (i == 0) {
      kept = module;
      entry = *module->image()->entry_point();
      module->keep_frame(entry);
      name = module->frame(entry)->text;
    }
    std::filesystem::remove(path);
  }
  CHECK(open_descriptors() >= before + 40);
  CHECK(cache.is_crowded());
  REQUIRE(cache.make_room(is_mapped_by_nobody));
  CHECK(cache.known_files() == 8);
  CHECK(open_descriptors() <= before + 8);
  CHECK_FALSE(cache.is_crowded());
  CHECK_FALSE(cache.make_room(is_mapped_by_nobody));
  CHECK(kept->image() == nullptr);
  CHECK(kept->has_addresses());
  CHECK(kept->frame(entry)->text == name);
  std::filesystem::remove_all(folder);
}

TEST_CASE("of deleted files whose stacks are named at the end of a run 128 stay open") {
  const std::string folder = temporary_folder();
  ModuleCache cache;
  cache.keep_unmapped();
  FilesHere files;
  for (int i = 0; i < 140; ++i) {
    const std::string path = folder + "/" + std::to_string(i);
    std::filesystem::copy_file("/bin/true", path);
    REQUIRE(cache.module_at(whole_file(path), FileOffset{0x1000}, {}, files)->image() != nullptr);
    std::filesystem::remove(path);
  }
  CHECK(cache.is_crowded());
  CHECK(cache.make_room(is_mapped_by_nobody));
  CHECK(cache.known_files() == 128);
  std::filesystem::remove_all(folder);
}

TEST_CASE("at the limit of descriptors files are closed for new ones") {
  const std::string folder = temporary_folder();
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const rlimit few{.rlim_cur = open_descriptors() + 20, .rlim_max = limit.rlim_max};
  std::vector<std::string> paths;
  for (int i = 0; i < 40; ++i) {
    paths.push_back(folder + "/" + std::to_string(i));
    std::filesystem::copy_file("/bin/true", paths.back());
  }
  std::vector<process::Mapping> mappings;
  for (const std::string& path : paths) mappings.push_back(whole_file(path));
  ModuleCache cache;
  FilesHere files;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  std::size_t rooms = 0;
  for (const process::Mapping& mapping : mappings) {
    if (cache.module_at(mapping, FileOffset{0x1000}, {}, files)->image() != nullptr) continue;
    if (!cache.lacks_descriptors()) break;
    ++rooms;
    if (!cache.make_room([](const ModuleCache::FileKey&) { return true; })) break;
  }
  const bool has_names =
      cache.module_at(mappings.back(), FileOffset{0x1000}, {}, files)->image() != nullptr;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  CHECK(rooms > 0);
  CHECK(has_names);
  std::filesystem::remove_all(folder);
}

} // namespace uprobectl::symbolize
