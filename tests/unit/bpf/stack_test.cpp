// SPDX-License-Identifier: Apache-2.0
// A BPF program and the functions that it calls share 512 bytes of stack. Older kernels round the
// part of each function up to 32 bytes (Linux 6.1 kernel/bpf/verifier.c, check_max_stack_depth()).
// Only functions that a run uses count, so one run does not show whether another is refused.
#include "bpf/embedded.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <linux/bpf.h>
#include <llvm/Object/ELF.h>
#include <map>
#include <vector>

namespace uprobectl::bpf {

namespace {

using llvm::cantFail;
using ElfFile = llvm::object::ELF64LEFile;
using FunctionStart = std::pair<std::uint64_t, std::uint64_t>; // section, offset

struct BpfFunction {
  std::string name;
  std::uint64_t stack = 0;
  std::vector<FunctionStart> calls;
};

bpf_insn insn_at(llvm::StringRef code, std::uint64_t at) {
  bpf_insn insn{};
  REQUIRE(at + sizeof(insn) <= code.size());
  std::memcpy(&insn, code.data() + at, sizeof(insn));
  return insn;
}

bool is_local_call(const bpf_insn& insn) {
  return insn.code == (BPF_JMP | BPF_CALL) && insn.src_reg == BPF_PSEUDO_CALL;
}

// Where a call leads to. Calls into another section have a relocation, and an operand that counts
// from the symbol.
FunctionStart called(const ElfFile& file, std::uint64_t section, const bpf_insn& call,
                     std::uint64_t at) {
  const std::uint64_t operand = static_cast<std::uint64_t>(call.imm + 1) * 8;
  for (const auto& table : cantFail(file.sections())) {
    if (table.sh_type != llvm::ELF::SHT_REL || table.sh_info != section) continue;
    for (const auto& relocation : cantFail(file.rels(table))) {
      if (relocation.r_offset != at) continue;
      const auto* symbols = cantFail(file.getSection(table.sh_link));
      const auto* symbol = cantFail(file.getRelocationSymbol(relocation, symbols));
      return {symbol->st_shndx, symbol->st_value + operand};
    }
  }
  return {section, at + operand};
}

// The deepest byte below the frame pointer that the instructions use.
std::uint64_t stack_of(llvm::StringRef code, std::uint64_t begin, std::uint64_t end) {
  std::int64_t lowest = 0;
  int copied_to = -1; // the register to which the last instruction has copied the frame pointer
  for (std::uint64_t at = begin; at < end; at += sizeof(bpf_insn)) {
    const bpf_insn insn = insn_at(code, at);
    const int kind = BPF_CLASS(insn.code);
    const bool stores = kind == BPF_ST || kind == BPF_STX;
    if ((stores && insn.dst_reg == BPF_REG_10) || (kind == BPF_LDX && insn.src_reg == BPF_REG_10))
      lowest = std::min<std::int64_t>(lowest, insn.off);
    if (insn.code == (BPF_ALU64 | BPF_ADD | BPF_K) && insn.dst_reg == copied_to)
      lowest = std::min<std::int64_t>(lowest, insn.imm);
    const bool copies = insn.code == (BPF_ALU64 | BPF_MOV | BPF_X) && insn.src_reg == BPF_REG_10;
    copied_to = copies ? insn.dst_reg : -1;
  }
  return static_cast<std::uint64_t>(-lowest);
}

std::map<FunctionStart, BpfFunction> functions_of(Bytes bytes) {
  const auto file = cantFail(
      ElfFile::create(llvm::StringRef(reinterpret_cast<const char*>(bytes.data()), bytes.size())));
  std::map<FunctionStart, BpfFunction> found;
  for (const auto& table : cantFail(file.sections())) {
    if (table.sh_type != llvm::ELF::SHT_SYMTAB) continue;
    const auto names = cantFail(file.getStringTableForSymtab(table));
    for (const auto& symbol : cantFail(file.symbols(&table))) {
      if (symbol.getType() != llvm::ELF::STT_FUNC) continue;
      const std::uint64_t section = symbol.st_shndx;
      const auto contents =
          cantFail(file.getSectionContents(*cantFail(file.getSection(symbol.st_shndx))));
      const llvm::StringRef code(reinterpret_cast<const char*>(contents.data()), contents.size());
      const std::uint64_t begin = symbol.st_value;
      const std::uint64_t end = begin + symbol.st_size;
      BpfFunction& function = found[{section, begin}];
      function.name = cantFail(symbol.getName(names)).str();
      function.stack = stack_of(code, begin, end);
      for (std::uint64_t at = begin; at < end; at += sizeof(bpf_insn))
        if (const bpf_insn insn = insn_at(code, at); is_local_call(insn))
          function.calls.push_back(called(file, section, insn, at));
    }
  }
  return found;
}

std::uint64_t deepest(const std::map<FunctionStart, BpfFunction>& all, const FunctionStart& start) {
  const auto found = all.find(start);
  REQUIRE(found != all.end());
  std::uint64_t below = 0;
  for (const FunctionStart& call : found->second.calls) below = std::max(below, deepest(all, call));
  return (std::max<std::uint64_t>(found->second.stack, 1) + 31) / 32 * 32 + below;
}

} // namespace

TEST_CASE("no embedded program needs more stack than a kernel gives it") {
  for (const Bytes object : {builtin_perf_number(), builtin_ring_number(), builtin_perf_cookie(),
                             builtin_ring_cookie(), builtin_ring_sleepable()}) {
    const auto functions = functions_of(object);
    CHECK(std::ranges::any_of(functions,
                              [](const auto& each) { return !each.second.calls.empty(); }));
    CHECK(std::ranges::any_of(functions, [](const auto& each) { return each.second.stack > 0; }));
    for (const auto& [start, function] : functions) {
      INFO(function.name);
      CHECK(deepest(functions, start) <= 512);
    }
  }
}

} // namespace uprobectl::bpf
