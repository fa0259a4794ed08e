// SPDX-License-Identifier: Apache-2.0
#include "frame_data.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::unwind {

using namespace uprobectl::test;

namespace {

constexpr std::uint64_t section_at = 0x4000;
constexpr std::uint64_t header_at = 0x3000;

// Functions at 0x1000, 0x1100 and 0x1200, of 0x80 bytes each, and where their entries lie.
struct Three {
  FrameBytes data;
  std::uint64_t cie_at = data.cie("zR", 16, {0x0c, 7, 8});
  std::uint64_t entries[3] = {data.fde(section_at, cie_at, 0x1000, 0x80, {}),
                              data.fde(section_at, cie_at, 0x1100, 0x80, {}),
                              data.fde(section_at, cie_at, 0x1200, 0x80, {})};

  FrameFinder finder(std::optional<FrameHeader> header = std::nullopt) const {
    return {eh_frame(data, section_at), {0, data.at()}, true, header};
  }
};

std::optional<std::uint64_t> begin_of(FrameFinder& finder, std::uint64_t address) {
  const auto found = finder.find(address);
  if (!found) return std::nullopt;
  return found->fde.begin;
}

// .eh_frame_hdr as linkers write it: the frames' address relative to itself, rows relative to it.
FrameBytes header_of(std::initializer_list<std::pair<std::uint64_t, std::uint64_t>> rows) {
  FrameBytes header;
  header.put({1, 0x1b, 0x03, 0x3b}).number(4, section_at - (header_at + 4)).number(4, rows.size());
  for (const auto& [begin, at] : rows)
    header.number(4, begin - header_at).number(4, section_at + at - header_at);
  return header;
}

} // namespace

TEST_CASE("an entry covers its function only") {
  const Three three;
  FrameFinder finder = three.finder();
  CHECK(begin_of(finder, 0x1000) == 0x1000);
  CHECK(begin_of(finder, 0x107f) == 0x1000);
  CHECK_FALSE(begin_of(finder, 0x1080));
  CHECK(begin_of(finder, 0x1210) == 0x1200);
  CHECK_FALSE(begin_of(finder, 0xfff));
}

TEST_CASE("the linker's table leads to the entry") {
  const Three three;
  const FrameBytes bytes = header_of({{0x1000, three.entries[0]}, {0x1200, three.entries[2]}});
  const auto header = read_frame_header(as_bytes(bytes.bytes), {header_at});
  REQUIRE(header);
  CHECK(header->frames == section_at);
  CHECK(find_fde(*header, 0x1000) == section_at + three.entries[0]);
  CHECK(find_fde(*header, 0x11ff) == section_at + three.entries[0]);
  CHECK(find_fde(*header, 0x1200) == section_at + three.entries[2]);
  CHECK_FALSE(find_fde(*header, 0xfff));
  FrameFinder finder = three.finder(header);
  CHECK(begin_of(finder, 0x1204) == 0x1200);
  CHECK(begin_of(finder, 0x1104) == 0x1100); // which the table does not have
}

TEST_CASE("a wrong search table does not hide entries") {
  const Three three;
  const FrameBytes unsorted = header_of(
      {{0x1200, three.entries[2]}, {0x1100, three.entries[1]}, {0x1000, three.entries[0]}});
  const FrameBytes crossed =
      header_of({{0x1000, three.entries[1]}, {0x1100, three.entries[2]}, {0x1200, 0x7fff0000}});
  for (const FrameBytes& bytes : {unsorted, crossed}) {
    FrameFinder finder = three.finder(read_frame_header(as_bytes(bytes.bytes), {header_at}));
    CHECK(begin_of(finder, 0x1000) == 0x1000);
    CHECK(begin_of(finder, 0x1104) == 0x1100);
    CHECK(begin_of(finder, 0x1204) == 0x1200);
  }
}

TEST_CASE("a table's rows are counted by the bytes that are there") {
  FrameBytes bytes = header_of({{0x1000, 0}});
  bytes.bytes[8] = '\x7f'; // says 127 rows
  const auto header = read_frame_header(as_bytes(bytes.bytes), {header_at});
  REQUIRE(header);
  CHECK(header->table.size() == 8);
  CHECK_FALSE(read_frame_header(as_bytes(bytes.bytes.substr(0, 6)), {header_at}));
  bytes.bytes[0] = 2;
  CHECK_FALSE(read_frame_header(as_bytes(bytes.bytes), {header_at}));
}

TEST_CASE("an invalid entry only affects itself") {
  FrameBytes data;
  const auto good = data.cie("zR", 16, {0x0c, 7, 8});
  const auto unknown = data.cie("zQR", 16, {0x0c, 7, 8}); // 'Q' may be of any size
  data.fde(section_at, unknown, 0x1000, 0x80, {});
  data.fde(section_at, 0x7000, 0x1080, 0x80, {});                        // its CIE is not there
  data.entry(FrameBytes().number(4, data.at() + 4 - good).number(2, 7)); // ends within its address
  data.fde(section_at, good, 0x1100, 0x80, {});
  FrameFinder finder(eh_frame(data, section_at), {0, data.at()}, true);
  CHECK_FALSE(begin_of(finder, 0x1000));
  CHECK_FALSE(begin_of(finder, 0x1090));
  CHECK(begin_of(finder, 0x1100) == 0x1100);
}

TEST_CASE("known augmentation letters are read, the data after them is skipped") {
  FrameBytes data;
  FrameBytes body; // personality by an indirect pointer, LSDA, pointers, signal frame, key, tags
  body.number(4, 0).put({1}).text("zPLRSBG").put({4, 0x7c, 30, 7, 0x9b, 1, 2, 3, 4, 0x1b, 0x1b});
  data.entry(body.put({0x0c, 31, 0}));
  const auto whole = read_cie(eh_frame(data, 0), 0);
  REQUIRE(whole);
  CHECK(whole->code_alignment == 4);
  CHECK(whole->data_alignment == -4);
  CHECK(whole->return_register == 30);
  CHECK(whole->pointer_encoding == 0x1b);
  CHECK(whole->signal_frame);
  CHECK(whole->instructions.end - whole->instructions.begin == 3);
}

TEST_CASE("an augmentation has at most 16 letters, as entries may name one CIE after the other") {
  FrameBytes data;
  const auto longest = data.cie("zR" + std::string(14, 'B'), 16, {0x0c, 7, 8});
  const auto longer = data.cie("zR" + std::string(15, 'B'), 16, {0x0c, 7, 8});
  CHECK(read_cie(eh_frame(data, 0), longest));
  const auto refused = read_cie(eh_frame(data, 0), longer);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == ErrorKind::corrupt);
}

TEST_CASE("a truncated entry only affects itself") {
  for (const unsigned length : {1, 2, 3}) {
    FrameBytes data;
    const auto cie_at = data.cie("zR", 16, {0x0c, 7, 8});
    data.fde(section_at, cie_at, 0x1000, 0x80, {});
    data.number(4, length).bytes.append(length, '\0');
    data.fde(section_at, cie_at, 0x1100, 0x80, {});
    for (const bool is_end_known : {true, false}) {
      FrameFinder finder(eh_frame(data, section_at), {0, data.at()}, is_end_known);
      CHECK(begin_of(finder, 0x1000) == 0x1000);
      CHECK(begin_of(finder, 0x1104) == 0x1100);
    }
  }
}

TEST_CASE("where its end is not known an entry of length 0 ends the section") {
  FrameBytes data;
  const auto cie_at = data.cie("zR", 16, {0x0c, 7, 8});
  data.number(4, 0);
  data.fde(section_at, cie_at, 0x1000, 0x80, {});
  FrameFinder known(eh_frame(data, section_at), {0, data.at()}, true);
  FrameFinder unknown(eh_frame(data, section_at), {0, data.at()}, false);
  CHECK(begin_of(known, 0x1000) == 0x1000);
  CHECK_FALSE(begin_of(unknown, 0x1000));
}

TEST_CASE(".debug_frame has its own marks and absolute addresses, in both formats") {
  for (const bool wide : {false, true}) {
    const unsigned size = wide ? 8 : 4;
    FrameBytes data;
    const auto begin_entry = [&](std::uint64_t length) {
      if (wide) data.number(4, 0xffffffff);
      data.number(size, length);
    };
    FrameBytes cie; // version 4: address size, segment selector size
    cie.number(size, ~std::uint64_t{0}).put({4}).text("").put({8, 0, 1, 0x78, 16, 0x0c, 7, 8});
    begin_entry(cie.at());
    data.bytes += cie.bytes;
    FrameBytes fde;
    fde.number(size, 0).number(8, 0x1000).number(8, 0x80).put({0x0e, 16});
    begin_entry(fde.at());
    data.bytes += fde.bytes;
    FrameFinder finder(debug_frame(data), {0, data.at()}, true);
    const auto found = finder.find(0x1010);
    REQUIRE(found);
    CHECK(found->fde.begin == 0x1000);
    CHECK(found->fde.size == 0x80);
    CHECK(found->cie.return_register == 16);
    CHECK(found->cie.data_alignment == -8);
  }
}

TEST_CASE("entries dropped by the linker do not hide others") {
  FrameBytes data;
  const auto cie_at = data.cie("zR", 16, {0x0c, 7, 8});
  data.fde(section_at, cie_at, 0, 0x10000, {});
  data.fde(section_at, cie_at, 0x1000, 0x80, {});
  FrameFinder finder(eh_frame(data, section_at), {0, data.at()}, true);
  CHECK(begin_of(finder, 0x1010) == 0x1000);
  CHECK_FALSE(begin_of(finder, 0x2000));
}

TEST_CASE("pointers are read as their encoding says") {
  const std::string bytes("\xfc\xff\xff\xff\xff\xff\xff\xff\x05", 9);
  const auto read = [&](unsigned encoding) {
    elf::DwarfCursor cursor(as_bytes(bytes), ByteOrder::little);
    return read_pointer(cursor, static_cast<std::uint8_t>(encoding), 0x2000, 0x9000);
  };
  CHECK(read(0x00) == 0xfffffffffffffffc);
  CHECK(read(0x02) == 0xfffc);
  CHECK(read(0x0a) == 0xfffffffffffffffc);
  CHECK(read(0x03) == 0xfffffffc);
  CHECK(read(0x1b) == 0x1ffc);             // relative to where it stands
  CHECK(read(0x3b) == 0x8ffc);             // relative to the data
  CHECK(read(0x09) == 0x05fffffffffffffc); // sleb128: eight bytes that continue and 5 << 56
  CHECK_FALSE(read(0xff));
  CHECK_FALSE(read(0x9b)); // indirect
  CHECK_FALSE(read(0x2b)); // relative to the text
}

} // namespace uprobectl::unwind
