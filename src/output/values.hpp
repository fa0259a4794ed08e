// SPDX-License-Identifier: Apache-2.0
// Formats arguments, return values and stacks of events as text and as JSON.
#pragma once

#include "events/events.hpp"
#include "uprobectl/resolve.hpp"
#include "uprobectl/unwind.hpp"
#include "values/value.hpp"

#include <span>

namespace uprobectl::output {

// Appends [{"name":…,"type":…,"value":…,"error":…,"truncated":…},…], or null without arguments.
void append_json_arguments(std::string& out, const events::Event& event);
void append_json_arguments(std::string& out, std::span<const events::ArgumentValue> arguments);
// Appends the return value, or null without one.
void append_json_return(std::string& out, const events::Event& event);
// Appends {"rax":"0x1",…}, or null for none.
void append_json_registers(std::string& out, const events::Event& event);

// Appends: fd=3 path="/etc/hosts" text="GET "… head=<memory at 0x10 cannot be read>
void append_text_arguments(std::string& out, std::span<const events::ArgumentValue> arguments);
void append_text_value(std::string& out, const events::ArgumentValue& argument); // without its name

// Appends the arguments of a known function as in a call: "/etc/hosts", O_RDONLY|O_CLOEXEC, NULL
void append_call_arguments(std::string& out, std::span<const events::ArgumentValue> arguments);
void append_call_value(std::string& out, const events::ArgumentValue& argument);

// Appends a value. Numbers from 2^53 on are strings of digits, pointers "0x…", bytes hexadecimal,
// NaN and infinity null. Members of anonymous structs and unions are members of their parent.
void append_json_value(std::string& out, const values::Value& value);

// Appends: pid=12 comm="cat" at={x=1 y=2} codes=[1 2 3]
void append_text_value(std::string& out, const values::Value& value);

void append_hex_bytes(std::string& out, Bytes bytes);

// Appends [{"raw":…,"kind":…,"size":…,…},…].
void append_json_static_arguments(std::string& out,
                                  std::span<const usdt::StaticArgument> arguments);

// Returns the arguments as in the note. Unparsed ones are prefixed with '?', those that a BPF
// program cannot read with '!'. None is marked if operands of the machine are not supported.
std::string marked_arguments(const resolve::ProbePoint& point);

// Describes arguments independent of the machine's syntax: "s32 rdi, u64 [rbp-0x14], f64
// <PROBLEM>".
std::string parsed_arguments(std::span<const usdt::StaticArgument> arguments);

std::string semaphore_text(const resolve::ProbePoint& point); // offset, or "-"

// Appends [{"index":0,"pc":…},…], frames with the keys of a `frame` record, or null without a
// stack.
void append_json_stack(std::string& out, const unwind::Stack* stack);

// Appends {"index":1,"pc":…}, or null without a caller. In the stack of the call the function is
// frame 0, so its caller is frame 1.
void append_json_caller(std::string& out, const unwind::Frame* caller);

// Appends the keys of a frame after `index`, beginning with a comma.
void append_json_frame(std::string& out, const unwind::Frame& frame);

} // namespace uprobectl::output
