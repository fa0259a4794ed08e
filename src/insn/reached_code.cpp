// SPDX-License-Identifier: Apache-2.0
#include "insn/reached_code.hpp"

#include "insn/decoder.hpp"

#include <algorithm>

namespace uprobectl::insn {

namespace {

class Follower {
public:
  Follower(const Decoder& decoder, Arch arch, Bytes function, VirtualAddress address)
      : decoder_(decoder), arch_(arch), function_(function), address_(address) {
    reached_.begins.resize(function.size());
    reached_.insides.resize(function.size());
  }

  std::optional<ReachedCode> follow(std::span<const VirtualAddress> entries) {
    left_.push_back(0);
    for (const VirtualAddress entry : entries) add_target(entry);
    while (!left_.empty()) {
      const std::uint64_t at = left_.back();
      left_.pop_back();
      if (!follow_from(at)) return std::nullopt;
    }
    std::ranges::sort(reached_.loaded);
    return std::move(reached_);
  }

private:
  struct Read {
    Decoder::Decoded decoded;
    VirtualAddress address; // of the part without prefixes that LLVM returns alone
    std::uint64_t end = 0;
  };

  std::optional<Read> read(std::uint64_t start) const {
    for (std::uint64_t at = start; at < function_.size();) {
      const VirtualAddress address{address_.value + at};
      const auto decoded = decoder_.decode(function_.subspan(at), address);
      if (!decoded) return std::nullopt;
      at += decoded->size;
      if (at - start > max_x86_instruction_size) return std::nullopt;
      if (!decoded->only_prefix) return Read{*decoded, address, at};
    }
    return std::nullopt;
  }

  // Follows the code up to a jump, or up to an instruction that was reached before. Returns false
  // if it is not known where control goes.
  bool follow_from(std::uint64_t at) {
    while (at < function_.size() && !reached_.begins[at]) {
      reached_.begins[at] = true;
      const auto next = read(at);
      if (!next) return true;
      for (std::uint64_t inside = at + 1; inside < next->end; ++inside)
        reached_.insides[inside] = true;
      at = next->end;
      const llvm::MCInstrDesc& description = decoder_.description(next->decoded);
      if (description.isIndirectBranch() &&
          !decoder_.memory_address(next->decoded, next->address).has_value())
        return false;
      if (description.isBranch() || description.isCall())
        if (const auto target = decoder_.branch_target(next->decoded, next->address))
          add_target(*target);
      if (decoder_.ends_flow(next->decoded)) return true;
      if (!description.isBranch() && !description.isCall() && takes_address(*next)) return false;
    }
    return true;
  }

  void add_target(VirtualAddress target) {
    const std::uint64_t offset = target.value - address_.value;
    if (offset < function_.size()) left_.push_back(offset);
  }

  bool is_inside(std::uint64_t address) const {
    return address != address_.value && address - address_.value < function_.size();
  }

  void add_loaded(std::uint64_t address) {
    if (is_inside(address)) reached_.loaded.push_back(address - address_.value);
  }

  // Whether the instruction makes the address of code of the function, which an indirect jump
  // elsewhere may use, as one to the handler of an exception (OCaml) or to a label.
  bool takes_address(const Read& read) {
    const llvm::MCInstrDesc& description = decoder_.description(read.decoded);
    if (description.mayLoad()) {
      if (const auto memory = decoder_.memory_address(read.decoded, read.address))
        add_loaded(memory->value);
      return false;
    }
    const llvm::MCInst& instruction = read.decoded.instruction;
    if (arch_ == Arch::arm64) {
      const std::string_view name = decoder_.name(read.decoded);
      if (!name.starts_with("ADR") || instruction.getNumOperands() < 2 ||
          !instruction.getOperand(1).isImm())
        return false;
      const auto distance = static_cast<std::uint64_t>(instruction.getOperand(1).getImm());
      if (name == "ADR") return is_inside(read.address.value + distance) && !is_loaded_from(read);
      constexpr std::uint64_t page = 4096; // bytes, of adrp
      const std::uint64_t begin = (read.address.value & ~(page - 1)) + distance * page;
      return begin < address_.value + function_.size() && address_.value < begin + page;
    }
    if (const auto memory = decoder_.memory_address(read.decoded, read.address)) {
      const bool is_loaded = is_inside(memory->value) && is_loaded_from(read);
      if (is_loaded) add_loaded(memory->value);
      return is_inside(memory->value) && !is_loaded;
    }
    for (const llvm::MCOperand& operand : instruction)
      if (operand.isImm() && is_inside(static_cast<std::uint64_t>(operand.getImm()))) return true;
    return false;
  }

  // Whether the next instruction that uses the register of the address loads from it.
  bool is_loaded_from(const Read& read) const {
    constexpr int near = 16; // instructions
    const llvm::MCOperand& made = read.decoded.instruction.getOperand(0);
    if (!made.isReg()) return false;
    std::uint64_t at = read.end;
    for (int i = 0; i < near; ++i) {
      const auto next = this->read(at);
      if (!next) return false;
      const llvm::MCInstrDesc& description = decoder_.description(next->decoded);
      for (const llvm::MCOperand& operand : next->decoded.instruction)
        if (operand.isReg() && operand.getReg() == made.getReg())
          return description.mayLoad() && !description.isCall() && !description.isBranch();
      if (description.isCall() || description.isBarrier()) return false;
      at = next->end;
    }
    return false;
  }

  const Decoder& decoder_;
  Arch arch_;
  Bytes function_;
  VirtualAddress address_;
  std::vector<std::uint64_t> left_; // offsets of code to follow
  ReachedCode reached_;
};

} // namespace

std::optional<ReachedCode> reached_code(Arch arch, Bytes function, VirtualAddress address,
                                        std::span<const VirtualAddress> entries) {
  const Decoder* const decoder = Decoder::for_arch(arch);
  if (decoder == nullptr) return std::nullopt;
  return Follower(*decoder, arch, function, address).follow(entries);
}

std::vector<bool> instructions_in(Arch arch, Bytes function, const ReachedCode& reached) {
  std::vector<bool> all = reached.begins;
  const auto is_reached = [&](std::uint64_t at) {
    return reached.begins[at] || reached.insides[at];
  };
  for (std::uint64_t begin = 0; begin < function.size();) {
    if (is_reached(begin)) {
      ++begin;
      continue;
    }
    std::uint64_t end = begin;
    while (end < function.size() && !is_reached(end)) ++end;
    const auto data = std::ranges::lower_bound(reached.loaded, begin);
    const std::uint64_t code_end = data == reached.loaded.end() ? end : std::min(end, *data);
    std::vector<std::uint64_t> found;
    std::uint64_t at = begin;
    while (at < code_end) {
      const auto size = instruction_size(arch, function.subspan(at));
      if (!size) break;
      found.push_back(at);
      at += *size;
    }
    if (at == code_end)
      for (const std::uint64_t offset : found) all[offset] = true;
    begin = end;
  }
  return all;
}

} // namespace uprobectl::insn
