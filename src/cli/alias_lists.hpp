// The other names of each place, listed within a bound.
#pragma once

#include "uprobectl/output.hpp"

#include <functional>
#include <unordered_map>

namespace uprobectl::cli {

// Each of N names at one address has N - 1 others: so a record gets the first of them and the
// number of the rest, and they are collected once for an address that has more.
class AliasLists {
public:
  using AllNames = std::function<std::vector<std::string>(VirtualAddress address)>;
  explicit AliasLists(AllNames all_names) : all_names_(std::move(all_names)) {}

  // A line that joins the names of its place has them all.
  void fill(SymbolRecord& record, bool is_joined) {
    constexpr std::size_t most_listed = 64;
    record.aliases.emplace();
    if (!record.symbol.defined) return;
    std::vector<std::string> few;
    const std::vector<std::string>& names = names_at(record.symbol.address, most_listed, few);
    for (const std::string& name : names) {
      if (name == record.symbol.name) continue;
      if (!is_joined && record.aliases->size() == most_listed) break;
      record.aliases->push_back(name);
    }
    const std::size_t others = names.empty() ? 0 : names.size() - 1;
    record.aliases_left_out = others - std::min(others, record.aliases->size());
  }

private:
  const std::vector<std::string>& names_at(VirtualAddress address, std::size_t most,
                                           std::vector<std::string>& few) {
    const auto known = many_.find(address.value);
    if (known != many_.end()) return known->second;
    few = all_names_(address);
    if (few.size() <= most) return few;
    return many_[address.value] = std::move(few);
  }

  AllNames all_names_;
  std::unordered_map<std::uint64_t, std::vector<std::string>> many_;
};

} // namespace uprobectl::cli
