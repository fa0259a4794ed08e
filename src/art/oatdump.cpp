// SPDX-License-Identifier: Apache-2.0
#include "art/oat_state.hpp"

#include "util/numbers.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <map>
#include <tuple>

namespace uprobectl::art {

namespace {

Error invalid_line(std::string_view line) {
  constexpr std::size_t shown = 80;
  return {
      ErrorKind::corrupt,
      fmt::format("invalid line '{}' of oatdump (expected a JSON object with method and offset)",
                  line.substr(0, shown))};
}

// Parses the JSON objects that oatdump prints: {"key":"text","key":"text"}.
class ObjectParser {
public:
  explicit ObjectParser(std::string_view text) : rest_(text) {}

  bool take(char expected) {
    skip_blanks();
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  // An escaped character stands for itself. Java names need no other escapes.
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

using StatePointer = std::unique_ptr<OatFile::State>;

// The base of oatdump's offsets: oatdata or, since September 2024 (ART commit 3df5451580), the
// start of the file. The output does not identify it.
enum class OffsetBase { oatdata, file };

std::optional<VirtualAddress> address_of(const OatFile::State& state, std::uint64_t offset,
                                         OffsetBase from) {
  if (from == OffsetBase::file) return state.image->to_address(ImageOffset{offset});
  const auto sum = checked_add(state.header.address.value, offset);
  return sum ? std::optional(VirtualAddress{*sum}) : std::nullopt;
}

// Sets the code address of every method. Returns null if an address is not executable or not
// aligned.
StatePointer read_with_base(const OatFile::State& base, OffsetBase from) {
  auto state = std::make_unique<OatFile::State>(base);
  const auto methods = base.dumped->methods();
  for (std::uint32_t i = 0; i < methods.size(); ++i) {
    if (methods[i].offset == 0) continue; // not compiled
    const bool thumb = base.code.may_be_thumb && (methods[i].offset & 1U) != 0;
    const auto address = address_of(base, methods[i].offset - (thumb ? 1 : 0), from);
    const elf::Segment* const segment = address ? base.image->find_segment(*address) : nullptr;
    if (segment == nullptr || !segment->executable) return nullptr;
    const std::uint64_t alignment = thumb ? 2 : base.code.alignment;
    if (address->value % alignment != 0 ||
        address->value - segment->address.value >= segment->file_size)
      return nullptr;
    state->compiled.push_back({.code = *address, .index = i, .compiled = true, .thumb = thumb});
    state->code.end.value =
        std::max(state->code.end.value, segment->address.value + segment->file_size);
  }
  std::ranges::sort(state->compiled, [](const Method& a, const Method& b) {
    return std::tie(a.code, a.index) < std::tie(b.code, b.index);
  });
  state->code_size_form = choose_code_size_form(*state);
  return state;
}

// The result of checking an offset base.
enum class BaseCheck {
  mismatch,
  other_methods, // functions begin at the offsets, but of other methods
  inconclusive,
  match
};

// Other data can look like a valid header by chance, so a minimum number is required.
BaseCheck check_headers(const OatFile& oat) {
  constexpr std::size_t min_functions = 8;
  const HeaderCounts headers = count_headers(oat);
  if (headers.sized * 4 < headers.functions) return BaseCheck::mismatch;
  return headers.nearly_all() && headers.functions >= min_functions ? BaseCheck::match
                                                                    : BaseCheck::inconclusive;
}

// With only_ascii, skips signatures with other characters, which have more than one encoding.
std::vector<std::string> comparable_signatures(const OatFile& oat, std::span<const Method> methods,
                                               bool only_ascii) {
  std::vector<std::string> signatures;
  for (const Method& method : methods) {
    std::string text = to_string(oat.signature(method));
    const bool is_ascii =
        std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
    if (is_ascii || !only_ascii) signatures.push_back(std::move(text));
  }
  std::ranges::sort(signatures);
  const auto same = std::ranges::unique(signatures);
  signatures.erase(same.begin(), same.end());
  return signatures;
}

// Checks that all methods of `part` are in `whole`, at the same addresses.
BaseCheck check_subset(const OatFile& part, const OatFile& whole) {
  const std::span<const Method> methods = part.compiled();
  BaseCheck result = BaseCheck::match;
  for (std::size_t begin = 0, end = 0; begin < methods.size(); begin = end) {
    const VirtualAddress address = methods[begin].code;
    while (end < methods.size() && methods[end].code == address) ++end;
    const auto candidates = std::ranges::equal_range(whole.compiled(), address, {}, &Method::code);
    if (candidates.empty()) return BaseCheck::mismatch;
    const auto expected = comparable_signatures(part, methods.subspan(begin, end - begin), true);
    const auto found = comparable_signatures(whole, {candidates.begin(), candidates.end()}, false);
    if (!std::ranges::includes(found, expected)) result = BaseCheck::other_methods;
  }
  return result;
}

bool has_functions(std::span<const elf::SymbolTable> tables) {
  return std::ranges::any_of(tables,
                             [](const elf::SymbolTable& table) { return table.size() > 1; });
}

// Checks offset bases against the most reliable data that exists: the file's debug symbols, the
// result of OatFile::read(), or the headers of the functions.
class BaseChecker {
public:
  BaseChecker(elf::Image& image, const DexSearch& search) : image_(image) {
    if (image.debug_symbols().empty()) (void)image.add_embedded_symbols();
    auto own = OatFile::read(image, search);
    if (own && !own->compiled().empty()) own_.emplace(std::move(*own));
  }

  BaseCheck check(const OatFile& oat) const {
    if (has_functions(image_.debug_symbols())) {
      const SymbolCheck result = check_symbols(oat, image_.debug_symbols());
      if (result == SymbolCheck::match) return BaseCheck::match;
      if (result == SymbolCheck::contradiction) return BaseCheck::mismatch;
    }
    if (!own_) return check_headers(oat);
    if (own_->has_all_dex_files()) return check_subset(oat, *own_);
    // Methods of missing DEX files are only in oatdump's output.
    const BaseCheck result = check_subset(*own_, oat);
    const HeaderCounts headers = count_headers(oat);
    return result == BaseCheck::match && !headers.nearly_all() ? BaseCheck::mismatch : result;
  }

private:
  elf::Image& image_;
  std::optional<OatFile> own_;
};

Error mismatch_error(bool has_other_methods) {
  return Error{ErrorKind::corrupt,
               has_other_methods
                   ? "oatdump lists other methods at these offsets than the file has"
                   : "oatdump's offsets are not the starts of functions in this file, counted from "
                     "oatdata or from the start of the file"}
      .hint("take the file and oatdump from the same device");
}

} // namespace

Result<DumpedMethod> parse_dumped_method(std::string_view line) {
  ObjectParser object(line);
  DumpedMethod method;
  std::optional<std::uint64_t> offset;
  if (!object.take('{')) return fail(invalid_line(line));
  do {
    const auto key = object.text();
    if (!key || !object.take(':')) return fail(invalid_line(line));
    auto value = object.text();
    if (!value) return fail(invalid_line(line));
    if (*key == "method") method.signature = std::move(*value);
    if (*key == "offset") offset = parse_offset(*value);
  } while (object.take(','));
  if (!object.take('}') || !object.ended() || !offset || !parse_signature(method.signature))
    return fail(invalid_line(line));
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

DumpedMethods::DumpedMethods(std::vector<DumpedMethod> methods) : methods_(std::move(methods)) {
  std::map<std::string, std::vector<std::uint32_t>> by_name;
  for (std::uint32_t i = 0; i < methods_.size(); ++i) {
    auto known = parse_signature(methods_[i].signature);
    if (known) by_name[std::move(known->class_name)].push_back(i);
  }
  for (auto& [name, inside] : by_name) classes_.push_back({name, std::move(inside)});
}

std::optional<Class> DumpedMethods::find_class(std::string_view name) const {
  const auto found = std::ranges::lower_bound(classes_, name, {}, &DumpedClass::name);
  if (found == classes_.end() || found->name != name) return std::nullopt;
  return Class{0, static_cast<std::uint32_t>(found - classes_.begin())};
}

Signature DumpedMethods::signature(std::uint32_t method) const {
  return parse_signature(methods_[method].signature).value_or(Signature{});
}

Result<OatFile> OatFile::from_oatdump(elf::Image& image, std::vector<DumpedMethod> methods,
                                      const DexSearch& search) {
  auto header = read_oat_header(image);
  if (!header) header = locate_oatdata(image);
  if (!header) return fail(std::move(header).error());
  if (methods.empty()) return fail(ErrorKind::corrupt, "oatdump lists no methods of the file");
  State base;
  base.image = &image;
  base.header = *header;
  base.code = code_range(image, *header);
  base.mapping = search.mapping;
  base.dumped = std::make_shared<const DumpedMethods>(std::move(methods));
  const BaseChecker checker(image, search);
  std::vector<OatFile> possible;
  bool is_inconclusive = false;
  bool has_other_methods = false;
  for (const OffsetBase from : {OffsetBase::oatdata, OffsetBase::file}) {
    auto state = read_with_base(base, from);
    if (!state) continue;
    OatFile oat(std::move(state));
    if (oat.compiled().empty()) return oat;
    const BaseCheck result = checker.check(oat);
    is_inconclusive = is_inconclusive || result == BaseCheck::inconclusive;
    has_other_methods = has_other_methods || result == BaseCheck::other_methods;
    if (result == BaseCheck::match) possible.push_back(std::move(oat));
  }
  if (possible.size() == 1 && !is_inconclusive) return std::move(possible.front());
  if (possible.empty() && !is_inconclusive) return fail(mismatch_error(has_other_methods));
  return fail(Error{ErrorKind::ambiguous,
                    is_inconclusive
                        ? "oatdump's offsets may count from oatdata or from the start of the file: "
                          "the method headers are too few or inconclusive"
                        : "oatdump's offsets may count from oatdata or from the start of the file: "
                          "functions begin at both"}
                  .hint("oatdump counts from the start of the file since September 2024, and from "
                        "oatdata before"));
}

} // namespace uprobectl::art
