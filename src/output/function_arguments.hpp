// SPDX-License-Identifier: Apache-2.0
// Formats the parameters and variables of functions as text and as JSON.
#pragma once

#include "output/records.hpp"

namespace uprobectl::output {

class JsonRecord;

// Returns a heading and a line for each parameter, variable and the result:
//
//   shop::Store::add  libshop.so@0x1139  shop.cpp:12
//     this   shop::Store*  rdi
//     price  double        <xmm0: not readable>
//     =      int           rax
std::string function_arguments_text(const ArgumentsRecord& record);

// Appends the keys of an `arguments` record after those of the function: function, source_file, …
void append_json_arguments(JsonRecord& json, const ArgumentsRecord& record);

} // namespace uprobectl::output
