// SPDX-License-Identifier: Apache-2.0
// A value plan while it is made. The readings of all values stay within the limits of a hit, and
// each value gets a share of these.
#pragma once

#include "events/path_resolver.hpp"
#include "events/plan.hpp"
#include "events/value_plan.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace uprobectl::events {

inline bool is_plain_number(const dwarf::Type& type) {
  return is_number(type) && type.kind() != dwarf::TypeKind::reference && !is_text_pointer(type);
}

class ValuePlanDraft {
public:
  // Borrows `builder`, `where` and the limits. `values`: how many will be added, without the
  // numbers.
  ValuePlanDraft(const ReadingBuilder& builder, const TypedPoint& where, const TypedLimits& limits,
                 std::size_t values, std::size_t numbers)
      : builder_(builder), where_(where), limits_(limits), waiting_values_(values),
        waiting_numbers_(numbers) {}

  ValuePlan take() { return std::move(made_); }

protected:
  using Node = ValuePlan::Node;
  using Part = ValuePlan::Part;
  using Type = dwarf::Type;

  static Node problem_node(std::string name, const Type& type, std::string_view problem) {
    return {.kind = Node::Kind::problem,
            .name = std::move(name),
            .type = &type,
            .text = std::string(problem)};
  }
  static Node beyond_scalars(std::string name, const Type& type) {
    return problem_node(std::move(name), type,
                        fmt::format("not read with more than {} functions", max_whole_functions));
  }
  static Node more_node(std::string name, const Type& type) {
    return {.kind = Node::Kind::more, .name = std::move(name), .type = &type};
  }

  std::optional<std::size_t> add_reading(const reading& made) {
    if (readings_left() == 0 || made.capacity > bytes_left()) return std::nullopt;
    used_bytes_ += made.capacity;
    made_.readings_.push_back(made);
    return made_.readings_.size() - 1;
  }
  KeepReading keep() {
    return [this](const reading& each) { return add_reading(each); };
  }
  // Removes the readings after the first `count`.
  void remove_readings_after(std::size_t count) {
    for (; made_.readings_.size() > count; made_.readings_.pop_back())
      used_bytes_ -= made_.readings_.back().capacity;
  }
  std::uint32_t bytes_left() const { return bytes_limit_ - used_bytes_; }
  std::size_t readings_left() const { return readings_limit_ - made_.readings_.size(); }

  // Gives the next value its share of what is left. Numbers need hardly anything of it.
  void begin_value(const Type* type = nullptr) {
    const std::size_t used = made_.readings_.size();
    if (type != nullptr && is_plain_number(*type)) {
      if (waiting_numbers_ > 0) --waiting_numbers_;
      bytes_limit_ = used_bytes_;
      readings_limit_ = std::min<std::size_t>(limits_.max_readings, used + max_number_readings);
      return;
    }
    const std::size_t waiting = std::max<std::size_t>(waiting_values_, 1);
    bytes_limit_ =
        used_bytes_ + static_cast<std::uint32_t>((limits_.max_bytes - used_bytes_) / waiting);
    const std::size_t left = limits_.max_readings - used;
    const std::size_t shared = left - std::min(waiting_numbers_, left / 2);
    readings_limit_ = used + (shared + waiting - 1) / waiting;
    waiting_values_ = waiting - 1;
  }

  const ReadingBuilder& builder_;
  const TypedPoint& where_;
  const TypedLimits& limits_;
  record_u8 phase_ = PHASE_ENTRY;
  std::optional<std::size_t> module_reading_; // see ValuePlan::Content::module
  std::uint32_t waiting_strings_ = 1;
  ValuePlan made_;

private:
  // A number may be in two pieces, with a reading for each.
  static constexpr std::size_t max_number_readings = 2;

  std::size_t waiting_values_ = 0;
  std::size_t waiting_numbers_ = 0;
  std::uint32_t used_bytes_ = 0;
  std::uint32_t bytes_limit_ = 0; // of the value that is being made
  std::size_t readings_limit_ = 0;
};

} // namespace uprobectl::events
