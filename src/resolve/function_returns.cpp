#include "resolve/explain.hpp"
#include "resolve/function_state.hpp"
#include "uprobectl/insn.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl {

namespace {

// Bounds the work that a symbol table can ask for, bytes; no function known is half as long.
constexpr std::uint64_t largest_function = std::uint64_t{4} << 20U;
constexpr std::size_t most_parts = 64; // of one function; GCC makes one or two

using Jump = FunctionExits::Jump;

// Why the point is not where a function begins whose end is known.
std::optional<std::string> unreadable(const ProbePoint& point) {
  if (!point.offset) return "it is compressed in its archive, no byte of the file is its code";
  if (!point.symbol) return "no symbol says where the function begins and ends";
  if (point.symbol_offset != 0) return "it is not the start of the function";
  if (point.size.value_or(0) == 0) return "its symbol has no size, so its end is not known";
  if (*point.size > largest_function)
    return fmt::format("its symbol has {:#x} bytes, no more than {:#x} are read", *point.size,
                       largest_function);
  return std::nullopt;
}

Error cannot_probe(ErrorKind kind, const std::string& subject, const ProbePoint& point,
                   std::string_view reason) {
  return {kind, fmt::format("{}: '{}': its exits cannot all be probed: {}", subject,
                            display_name(point), reason)};
}

// What is measured up to its jump says nothing about the function.
Error plt_entry_jumps(const elf::Image& image, const std::string& subject,
                      const ProbePoint& point) {
  Error error{ErrorKind::unsupported,
              fmt::format("{}: '{}' does not return: a PLT entry jumps to the imported function, "
                          "which returns to the caller",
                          subject, display_name(point))};
  for (const elf::Symbol& entry : plt_entries(image))
    if (entry.address == point.address)
      return hint_at_library(std::move(error), "attach --return", image, entry);
  return error;
}

} // namespace

// The reading of one function: of its own bytes, then of the parts that these jump to.
class FunctionReader::Reading {
public:
  Reading(State& state, Arch arch, const ProbePoint& point, CodeLanguage language)
      : state_(state), arch_(arch), point_(point), language_(language) {}

  Result<FunctionReturns> read() {
    parts_.push_back({point_.address, *point_.size});
    if (const auto cold = state_.jump_targets().cold_part_of(point_.address);
        cold && cold->size <= largest_function)
      parts_.push_back({cold->address, cold->size});
    for (std::size_t i = 0; i < parts_.size(); ++i)
      if (auto done = read_part(parts_[i]); !done) return fail(std::move(done).error());
    sort();
    found_.code = std::move(parts_);
    return std::move(found_);
  }

private:
  // By value: a jump to another part makes the list longer.
  Result<void> read_part(elf::AddressRange part) {
    const auto code = code_of(part);
    if (!code)
      return fail(
          refuse(ErrorKind::corrupt,
                 fmt::format("its {:#x} bytes at {:#x} are not all in an executable segment",
                             part.size, part.address.value)));
    if (!state_.may_decode(part.size))
      return fail(refuse(ErrorKind::corrupt, "the functions of the file overlap too often"));
    const auto exits = function_exits(arch_, *code, part.address);
    if (!exits) return fail(refuse(ErrorKind::unsupported, "its instructions are not decoded"));
    for (const std::uint64_t offset : exits->undecodable)
      if (const VirtualAddress place{part.address.value + offset}; !may_be_no_instruction(place))
        return fail(
            refuse(ErrorKind::corrupt,
                   fmt::format("the bytes at vaddr:{:#x} are no known instruction", place.value)));
    if (exits->runs_on)
      return fail(refuse(ErrorKind::unsupported,
                         "it has no end of its own and runs on into what follows it"));
    for (const std::uint64_t offset : exits->returns)
      if (const VirtualAddress place{part.address.value + offset}; !is_data(place))
        found_.returns.push_back(file_offset(place));
    for (const Jump& jump : exits->jumps_out)
      if (const VirtualAddress place{part.address.value + jump.offset}; !is_data(place))
        if (auto taken = take(jump, place); !taken) return taken;
    // Go's functions begin anew when their stack has been made larger.
    if (part.address == point_.address && language_ != CodeLanguage::go)
      for (const Jump& jump : exits->jumps_again)
        if (auto added = add(jump, {part.address.value + jump.offset}); !added) return added;
    return {};
  }

  Result<void> take(const Jump& jump, VirtualAddress place) {
    if (jump.target && *jump.target == point_.address && language_ == CodeLanguage::go) return {};
    if (jump.target && *jump.target != point_.address) {
      if (is_own(*jump.target)) return {};
      if (const auto part = part_at(*jump.target)) {
        parts_.push_back(*part);
        return {};
      }
    }
    if (!jump.target && !jump.slot && stays(jump, place)) return {};
    return add(jump, place);
  }

  // An indirect jump, in the function for certain.
  bool stays(const Jump& jump, VirtualAddress place) const {
    if (jump.kind == Jump::Kind::table && !jump.by_form) return true;
    // Not all that compilers write tells unwinders of the instructions that take a frame down.
    return !jump.moves_stack && state_.has_frame && state_.has_frame(state_.image, place);
  }

  Result<void> add(const Jump& jump, VirtualAddress place) {
    if (jump.condition.test == JumpCondition::Test::unknown)
      return fail(refuse(ErrorKind::unsupported,
                         fmt::format("the jump out of it at vaddr:{:#x} depends on more than flags "
                                     "or a register",
                                     place.value)));
    FunctionReturns::TailCall call{.offset = file_offset(place),
                                   .address = place,
                                   .callee = {},
                                   .condition = jump.condition,
                                   .source = jump.source};
    if (jump.target && leads_back(*jump.target))
      return fail(refuse(ErrorKind::unsupported,
                         fmt::format("it jumps into the midst of {}, which jumps back",
                                     state_.jump_targets().name_at(*jump.target))));
    if (jump.target)
      call.callee = state_.jump_targets().name_at(*jump.target);
    else if (jump.slot)
      call.callee = state_.jump_targets().name_in_slot(*jump.slot);
    else if (!jump.source)
      return fail(
          refuse(ErrorKind::unsupported,
                 fmt::format("where the jump at vaddr:{:#x} goes cannot be told", place.value)));
    found_.tail_calls.push_back(std::move(call));
    return {};
  }

  // The part of this function that a jump out of it goes to.
  std::optional<elf::AddressRange> part_at(VirtualAddress target) const {
    if (parts_.size() >= most_parts) return std::nullopt;
    const JumpTargets& targets = state_.jump_targets();
    if (const auto part = targets.part_at(target, point_.address))
      return part->size <= largest_function
                 ? std::optional(elf::AddressRange{part->address, part->size})
                 : std::nullopt;
    if (targets.has_name(target) || is_plt_entry(target)) return std::nullopt;
    const auto piece = state_.frame_table().piece_at(target);
    if (!piece || piece->range.size > largest_function) return std::nullopt;
    return piece->inside_frame || comes_back(piece->range) ? std::optional(piece->range)
                                                           : std::nullopt;
  }

  // One for an IFUNC of the same file has no name. Its frame description covers the whole PLT.
  bool is_plt_entry(VirtualAddress address) const {
    constexpr std::uint64_t stub_size = 16; // bytes
    const auto code = code_of({address, stub_size});
    const auto exits = code ? function_exits(arch_, *code, address) : std::nullopt;
    return exits && std::ranges::any_of(exits->jumps_out,
                                        [](const Jump& jump) { return jump.slot.has_value(); });
  }

  // Whether code without a name jumps into the midst of this function: no other function does.
  bool comes_back(const elf::AddressRange& piece) const {
    const auto code = state_.may_decode(piece.size) ? code_of(piece) : std::nullopt;
    const auto exits = code ? function_exits(arch_, *code, piece.address) : std::nullopt;
    return exits && std::ranges::any_of(exits->jumps_out, [&](const Jump& jump) {
             return jump.target && *jump.target != point_.address && is_own(*jump.target);
           });
  }

  // Assembly of two names that share their code.
  bool leads_back(VirtualAddress target) const {
    const auto other = state_.jump_targets().around(target);
    return other && other->address != target && other->size <= largest_function &&
           !is_own(other->address) && comes_back(*other);
  }

  bool is_own(VirtualAddress address) const {
    return std::ranges::any_of(parts_, [&](const elf::AddressRange& part) {
      return address.value - part.address.value < part.size;
    });
  }

  // Whether the assembler's marks say that data lie there: a word of data may read as a return.
  bool is_data(VirtualAddress place) const {
    if (arch_ != Arch::arm64) return false;
    const auto mark = state_.code_marks().last_before(place);
    return mark && mark->data;
  }

  // What ART and Go put between their functions' instructions is not marked.
  bool may_be_no_instruction(VirtualAddress place) const {
    if (arch_ != Arch::arm64) return false;
    return language_ == CodeLanguage::go || language_ == CodeLanguage::java || is_data(place);
  }

  // Nothing where they do not all lie in one executable segment: so every place in them has a file
  // offset.
  std::optional<Bytes> code_of(elf::AddressRange part) const {
    const elf::Segment* segment = state_.image.segment_of(part.address);
    if (segment == nullptr || !segment->executable) return std::nullopt;
    const std::uint64_t into = part.address.value - segment->address.value;
    if (part.size > segment->file_size - into) return std::nullopt;
    return slice(state_.image.bytes(), segment->offset.value + into, part.size);
  }

  FileOffset file_offset(VirtualAddress place) const {
    const auto offset = state_.image.to_image(place);
    const auto file = offset ? state_.image.to_file(*offset) : std::nullopt;
    return file.value_or(FileOffset{});
  }

  Error refuse(ErrorKind kind, std::string_view reason) const {
    return cannot_probe(kind, state_.subject(), point_, reason);
  }

  void sort() {
    std::ranges::sort(found_.returns);
    const auto repeated = std::ranges::unique(found_.returns);
    found_.returns.erase(repeated.begin(), repeated.end());
    std::ranges::sort(found_.tail_calls, {}, &FunctionReturns::TailCall::offset);
  }

  State& state_;
  Arch arch_;
  const ProbePoint& point_;
  CodeLanguage language_;
  std::vector<elf::AddressRange> parts_;
  FunctionReturns found_;
};

void FunctionReader::use_frames(FrameKnowledge has_frame) {
  state_->has_frame = std::move(has_frame);
}

Result<FunctionReturns> FunctionReader::returns(const ProbePoint& point) const {
  const auto refuse = [&](std::string_view reason) {
    return fail(cannot_probe(ErrorKind::unsupported, state_->subject(), point, reason));
  };
  const auto arch = code_arch(state_->image.machine());
  if (!arch || *arch == Arch::arm) // which has Thumb's code beside it
    return refuse(fmt::format("{} code is not decoded", elf::to_string(state_->image.machine())));
  if (point.kind == SymbolKind::plt)
    return fail(plt_entry_jumps(state_->image, state_->subject(), point));
  if (const auto reason = unreadable(point)) return refuse(*reason);
  return Reading(*state_, *arch, point, language_of(point)).read();
}

} // namespace uprobectl
