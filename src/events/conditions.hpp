// SPDX-License-Identifier: Apache-2.0
// Compiles comparisons of --if: in one way, whatever source of types a value has.
#pragma once

#include "events/filter.hpp"
#include "events/prepared.hpp"
#include "events/prototypes.hpp"
#include "values/value_type.hpp"

namespace uprobectl::events {

// A value at a point: how it is read, and what its type says.
struct ComparedValue {
  values::ValueType type = {};        // what it is, which may not be what was asked for
  reading value = {};                 // a number; of a text or bytes the address
  std::optional<reading> length = {}; // READ_BYTES: of the number of bytes
  std::optional<reading> offset = {}; // what is added to either, see reading::offset_from
  std::string length_name = {};       // of bytes: the name of their number
};

values::ValueUse use_of(const ConditionSpec& spec);
// The type of a built-in variable.
values::ValueType built_in_type(filter_subject subject);

// Returns the error for the comparison of a value that has ValueUse::none.
Error cannot_compare(values::ValueUse wanted, const values::ValueType& type);

// Adds hints to the error that a type has no member `name`: similar names, and its members.
Error hint_members(Error error, std::string_view name, std::vector<std::string> members,
                   std::string_view whose = "its");

// Fails unless the value can be summed up: unless it is an integer, and not an address.
Result<void> check_summed(const values::ValueType& type, std::string_view name);

// Compiles a comparison of `failed`, by the rule for the result. `result`: an integer or an
// address.
ConditionResult<PreparedTerm> compile_failure(const ConditionSpec& spec, const FailureRule& rule,
                                              const reading& result);
// Returns the bits of the result that tell whether the call has failed.
reading failure_bits(const FailureRule& rule, reading result);
// A condition that always holds, whatever is read.
PreparedTerm always_true();

// Compares a value with the constants of a condition.
ConditionResult<PreparedTerm> compile_condition(const ConditionSpec& spec, ComparedValue value);
// Whether a number fulfils a condition. `number`: extended to 64 bits as its type says; the bits of
// a floating-point number extended with their sign. As the built-in program: compare_number() of
// bpf/programs/filter.h.
bool fulfils(const PreparedTerm& condition, std::uint64_t number);

// Makes the bits of a floating-point number of 4 or 8 bytes a number whose signed order is that of
// the floating-point numbers. As the built-in program: order_float() of bpf/programs/filter.h.
std::int64_t order_float(double number, std::uint32_t size);

} // namespace uprobectl::events
