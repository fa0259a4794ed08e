// SPDX-License-Identifier: Apache-2.0
// How members of users' records and map entries are shown: as --as asks, or as a declaration tag in
// the source says (`__attribute__((btf_decl_tag("ip")))`).
#pragma once

#include "uprobectl/util.hpp"
#include "values/value.hpp"
#include "values/value_type.hpp"

#include <functional>
#include <span>

namespace uprobectl::values {

enum class ShownAs : std::uint8_t {
  address, // code: function and file
  ip,      // IPv4 or IPv6, in the byte order of the network
  text,    // bytes up to the first NUL
  stack,   // an id of bpf_get_stackid(), or an array of addresses up to the first 0
  time,    // nanoseconds of CLOCK_MONOTONIC (bpf_ktime_get_ns()): time of day
  hex,
};
std::optional<ShownAs> parse_shown_as(std::string_view word);
constexpr std::string_view shown_as_words = "address, ip, text, stack, time or hex";

struct ShownAsRule {
  std::string path; // "addr", "conn.addr"; in --as also "MAP.addr", "key", "value.addr"
  ShownAs as = ShownAs::hex;
};
// Parses "[MAP.]FIELD=WORD". Fails with usage.
Result<ShownAsRule> parse_shown_as_rule(std::string_view text);

// Callbacks to the run, which knows how to show these values. If one is empty, its values stay as
// they are.
struct ShownAsContext {
  std::function<Value(std::uint64_t address)> address = {};
  std::function<Value(std::int64_t id)> stack = {};
  std::function<Value(std::span<const std::uint64_t> addresses)> frames = {};
  std::function<std::string(std::uint64_t time_ns)> time = {};
  // Called for a member that is to be an IP address, but does not have the size of one.
  std::function<void(std::string_view path)> report_no_ip = {};
};

// Where a value comes from, which rules may name, and its type.
struct ShownAsScope {
  std::string_view map;
  std::string_view part = {};      // part of an entry: "key" or "value"; empty: a record
  const ValueType* type = nullptr; // type of the value, or of an array's elements; null: unknown
};

// Changes the members that a rule names; the first rule that fits decides. `tags`: rules of
// declaration tags, with paths inside this value; `rules` precede them. Without a rule, integers
// named stack_id, user_stack_id and the like are stacks. A value that cannot be shown in this way
// stays as it is. A negative number in hexadecimal has the bits of its type, if that is known.
// Resizes `is_used` to the number of `rules`, unless it is null, and sets it for those that
// decided how a member is shown. Returns whether a value has changed.
bool show_as(Value& value, ShownAsScope scope, std::span<const ShownAsRule> rules,
             std::span<const ShownAsRule> tags, const ShownAsContext& context,
             std::vector<bool>* is_used = nullptr);

} // namespace uprobectl::values
