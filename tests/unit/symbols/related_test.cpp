// SPDX-License-Identifier: Apache-2.0
#include "elf_fixture.hpp"
#include "symbols/bodies.hpp"
#include "uprobectl/symbols.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::symbols {

using namespace uprobectl::test;

namespace {

std::string base(std::string_view raw) {
  const auto clone = parse_clone_name(raw);
  return clone ? std::string(clone->base) + (clone->kind == SuffixKind::cold ? " cold" : "")
               : "none";
}

// The name of the function that a symbol is a body or part of.
std::string_view function_of(std::string_view raw) {
  const auto clone = parse_clone_name(raw);
  return clone ? clone->function : raw;
}

// .text at 0x201000. There: two C++ functions folded, one C function with an alias.
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
  CHECK(base("f.1") == "f"); // a static function of another file, or of an inner scope
  CHECK(base("f.1.llvm.5") == "f");
  CHECK(base("constprop.0") == "constprop");
}

TEST_CASE("suffixes of renamed functions belong to the function, those of clones do not") {
  CHECK(function_of("f.llvm.5") == "f.llvm.5");
  CHECK(function_of("f.llvm.5.specialized.1") == "f.llvm.5");
  CHECK(function_of("f.__uniq.12.llvm.34") == "f.__uniq.12.llvm.34");
  CHECK(function_of("f.constprop.0.lto_priv.0") == "f");
  CHECK(function_of("f.localalias") == "f");
  CHECK(function_of("_Z1fv.7.isra.0") == "_Z1fv.7");
  CHECK(function_of("f.7") == "f.7");
  CHECK(function_of("f.7.isra.0") == "f.7");
  // A part of a coroutine f: f(f()::_Z1fv.Frame*).
  CHECK(function_of("_Z1fPZ1fvE11_Z1fv.Frame.actor") == "_Z1fPZ1fvE11_Z1fv.Frame");
  CHECK(function_of("_Z1fPZ1fvE11_Z1fv.Frame.new.actor") == "_Z1fPZ1fvE11_Z1fv.Frame");
  CHECK_FALSE(is_clone("_Z1fPZ1fvE11_Z1fv.Frame"));
  for (const std::string_view name : {"f.llvm.5", "f.lto_priv.0", "f.__uniq.12", "f.3", "f"})
    CHECK_FALSE(is_clone(name));
  for (const std::string_view name :
       {"f.specialized.1", "_Z1fv.avx2", "_Z1fv.sse4.2.0", "_Z1fv._Msve2", "f.cfi", "_Z1fv.new"})
    CHECK(is_clone(name));
  CHECK(parse_clone_name("f.part.0")->kind == SuffixKind::piece);
  CHECK(parse_clone_name("_Z1fv.resume")->kind == SuffixKind::piece);
  CHECK(is_cold_part("f.part.0.cold"));
  CHECK(is_cold_part("_Z1fv.warm"));
}

TEST_CASE("dots in the path of a legacy Rust name are not suffixes") {
  constexpr std::string_view name =
      "_ZN4core3ptr33read_volatile$LT$a..b..C$GT$17h0123456789abcdefE";
  CHECK(base(name) == "none");
  CHECK(base(std::string(name) + ".llvm.12") == name);
}

TEST_CASE("names that only look derived are kept") {
  CHECK(base("f") == "none");
  CHECK(base("main.init.0") == "none"); // of Go
  CHECK(base("f.text") == "none");
  CHECK(base(".cold") == "none");
  CHECK(base("f.1.") == "none");
  CHECK(base("") == "none");
  CHECK(base(".") == "none");
}

TEST_CASE("the clones of a function and the names of its address are found") {
  const std::string bytes = elf_from_yaml(kin_yaml);
  const auto image = parse_image(bytes);
  const RelatedSymbols related = related_to(image, "f");
  CHECK(related_names(related.clones) == "f.constprop.0 f.isra.0.part.1 f.cold f.text");
  CHECK(related_names(related.aliases) == "f_alias");
  CHECK(related_to(image, "f.text").clones.empty());
}

TEST_CASE("clones are found where the function itself is gone, as written too") {
  const std::string bytes = elf_from_yaml(kin_yaml);
  const auto image = parse_image(bytes);
  Bodies bodies(image);
  CHECK(related_names(bodies.with_base("ff", true)) == "ff.constprop.0");
  CHECK(related_names(bodies.with_base("_ZN2ns4goneEv", true)) == "_ZN2ns4goneEv.constprop.0");
  CHECK(bodies.with_base("nothing", true).empty());
  for (const std::string_view name : {"ns::gone", "ns::gone()"})
    CHECK(related_names(*find_by_demangled_name(image, name)) == "_ZN2ns4goneEv.constprop.0");
}

TEST_CASE("a name has the same bodies if it is the first one that is searched or a later one") {
  const std::string bytes = elf_from_yaml(kin_yaml);
  const auto image = parse_image(bytes);
  Bodies later(image);
  (void)later.clones_of("other", true);
  (void)later.clones_of("another", true);
  for (const std::string_view name :
       {"f", "ff", "_ZN2ns4goneEv", "f.isra.0", "f_alias", "nothing"}) {
    Bodies first(image);
    CHECK(related_names(first.clones_of(name, true)) == related_names(later.clones_of(name, true)));
    CHECK(related_names(first.with_base(name, true)) == related_names(later.with_base(name, true)));
  }
  CHECK(related_names(later.clones_of("f", true)) == "f.constprop.0 f.isra.0.part.1 f.cold f.text");
}

// Two files with static functions of one name. b.c has only a clone of "g", and "main.run" is a
// name of a language with dots if `section` is one of Go's.
std::string files_yaml(std::string_view section) {
  std::string yaml = R"yaml(--- !ELF
FileHeader: { Class: ELFCLASS64, Data: ELFDATA2LSB, Type: ET_DYN, Machine: EM_X86_64 }
ProgramHeaders:
  - { Type: PT_LOAD, Flags: [PF_R, PF_X], VAddr: 0x201000, Offset: 0x1000, FirstSec: .text, LastSec: SECTION }
Sections:
  - { Name: .text, Type: SHT_PROGBITS, Flags: [SHF_ALLOC, SHF_EXECINSTR], Address: 0x201000, Offset: 0x1000, Size: 0x200 }
  - { Name: SECTION, Type: SHT_PROGBITS, Flags: [SHF_ALLOC], Address: 0x201200, Offset: 0x1200, Size: 0x10 }
Symbols:
  - { Name: a.c, Type: STT_FILE, Index: SHN_ABS }
  - { Name: f, Type: STT_FUNC, Section: .text, Value: 0x201010, Size: 0x10 }
  - { Name: f.constprop.0, Type: STT_FUNC, Section: .text, Value: 0x201020, Size: 0x10 }
  - { Name: g, Type: STT_FUNC, Section: .text, Value: 0x201030, Size: 0x10 }
  - { Name: main, Type: STT_FUNC, Section: .text, Value: 0x201040, Size: 0x10 }
  - { Name: main.cold, Type: STT_FUNC, Section: .text, Value: 0x201050, Size: 0x10 }
  - { Name: main.run, Type: STT_FUNC, Section: .text, Value: 0x201060, Size: 0x10 }
  - { Name: b.c, Type: STT_FILE, Index: SHN_ABS }
  - { Name: "f (1)", Type: STT_FUNC, Section: .text, Value: 0x201070, Size: 0x10 }
  - { Name: g.constprop.0, Type: STT_FUNC, Section: .text, Value: 0x201080, Size: 0x10 }
...
)yaml";
  for (std::size_t at = yaml.find("SECTION"); at != std::string::npos; at = yaml.find("SECTION"))
    yaml.replace(at, std::string_view("SECTION").size(), section);
  return elf_from_yaml(yaml);
}

elf::Symbol symbol_at_address(const elf::Image& image, std::uint64_t address) {
  const std::uint64_t addresses[] = {address};
  const auto symbols = Bodies(image).at(addresses);
  REQUIRE(symbols.size() == 1);
  return symbols.front();
}

TEST_CASE("static functions of one name are distinguished by their source files") {
  const std::string bytes = files_yaml(".rodata");
  const auto image = parse_image(bytes);
  Bodies bodies(image);
  const auto function_at = [&](std::uint64_t address) {
    return bodies.function_of(symbol_at_address(image, address));
  };
  CHECK(function_at(0x201010) == function_at(0x201020));
  CHECK(function_at(0x201010) != function_at(0x201070));
  CHECK(function_at(0x201030) != function_at(0x201080));
  CHECK(bodies.has_itself(function_at(0x201020)));
  CHECK_FALSE(bodies.has_itself(function_at(0x201080)));
}

TEST_CASE("names with dots are those of clones, but not in Go") {
  const auto clones = [](std::string_view section) {
    const std::string bytes = files_yaml(section);
    const auto image = parse_image(bytes);
    return related_names(Bodies(image).clones_of("main", true));
  };
  CHECK(clones(".rodata") == "main.cold main.run");
  CHECK(clones(".gopclntab").empty());
}

TEST_CASE("functions folded to one address are distinguished from aliases by their C++ names") {
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

} // namespace uprobectl::symbols
