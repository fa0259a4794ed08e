// SPDX-License-Identifier: Apache-2.0
#include "debug_fixture.hpp"
#include "elf/debug_file.hpp"
#include "zip_builder.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::elf {

using namespace uprobectl::test;

namespace {

// Returns the result of a search for the symbols of a library in the folder. The system's folder is
// searched, too.
DebugReport search(const Folder& folder, const Stripped& what,
                   const std::vector<std::string>& paths = {}) {
  const auto path = folder.put("app/libfoo.so", stripped_elf(what));
  auto image = Image::open({path, std::nullopt});
  REQUIRE(image);
  auto report = image->add_debug_file({.paths = paths, .system_folder = folder.path() + "/debug"});
  CHECK(image->debug_symbols().size() == (report.used ? 1 : 0));
  return report;
}

ZipEntry deflated_entry(const std::string& name, const std::string& content) {
  ZipEntry entry{.name = name, .data = deflated(content), .method = 8, .flags = 8};
  entry.compressed = static_cast<std::uint32_t>(entry.data.size());
  entry.size = static_cast<std::uint32_t>(content.size());
  entry.crc = crc32_of(content);
  return entry;
}

using Texts = std::vector<std::string>;

} // namespace

TEST_CASE("a debug file is found by build id in the system's folder") {
  const Folder folder;
  const auto file = folder.put("debug/.build-id/0a/1b2c3d4e.debug", symbols_elf());
  CHECK(search(folder, {}).used == file);
  CHECK_FALSE(search(folder, {.build_id = "0a1b2c3d4f"}).used);
  CHECK_FALSE(search(folder, {.build_id = ""}).used);
}

TEST_CASE("a debug file is found through .gnu_debuglink in three folders") {
  const std::string content = symbols_elf();
  const Stripped linked{.debug_link = debug_link("libfoo.debug", crc32_of(content))};
  for (const std::string name : {"app/libfoo.debug", "app/.debug/libfoo.debug", "debug"}) {
    const Folder folder;
    const auto file =
        folder.put(name == "debug" ? "debug" + folder.path() + "/app/libfoo.debug" : name, content);
    CHECK(search(folder, linked).used == file);
  }
}

TEST_CASE("a debug file with the wrong CRC is named and not used") {
  const Folder folder;
  const auto file = folder.put("app/libfoo.debug", symbols_elf() + "x");
  const std::string crc = "00000001";
  const auto report = search(folder, {.debug_link = debug_link("libfoo.debug", 1)});
  CHECK_FALSE(report.used);
  REQUIRE(report.warnings.size() == 1);
  CHECK(report.warnings[0].starts_with("the symbol file " + file + " is not used: its CRC is 0x"));
  CHECK(report.warnings[0].ends_with(".gnu_debuglink says 0x" + crc));
}

TEST_CASE("a linked debug file without build ids is matched by CRC") {
  const Folder folder;
  const std::string content = symbols_elf({.build_id = ""});
  const auto file = folder.put("app/libfoo.debug", content);
  const Stripped linked{.build_id = "",
                        .debug_link = debug_link("libfoo.debug", crc32_of(content))};
  CHECK(search(folder, linked).used == file);
  CHECK(search(folder, linked).warnings.empty());
}

TEST_CASE("a link cannot lead out of the folders that are searched") {
  const Folder folder;
  const std::string content = symbols_elf();
  folder.put("libfoo.debug", content);
  CHECK_FALSE(
      search(folder, {.debug_link = debug_link("../libfoo.debug", crc32_of(content))}).used);
  CHECK_FALSE(search(folder, {.debug_link = std::string(200, 'n')}).used);
  CHECK_FALSE(search(folder, {.debug_link = std::string("n\0\0\0\1", 5)}).used);
}

TEST_CASE("a debug file of another build is named and not used, wherever it is") {
  const Folder folder;
  const auto other = folder.put("symbols/deep/libfoo.so", symbols_elf({.build_id = "beef"}));
  const Texts expected = {"the symbol file " + other +
                          " is not used: its build id is beef, not 0a1b2c3d4e"};
  CHECK(search(folder, {}, {folder.path() + "/symbols"}).warnings == expected);
  CHECK(search(folder, {}, {other}).warnings == expected);

  const std::string content = symbols_elf({.build_id = "beef"});
  const auto linked = folder.put("app/libfoo.debug", content);
  CHECK(search(folder, {.debug_link = debug_link("libfoo.debug", crc32_of(content))}).warnings ==
        Texts{"the symbol file " + linked + " is not used: its build id is beef, not 0a1b2c3d4e"});
}

TEST_CASE("a folder is searched by build id, then by name, then file by file") {
  const Folder folder;
  const std::string symbols = folder.path() + "/symbols";
  const auto odd = folder.put("symbols/b/anything", symbols_elf());
  folder.put("symbols/a/libfoo.so", stripped_elf({})); // the stripped one: no symbols, no complaint
  folder.put("symbols/a/text", "no ELF file");
  CHECK(search(folder, {}, {symbols}).used == odd);
  CHECK(search(folder, {}, {symbols}).warnings.empty());
  const auto named = folder.put("symbols/c/libfoo.so.dbg", symbols_elf());
  CHECK(search(folder, {}, {symbols}).used == named);
  const auto by_id = folder.put("symbols/.build-id/0a/1b2c3d4e.debug", symbols_elf());
  CHECK(search(folder, {}, {symbols}).used == by_id);
}

TEST_CASE("a folder with a loop of links is searched once") {
  const Folder folder;
  const auto file = folder.put("symbols/deep/foo", symbols_elf());
  std::filesystem::create_directory_symlink("..", folder.path() + "/symbols/deep/up");
  CHECK(search(folder, {}, {folder.path() + "/symbols"}).used == file);
}

TEST_CASE("the folders are searched in order, before the system's") {
  const Folder folder;
  folder.put("debug/.build-id/0a/1b2c3d4e.debug", symbols_elf());
  const auto second = folder.put("second.debug", symbols_elf());
  const auto first = folder.put("first.debug", "junk");
  const auto report = search(folder, {}, {first, second});
  CHECK(report.used == second);
  CHECK(report.warnings == Texts{"the symbol file " + first + " is not used: not an ELF file"});
}

TEST_CASE("a debug directory without a matching file is named") {
  const Folder folder;
  const auto symbols = folder.path() + "/symbols";
  folder.put("symbols/text", "no ELF file");
  CHECK(search(folder, {}, {symbols}).warnings ==
        Texts{symbols + " has no symbol file with build id 0a1b2c3d4e"});
  CHECK(search(folder, {.build_id = ""}, {symbols}).warnings ==
        Texts{symbols + " has no symbol file named libfoo.so"});
}

TEST_CASE("without build ids only a named file is taken, with a warning") {
  const Folder folder;
  const auto file = folder.put("symbols/libfoo.so", symbols_elf({.build_id = ""}));
  const auto report = search(folder, {.build_id = ""}, {folder.path() + "/symbols"});
  CHECK(report.used == file);
  REQUIRE(report.warnings.size() == 1);
  CHECK(report.warnings[0].starts_with(file + " may be of another build: "));
  CHECK(search(folder, {}, {file}).warnings ==
        Texts{"the symbol file " + file +
              " is not used: it has no build id, the binary has 0a1b2c3d4e"});
}

TEST_CASE("a symbol file for another machine or without symbols is refused") {
  const Folder folder;
  const auto arm = folder.put("arm", symbols_elf({.machine = "EM_AARCH64"}));
  const auto empty = folder.put("empty", symbols_elf({.symtab = false}));
  CHECK(search(folder, {}, {arm, empty}).warnings ==
        Texts{"the symbol file " + arm + " is not used: it is for arm64, not for x86-64",
              "the symbol file " + empty + " is not used: it has no .symtab"});
}

TEST_CASE("a ZIP of symbol files gives the entry with the build id") {
  const Folder folder;
  const std::string right = symbols_elf();
  const std::string other = symbols_elf({.build_id = "beef"});
  const auto zip =
      folder.put("native-debug-symbols.zip",
                 ZipFile{.entries = {deflated_entry("arm64-v8a/libfoo.so",
                                                    symbols_elf({.machine = "EM_AARCH64"})),
                                     deflated_entry("old/libfoo.so", other),
                                     deflated_entry("x86_64/libbar.so", other),
                                     deflated_entry("x86_64/renamed.so", right)}}
                     .bytes());
  const auto report = search(folder, {}, {zip});
  CHECK(report.used == zip + "!/x86_64/renamed.so");
  CHECK(report.warnings == Texts{"the symbol file " + zip +
                                 "!/old/libfoo.so is not used: its build id is beef, not "
                                 "0a1b2c3d4e"});
}

TEST_CASE("a damaged entry of a ZIP of symbol files is named") {
  const Folder folder;
  auto entry = deflated_entry("x86_64/libfoo.so", symbols_elf());
  entry.crc = 1;
  const auto zip = folder.put("symbols.zip", ZipFile{.entries = {entry}}.bytes());
  const auto report = search(folder, {}, {zip});
  CHECK_FALSE(report.used);
  REQUIRE(report.warnings.size() == 1);
  CHECK(report.warnings[0].find("does not have the CRC") != std::string::npos);
}

TEST_CASE("a debug file that was found for its symbols is not searched again") {
  const Folder folder;
  auto image = Image::open({folder.put("libf.so", stripped_elf({})), std::nullopt});
  REQUIRE(image);
  const std::string symbols = folder.put(".build-id/0a/1b2c3d4e.debug", symbols_elf());
  const DebugSearch where{.system_folder = folder.path()};
  REQUIRE(image->add_debug_file(where).used == symbols);
  std::filesystem::remove(symbols);
  const auto found = elf::find_debug_file(*image, where);
  REQUIRE(found);
  CHECK(found->source == symbols);
}

} // namespace uprobectl::elf
