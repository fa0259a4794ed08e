#include "symbols/base_name.hpp"
#include "symbols/code.hpp"
#include "symbols/demangle.hpp"
#include "util/spelling.hpp"

#include <algorithm>

namespace uprobectl {

namespace {

constexpr std::uint32_t most_names = 200000;

class Suggestions {
public:
  explicit Suggestions(std::string_view wanted)
      : wanted_(wanted.substr(0, wanted.find('@', 1))), wanted_base_(base_name(wanted_)),
        qualified_(wanted_.find("::") != std::string_view::npos), limit_(suggestion_limit(wanted_)),
        base_limit_(std::min(limit_, suggestion_limit(wanted_base_))) {}

  void consider(std::string_view raw) {
    if (const auto rank = guess_rank(wanted_, raw, limit_)) return near_.offer(*rank, raw);
    if (!looks_mangled(raw) || !spells_base(raw)) return;
    const auto parts = demangle_parts(raw);
    if (!parts || parts->name.empty()) return;
    const auto rank = qualified_
                          ? guess_rank(wanted_.substr(0, wanted_.find('(')), parts->name, limit_)
                          : guess_rank(wanted_base_, base_name(parts->name), base_limit_);
    if (rank) near_.offer(*rank, parts->name);
  }

  std::vector<std::string> take() { return std::move(near_).take(); }

private:
  // Whether one of the identifiers of a mangled name, which stand in it as "<length><text>", is
  // close to the wanted base name: so only a few names are demangled.
  bool spells_base(std::string_view raw) const {
    for (std::size_t at = 2; at < raw.size();) {
      std::size_t length = 0;
      for (; at < raw.size() && raw[at] >= '0' && raw[at] <= '9' && length < raw.size(); ++at)
        length = length * 10 + static_cast<std::size_t>(raw[at] - '0');
      if (length == 0 || length > raw.size() - at) {
        ++at;
        continue;
      }
      if (edit_distance(wanted_base_, raw.substr(at, length), base_limit_)) return true;
      at += length;
    }
    return false;
  }

  std::string_view wanted_;
  std::string_view wanted_base_;
  bool qualified_;
  unsigned limit_;
  unsigned base_limit_;
  NearestNames near_;
};

} // namespace

std::vector<std::string> nearest_names(const elf::Image& image, std::string_view name) {
  Suggestions suggestions(name);
  std::uint32_t looked_at = 0;
  const auto consider = [&](const elf::SymbolTable& table) {
    for (std::uint32_t index = 1; index < table.size() && looked_at < most_names; ++index) {
      ++looked_at;
      const auto symbol = table.at(index);
      if (symbol && is_code(*symbol, image)) suggestions.consider(symbol->name);
    }
  };
  if (const auto table = image.dynamic_symbols()) consider(*table);
  if (const auto table = image.full_symbols()) consider(*table);
  for (const elf::SymbolTable& table : image.debug_symbols()) consider(table);
  return suggestions.take();
}

} // namespace uprobectl
