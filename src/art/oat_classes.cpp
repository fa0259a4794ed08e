#include "art/oat_classes.hpp"

namespace uprobectl::art {

namespace {

// OatClassType of art/runtime/oat/oat_file.h.
enum Type : std::uint16_t { all_compiled = 0, some_compiled = 1, none_compiled = 2 };

// One OatClass as it lies in the file.
struct OatClass {
  std::uint16_t type = none_compiled;
  Bytes bitmap;  // where some are compiled: a bit for each method
  Bytes offsets; // from the first code_offset on

  bool is_compiled(std::uint32_t method) const {
    if (type != some_compiled) return type == all_compiled;
    const auto byte = read_at<std::uint8_t>(bitmap, method / 8);
    return byte && (*byte >> (method % 8) & 1U) != 0;
  }
};

std::optional<OatClass> read_class(const OatClasses& classes, std::uint32_t index,
                                   std::uint32_t methods) {
  const Bytes data = classes.header.data;
  const auto offset = read_at<std::uint32_t>(data, classes.offsets + std::uint64_t{index} * 4);
  const auto status = offset ? read_at<std::uint16_t>(data, *offset) : std::nullopt;
  const auto type =
      offset ? read_at<std::uint16_t>(data, std::uint64_t{*offset} + 2) : std::nullopt;
  if (!status || !type || *type > none_compiled) return std::nullopt;
  OatClass found{.type = *type, .bitmap = {}, .offsets = {}};
  if (*type == none_compiled) return found;
  std::uint64_t at = std::uint64_t{*offset} + 4;
  if (classes.counts_methods) {
    if (read_at<std::uint32_t>(data, at) != methods) return std::nullopt;
    at += 4;
  }
  if (*type == some_compiled) {
    const std::uint64_t size = (std::uint64_t{methods} + 31) / 32 * 4;
    if (!classes.counts_methods) {
      if (read_at<std::uint32_t>(data, at) != size) return std::nullopt;
      at += 4;
    }
    const auto bitmap = slice(data, at, size);
    if (!bitmap) return std::nullopt;
    found.bitmap = *bitmap;
    at += size;
  }
  const auto offsets = slice(data, at, data.size() - std::min<std::uint64_t>(at, data.size()));
  if (!offsets) return std::nullopt;
  found.offsets = *offsets;
  return found;
}

// Says where the method's code is, if it has any.
bool place(const OatClasses& classes, std::uint32_t code_offset, Method& method) {
  if (code_offset == 0) return true;
  const CodeRange& code = classes.code;
  method.thumb = code.may_be_thumb && (code_offset & 1U) != 0;
  method.code = {classes.header.address.value + code_offset - (method.thumb ? 1 : 0)};
  method.compiled = true;
  return method.code >= code.begin && method.code < code.end &&
         (method.thumb || method.code.value % code.alignment == 0);
}

template <typename Visit>
bool visit(const OatClasses& classes, std::uint32_t index, ClassBudget& budget, bool all,
           const Visit& visitor) {
  const auto defined = classes.dex.class_def(index);
  if (!defined) return false;
  auto methods = ClassMethods::read(classes.dex, *defined, budget);
  if (!methods) return false;
  const auto compiled = read_class(classes, index, methods->size());
  if (!compiled) return false;
  if (compiled->type == none_compiled && !all) return true;
  std::uint64_t next_offset = 0;
  for (std::uint32_t i = 0; i < methods->size(); ++i) {
    const auto item = methods->next();
    if (!item || item->index >= classes.dex.method_count()) return false;
    Method method{.code = {}, .index = item->index, .access = item->access, .dex = classes.number};
    if (compiled->is_compiled(i)) {
      const auto code_offset = read_at<std::uint32_t>(compiled->offsets, next_offset);
      next_offset += 4;
      if (!code_offset || !place(classes, *code_offset, method)) return false;
    }
    if (all || method.compiled) visitor(method);
  }
  return true;
}

} // namespace

CodeRange code_range(const elf::Image& image, const OatHeader& header) {
  constexpr std::uint16_t arm = 40;    // EM_ARM
  constexpr std::uint16_t arm64 = 183; // EM_AARCH64
  CodeRange range;
  range.begin = {header.address.value + header.executable};
  range.end = range.begin;
  range.may_be_thumb = image.machine().id == arm;
  range.alignment = image.machine().id == arm || image.machine().id == arm64 ? 4 : 1;
  const elf::Segment* const segment = image.segment_of(range.begin);
  if (segment != nullptr && segment->executable)
    range.end = {segment->address.value + segment->file_size};
  return range;
}

bool visit_methods(const OatClasses& classes, std::uint32_t index, ClassBudget& budget,
                   const std::function<void(const Method&)>& visitor) {
  return visit(classes, index, budget, true, visitor);
}

bool add_compiled(const OatClasses& classes, std::uint64_t most, std::vector<Method>& methods) {
  ClassBudget budget(classes.dex);
  for (std::uint32_t i = 0; i < classes.dex.class_count(); ++i)
    if (!visit(classes, i, budget, false,
               [&](const Method& method) { methods.push_back(method); }) ||
        methods.size() > most)
      return false;
  return true;
}

} // namespace uprobectl::art
