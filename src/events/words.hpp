// The small words that argument lists and conditions are made of.
#pragma once

#include "uprobectl/events/arguments.hpp"

namespace uprobectl {

std::optional<ArgumentType> parse_type_name(std::string_view name);

bool is_name(std::string_view text); // [A-Za-z_][A-Za-z0-9_]*

std::string in_quotes(std::string_view text); // 'text'

} // namespace uprobectl
