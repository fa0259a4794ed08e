#include "uprobectl/bpf/builtin.hpp"
#include "uprobectl/events/plan.hpp"

#include <algorithm>

namespace uprobectl {

namespace {

std::vector<std::uint64_t> numbers_in(Bytes bytes) {
  std::vector<std::uint64_t> numbers(bytes.size() / sizeof(std::uint64_t));
  if (!numbers.empty())
    std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(std::uint64_t));
  return numbers;
}

// At the end of a call its function may have another's return probe, too: what it was entered with
// is known besides.
std::vector<replaced_return> returns_in(Bytes record, const builtin_settings& settings,
                                        const stack_head& head) {
  std::vector<replaced_return> returns;
  if (settings.returns_at != 0)
    if (const auto read = structure_at<replaced_returns>(record, settings.returns_at))
      returns.assign(read->list,
                     read->list + std::min<std::uint64_t>(read->count, MOST_REPLACED_RETURNS));
  if (head.caller != 0) returns.push_back({.stack_pointer = head.address, .address = head.caller});
  return returns;
}

} // namespace

std::optional<CapturedStack> InspectionPlan::stack_of(Bytes record) const {
  const auto raw = structure_at<probe_record>(record, 0);
  if (!raw || raw->cookie >= variant_of_.size()) return std::nullopt;
  const builtin_settings& settings = variants_[variant_of_[raw->cookie]];
  if (settings.stack_at == 0) return std::nullopt;
  const auto head = structure_at<stack_head>(record, settings.stack_at);
  if (!head) return std::nullopt;
  const std::size_t begin = settings.stack_at + sizeof(*head);
  const std::size_t size = std::min<std::size_t>(head->size, record.size() - begin);
  CapturedStack captured;
  if ((settings.flags & WALK_STACK) != 0) {
    captured.frames = walked_frames(numbers_in(record.subspan(begin, size)), head->caller);
    return captured;
  }
  const std::size_t caller = head->has_caller != 0 ? sizeof(head->caller) : 0;
  captured.address = head->address;
  captured.bytes = record.subspan(begin - caller, caller + size);
  captured.registers = numbers_in(
      record.subspan(settings.registers_at, register_names().size() * sizeof(std::uint64_t)));
  captured.replaced_returns = returns_in(record, settings, *head);
  captured.at_function_entry = raw->kind != RECORD_RETURN && (settings.flags & AT_START) != 0;
  return captured;
}

} // namespace uprobectl
