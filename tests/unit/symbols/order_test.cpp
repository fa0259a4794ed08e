// SPDX-License-Identifier: Apache-2.0
#include "symbols/list.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

namespace uprobectl::symbols {

namespace {

using elf::Symbol;
using elf::SymbolType;
using elf::SymbolVersion;

Symbol symbol(std::string_view name, elf::Table table,
              std::optional<SymbolVersion> version = std::nullopt) {
  return {.name = name,
          .version = version,
          .address = {0x1000},
          .size = 8,
          .type = SymbolType::function,
          .table = table,
          .defined = true};
}

std::string text(const std::vector<Symbol>& symbols) {
  std::string result;
  for (const std::size_t index : order_without_repeats(symbols)) {
    const Symbol& s = symbols[index];
    result += result.empty() ? "" : " ";
    result += std::string(s.name) + "@" + std::string(s.version ? s.version->name : "");
    result += s.table == elf::Table::dynsym ? ":dynsym" : ":symtab";
    if (s.type == SymbolType::none) result += ":label";
  }
  return result;
}

const SymbolVersion OLD{"V1", false};
const SymbolVersion NEW{"V2", true};

} // namespace

TEST_CASE("two versions at one address are listed once each, though .symtab repeats both") {
  // As in libstdc++'s debug build: compatibility symbols stand in .symtab with their versions, and
  // once more without.
  std::vector<Symbol> symbols = {
      symbol("f", elf::Table::dynsym, OLD), symbol("f", elf::Table::dynsym, NEW),
      symbol("f", elf::Table::symtab), symbol("f", elf::Table::symtab, OLD),
      symbol("f", elf::Table::symtab, NEW)};
  const auto before = [](const Symbol& a, const Symbol& b) {
    const auto key = [](const Symbol& s) {
      return std::pair(s.table, s.version ? s.version->name : std::string_view());
    };
    return key(a) < key(b);
  };
  std::ranges::sort(symbols, before);
  do {
    CHECK(text(symbols) == "f@V1:dynsym f@V2:dynsym");
  } while (std::ranges::next_permutation(symbols, before).found);
}

TEST_CASE("an unversioned name is listed separately if .dynsym does not have the address") {
  CHECK(text({symbol("f", elf::Table::symtab, OLD), symbol("f", elf::Table::symtab)}) ==
        "f@V1:symtab f@:symtab");
  CHECK(text({symbol("f", elf::Table::dynsym), symbol("f", elf::Table::dynsym, OLD)}) ==
        "f@V1:dynsym f@:dynsym");
  CHECK(text({symbol("g", elf::Table::symtab), symbol("f", elf::Table::dynsym, OLD)}) ==
        "f@V1:dynsym g@:symtab");
}

TEST_CASE("a function is listed before a label of the same name and address") {
  Symbol label = symbol("f", elf::Table::symtab);
  label.type = SymbolType::none;
  const Symbol function = symbol("f", elf::Table::symtab);
  CHECK(text({label, function}) == "f@:symtab");
  CHECK(text({function, label}) == "f@:symtab");
}

} // namespace uprobectl::symbols
