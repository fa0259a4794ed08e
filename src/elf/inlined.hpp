// Where compilers have put copies of functions into their callers: no probe at a function sees what
// runs there.
#pragma once

#include "uprobectl/elf.hpp"

namespace uprobectl::elf {

// The most .debug_info that is read, bytes: about a second's work.
constexpr std::uint64_t most_debug_info = 200 << 20;

// By name (raw, as in symbol tables), in the order asked: at how many places functions of that name
// are inlined. Nothing where the debug data knows no such function. They are those of the image or,
// where it has none, of its debug file; DWARF 2 to 5, without what lies in further files (.dwo,
// .gnu_debugaltlink). Fails with not_found without debug data, and with unsupported
// if they are larger than most_debug_info.
Result<std::vector<std::optional<std::uint64_t>>>
count_inlined(const Image& image, const DebugSearch& where,
              std::span<const std::string_view> names);

} // namespace uprobectl::elf
