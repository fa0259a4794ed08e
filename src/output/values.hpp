// SPDX-License-Identifier: Apache-2.0
// Arguments, return values and stacks of events, as text and as JSON.
#pragma once

#include "bpf/types.hpp"
#include "events/events.hpp"
#include "uprobectl/resolve.hpp"
#include "uprobectl/unwind.hpp"

#include <span>

namespace uprobectl {

// [{"name":…,"type":…,"value":…,"error":…,"truncated":…},…], or null where the event has none.
void append_json_arguments(std::string& out, const Event& event);
// {"rax":"0x1",…}, or null for none.
void append_json_registers(std::string& out, std::span<const std::uint64_t> registers);
void append_json_value(std::string& out, const ArgumentValue& argument); // null where it has none

// fd=3 path="/etc/hosts" text="GET "… head=<memory at 0x10 cannot be read>
void append_text_arguments(std::string& out, std::span<const ArgumentValue> arguments);
void append_text_value(std::string& out, const ArgumentValue& argument); // without its name

// A value read by its BTF type. Numbers from 2^53 on as strings of digits, pointers as "0x…", bytes
// as hex, NaN and infinity as null. Members of anonymous structs and unions become the parent's.
void append_json_value(std::string& out, const DataValue& value);

// pid=12 comm="cat" at={x=1 y=2} codes=[1 2 3]
void append_text_value(std::string& out, const DataValue& value);

void append_hex_bytes(std::string& out, Bytes bytes);

// Arguments of static probes: [{"raw":…,"kind":…,"size":…,…},…]
void append_json_static_arguments(std::string& out, std::span<const StaticArgument> arguments);

// As the note has them. Those that are not understood begin with '?', those that a BPF program
// cannot read with '!'; of machines whose operands are not known at all none is marked.
std::string marked_arguments(const ProbePoint& point);

// "signed 4 bytes of rdi, 8 bytes at rbp-0x14"; problems as they are.
std::string parsed_arguments(std::span<const StaticArgument> arguments);

std::string shown_semaphore(const ProbePoint& point); // its offset, or "-"

// A stack: [{"index":0,"pc":…},…]: frames with the keys of the contract's `frame`; null where there
// is no stack.
void append_json_stack(std::string& out, const unwind::Stack* stack);

// The keys behind `index`, with the comma before them.
void append_json_frame(std::string& out, const unwind::Frame& frame);

} // namespace uprobectl
