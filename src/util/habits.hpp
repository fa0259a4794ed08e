// SPDX-License-Identifier: Apache-2.0
// What users of perf, bpftrace, gdb and ftrace type out of habit, and what it is called here. Only
// for hints of errors: none of these spellings is accepted.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace uprobectl {

// A hint for a FUNCTION that does not exist: "malloc%return" of perf probe, "*0x4050" of gdb,
// "usdt:python:gc__start" of bpftrace, "malloc bytes" of perf probe.
std::optional<std::string> function_habit(std::string_view function);

// A hint for a value of --args or --if: "str(arg0)" and "retval" of bpftrace, "$retval" of perf.
std::optional<std::string> value_habit(std::string_view value);

// The name of a type: "string" is str.
std::optional<std::string_view> type_habit(std::string_view type);

// The subcommand that another tool's one is like: "trace" is attach.
std::optional<std::string_view> subcommand_habit(std::string_view word);

} // namespace uprobectl
