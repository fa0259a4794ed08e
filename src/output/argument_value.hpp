// Arguments and return values of events in the forms of the two sinks.
#pragma once

#include "uprobectl/events.hpp"

namespace uprobectl {

// [{"name":…,"type":…,"value":…,"error":…,"truncated":…},…], or null where the event has none.
void append_json_arguments(std::string& out, const Event& event);
// {"rax":"0x1",…}, or null for none.
void append_json_registers(std::string& out, std::span<const std::uint64_t> registers);
void append_json_value(std::string& out, const ArgumentValue& argument); // null where it has none

// fd=3 path="/etc/hosts" text="GET "… head=<memory at 0x10 cannot be read>
void append_text_arguments(std::string& out, std::span<const ArgumentValue> arguments);
void append_text_value(std::string& out, const ArgumentValue& argument); // without its name

} // namespace uprobectl
