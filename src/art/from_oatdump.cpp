// Which of the two things oatdump's offsets count from: oatdata, until the middle of September 2024
// (ART 3df5451580), since then the file. Nothing it prints says which.
#include "art/dumped_methods.hpp"
#include "art/oat_state.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <tuple>

namespace uprobectl::art {

namespace {

using StatePointer = std::unique_ptr<OatFile::State>;

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
    const elf::Segment* const segment = address ? base.image->segment_of(*address) : nullptr;
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
      return names_agree(oat, image_.debug_symbols()) ? Verdict::agrees : Verdict::refused;
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
                          : "oatdump's offsets are no beginnings of functions in this file, "
                            "neither counted from oatdata nor from the file"}
      .hint("is it the file of the device that oatdump is of?");
}

} // namespace

Result<OatFile> OatFile::from_oatdump(elf::Image& image, std::vector<DumpedMethod> methods,
                                      const DexSearch& where) {
  auto header = read_oat_header(image);
  if (!header) header = read_oat_start(image);
  if (!header) return fail(std::move(header).error());
  if (methods.empty()) return fail(ErrorKind::corrupt, "oatdump names no method of the file");
  State base;
  base.image = &image;
  base.header = *header;
  base.code = code_range(image, *header);
  base.dumped = std::make_shared<const DumpedNames>(std::move(methods));
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
