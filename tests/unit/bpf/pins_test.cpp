// SPDX-License-Identifier: Apache-2.0
// What is kept beside pins, and names of pins. Those of Android's loader are of AOSP's objects.
#include "bpf/pin_list.hpp"
#include "bpf/pinned_object.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::bpf {

namespace {

// The content of a map: the size, which is little-endian, and the bytes after it.
std::vector<std::byte> kept(std::uint8_t size, std::string_view bytes) {
  std::vector<std::byte> content(8);
  content[0] = std::byte{size};
  for (const char each : bytes) content.push_back(static_cast<std::byte>(each));
  return content;
}

std::optional<std::string> file_in(const std::vector<std::byte>& content) {
  const auto file = find_kept_file(content);
  if (!file) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(file->data()), file->size());
}

} // namespace

TEST_CASE("a kept object file has the size that is kept with it") {
  CHECK(file_in(kept(3, "ELF")) == "ELF");
  CHECK(file_in(kept(3, "ELF\0\0")) == "ELF");
  CHECK(file_in(kept(0, "ELF"))->empty());
  CHECK_FALSE(file_in(kept(4, "ELF")));
  CHECK_FALSE(file_in(std::vector<std::byte>(7)));
  std::vector<std::byte> huge = kept(3, "ELF");
  std::fill_n(huge.begin(), 8, std::byte{0xff});
  CHECK_FALSE(file_in(huge));
}

TEST_CASE("pins of Android's loader tell object, program and direction") {
  const auto entry = parse_loader_name("prog_BitmapAllocation_uprobe_bitmap_constructor_heap");
  REQUIRE(entry);
  CHECK(entry->object == "BitmapAllocation");
  CHECK(entry->program == "uprobe_bitmap_constructor_heap");
  CHECK_FALSE(entry->on_return);
  const auto on_return = parse_loader_name("prog_my_object_uretprobe_x");
  REQUIRE(on_return);
  CHECK(on_return->object == "my_object");
  CHECK(on_return->program == "uretprobe_x");
  CHECK(on_return->on_return);
  CHECK(parse_loader_name("prog_calls_uprobe")->program == "uprobe");
  CHECK(parse_loader_name("prog_x_uretprobe_on_uprobe")->on_return);
  for (const char* const other : {"prog_netd_skfilter_egress_xtbpf", "map_calls_uprobe_x", "prog_",
                                  "prog__uprobe_x", "uprobe_x", ""})
    CHECK_FALSE(parse_loader_name(other));
}

} // namespace uprobectl::bpf
