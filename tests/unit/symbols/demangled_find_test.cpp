// SPDX-License-Identifier: Apache-2.0
#include "elf_fixture.hpp"
#include "uprobectl/symbols.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::symbols {

using namespace uprobectl::test;

namespace {

// C++ and Rust functions at 0x1000, 0x1010, ... in this order.
std::string cxx_image() {
  return elf_from_yaml(R"yaml(--- !ELF
FileHeader: { Class: ELFCLASS64, Data: ELFDATA2LSB, Type: ET_DYN, Machine: EM_X86_64 }
ProgramHeaders:
  - { Type: PT_LOAD, Flags: [PF_R, PF_X], VAddr: 0x1000, FirstSec: .text, LastSec: .text }
Sections:
  - { Name: .text, Type: SHT_PROGBITS, Flags: [SHF_ALLOC, SHF_EXECINSTR], Address: 0x1000, Size: 0x100 }
Symbols:
  - { Name: _ZN2ns3Foo3barEi, Type: STT_FUNC, Section: .text, Value: 0x1000, Size: 16 }
  - { Name: _ZN2ns3Foo3barEPc, Type: STT_FUNC, Section: .text, Value: 0x1010, Size: 16 }
  - { Name: _Z3maxIiET_S0_S0_, Type: STT_FUNC, Section: .text, Value: 0x1020, Size: 16 }
  - { Name: _ZN3FoomlERKS_, Type: STT_FUNC, Section: .text, Value: 0x1030, Size: 16 }
  - { Name: _ZN12_GLOBAL__N_16hiddenEv, Type: STT_FUNC, Section: .text, Value: 0x1040, Size: 16 }
  - { Name: _ZN4core3fmt5write17h0123456789abcdefE, Type: STT_FUNC, Section: .text, Value: 0x1050, Size: 16 }
  - { Name: _ZN2ns3Foo3barEi.cold, Type: STT_FUNC, Section: .text, Value: 0x1060, Size: 16 }
  - { Name: plain, Type: STT_FUNC, Section: .text, Value: 0x1070, Size: 16 }
...
)yaml");
}

std::vector<std::uint64_t> found_demangled(std::string_view name) {
  const std::string bytes = cxx_image();
  const auto symbols = find_by_demangled_name(parse_image(bytes), name);
  REQUIRE(symbols);
  std::vector<std::uint64_t> result;
  for (const auto& symbol : *symbols) result.push_back(symbol.address.value);
  return result;
}

using Addresses = std::vector<std::uint64_t>;

} // namespace

TEST_CASE("a qualified name finds every overload, with parameters one, and no clones") {
  CHECK(found_demangled("ns::Foo::bar") == Addresses{0x1000, 0x1010});
  CHECK(found_demangled("ns::Foo::bar(int)") == Addresses{0x1000});
  CHECK(found_demangled("ns::Foo::bar(char *)") == Addresses{0x1010});
  CHECK(found_demangled("Foo::bar").empty());
  CHECK(found_demangled("ns::Foo::ba").empty());
}

TEST_CASE("templates, operators, anonymous namespaces and Rust paths are found as written") {
  CHECK(found_demangled("max<int>") == Addresses{0x1020});
  CHECK(found_demangled("max<int>(int, int)") == Addresses{0x1020});
  CHECK(found_demangled("int max<int>(int, int)") == Addresses{0x1020});
  CHECK(found_demangled("Foo::operator*(Foo const&)") == Addresses{0x1030});
  CHECK(found_demangled("(anonymous namespace)::hidden") == Addresses{0x1040});
  CHECK(found_demangled("core::fmt::write") == Addresses{0x1050});
  CHECK(found_demangled("plain").empty());
}

TEST_CASE("patterns match demangled names with and without parameters") {
  const std::string bytes = cxx_image();
  const auto image = parse_image(bytes);
  CHECK(list_symbols(image, {.patterns = {"ns::*::bar"}})->size() == 2);
  CHECK(list_symbols(image, {.patterns = {"*(char*)"}})->size() == 1);
  CHECK(list_symbols(image, {.patterns = {"_ZN2ns*"}})->size() == 3);
  CHECK(list_symbols(image, {.patterns = {"core::*"}})->size() == 1);
}

TEST_CASE("suggestions reach into qualified names") {
  const std::string bytes = cxx_image();
  const auto image = parse_image(bytes);
  CHECK(nearest_names(image, "ns::Foo::baz") == std::vector<std::string>{"ns::Foo::bar"});
  CHECK(nearest_names(image, "hiden") == std::vector<std::string>{"(anonymous namespace)::hidden"});
  CHECK(nearest_names(image, "core::fmt::wrote") == std::vector<std::string>{"core::fmt::write"});
}

} // namespace uprobectl::symbols
