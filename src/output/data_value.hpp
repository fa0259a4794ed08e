// A value read by its BTF type, in the forms of the two sinks.
#pragma once

#include "uprobectl/bpf/types.hpp"

namespace uprobectl {

// Numbers from 2^53 on as strings of digits, pointers as "0x…", bytes as hex, what is no number as
// null. Members of anonymous structs and unions become the parent's.
void append_json_value(std::string& out, const DataValue& value);

// pid=12 comm="cat" at={x=1 y=2} codes=[1 2 3]
void append_text_value(std::string& out, const DataValue& value);

void append_hex_bytes(std::string& out, Bytes bytes);

} // namespace uprobectl
