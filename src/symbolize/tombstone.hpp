// SPDX-License-Identifier: Apache-2.0
// Crash reports of Android 12 and newer in protobuf (tombstone_00.pb), as the text that debuggerd
// makes of them. Field numbers and text: AOSP system/core, debuggerd/proto/tombstone.proto and
// debuggerd/libdebuggerd/tombstone_proto_to_text.cpp.
#pragma once

#include "uprobectl/util.hpp"

#include <functional>

namespace uprobectl::symbolize {

// The bytes that starts_like_tombstone() needs.
constexpr std::size_t tombstone_begin = 16;
// The largest one that is read, bytes. Those with 1000 threads have some 5 MB.
constexpr std::uint64_t max_tombstone = std::uint64_t{64} << 20;

// Whether a report may be one: it begins with the architecture and the build fingerprint. No text
// begins so, because the tags of these fields are control characters.
bool starts_like_tombstone(Bytes report);

// Calls `line` with each line of its text, without a newline: the process, the signal and the
// cause, then the stacks of all threads, that of the crash first. Registers, memory, maps, open
// files and logs are left out; the last line says so. Fails with corrupt, naming the byte.
Result<void> write_tombstone_text(Bytes report, const std::function<void(std::string_view)>& line);

} // namespace uprobectl::symbolize
