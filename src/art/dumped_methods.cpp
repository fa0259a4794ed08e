#include "art/dumped_methods.hpp"

#include "util/numbers.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace uprobectl::art {

namespace {

Error no_line(std::string_view line) {
  constexpr std::size_t shown = 80;
  return {ErrorKind::corrupt,
          fmt::format("oatdump prints '{}', which is no method and offset as JSON",
                      line.substr(0, shown))};
}

// The flat objects that oatdump prints: {"key":"text","key":"text"}.
class FlatObject {
public:
  explicit FlatObject(std::string_view text) : rest_(text) {}

  bool take(char wanted) {
    skip_blanks();
    if (!rest_.starts_with(wanted)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  // Names of Java's have no quotes; what is escaped is taken as it stands behind the backslash.
  std::optional<std::string> text() {
    if (!take('"')) return std::nullopt;
    std::string value;
    while (!rest_.empty()) {
      const char letter = rest_.front();
      rest_.remove_prefix(1);
      if (letter == '"') return value;
      if (letter != '\\') {
        value += letter;
        continue;
      }
      if (rest_.empty() || rest_.front() == 'u') return std::nullopt;
      value += rest_.front();
      rest_.remove_prefix(1);
    }
    return std::nullopt;
  }
  bool ended() {
    skip_blanks();
    return rest_.empty();
  }

private:
  void skip_blanks() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r"), rest_.size()));
  }
  std::string_view rest_;
};

std::optional<std::uint64_t> parse_offset(std::string_view text) {
  if (!text.starts_with("0x")) return std::nullopt;
  return parse_number<std::uint64_t>(text.substr(2), 16);
}

} // namespace

Result<DumpedMethod> parse_dumped_method(std::string_view line) {
  FlatObject object(line);
  DumpedMethod method;
  std::optional<std::uint64_t> offset;
  if (!object.take('{')) return fail(no_line(line));
  do {
    const auto key = object.text();
    if (!key || !object.take(':')) return fail(no_line(line));
    auto value = object.text();
    if (!value) return fail(no_line(line));
    if (*key == "method") method.signature = std::move(*value);
    if (*key == "offset") offset = parse_offset(*value);
  } while (object.take(','));
  if (!object.take('}') || !object.ended() || !offset || !parse_signature(method.signature))
    return fail(no_line(line));
  method.offset = *offset;
  return method;
}

std::optional<Signature> parse_signature(std::string_view text) {
  const auto open = text.find('(');
  if (open == std::string_view::npos || !text.ends_with(')')) return std::nullopt;
  const std::string_view head = text.substr(0, open);
  const auto space = head.find(' ');
  const auto dot = head.rfind('.');
  if (space == std::string_view::npos || space == 0 || dot == std::string_view::npos ||
      dot <= space + 1 || dot + 1 == head.size())
    return std::nullopt;
  Signature signature{.return_type = std::string(head.substr(0, space)),
                      .class_name = std::string(head.substr(space + 1, dot - space - 1)),
                      .name = std::string(head.substr(dot + 1)),
                      .parameters = {}};
  std::string_view inside = text.substr(open + 1, text.size() - open - 2);
  while (!inside.empty()) {
    const auto comma = inside.find(", ");
    signature.parameters.emplace_back(inside.substr(0, comma));
    if (signature.parameters.back().empty()) return std::nullopt;
    inside.remove_prefix(comma == std::string_view::npos ? inside.size() : comma + 2);
    if (comma != std::string_view::npos && inside.empty()) return std::nullopt;
  }
  return signature;
}

DumpedNames::DumpedNames(std::vector<DumpedMethod> methods) : methods_(std::move(methods)) {
  std::map<std::string, std::vector<std::uint32_t>> by_name;
  for (std::uint32_t i = 0; i < methods_.size(); ++i) {
    auto known = parse_signature(methods_[i].signature);
    if (known) by_name[std::move(known->class_name)].push_back(i);
  }
  for (auto& [name, inside] : by_name) classes_.push_back({name, std::move(inside)});
}

std::optional<Class> DumpedNames::find_class(std::string_view name) const {
  const auto found = std::ranges::lower_bound(classes_, name, {}, &DumpedClass::name);
  if (found == classes_.end() || found->name != name) return std::nullopt;
  return Class{0, static_cast<std::uint32_t>(found - classes_.begin())};
}

Signature DumpedNames::signature(std::uint32_t method) const {
  return parse_signature(methods_[method].signature).value_or(Signature{});
}

} // namespace uprobectl::art
