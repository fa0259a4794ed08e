// SPDX-License-Identifier: Apache-2.0
#include "resolve/inlined_flow.hpp"

#include "insn/control_flow.hpp"
#include "resolve/code_index.hpp"
#include "symbols/parallel.hpp"

#include <algorithm>
#include <functional>
#include <thread>
#include <tuple>

namespace uprobectl::resolve {

namespace {

struct Copy {
  dwarf::InlinedInstance* instance = nullptr;
  std::size_t function = 0;

  const dwarf::FunctionCode* caller() const { return instance->caller_code.get(); }
  std::uint64_t offset() const { return instance->offset; }
  bool is_known() const { return instance->is_entry_known; }
};

// Returns the copies at the begin that have the same of what `get` returns.
template <typename Get>
std::span<const Copy> first_with_same(std::span<const Copy> copies, Get get) {
  const auto other = std::ranges::find_if(copies, [&](const Copy& copy) {
    return std::invoke(get, copy) != std::invoke(get, copies.front());
  });
  return copies.first(static_cast<std::size_t>(other - copies.begin()));
}

// Copies of one function in one caller that are compared with each other; more are not known.
constexpr std::size_t max_compared = 1024;

// Bounds the work for damaged files, whose functions may all have the same code.
class Work {
public:
  explicit Work(const elf::Image& image) : bytes_left_(4 * image.bytes().size()) {}

  // Returns false if there is more than any compiler causes.
  bool take(const dwarf::FunctionCode& caller, std::size_t copies) {
    std::uint64_t size = 0;
    for (const elf::AddressRange& piece : caller.pieces) {
      if (piece.size > max_size) return false;
      size += piece.size;
    }
    constexpr std::uint64_t bytes_per_block = 8;
    const std::uint64_t steps = size / bytes_per_block * copies;
    if (size > std::min(bytes_left_, max_size) || steps > steps_left_) return false;
    bytes_left_ -= size;
    steps_left_ -= steps;
    return true;
  }

private:
  static constexpr std::uint64_t max_size = std::uint64_t{1} << 22; // of a function, bytes
  std::uint64_t bytes_left_;
  std::uint64_t steps_left_ = std::uint64_t{1} << 32;
};

std::vector<insn::CodeRange> to_ranges(std::span<const elf::AddressRange> pieces) {
  std::vector<insn::CodeRange> ranges;
  for (const elf::AddressRange& piece : pieces)
    ranges.push_back({piece.address, {piece.address.value + piece.size}});
  return ranges;
}

std::optional<insn::ControlFlow> read_flow(const elf::Image& image, Arch arch,
                                           std::span<const Copy> copies) {
  const dwarf::FunctionCode& caller = *copies.front().caller();
  std::vector<insn::ControlFlow::Piece> pieces;
  for (const elf::AddressRange& piece : caller.pieces) {
    const Bytes code = code_bytes(image, piece.address, piece.size);
    if (code.size() != piece.size) return std::nullopt;
    pieces.push_back({piece.address, code});
  }
  std::vector<VirtualAddress> marks;
  for (const Copy& copy : copies) marks.push_back(copy.instance->entry);
  return insn::ControlFlow::read(arch, pieces, caller.entry, marks);
}

// The entries of one copy.
struct Entries {
  std::span<const Copy> copies;
  std::vector<VirtualAddress> marks = {};
  std::vector<insn::CodeRange> code = {};
  bool is_known = false;

  const dwarf::InlinedInstance& instance() const { return *copies.front().instance; }
};

bool is_known(const insn::ControlFlow& flow, const Entries& entries) {
  const dwarf::InlinedInstance& instance = entries.instance();
  // LLVM gives what it has joined a line of 0.
  if (!instance.is_entry_known || instance.call_line == 0) return false;
  // Without a mark, the first instructions may have been joined with those of the caller, after
  // whose jump this is. An instruction that is not of the copy may be run without it.
  const bool are_plain = std::ranges::all_of(entries.marks, [&](VirtualAddress mark) {
    return (instance.is_marked && contains(entries.code, mark.value)) || flow.is_in_sequence(mark);
  });
  return are_plain && flow.is_marked(entries.code, entries.marks) &&
         !flow.has_vectors(entries.code);
}

// Copies that the compiler may have joined: code of one continues at an entry of another.
void drop_joined(const insn::ControlFlow& flow, std::vector<Entries>& known) {
  for (Entries& from : known)
    for (Entries& to : known)
      if (&from != &to && (from.is_known || to.is_known) &&
          std::ranges::any_of(to.marks, [&](VirtualAddress mark) {
            return std::ranges::find(from.marks, mark) == from.marks.end() &&
                   flow.joins(from.code, mark);
          }))
        from.is_known = to.is_known = false;
}

// Checks the copies of one function in one caller.
void check_copies(const std::optional<insn::ControlFlow>& flow, std::span<const Copy> copies) {
  std::vector<Entries> known;
  while (!copies.empty()) {
    Entries& entries = known.emplace_back(first_with_same(copies, &Copy::offset));
    copies = copies.subspan(entries.copies.size());
    for (const Copy& copy : entries.copies) entries.marks.push_back(copy.instance->entry);
    entries.code = to_ranges(entries.instance().code);
    entries.is_known = flow && is_known(*flow, entries);
  }
  const bool is_compared = flow && known.size() <= max_compared;
  if (is_compared) drop_joined(*flow, known);
  for (const Entries& entries : known)
    for (const Copy& copy : entries.copies)
      copy.instance->is_entry_known = is_compared && entries.is_known;
}

void check_caller(const elf::Image& image, Arch arch, std::span<const Copy> copies) {
  const auto flow = read_flow(image, arch, copies);
  while (!copies.empty()) {
    const auto same = first_with_same(copies, &Copy::function);
    check_copies(flow, same);
    copies = copies.subspan(same.size());
  }
}

} // namespace

void check_entries(const elf::Image& image, std::span<dwarf::InlinedFunction> functions) {
  const auto arch = code_arch(image.machine());
  if (!arch || !arch_info(*arch).has_disassembler()) {
    for (dwarf::InlinedFunction& function : functions)
      for (dwarf::InlinedInstance& instance : function.instances) instance.is_entry_known = false;
    return;
  }
  std::vector<Copy> copies;
  for (std::size_t i = 0; i < functions.size(); ++i)
    for (dwarf::InlinedInstance& instance : functions[i].instances)
      if (instance.caller_code)
        copies.push_back({&instance, i});
      else
        instance.is_entry_known = false;
  std::ranges::sort(copies, {}, [](const Copy& copy) {
    return std::tuple(copy.caller(), copy.function, copy.instance->offset);
  });
  Work work(image);
  std::vector<std::span<const Copy>> by_caller;
  for (std::span<const Copy> left = copies; !left.empty();) {
    const auto in_caller = first_with_same(left, &Copy::caller);
    left = left.subspan(in_caller.size());
    if (std::ranges::none_of(in_caller, &Copy::is_known)) continue;
    if (work.take(*in_caller.front().caller(), in_caller.size()))
      by_caller.push_back(in_caller);
    else
      for (const Copy& copy : in_caller) copy.instance->is_entry_known = false;
  }
  constexpr std::size_t callers_per_thread = 64;
  const auto threads = static_cast<unsigned>(
      std::clamp<std::size_t>(by_caller.size() / callers_per_thread, 1,
                              std::clamp(std::thread::hardware_concurrency(), 1U, 4U)));
  symbols::parallel_for(threads, [&](unsigned first) {
    for (std::size_t i = first; i < by_caller.size(); i += threads)
      check_caller(image, *arch, by_caller[i]);
  });
}

} // namespace uprobectl::resolve
