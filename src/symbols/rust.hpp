// Rust manglings: v0 (RFC 2603) through LLVM, legacy ones are Itanium names with Rust's own
// escapes inside (rustc_symbol_mangling/src/legacy.rs).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace uprobectl {

std::optional<std::string> demangle_rust_v0(std::string_view raw);

// True for "_ZN...17h<16 hexadecimal digits>E": what only rustc writes.
bool is_legacy_rust(std::string_view raw);

// A legacy name after Itanium demangling: the hash dropped, escapes replaced.
std::string clean_legacy_rust(std::string_view demangled);

} // namespace uprobectl
