// SPDX-License-Identifier: Apache-2.0
// The bytes are those that the linkers wrote, copied from objdump's listings: GNU ld 2.40, lld 19.
#include "symbols/plt.hpp"

#include <catch2/catch.hpp>

#include <sstream>

namespace uprobectl::symbols {

namespace {

const elf::Machine x86_64(62);
const elf::Machine i386(3, false);
const elf::Machine arm64(183);
const elf::Machine arm(40, false);

std::string from_hex(const std::string& hex) {
  std::istringstream words(hex);
  std::string bytes;
  for (unsigned value = 0; words >> std::hex >> value;) bytes += static_cast<char>(value);
  return bytes;
}

std::string from_words(std::initializer_list<std::uint32_t> words) {
  std::string bytes;
  for (const std::uint32_t word : words)
    for (unsigned shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(word >> shift);
  return bytes;
}

// "address+size>slot" of every stub.
std::string stubs(const elf::Machine& machine, std::uint64_t address, const std::string& bytes,
                  std::optional<VirtualAddress> got = std::nullopt) {
  std::ostringstream text;
  text << std::hex;
  for (const PltStub& stub : find_plt_stubs(machine, {as_bytes(bytes), {address}}, got))
    text << (text.str().empty() ? "" : " ") << stub.address.value << '+' << stub.size << '>'
         << stub.slot.value;
  return text.str();
}

} // namespace

TEST_CASE("x86-64 entries are entered where callers jump to") {
  // .plt, bound lazily: the push and the second jump belong to the entry.
  CHECK(stubs(x86_64, 0x1010, from_hex("ff 25 ea 2f 00 00 68 00 00 00 00 e9 e0 ff ff ff")) ==
        "1010+10>4000");
  // .plt.sec with IBT: the endbr64 is part of it.
  CHECK(stubs(x86_64, 0x1040, from_hex("f3 0f 1e fa ff 25 b6 2f 00 00 66 0f 1f 44 00 00")) ==
        "1040+10>4000");
  // .plt.sec as older linkers wrote it, with a bnd prefix.
  CHECK(stubs(x86_64, 0x1040, from_hex("f3 0f 1e fa f2 ff 25 b5 2f 00 00 0f 1f 44 00 00")) ==
        "1040+10>4000");
  CHECK(stubs(x86_64, 0x1040, from_hex("f2 ff 25 b9 2f 00 00 90")) == "1040+8>4000");
  // .plt.got
  CHECK(stubs(x86_64, 0x1038, from_hex("ff 25 c2 2f 00 00 66 90")) == "1038+8>4000");
  // mold with IBT: endbr64; mov $0, %r11d; jmp *disp(%rip)
  CHECK(stubs(x86_64, 0x1040, from_hex("f3 0f 1e fa 41 bb 00 00 00 00 ff 25 b0 2f 00 00")) ==
        "1040+10>4000");
}

TEST_CASE("the lazy half of an IBT PLT is not an entry") {
  CHECK(stubs(x86_64, 0x1010, from_hex("f3 0f 1e fa 68 00 00 00 00 e9 e2 ff ff ff 66 90")).empty());
  // PLT0: push *disp(%rip); jmp *disp(%rip), the jump at no entry's address.
  CHECK(stubs(x86_64, 0x1000, from_hex("ff 35 ea 2f 00 00 ff 25 ec 2f 00 00 0f 1f 40 00")).empty());
}

TEST_CASE("a jump at an odd address or cut short is not an entry") {
  CHECK(stubs(x86_64, 0x1011, from_hex("ff 25 ea 2f 00 00 66 90")).empty());
  CHECK(stubs(x86_64, 0x1010, from_hex("ff 25 ea 2f 00")).empty());
  CHECK(stubs(x86_64, 0x1010, from_hex("ff")).empty());
}

TEST_CASE("i386 entries jump through an address or relative to the GOT") {
  CHECK(stubs(i386, 0x1010, from_hex("ff a3 0c 00 00 00 68 00 00 00 00 e9 e0 ff ff ff"),
              VirtualAddress{0x3ff4}) == "1010+10>4000");
  CHECK(stubs(i386, 0x1040, from_hex("f3 0f 1e fb ff a3 f0 ff ff ff 66 0f 1f 44 00 00"),
              VirtualAddress{0x3ff4}) == "1040+10>3fe4");
  CHECK(stubs(i386, 0x8049010, from_hex("ff 25 0c c0 04 08 68 00 00 00 00 e9 e0 ff ff ff")) ==
        "8049010+10>804c00c");
  CHECK(stubs(i386, 0x1010, from_hex("ff a3 0c 00 00 00 68 00 00 00 00")).empty()); // no DT_PLTGOT
}

TEST_CASE("arm64 entries are found with and without BTI and PAC") {
  CHECK(stubs(arm64, 0x104c0, from_words({0x90000110, 0xf942ea11, 0x91174210, 0xd61f0220})) ==
        "104c0+10>305d0");
  const std::string pac =
      from_words({0x90000110, 0xf9434211, 0x911a0210, 0xd503219f, 0xd61f0220, 0xd503201f});
  CHECK(stubs(arm64, 0x10550, pac) == "10550+18>30680");
  const std::string bti =
      from_words({0xd503245f, 0x90000110, 0xf9435211, 0x911a8210, 0xd61f0220, 0xd503201f});
  CHECK(stubs(arm64, 0x10570, bti) == "10570+18>306a0");
  const std::string both =
      from_words({0xd503245f, 0x90000110, 0xf9435a11, 0x911ac210, 0xd503219f, 0xd61f0220});
  CHECK(stubs(arm64, 0x10570, both) == "10570+18>306b0");
}

TEST_CASE("arm64 slots may lie below the code") {
  // adrp x16, -2 pages
  CHECK(stubs(arm64, 0x104c0, from_words({0xd0fffff0, 0xf942ea11, 0x91174210, 0xd61f0220})) ==
        "104c0+10>e5d0");
}

TEST_CASE("arm64 code that is cut short or ends in no branch is not an entry") {
  CHECK(stubs(arm64, 0x104c0, from_words({0x90000110, 0xf942ea11, 0x91174210})).empty());
  CHECK(stubs(arm64, 0x104c0, from_words({0x90000110, 0xf942ea11, 0xd65f03c0})).empty());
}

TEST_CASE("arm entries add up rotated constants") {
  CHECK(stubs(arm, 0x102e0, from_words({0xe28fc600, 0xe28cca20, 0xe5bcf090})) == "102e0+c>30378");
}

TEST_CASE("PLTs of other machines are not guessed at") {
  const elf::Machine riscv(243);
  CHECK_FALSE(has_plt_decoder(riscv));
  CHECK(stubs(riscv, 0x1010, from_hex("ff 25 ea 2f 00 00 68 00 00 00 00")).empty());
}

} // namespace uprobectl::symbols
