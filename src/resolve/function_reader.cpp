// SPDX-License-Identifier: Apache-2.0
#include "elf/layout.hpp"
#include "elf/sections.hpp"
#include "resolve/explain.hpp"
#include "resolve/instructions.hpp"
#include "resolve/jump_targets.hpp"
#include "resolve/point.hpp"
#include "symbols/classify.hpp"
#include "symbols/demangle.hpp"
#include "symbols/plt.hpp"
#include "uprobectl/insn.hpp"
#include "uprobectl/resolve/function.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace uprobectl::resolve {

namespace {

// Limits the size of a function, bytes, and so the work that a malformed symbol table can cause. No
// known function is half as long.
constexpr std::uint64_t max_function_size = std::uint64_t{4} << 20U;
constexpr std::size_t max_parts = 64; // of one function; GCC makes one or two

using Jump = insn::FunctionExits::Jump;

// Returns why the point is not the start of a function with a known end; nullopt if it is.
std::optional<std::string> unsupported_reason(const ProbePoint& point) {
  if (!point.offset) return "it is compressed in its archive";
  if (!point.symbol) return "no symbol covers it, so its start and end are not known";
  if (point.symbol_offset != 0) return "it is not the start of the function";
  if (point.size.value_or(0) == 0) return "its symbol has no size, so its end is not known";
  if (*point.size > max_function_size)
    return fmt::format("its symbol has {:#x} bytes, expected at most {:#x}", *point.size,
                       max_function_size);
  return std::nullopt;
}

Error exits_error(ErrorKind kind, const std::string& subject, const ProbePoint& point,
                  std::string_view reason) {
  return {kind, fmt::format("{}: '{}': its exits cannot all be probed: {}", subject,
                            display_name(point), reason)};
}

// The error for returns of a PLT entry, which has no return instruction.
Error plt_entry_jumps(const elf::Image& image, const std::string& subject,
                      const ProbePoint& point) {
  Error error{ErrorKind::unsupported,
              fmt::format("{}: '{}' does not return: a PLT entry jumps to the imported function, "
                          "which returns to the caller",
                          subject, display_name(point))};
  for (const elf::Symbol& entry : symbols::plt_entries(image))
    if (entry.address == point.address)
      return hint_at_library(std::move(error), "attach --return", image, entry);
  return error;
}

// Sections that Go's linker writes (cmd/link/internal/ld/data.go, elf.go). The third is in
// position-independent programs.
constexpr std::array<std::string_view, 4> go_sections = {
    ".go.buildinfo", ".gopclntab", ".data.rel.ro.gopclntab", ".note.go.buildid"};
// Functions of Go's runtime/cgo, which every Go program with linked C code has. `_cgo_init` and
// similar names are runtime variables that all Go programs have.
constexpr std::array<std::string_view, 2> cgo_names = {"crosscall2", "x_cgo_init"};
// Personality routines that frames reference for exceptions and panics.
constexpr std::array<std::string_view, 2> personalities = {"__gxx_personality_v0",
                                                           "rust_eh_personality"};
constexpr std::array<std::string_view, 3> cxx_libraries = {"libstdc++.so", "libc++.so",
                                                           "libc++_shared.so"};

// Whether `passes` accepts a name of .dynsym or .symtab.
template <typename Passes>
bool any_name(const elf::Image& image, Passes passes) {
  const auto any_in = [&](const Result<elf::SymbolTable>& table) {
    if (!table) return false;
    for (std::uint32_t index = 1; index < table->size(); ++index)
      if (const auto name = table->name(index); name && passes(*name)) return true;
    return false;
  };
  return any_in(image.dynamic_symbols()) || any_in(image.full_symbols());
}

bool has_any_of(const elf::Image& image, std::span<const std::string_view> names) {
  return any_name(
      image, [&](std::string_view name) { return std::ranges::find(names, name) != names.end(); });
}

bool has_go_tables(const elf::Image& image) {
  const auto layout = elf::read_layout(image.bytes());
  if (!layout) return false;
  // cmd/link/internal/ld/elf.go. Programs without section headers have the note, too.
  constexpr std::uint32_t elf_note_gobuildid_tag = 4;
  return elf::has_note(*layout, "Go", elf_note_gobuildid_tag) ||
         std::ranges::any_of(go_sections, [&](std::string_view name) {
           return elf::section_bytes(*layout, name).has_value();
         });
}

bool needs(const elf::Image& image, std::string_view library) {
  return std::ranges::any_of(image.needed_libraries().names,
                             [&](std::string_view name) { return name.starts_with(library); });
}

bool may_unwind(const elf::Image& image) {
  return std::ranges::any_of(cxx_libraries,
                             [&](std::string_view library) { return needs(image, library); }) ||
         has_any_of(image, personalities);
}

struct StringNames {
  bool libstdcxx = false;
  bool libcxx = false;

  bool any() const { return libstdcxx || libcxx; }
  bool both() const { return libstdcxx && libcxx; }
  StringLayout layout() const {
    if (libstdcxx == libcxx) return StringLayout::unknown;
    return libcxx ? StringLayout::libcxx : StringLayout::libstdcxx;
  }
};

// Searches mangled names for the inline namespaces of std::basic_string: those of libc++ (platform
// ABI and NDK) and of libstdc++.
StringNames string_names(const Result<elf::SymbolTable>& table) {
  StringNames found;
  if (!table) return found;
  for (std::uint32_t index = 1; index < table->size() && !found.both(); ++index) {
    const auto name = table->name(index);
    if (!name || !symbols::looks_mangled(*name)) continue;
    found.libcxx = found.libcxx || name->contains("St3__1") || name->contains("St6__ndk1");
    found.libstdcxx = found.libstdcxx || name->contains("St7__cxx11");
  }
  return found;
}

StringLayout layout_of(const elf::Image& image) {
  const StringNames needed{.libstdcxx = needs(image, "libstdc++.so"),
                           .libcxx = needs(image, "libc++.so") || needs(image, "libc++_shared.so")};
  if (needed.any()) return needed.layout();
  const StringNames dynamic = string_names(image.dynamic_symbols());
  if (dynamic.any()) return dynamic.layout();
  return string_names(image.full_symbols()).layout();
}

} // namespace

struct FunctionReader::State {
  State(std::shared_ptr<const ProbedBinary> of, std::shared_ptr<binary::Binary> opened)
      : binary(std::move(of)), file(std::move(opened)) {}

  std::string subject() const { return to_string(binary->path); }
  const JumpTargets& jump_targets() {
    if (!targets) targets.emplace(*file);
    return *targets;
  }
  CodeIndex& code_index() {
    if (!code) code.emplace(*file);
    return *code;
  }

  // Whether `bytes` more of code may be decoded. Limits the time for a malicious file with
  // overlapping functions. Other files stay below the limit, even if parts are decoded several
  // times.
  bool may_decode(std::uint64_t bytes) {
    constexpr std::uint64_t times = 8;
    decoded += bytes;
    return decoded / times <= image.bytes().size();
  }

  std::shared_ptr<const ProbedBinary> binary;
  std::shared_ptr<binary::Binary> file;
  const elf::Image& image = file->image();
  FindFrame find_frame = {};

  // Read on first use.
  std::optional<JumpTargets> targets = {};
  std::optional<CodeIndex> code = {};
  std::optional<bool> is_oat = {};    // Java's
  std::optional<bool> has_go = {};    // Go's tables
  std::optional<bool> has_cgo = {};   // C code linked to Go's
  std::optional<bool> may_throw = {}; // C++'s or Rust's unwinding
  std::optional<StringLayout> strings = {};
  std::uint64_t decoded = 0; // bytes
};

// Reads one function and the parts that it jumps to.
class FunctionReader::FunctionScan {
public:
  FunctionScan(State& state, Arch arch, const ProbePoint& point, CodeLanguage language)
      : state_(state), arch_(arch), point_(point), language_(language) {}

  Result<FunctionReturns> read() {
    parts_.push_back({point_.address, *point_.size});
    if (const auto cold = state_.jump_targets().find_cold_part(point_.address);
        cold && cold->size <= max_function_size)
      parts_.push_back({cold->address, cold->size});
    while (exits_.size() < parts_.size()) {
      for (std::size_t i = exits_.size(); i < parts_.size(); ++i)
        if (auto done = read_part(parts_[i]); !done) return fail(std::move(done).error());
      drop_data();
    }
    for (std::size_t i = 0; i < exits_.size(); ++i)
      if (auto done = add_exits(parts_[i], exits_[i]); !done) return fail(std::move(done).error());
    add_return_jumps();
    sort();
    found_.code = std::move(parts_);
    return std::move(found_);
  }

private:
  // part is passed by value because a jump to another part appends to parts_.
  Result<void> read_part(elf::AddressRange part) {
    const auto code = code_of(part);
    if (!code)
      return fail(
          refuse(ErrorKind::corrupt,
                 fmt::format("its {:#x} bytes at {:#x} are not all in an executable segment",
                             part.size, part.address.value)));
    if (!state_.may_decode(part.size))
      return fail(refuse(ErrorKind::corrupt, "the functions of the file overlap too often"));
    auto exits = insn::function_exits(arch_, *code, part.address);
    if (!exits) return fail(refuse(ErrorKind::unsupported, "its instructions cannot be decoded"));
    add_parts(part, *exits);
    exits_.push_back(std::move(*exits));
    return {};
  }

  void add_parts(const elf::AddressRange& part, const insn::FunctionExits& exits) {
    for (const Jump& jump : exits.jumps_out)
      if (jump.target && *jump.target != point_.address && !is_inside_function(*jump.target) &&
          !is_data({part.address.value + jump.offset}))
        if (const auto other = part_at(*jump.target)) parts_.push_back(*other);
  }

  // Reads the parts again if they may have data between instructions and it is known which code
  // control reaches. Adds the parts that are found only so: decoding stops at some data.
  void drop_data() {
    if (std::ranges::none_of(exits_, &insn::FunctionExits::may_be_in_data) || !knows_entries())
      return;
    std::vector<insn::FunctionExits> reached(exits_.size());
    std::vector<VirtualAddress> entries;
    for (const insn::FunctionExits& exits : exits_)
      for (const Jump& jump : exits.jumps_out)
        if (jump.target && *jump.target != point_.address && is_inside_function(*jump.target))
          entries.push_back(*jump.target);
    for (std::size_t i = 0; i < exits_.size(); ++i) {
      auto read = insn::reached_exits(arch_, *code_of(parts_[i]), parts_[i].address, entries);
      if (!read) return;
      reached[i] = std::move(*read);
      add_parts(elf::AddressRange(parts_[i]), reached[i]);
    }
    exits_ = std::move(reached);
  }

  // Whether control enters the function only at its start and by jumps of its parts: not at a
  // handler of an exception, at the code after Go's deferred calls, or where a restartable sequence
  // was aborted.
  bool knows_entries() const {
    if (language_ == CodeLanguage::go || language_ == CodeLanguage::java) return false;
    CodeIndex& index = state_.code_index();
    return std::ranges::none_of(parts_, [&](const elf::AddressRange& part) {
      return index.may_have_handlers(part, language_ == CodeLanguage::cxx) ||
             index.has_sequence(part);
    });
  }

  Result<void> add_exits(const elf::AddressRange& part, const insn::FunctionExits& exits) {
    for (const std::uint64_t offset : exits.undecodable)
      if (const VirtualAddress address{part.address.value + offset}; !may_be_data(address))
        return fail(refuse(
            ErrorKind::corrupt,
            fmt::format("the bytes at vaddr:{:#x} are not a known instruction", address.value)));
    if (exits.falls_through)
      return fail(refuse(ErrorKind::unsupported, "it runs on into the code after it"));
    for (const std::uint64_t offset : exits.returns)
      if (const VirtualAddress address{part.address.value + offset}; !is_data(address))
        found_.returns.push_back(file_offset(address));
    for (const Jump& jump : exits.jumps_out)
      if (const VirtualAddress address{part.address.value + jump.offset}; !is_data(address))
        if (auto taken = add_jump(jump, address); !taken) return taken;
    // A Go function restarts after its stack has grown.
    if (part.address == point_.address && language_ != CodeLanguage::go)
      for (const Jump& jump : exits.jumps_to_entry)
        if (auto added = add_tail_call(jump, {part.address.value + jump.offset}); !added)
          return added;
    return {};
  }

  Result<void> add_jump(const Jump& jump, VirtualAddress address) {
    if (jump.target && *jump.target == point_.address && language_ == CodeLanguage::go) return {};
    if (jump.target && *jump.target != point_.address) {
      if (is_inside_function(*jump.target)) return {};
      return add_tail_call(jump, address, find_return_code(jump, address));
    }
    if (!jump.target && !jump.slot && stays_inside(jump, address)) return {};
    return add_tail_call(jump, address);
  }

  // Describes the code at the target of a jump if it only returns. A function of the source may do
  // nothing else: unless it is a thunk, that code has no name or one that compilers give to
  // outlined code (llvm/lib/CodeGen/MachineOutliner.cpp), or begins with a frame, as the functions
  // of libgcc that restore registers for -mcall-ms2sysv-xlogues (config/i386/resms64*) do.
  std::optional<insn::ReturnCode> find_return_code(const Jump& jump, VirtualAddress address) const {
    if (language_ == CodeLanguage::go || language_ == CodeLanguage::java) return std::nullopt;
    constexpr std::uint64_t enough = 64; // bytes
    const VirtualAddress target = *jump.target;
    const auto read = [this](VirtualAddress at) { return code_bytes(state_.image, at, enough); };
    const JumpTargets& targets = state_.jump_targets();
    const auto frame = frame_at(target);
    const bool is_function = !frame && targets.has_name(target) &&
                             !targets.name_at(target).starts_with("OUTLINED_FUNCTION_") &&
                             !insn::is_return_thunk(arch_, read(target));
    auto found = is_function ? std::nullopt : insn::find_return_code(arch_, target, read);
    if (!found || (!frame && !found->stack_from)) return found;
    if (found->stack_from ? !has_base(frame, *found->stack_from) : !is_on_stack(frame))
      return std::nullopt;
    if (found->raises_stack != frame->distance) return std::nullopt;
    if (!found->stack_from) return found;
    // The jump, too, is in the frame.
    const auto own = jump.moves_stack ? std::nullopt : frame_at(address);
    if (!is_on_stack(own)) return std::nullopt;
    return insn::ReturnCode{.raises_stack = own->distance, .stores = found->stores};
  }

  std::optional<StackFrame> frame_at(VirtualAddress address) const {
    return state_.find_frame ? state_.find_frame(state_.image, address) : std::nullopt;
  }
  bool is_on_stack(const std::optional<StackFrame>& frame) const {
    return frame && frame->base == arch_info(arch_).unwind->stack_pointer;
  }
  bool has_base(const std::optional<StackFrame>& frame, std::uint8_t encoding) const {
    const ArchInfo& arch = arch_info(arch_);
    const auto number = arch.find_encoded_register(encoding);
    return frame && number && arch.find_dwarf_register(frame->base) == number;
  }

  // A piece of the function's code that another jump has led to has its return itself.
  void add_return_jumps() {
    for (auto& [target, call] : return_jumps_) {
      if (is_inside_function(target)) continue;
      const bool is_plain = call.condition.test == insn::JumpCondition::Test::always &&
                            *call.returns == insn::ReturnCode{};
      if (is_plain)
        found_.returns.push_back(call.offset);
      else
        found_.tail_calls.push_back(std::move(call));
    }
  }

  // Whether an indirect jump certainly stays in the function.
  bool stays_inside(const Jump& jump, VirtualAddress address) const {
    if (jump.kind == Jump::Kind::table && !jump.is_heuristic) return true;
    // Unwind data do not always describe the instructions that remove a frame. A frame that is
    // based on other registers belongs to code that switches stacks.
    const auto frame = jump.moves_stack ? std::nullopt : frame_at(address);
    return frame && (is_on_stack(frame) || frame->base == arch_info(arch_).unwind->frame_pointer);
  }

  Result<void> add_tail_call(const Jump& jump, VirtualAddress address,
                             std::optional<insn::ReturnCode> returned = {}) {
    if (jump.condition.test == insn::JumpCondition::Test::unknown)
      return fail(refuse(ErrorKind::unsupported,
                         fmt::format("the jump out of it at vaddr:{:#x} depends on more than flags "
                                     "or a register",
                                     address.value)));
    FunctionReturns::TailCall call{.offset = file_offset(address),
                                   .address = address,
                                   .callee = {},
                                   .condition = jump.condition,
                                   .source = jump.source,
                                   .returns = returned};
    if (jump.target && shares_code(*jump.target))
      return fail(refuse(ErrorKind::unsupported,
                         fmt::format("it jumps into the middle of {}, which jumps back",
                                     state_.jump_targets().name_at(*jump.target))));
    if (jump.target && !returned && leaves_frame(*jump.target))
      return fail(refuse(ErrorKind::unsupported,
                         fmt::format("the jump at vaddr:{:#x} leaves its stack frame to {}, which "
                                     "does not only return",
                                     address.value, state_.jump_targets().name_at(*jump.target))));
    call.target = jump.target;
    call.slot = jump.target ? plt_slot_at(*jump.target) : jump.slot;
    if (jump.target)
      call.callee = state_.jump_targets().name_at(*jump.target);
    else if (jump.slot)
      call.callee = state_.jump_targets().name_in_slot(*jump.slot);
    else if (!jump.source)
      return fail(
          refuse(ErrorKind::unsupported,
                 fmt::format("the target of the jump at vaddr:{:#x} is not known", address.value)));
    // With -mfunction-return=thunk-extern another file may have the thunk.
    if (jump.target && call.callee->starts_with("__x86_return_thunk")) call.returns.emplace();
    if (call.returns)
      return_jumps_.emplace_back(*jump.target, std::move(call));
    else
      found_.tail_calls.push_back(std::move(call));
    return {};
  }

  // Returns the part of this function that contains the target of a jump.
  std::optional<elf::AddressRange> part_at(VirtualAddress target) const {
    if (parts_.size() >= max_parts) return std::nullopt;
    const JumpTargets& targets = state_.jump_targets();
    if (const auto part = targets.part_at(target, point_.address))
      return part->size <= max_function_size
                 ? std::optional(elf::AddressRange{part->address, part->size})
                 : std::nullopt;
    if (targets.has_name(target) || is_plt_entry(target)) return std::nullopt;
    const auto piece = state_.code_index().frames().piece_at(target);
    if (!piece || piece->range.size > max_function_size) return std::nullopt;
    return piece->inside_frame || leaves_frame(target) || jumps_back(piece->range)
               ? std::optional(piece->range)
               : std::nullopt;
  }

  // Returns the slot that the PLT entry at the address jumps through.
  std::optional<VirtualAddress> plt_slot_at(VirtualAddress address) const {
    constexpr std::uint64_t enough = 32; // bytes
    const elf::Image& image = state_.image;
    for (const symbols::PltStub& stub : symbols::find_plt_stubs(
             image.machine(), {code_bytes(image, address, enough), address}, image.got()))
      if (stub.address == address) return stub.slot;
    return std::nullopt;
  }

  // Whether the address is a PLT entry without a name. Those of IFUNCs of the same file have none,
  // and their FDE covers the whole PLT.
  bool is_plt_entry(VirtualAddress address) const {
    constexpr std::uint64_t stub_size = 16; // bytes
    const auto code = code_of({address, stub_size});
    const auto exits = code ? insn::function_exits(arch_, *code, address) : std::nullopt;
    return exits && std::ranges::any_of(exits->jumps_out,
                                        [](const Jump& jump) { return jump.slot.has_value(); });
  }

  // Whether code without a symbol jumps into the middle of this function. Only its parts do.
  bool jumps_back(const elf::AddressRange& piece) const {
    const auto code = state_.may_decode(piece.size) ? code_of(piece) : std::nullopt;
    const auto exits = code ? insn::function_exits(arch_, *code, piece.address) : std::nullopt;
    return exits && std::ranges::any_of(exits->jumps_out, [&](const Jump& jump) {
             return jump.target && *jump.target != point_.address &&
                    is_inside_function(*jump.target);
           });
  }

  // Whether a jump to the code leaves it the frame of this function. Frames of Go and Java are not
  // known well enough.
  bool leaves_frame(VirtualAddress target) const {
    return language_ != CodeLanguage::go && language_ != CodeLanguage::java &&
           frame_at(target).has_value();
  }

  // Whether the target is in the middle of a function that jumps back: two assembly functions that
  // share code.
  bool shares_code(VirtualAddress target) const {
    const auto other = state_.jump_targets().symbol_range_at(target);
    return other && other->address != target && other->size <= max_function_size &&
           !is_inside_function(other->address) && jumps_back(*other);
  }

  bool is_inside_function(VirtualAddress address) const {
    return std::ranges::any_of(parts_, [&](const elf::AddressRange& part) {
      return address.value - part.address.value < part.size;
    });
  }

  // Whether the assembler marked the address as data: a word of data can look like a return.
  bool is_data(VirtualAddress address) const {
    if (arch_info(arch_).mapping_symbols == MappingSymbols::none) return false;
    const auto mark = state_.code_index().marks().last_at_or_before(address);
    return mark && mark->data;
  }

  // Whether bytes that do not decode may be data. ART and Go do not mark data in their code.
  bool may_be_data(VirtualAddress address) const {
    if (arch_info(arch_).mapping_symbols == MappingSymbols::none) return false;
    return language_ == CodeLanguage::go || language_ == CodeLanguage::java || is_data(address);
  }

  // Returns nullopt unless one executable segment has all bytes, so that each has a file offset.
  std::optional<Bytes> code_of(elf::AddressRange part) const {
    const elf::Segment* segment = state_.image.find_segment(part.address);
    if (segment == nullptr || !segment->executable) return std::nullopt;
    const std::uint64_t into = part.address.value - segment->address.value;
    if (part.size > segment->file_size - into) return std::nullopt;
    return slice(state_.image.bytes(), segment->offset.value + into, part.size);
  }

  FileOffset file_offset(VirtualAddress address) const {
    const auto offset = state_.image.to_image(address);
    const auto file = offset ? state_.image.to_file(*offset) : std::nullopt;
    return file.value_or(FileOffset{});
  }

  Error refuse(ErrorKind kind, std::string_view reason) const {
    return exits_error(kind, state_.subject(), point_, reason);
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
  std::vector<insn::FunctionExits> exits_;                                         // of the parts
  std::vector<std::pair<VirtualAddress, FunctionReturns::TailCall>> return_jumps_; // by target
  FunctionReturns found_;
};

FunctionReader::FunctionReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
FunctionReader::FunctionReader(FunctionReader&&) noexcept = default;
FunctionReader& FunctionReader::operator=(FunctionReader&&) noexcept = default;
FunctionReader::~FunctionReader() = default;

Result<FunctionReader> FunctionReader::open(std::shared_ptr<const ProbedBinary> binary,
                                            std::vector<std::string> debug_paths) {
  std::shared_ptr<binary::Binary> file = binary->contents;
  // A compressed entry is opened again for the error: no probe can be in it.
  if (!file || file->image().is_inflated()) {
    auto opened =
        binary::Binary::open(binary->file, binary->path, {.paths = std::move(debug_paths)});
    if (!opened) return fail(std::move(opened).error());
    file = std::move(*opened);
  }
  return FunctionReader(std::make_unique<State>(std::move(binary), std::move(file)));
}

binary::Binary& FunctionReader::file() const { return *state_->file; }

void FunctionReader::use_frames(FindFrame find_frame) {
  state_->find_frame = std::move(find_frame);
}

Result<FunctionReturns> FunctionReader::returns(const ProbePoint& point) const {
  const auto refuse = [&](std::string_view reason) {
    return fail(exits_error(ErrorKind::unsupported, state_->subject(), point, reason));
  };
  const auto arch = code_arch(state_->image.machine());
  if (!arch || !arch_info(*arch).has_disassembler())
    return refuse(fmt::format("{} code is not decoded", elf::to_string(state_->image.machine())));
  if (point.kind == symbols::SymbolKind::plt)
    return fail(plt_entry_jumps(state_->image, state_->subject(), point));
  if (const auto reason = unsupported_reason(point)) return refuse(*reason);
  return FunctionScan(*state_, *arch, point, language_of(point)).read();
}

std::optional<ProbePoint> FunctionReader::function_at(const ProbePoint& other,
                                                      VirtualAddress address) const {
  State& state = *state_;
  const auto offset = state.image.to_image(address);
  const auto file = offset ? state.image.to_file(*offset) : std::nullopt;
  if (!file) return std::nullopt;
  std::optional<elf::AddressRange> range = state.jump_targets().symbol_range_at(address);
  if (!range)
    if (const auto piece = state.code_index().frames().piece_at(address);
        piece && !piece->inside_frame)
      range = piece->range;
  if (!range || range->address != address || range->size == 0) return std::nullopt;
  return make_unchecked_point(other.binary, {.address = address,
                                             .offset = *file,
                                             .image_offset = *offset,
                                             .name = state.jump_targets().name_at(address),
                                             .size = range->size});
}

std::optional<VirtualAddress> FunctionReader::definition_for_slot(VirtualAddress slot) const {
  return state_->jump_targets().definition_in_slot(slot);
}

bool FunctionReader::is_import_slot(VirtualAddress slot) const {
  return state_->jump_targets().is_import_slot(slot);
}

CodeLanguage FunctionReader::language_of(const ProbePoint& point) const {
  State& state = *state_;
  if (!state.is_oat) state.is_oat = art::OatFile::is_oat(state.image);
  if (*state.is_oat) return CodeLanguage::java;
  const std::string_view symbol = point.symbol ? std::string_view(*point.symbol) : "";
  const bool mangled = symbols::looks_mangled(symbol) && symbols::demangle(symbol).has_value();
  if (!state.has_go) state.has_go = has_go_tables(state.image);
  if (*state.has_go && !mangled) {
    // Go's names contain a package and a dot, except for some of its assembly code.
    const std::string_view function = point.function();
    if (function.empty() || function.contains('.')) return CodeLanguage::go;
    if (!state.has_cgo) state.has_cgo = has_any_of(state.image, cgo_names);
    if (!*state.has_cgo) return CodeLanguage::go;
  }
  if (mangled) return CodeLanguage::cxx;
  if (!state.may_throw) state.may_throw = may_unwind(state.image);
  return *state.may_throw ? CodeLanguage::cxx : CodeLanguage::other;
}

insn::ProbeEffect FunctionReader::effect_at(FileOffset offset, insn::OptimizedNops replaced) const {
  State& state = *state_;
  const std::uint64_t begin = state.image.entry_data().value;
  const auto address = state.image.to_address(ImageOffset{offset.value - begin});
  const auto arch = code_arch(state.image.machine());
  if (!address || !arch) return {};
  const auto nop =
      insn::optimized_nop(*arch, code_bytes(state.image, *address, insn::max_instruction_size));
  if (nop && replaced.has(*nop))
    return {.kind = insn::ProbeEffect::Kind::unsafe,
            .reason = "this kernel makes a call of the jump there, which ends forked children"};
  return resolve::effect_at(state.code_index(), *address);
}

bool FunctionReader::is_inside_code(VirtualAddress address) const {
  CodeIndex& index = state_->code_index();
  const auto code = index.code_at(address);
  if (!code || code->symbol.address == address) return false;
  const auto symbol = code->is_frame ? index.symbol_at(address) : std::nullopt;
  return !symbol || symbol->address != address;
}

StringLayout FunctionReader::string_layout() const {
  State& state = *state_;
  if (!state.strings) state.strings = layout_of(state.image);
  return *state.strings;
}

} // namespace uprobectl::resolve
