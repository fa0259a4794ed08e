// SPDX-License-Identifier: Apache-2.0
#include "elf/relocations.hpp"
#include "util/numbers.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

namespace uprobectl::elf {

namespace {

std::vector<std::byte> bytes_of(std::string_view digits) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes.push_back(std::byte{parse_number<std::uint8_t>(digits.substr(i, 2), 16).value()});
  return bytes;
}

// "address:symbol:type+addend " of each.
std::string packed(std::string_view digits, bool is_64bit = true, bool has_addends = true,
                   std::uint64_t max_count = 100) {
  const std::vector<std::byte> bytes = bytes_of(digits);
  PackedRelocations relocations(bytes, is_64bit, has_addends);
  std::string text;
  while (const auto each = relocations.next(max_count)) {
    text += fmt::format("{:x}:{}:{}", each->address.value, each->symbol, each->type);
    text += each->addend ? fmt::format("+{:x} ", *each->addend) : " ";
  }
  return text;
}

} // namespace

// The bytes are .rela.dyn and .rel.dyn of libraries that ld.lld 19 has linked with
// --pack-dyn-relocs=android, what they mean is as llvm-readelf -r prints it.
TEST_CASE("packed relocations are those that the linker has packed") {
  CHECK(packed("415053320d00010bf0c80008f0ea00070b080804040404040404050898018680808010f4947f08"
               "8680808020000886808080c000000886808080d000009020818080801000") ==
        "2470:0:8+3570 2478:0:8+3574 2480:0:8+3578 2488:0:8+357c 2490:0:8+3580 2498:0:8+3584 "
        "24a0:0:8+3588 24a8:0:8+358c 2540:1:6+0 2548:2:6+0 2550:4:6+0 2558:5:6+0 3568:1:1+0 ");
  CHECK(packed("415053320c000103b0860817070304170400ec00950404950804950a8880048202", false,
               false) == "20330:0:23 20334:0:23 20338:0:23 2033c:0:23 20340:0:23 20344:0:23 "
                         "20348:0:23 2034c:0:23 203b8:2:21 203bc:4:21 203c0:5:21 303c8:1:2 ");
}

TEST_CASE("addends of groups of packed relocations add up, and end with a group without any") {
  // Two of one addend, one without, one with its own: each begins at the last one.
  CHECK(packed("4150533204"
               "8002"       // before 0x100
               "020f080810" // 8 apart, type 8, addend 0x10
               "01030808"   // no addend
               "010b080805") == "108:0:8+10 110:0:8+10 118:0:8+0 120:0:8+5 ");
}

TEST_CASE("damaged packed relocations end where they are damaged") {
  const std::string_view two = "415053320200020908087f087f";
  CHECK(packed(two) == "8:0:8+ffffffffffffffff 10:0:8+fffffffffffffffe ");
  CHECK(packed(two.substr(0, two.size() - 2)) == "8:0:8+ffffffffffffffff ");
  CHECK(packed("4150533102000209080801080f").empty()); // "APS1"
  CHECK(packed("41505332").empty());
  CHECK(packed("4150533202").empty());
  CHECK(packed("415053320200000008").empty()); // a group of none
  CHECK(packed(two, true, false).empty());     // DT_ANDROID_REL has no addends
  CHECK(packed("41505332ffffffff0700ffffffff07030808", true, true, 3) ==
        "8:0:8+0 10:0:8+0 18:0:8+0 "); // a few bytes stand for 2^31
}

} // namespace uprobectl::elf
