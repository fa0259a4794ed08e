// SPDX-License-Identifier: Apache-2.0
#include "symbols/demangle.hpp"

#include "uprobectl/symbols.hpp"
#include "util/numbers.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include <llvm/Demangle/Demangle.h>

namespace uprobectl::symbols {

namespace {

constexpr std::uint64_t max_demangled_size = 65536; // bytes
constexpr std::size_t hash_component = 19;          // "::h" and 16 digits

bool is_hex_digit(char c) { return is_ascii_digit(c) || (c >= 'a' && c <= 'f'); }

std::optional<unsigned> base62_digit(char c) {
  if (is_ascii_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'z') return 10 + (c - 'a');
  if (c >= 'A' && c <= 'Z') return 36 + (c - 'A');
  return std::nullopt;
}

// Finds where each production of a Rust v0 name ends (RFC 2603), in one pass.
class RustProductions {
public:
  explicit RustProductions(std::string_view name) : name_(name), ends_(name.size()) {
    while (at_ < name_.size() && read()) {
    } // the path, and the crate that has the instance
  }

  // Returns 0 if none begins there, or if it has not been read to its end.
  std::size_t end_of(std::size_t begin) const { return ends_[begin]; }

private:
  bool take(char wanted) {
    if (at_ >= name_.size() || name_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  bool read_number() {
    while (at_ < name_.size() && base62_digit(name_[at_])) ++at_;
    return take('_');
  }
  bool read_optional_number(char tag) { return !take(tag) || read_number(); }

  bool read_identifier() {
    if (!read_optional_number('s')) return false;
    take('u');
    std::size_t length = 0;
    if (!take('0'))
      for (; at_ < name_.size() && name_[at_] >= '0' && name_[at_] <= '9'; ++at_)
        if ((length = 10 * length + static_cast<std::size_t>(name_[at_] - '0')) > name_.size())
          return false;
    take('_');
    if (length > name_.size() - at_) return false;
    at_ += length;
    return true;
  }

  bool read_constant() {
    const std::size_t begin = at_;
    if (take('B')) return read_number();
    if (at_ >= name_.size()) return false;
    if (!take('p')) {
      ++at_; // its type
      take('n');
      while (at_ < name_.size() && is_hex_digit(name_[at_])) ++at_;
      if (!take('_')) return false;
    }
    ends_[begin] = at_;
    return true;
  }

  bool read_until_end() {
    while (!take('E'))
      if (!read()) return false;
    return true;
  }

  bool read_dyn() {
    if (!read_optional_number('G')) return false;
    while (!take('E')) {
      if (!read()) return false;
      while (take('p'))
        if (!read_identifier() || !read()) return false;
    }
    return take('L') && read_number();
  }

  bool read_function() {
    if (!read_optional_number('G')) return false;
    take('U');
    if (take('K') && !take('C') && !read_identifier()) return false;
    return read_until_end() && read();
  }

  // A path, type or generic argument.
  bool read() {
    if (at_ >= name_.size() || depth_ >= max_depth) return false;
    ++depth_;
    const std::size_t begin = at_++;
    const bool is_whole = read_after(name_[begin]);
    --depth_;
    if (is_whole) ends_[begin] = at_;
    return is_whole;
  }

  bool read_after(char tag) {
    switch (tag) {
    case 'C':
      return read_identifier();
    case 'N':
      return at_++ < name_.size() && read() && read_identifier();
    case 'M':
    case 'X':
      return read_optional_number('s') && read() && read() && (tag == 'M' || read());
    case 'Y':
      return read() && read();
    case 'I':
      return read() && read_until_end();
    case 'A':
      return read() && read_constant();
    case 'S':
    case 'P':
    case 'O':
      return read();
    case 'R':
    case 'Q':
      return read_optional_number('L') && read();
    case 'T':
      return read_until_end();
    case 'F':
      return read_function();
    case 'D':
      return read_dyn();
    case 'L':
    case 'B':
      return read_number();
    case 'K':
      return read_constant();
    default:
      return tag >= 'a' && tag <= 'z';
    }
  }

  static constexpr int max_depth = 500; // LLVM's
  std::string_view name_;
  std::vector<std::size_t> ends_; // by begin
  std::size_t at_ = 0;
  int depth_ = 0;
};

// Whether the upper bound of the demangled size of a Rust v0 name exceeds max_demangled_size.
// cost[i] is the bound for the first i bytes: a back reference "B<base-62>_" repeats the production
// at its target, at most the text between that and itself. Other text that looks like a back
// reference only increases the bound. LLVM's recursion limit ends references into an enclosing
// production.
bool may_exceed_max_size(std::string_view name) {
  const RustProductions productions(name);
  std::vector<std::uint64_t> cost(name.size() + 1);
  for (std::size_t i = 0; i < name.size(); ++i) {
    std::uint64_t own = 1;
    if (name[i] == 'B') {
      std::size_t target = 0; // "B_" is 0, "B0_" is 1
      std::size_t at = i + 1;
      for (; at < name.size() && target < name.size(); ++at) {
        const auto digit = base62_digit(name[at]);
        if (!digit) break;
        target = target * 62 + *digit;
      }
      if (at > i + 1) ++target;
      const bool is_reference = at < name.size() && name[at] == '_' && target < i;
      const std::size_t end = is_reference ? productions.end_of(target) : 0;
      if (is_reference) own += cost[end != 0 && end <= i ? end : i] - cost[target];
    }
    cost[i + 1] = cost[i] + own;
    if (cost[i + 1] > max_demangled_size) return true;
  }
  return false;
}

// Decodes a legacy Rust escape, given without its dollar signs: "LT" is "<".
std::optional<std::string> decode_escape(std::string_view code) {
  struct Escape {
    std::string_view code;
    std::string_view text;
  };
  static constexpr std::array<Escape, 9> escapes = {{{"SP", "@"},
                                                     {"BP", "*"},
                                                     {"RF", "&"},
                                                     {"LT", "<"},
                                                     {"GT", ">"},
                                                     {"LP", "("},
                                                     {"RP", ")"},
                                                     {"C", ","},
                                                     {"", "$"}}};
  for (const Escape& escape : escapes)
    if (escape.code == code) return std::string(escape.text);
  if (!code.starts_with('u')) return std::nullopt;
  const auto point = parse_number<std::uint32_t>(code.substr(1), 16);
  // rustc escapes only ASCII this way; keep anything else unchanged.
  if (!point || *point < 0x20 || *point > 0x7e) return std::nullopt;
  return std::string(1, static_cast<char>(*point));
}

std::optional<std::string> demangle_rust_v0(std::string_view raw) {
  if (!raw.starts_with("_R") || raw.size() > max_mangled_length) return std::nullopt;
  DemanglingBudget& budget = DemanglingBudget::for_this_thread();
  if (raw.size() > max_usual_length && budget.left() == 0) return std::nullopt;
  budget.charge(raw, 0);
  if (may_exceed_max_size(raw.substr(2))) return std::nullopt;
  const std::unique_ptr<char, decltype(&std::free)> text(llvm::rustDemangle(raw), &std::free);
  if (!text) return std::nullopt;
  std::string demangled(text.get());
  budget.charge(raw, demangled.size());
  return demangled;
}

// Removes the hash of a legacy name after Itanium demangling, and decodes its escapes.
std::string clean_legacy_rust(std::string_view demangled) {
  // The hash ends the path; a clone's suffix may follow it.
  std::string suffix;
  const std::size_t hash = demangled.rfind("::h");
  if (hash != std::string_view::npos && hash + hash_component <= demangled.size()) {
    suffix = demangled.substr(hash + hash_component);
    demangled = demangled.substr(0, hash);
  }
  std::string text;
  for (std::size_t at = 0; at < demangled.size();) {
    const auto rest = demangled.substr(at);
    if (rest.starts_with("..")) {
      text += "::";
      at += 2;
      continue;
    }
    // A component that starts with an escape carries an underscore before it.
    const bool starts_component = text.empty() || text.ends_with("::");
    if (starts_component && rest.starts_with("_$")) {
      ++at;
      continue;
    }
    if (rest.front() == '$') {
      const std::size_t end = rest.find('$', 1);
      const auto replaced =
          end > 8 ? std::nullopt : decode_escape(rest.substr(1, end - 1)); // or npos
      if (replaced) {
        text += *replaced;
        at += end + 1;
        continue;
      }
    }
    text += rest.front();
    ++at;
  }
  return text + suffix;
}

} // namespace

bool is_legacy_rust(std::string_view raw) {
  if (!raw.starts_with("_ZN")) return false;
  // The suffix of LLVM's clones (".llvm.123") follows the E and contains no other. Searching for
  // the E first is fast, which matters for listings.
  constexpr std::size_t tail = 3 + 16; // "17h" and the digits
  const std::size_t end = raw.rfind('E');
  if (end == std::string_view::npos || end < tail) return false;
  const auto hash = raw.substr(end - tail, tail);
  return hash.starts_with("17h") && std::ranges::all_of(hash.substr(3), is_hex_digit);
}

std::size_t name_begin(const DemangledName& name) {
  const std::string_view text = name.name;
  const std::string_view whole = name.whole;
  const auto is_at = [&](std::size_t begin) {
    const std::size_t end = begin + text.size();
    return whole.substr(begin).starts_with(text) && (end == whole.size() || whole[end] == '(');
  };
  if (text.empty() || is_at(0)) return 0;
  // The return type may contain the name, in brackets.
  int depth = 0;
  for (std::size_t i = 0; i + 1 < whole.size(); ++i) {
    const char c = whole[i];
    depth += (c == '<' || c == '[' ? 1 : 0) - (c == '>' || c == ']' ? 1 : 0);
    const bool may_precede = c == ' ' || c == '*' || c == '&' || c == '(';
    if (depth == 0 && may_precede && is_at(i + 1)) return i + 1;
  }
  return 0;
}

std::optional<std::string_view> Demangler::whole(std::string_view raw) {
  if (!looks_mangled(raw)) return std::nullopt;
  if (raw.starts_with("_R")) {
    auto text = demangle_rust_v0(raw);
    if (!text) return std::nullopt;
    rust_ = std::move(*text);
    return rust_;
  }
  const auto text = itanium_.whole(raw);
  if (!text || !is_legacy_rust(raw)) return text;
  rust_ = clean_legacy_rust(*text);
  return rust_;
}

std::optional<DemangledName> demangle_parts(std::string_view raw) {
  const bool is_rust = raw.starts_with("_R") || is_legacy_rust(raw);
  if (!is_rust) return ItaniumDemangler().parts(raw);
  const auto whole = demangle(raw);
  if (!whole) return std::nullopt;
  return DemangledName{*whole, *whole};
}

std::optional<std::string> demangle(std::string_view raw) {
  if (!looks_mangled(raw)) return std::nullopt; // before constructing a Demangler
  Demangler demangler;
  const auto text = demangler.whole(raw);
  if (!text) return std::nullopt;
  return std::string(*text);
}

std::string display_name(const elf::Symbol& symbol) {
  return demangle(symbol.name).value_or(std::string(symbol.name)) + display_suffix(symbol);
}

std::string display_suffix(const elf::Symbol& symbol) {
  if (symbol.table == elf::Table::plt) return "@plt";
  if (!symbol.version) return {};
  return (symbol.version->is_default ? "@@" : "@") + std::string(symbol.version->name);
}

} // namespace uprobectl::symbols
