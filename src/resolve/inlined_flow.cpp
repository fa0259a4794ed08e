// SPDX-License-Identifier: Apache-2.0
#include "resolve/inlined_flow.hpp"

#include "insn/control_flow.hpp"
#include "resolve/code_index.hpp"

#include <algorithm>

namespace uprobectl {

namespace {

struct Copy {
  dwarf::InlinedInstance* instance = nullptr;
  std::size_t function = 0;

  const dwarf::FunctionCode* caller() const { return instance->caller_code.get(); }
};

constexpr std::uint64_t max_caller_size = std::uint64_t{1} << 20; // bytes

std::vector<CodeRange> to_ranges(std::span<const elf::AddressRange> pieces) {
  std::vector<CodeRange> ranges;
  for (const elf::AddressRange& piece : pieces)
    ranges.push_back({piece.address, {piece.address.value + piece.size}});
  return ranges;
}

std::optional<ControlFlow> read_flow(const elf::Image& image, Arch arch,
                                     std::span<const Copy> copies) {
  const dwarf::FunctionCode& caller = *copies.front().caller();
  std::vector<ControlFlow::Piece> pieces;
  std::uint64_t left = max_caller_size;
  for (const elf::AddressRange& piece : caller.pieces) {
    if (piece.size > left) return std::nullopt;
    left -= piece.size;
    const Bytes code = code_bytes(image, piece.address, piece.size);
    if (code.size() != piece.size) return std::nullopt;
    pieces.push_back({piece.address, code});
  }
  std::vector<VirtualAddress> marks;
  for (const Copy& copy : copies) marks.push_back(copy.instance->entry);
  return ControlFlow::read(arch, pieces, caller.entry, marks);
}

// The entries of one copy.
struct Entries {
  std::span<const Copy> copies;
  std::vector<VirtualAddress> marks = {};
  std::vector<CodeRange> code = {};
  bool is_known = false;

  const dwarf::InlinedInstance& instance() const { return *copies.front().instance; }
};

bool is_known(const ControlFlow& flow, const Entries& entries) {
  const dwarf::InlinedInstance& instance = entries.instance();
  // LLVM gives what it has joined a line of 0.
  if (!instance.is_entry_known || instance.call_line == 0) return false;
  // Without a mark, the first instructions may have been joined with those of the caller, behind
  // whose jump this is. An instruction that is not of the copy may be run without it.
  const bool are_plain = std::ranges::all_of(entries.marks, [&](VirtualAddress mark) {
    return (instance.is_marked && contains(entries.code, mark.value)) || flow.is_in_sequence(mark);
  });
  return are_plain && flow.is_marked(entries.code, entries.marks) &&
         !flow.has_vectors(entries.code);
}

// Checks the copies of one function in one caller.
void check_copies(const std::optional<ControlFlow>& flow, std::span<const Copy> copies) {
  std::vector<Entries> known;
  while (!copies.empty()) {
    const std::uint64_t offset = copies.front().instance->offset;
    const auto other = std::ranges::find_if(
        copies, [&](const Copy& copy) { return copy.instance->offset != offset; });
    Entries& entries =
        known.emplace_back(copies.first(static_cast<std::size_t>(other - copies.begin())));
    copies = copies.subspan(entries.copies.size());
    for (const Copy& copy : entries.copies) entries.marks.push_back(copy.instance->entry);
    entries.code = to_ranges(entries.instance().code);
    entries.is_known = flow && is_known(*flow, entries);
  }
  for (Entries& from : known)
    for (Entries& to : known)
      if (flow && &from != &to && (from.is_known || to.is_known) &&
          std::ranges::any_of(to.marks, [&](VirtualAddress mark) {
            return std::ranges::find(from.marks, mark) == from.marks.end() &&
                   flow->joins(from.code, mark);
          }))
        from.is_known = to.is_known = false;
  for (const Entries& entries : known)
    for (const Copy& copy : entries.copies) copy.instance->is_entry_known = entries.is_known;
}

} // namespace

void check_entries(const elf::Image& image, std::span<dwarf::InlinedFunction> functions) {
  const auto arch = code_arch(image.machine());
  if (!arch || *arch == Arch::arm) return; // no disassembler
  std::vector<Copy> copies;
  for (std::size_t i = 0; i < functions.size(); ++i)
    for (dwarf::InlinedInstance& instance : functions[i].instances)
      if (instance.caller_code) copies.push_back({&instance, i});
  std::ranges::sort(copies, {}, [](const Copy& copy) {
    return std::tuple(copy.caller(), copy.function, copy.instance->offset);
  });
  for (std::span<const Copy> left = copies; !left.empty();) {
    const auto in_caller = left.first(static_cast<std::size_t>(
        std::ranges::find_if(
            left, [&](const Copy& copy) { return copy.caller() != left.front().caller(); }) -
        left.begin()));
    left = left.subspan(in_caller.size());
    if (std::ranges::none_of(in_caller,
                             [](const Copy& copy) { return copy.instance->is_entry_known; }))
      continue;
    const auto flow = read_flow(image, *arch, in_caller);
    for (auto rest = in_caller; !rest.empty();) {
      const auto same = rest.first(static_cast<std::size_t>(
          std::ranges::find_if(
              rest, [&](const Copy& copy) { return copy.function != rest.front().function; }) -
          rest.begin()));
      rest = rest.subspan(same.size());
      check_copies(flow, same);
    }
  }
}

} // namespace uprobectl
