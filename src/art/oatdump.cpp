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

Error no_line(std::string_view line) {
  constexpr std::size_t shown = 80;
  return {ErrorKind::corrupt,
          fmt::format("oatdump prints '{}', which is not a method with its offset as JSON",
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

using StatePointer = std::unique_ptr<OatFile::State>;

// The start of oatdump's offsets: oatdata or, since September 2024 (ART 3df5451580), the file. Its
// output does not tell which.
enum class CountedFrom { oatdata, file };

std::optional<VirtualAddress> address_of(const OatFile::State& state, std::uint64_t offset,
                                         CountedFrom from) {
  if (from == CountedFrom::file) return state.image->to_address(ImageOffset{offset});
  const auto sum = checked_add(state.header.address.value, offset);
  return sum ? std::optional(VirtualAddress{*sum}) : std::nullopt;
}

// Null where some method would lie outside the executable bytes, or where no instruction can.
StatePointer placed(const OatFile::State& base, CountedFrom from) {
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

enum class Verdict {
  refused,
  other_methods, // functions are there, but others than it says
  unclear,
  agrees
};

// Where different code begins, and how much of it has a header before it whose size makes sense.
struct Headers {
  std::size_t functions = 0;
  std::size_t sized = 0;
};

Headers count_headers(const OatFile& oat) {
  Headers headers;
  std::optional<VirtualAddress> last;
  for (const Method& method : oat.compiled()) {
    if (last == method.code) continue; // several methods share it
    last = method.code;
    ++headers.functions;
    headers.sized += oat.code_size(method) != 0 ? 1 : 0;
  }
  return headers;
}

// Data that is read as headers has some by chance, so that these are a witness only in numbers.
Verdict judge_headers(const OatFile& oat) {
  constexpr std::size_t enough = 8;
  const Headers headers = count_headers(oat);
  if (headers.sized * 4 < headers.functions) return Verdict::refused;
  const bool nearly_all = headers.sized * 4 >= headers.functions * 3;
  return nearly_all && headers.functions >= enough ? Verdict::agrees : Verdict::unclear;
}

// Beyond ASCII names may be written in more than one way.
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

// Whether all methods of the one are in the other, at the same addresses.
Verdict judge_part(const OatFile& part, const OatFile& whole) {
  const std::span<const Method> methods = part.compiled();
  Verdict verdict = Verdict::agrees;
  for (std::size_t begin = 0, end = 0; begin < methods.size(); begin = end) {
    const VirtualAddress address = methods[begin].code;
    while (end < methods.size() && methods[end].code == address) ++end;
    const auto there = std::ranges::equal_range(whole.compiled(), address, {}, &Method::code);
    if (there.empty()) return Verdict::refused;
    const auto wanted = comparable_signatures(part, methods.subspan(begin, end - begin), true);
    const auto found = comparable_signatures(whole, {there.begin(), there.end()}, false);
    if (!std::ranges::includes(found, wanted)) verdict = Verdict::other_methods;
  }
  return verdict;
}

bool has_functions(std::span<const elf::SymbolTable> tables) {
  return std::ranges::any_of(tables,
                             [](const elf::SymbolTable& table) { return table.size() > 1; });
}

// By the best witness there is: the symbols that were made with the file, our own reading of it,
// the headers of the functions.
class Witness {
public:
  Witness(elf::Image& image, const DexSearch& where) : image_(image) {
    if (image.debug_symbols().empty()) (void)image.add_embedded_symbols();
    if (has_functions(image.debug_symbols())) return;
    auto own = OatFile::read(image, where);
    if (own && !own->compiled().empty()) own_.emplace(std::move(*own));
  }

  Verdict judge(const OatFile& oat) const {
    if (has_functions(image_.debug_symbols()))
      return matches_symbols(oat, image_.debug_symbols()) ? Verdict::agrees : Verdict::refused;
    if (!own_) return judge_headers(oat);
    if (own_->has_all_dex_files()) return judge_part(oat, *own_);
    // What is in the DEX files that are missing only oatdump knows.
    const Verdict verdict = judge_part(*own_, oat);
    const Headers headers = count_headers(oat);
    const bool has_headers = headers.sized * 4 >= headers.functions * 3;
    return verdict == Verdict::agrees && !has_headers ? Verdict::refused : verdict;
  }

private:
  elf::Image& image_;
  std::optional<OatFile> own_;
};

Error refusal(bool has_others) {
  return Error{ErrorKind::corrupt,
               has_others ? "oatdump names other methods than this file has where its offsets lead"
                          : "oatdump's offsets are not where functions of this file begin, "
                            "neither counted from oatdata nor from the file"}
      .hint("is it the file of the device that oatdump is of?");
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
                                      const DexSearch& where) {
  auto header = read_oat_header(image);
  if (!header) header = locate_oatdata(image);
  if (!header) return fail(std::move(header).error());
  if (methods.empty()) return fail(ErrorKind::corrupt, "oatdump names no method of the file");
  State base;
  base.image = &image;
  base.header = *header;
  base.code = code_range(image, *header);
  base.dumped = std::make_shared<const DumpedMethods>(std::move(methods));
  const Witness witness(image, where);
  std::vector<OatFile> possible;
  bool is_unclear = false;
  bool has_others = false;
  for (const CountedFrom from : {CountedFrom::oatdata, CountedFrom::file}) {
    auto state = placed(base, from);
    if (!state) continue;
    OatFile oat(std::move(state));
    if (oat.compiled().empty()) return oat;
    const Verdict verdict = witness.judge(oat);
    is_unclear = is_unclear || verdict == Verdict::unclear;
    has_others = has_others || verdict == Verdict::other_methods;
    if (verdict == Verdict::agrees) possible.push_back(std::move(oat));
  }
  if (possible.size() == 1 && !is_unclear) return std::move(possible.front());
  if (possible.empty() && !is_unclear) return fail(refusal(has_others));
  return fail(Error{ErrorKind::ambiguous,
                    is_unclear ? "oatdump's offsets may count from oatdata or from the file: only "
                                 "headers of functions could tell, and they are too few or do "
                                 "not tell clearly"
                               : "oatdump's offsets may count from oatdata or from the file: "
                                 "there are functions at both"}
                  .hint("newer versions count from the file, those of before September 2024 from "
                        "oatdata"));
}

} // namespace uprobectl::art
