// SPDX-License-Identifier: Apache-2.0
#include "resolve/thunks.hpp"

#include "insn/code_forms.hpp"
#include "insn/forwarding.hpp"
#include "symbols/bodies.hpp"
#include "uprobectl/insn.hpp"

#include <algorithm>
#include <unordered_map>

namespace uprobectl::resolve {

namespace {

// The most bytes of an entry in a jump table of clang's CFI.
constexpr std::uint64_t jump_entry_size = 16;

// Returns where the code at the symbol leads if it begins with a jump: an entry of the jump table
// of clang's CFI. The symbol may have the size of the whole table.
std::optional<VirtualAddress> first_jump(const Query& query, const elf::Symbol& symbol) {
  constexpr std::uint64_t max_begin = 4; // bytes: endbr64, bti
  const auto arch = code_arch(query.image.machine(), symbol.thumb);
  const auto offset = query.image.to_image(symbol.address);
  if (!arch || !offset) return std::nullopt;
  const auto code =
      slice(query.image.bytes(), offset->value, std::min(symbol.size, jump_entry_size));
  if (!code || !insn::may_begin_with_jump(*arch, *code)) return std::nullopt;
  const auto exits = insn::function_exits(*arch, *code, symbol.address);
  if (!exits || exits->jumps_out.empty()) return std::nullopt;
  const insn::FunctionExits::Jump& first = exits->jumps_out.front();
  const bool is_before = exits->returns.empty() || first.offset < exits->returns.front();
  if (!is_before || first.offset > max_begin ||
      first.condition.test != insn::JumpCondition::Test::always)
    return std::nullopt;
  return first.target;
}

// Returns where the code at the symbol leads if all ways through it end by a jump out of it, and it
// does no work of its own before. A part does, as the `destroy` of a coroutine.
std::vector<VirtualAddress> jumps_of(const Query& query, const elf::Symbol& symbol) {
  if (const auto target = first_jump(query, symbol)) return {*target};
  if (const auto clone = clone_name(query, symbol);
      clone && clone->kind == symbols::SuffixKind::piece)
    return {};
  constexpr std::uint64_t max_size = 256; // bytes, of a thunk
  const auto arch = code_arch(query.image.machine(), symbol.thumb);
  const auto offset = query.image.to_image(symbol.address);
  if (!arch || !offset || symbol.size == 0 || symbol.size > max_size) return {};
  const auto code = slice(query.image.bytes(), offset->value, symbol.size);
  const auto exits = code ? insn::function_exits(*arch, *code, symbol.address) : std::nullopt;
  if (!exits || !exits->returns.empty() || exits->falls_through) return {};
  if (!insn::only_forwards(*arch, *code, symbol.address)) return {};
  std::vector<VirtualAddress> targets;
  for (const insn::FunctionExits::Jump& jump : exits->jumps_out) {
    if (!jump.target) return {};
    targets.push_back(*jump.target);
  }
  return targets;
}

} // namespace

void drop_thunks(const Query& query, std::vector<elf::Symbol>& bodies) {
  if (bodies.size() < 2 || query.options.clones == ResolveOptions::Clones::none ||
      query.options.thunks)
    return;
  std::unordered_map<std::string_view, std::size_t> counts;
  for (const elf::Symbol& body : bodies) ++counts[symbols::stem_of(body.name)];
  // The index of each symbol that may be one of several bodies of a function, by address.
  std::unordered_map<std::uint64_t, std::size_t> numbers;
  for (std::size_t i = 0; i < bodies.size(); ++i)
    if (counts[symbols::stem_of(bodies[i].name)] > 1) numbers.emplace(bodies[i].address.value, i);
  std::vector<std::size_t> open(bodies.size()); // how many targets are not known to be kept
  std::vector<std::vector<std::size_t>> sources(bodies.size()); // what leads here
  std::vector<std::size_t> led;                                 // to, by calls that count
  for (const auto& [address, i] : numbers) {
    auto targets = jumps_of(query, bodies[i]);
    std::ranges::sort(targets);
    const auto repeated = std::ranges::unique(targets);
    targets.erase(repeated.begin(), repeated.end());
    const auto leads_to_body = [&](VirtualAddress target) {
      const auto found = numbers.find(target.value);
      return found != numbers.end() && found->second != i &&
             query.code.bodies().function_of(bodies[found->second]) ==
                 query.code.bodies().function_of(bodies[i]);
    };
    if (targets.empty() || !std::ranges::all_of(targets, leads_to_body)) {
      led.push_back(i);
      continue;
    }
    open[i] = targets.size();
    for (const VirtualAddress target : targets) sources[numbers[target.value]].push_back(i);
  }
  std::vector<bool> dropped(bodies.size(), false);
  while (!led.empty()) {
    const std::size_t target = led.back();
    led.pop_back();
    for (const std::size_t source : sources[target])
      if (--open[source] == 0) {
        dropped[source] = true;
        led.push_back(source);
      }
  }
  std::vector<elf::Symbol> kept;
  for (std::size_t i = 0; i < bodies.size(); ++i)
    if (!dropped[i]) kept.push_back(bodies[i]);
  bodies = std::move(kept);
}

bool is_jump_table_entry(const Query& query, const ProbePoint& point) {
  if (!point.symbol || point.symbol_offset != 0 || point.kind != symbols::SymbolKind::function)
    return false;
  if (point.clone_of) return false;
  if (!insn::may_be_jump_table_entry(query.image.machine().arch,
                                     code_bytes(query.image, point.address, jump_entry_size)))
    return false;
  const elf::Symbol symbol{
      .name = *point.symbol, .address = point.address, .size = point.size.value_or(0)};
  return first_jump(query, symbol).has_value();
}

} // namespace uprobectl::resolve
