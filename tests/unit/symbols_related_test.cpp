// SPDX-License-Identifier: Apache-2.0
#include "elf_fixture.hpp"
#include "symbols/classify.hpp"
#include "uprobectl/symbols.hpp"

#include <catch2/catch.hpp>

using namespace uprobectl;
using namespace uprobectl::test;

namespace {

std::string base(std::string_view raw) {
  const auto clone = parse_clone_name(raw);
  return clone ? std::string(clone->base) + (clone->cold ? " cold" : "") : "none";
}

// .text at 0x201000. In place: two C++ functions folded, one C function with an alias.
constexpr std::string_view kin_yaml = R"yaml(--- !ELF
FileHeader: { Class: ELFCLASS64, Data: ELFDATA2LSB, Type: ET_DYN, Machine: EM_X86_64 }
ProgramHeaders:
  - { Type: PT_LOAD, Flags: [PF_R, PF_X], VAddr: 0x201000, Offset: 0x1000, FirstSec: .text, LastSec: .text }
Sections:
  - { Name: .text, Type: SHT_PROGBITS, Flags: [SHF_ALLOC, SHF_EXECINSTR], Address: 0x201000, Offset: 0x1000, Size: 0x200 }
Symbols:
  - { Name: f, Type: STT_FUNC, Section: .text, Value: 0x201010, Size: 0x10 }
  - { Name: f.constprop.0, Type: STT_FUNC, Section: .text, Value: 0x201020, Size: 0x10 }
  - { Name: f.isra.0.part.1, Type: STT_FUNC, Section: .text, Value: 0x201030, Size: 0x10 }
  - { Name: f.cold, Type: STT_FUNC, Section: .text, Value: 0x201040, Size: 0x10 }
  - { Name: f.text, Type: STT_FUNC, Section: .text, Value: 0x201050, Size: 0x10 }
  - { Name: ff.constprop.0, Type: STT_FUNC, Section: .text, Value: 0x201060, Size: 0x10 }
  - { Name: f_alias, Type: STT_FUNC, Section: .text, Value: 0x201010, Size: 0x10, Binding: STB_GLOBAL }
  - { Name: _ZN1A3getEv, Type: STT_FUNC, Section: .text, Value: 0x201070, Size: 0x10, Binding: STB_GLOBAL }
  - { Name: _ZN1B4sizeEv, Type: STT_FUNC, Section: .text, Value: 0x201070, Size: 0x10, Binding: STB_GLOBAL }
  - { Name: _ZN1CC1Ev, Type: STT_FUNC, Section: .text, Value: 0x201080, Size: 0x10, Binding: STB_GLOBAL }
  - { Name: _ZN1CC2Ev, Type: STT_FUNC, Section: .text, Value: 0x201080, Size: 0x10, Binding: STB_GLOBAL }
  - { Name: _ZN2ns4goneEv.constprop.0, Type: STT_FUNC, Section: .text, Value: 0x201090, Size: 0x10 }
...
)yaml";

std::string related_names(const std::vector<elf::Symbol>& symbols) {
  std::string text;
  for (const elf::Symbol& symbol : symbols)
    text += (text.empty() ? "" : " ") + std::string(symbol.name);
  return text;
}

RelatedSymbols related_to(const elf::Image& image, std::string_view name) {
  const auto functions = find_by_name(image, name);
  REQUIRE(functions);
  return find_related(image, *functions);
}

} // namespace

TEST_CASE("clones that need not take the function's arguments are distinguished from other parts") {
  for (const std::string_view name : {"f.constprop.0", "f.isra.0", "f.part.3", "f.isra.0.part.1",
                                      "f.constprop.0.cold", "_ZN1A1fEv.constprop.12"})
    CHECK(has_other_arguments(name));
  for (const std::string_view name : {"f", "f.cold", "f.llvm.123", "f.lto_priv.0", "f.__uniq.12",
                                      "part.0", "f.partial.0", "f.text"})
    CHECK_FALSE(has_other_arguments(name));
}

TEST_CASE("names derived by compilers are parsed") {
  CHECK(base("f.constprop.0") == "f");
  CHECK(base("f.isra.0.part.1") == "f");
  CHECK(base("f.cold") == "f cold");
  CHECK(base("f.constprop.0.cold.3") == "f cold");
  CHECK(base("_ZN3foo3barEv.llvm.1234567890") == "_ZN3foo3barEv");
  CHECK(base("a.b.lto_priv.0") == "a.b");
  CHECK(base("f.__uniq.12") == "f");
}

TEST_CASE("names that only look derived are kept") {
  CHECK(base("f") == "none");
  CHECK(base("f.1") == "none"); // a static variable or function of an inner scope
  CHECK(base("f.text") == "none");
  CHECK(base(".cold") == "none");
  CHECK(base("constprop.0") == "none");
  CHECK(base("") == "none");
  CHECK(base(".") == "none");
}

TEST_CASE("the clones of a function and the names of its place are found") {
  const std::string bytes = elf_from_yaml(kin_yaml);
  const auto image = parse_image(bytes);
  const RelatedSymbols related = related_to(image, "f");
  CHECK(related_names(related.clones) == "f.constprop.0 f.isra.0.part.1 f.cold");
  CHECK(related_names(related.aliases) == "f_alias");
  CHECK(related_to(image, "f.text").clones.empty());
}

TEST_CASE("clones are found where the function itself is gone, as written too") {
  const std::string bytes = elf_from_yaml(kin_yaml);
  const auto image = parse_image(bytes);
  CHECK(related_names(find_clones_by_name(image, "ff")) == "ff.constprop.0");
  CHECK(related_names(find_clones_by_name(image, "ns::gone")) == "_ZN2ns4goneEv.constprop.0");
  CHECK(related_names(find_clones_by_name(image, "ns::gone()")) == "_ZN2ns4goneEv.constprop.0");
  CHECK(find_clones_by_name(image, "nothing").empty());
}

TEST_CASE("functions folded to one place are distinguished from aliases by their C++ names") {
  const std::string bytes = elf_from_yaml(kin_yaml);
  const auto image = parse_image(bytes);
  const auto differ = [&](std::string_view name) {
    const auto own = find_by_name(image, name);
    REQUIRE(own);
    const RelatedSymbols related = related_to(image, name);
    REQUIRE(related.aliases.size() == 1);
    return are_different_functions(own->front(), related.aliases.front());
  };
  CHECK(differ("_ZN1A3getEv"));
  CHECK_FALSE(differ("f"));         // C names: an alias for all that is known
  CHECK_FALSE(differ("_ZN1CC1Ev")); // complete and base object constructor
}

TEST_CASE("aliases are the other names of an address, each once") {
  const std::string bytes = elf_from_yaml(kin_yaml);
  const auto all = list_symbols(parse_image(bytes), {});
  REQUIRE(all);
  using Names = std::vector<std::string>;
  CHECK(all->aliases({0x201010}, "f") == Names{"f_alias"});
  CHECK(all->aliases({0x201070}, "_ZN1B4sizeEv") == Names{"_ZN1A3getEv"});
  CHECK(all->aliases({0x201020}, "f.constprop.0").empty());
  // One name in two versions is one name.
  const std::string versioned = sample_elf();
  const auto symbols = list_symbols(parse_image(versioned), {});
  CHECK(symbols->aliases({0x201040}, "same").empty());
}
