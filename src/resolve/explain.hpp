// SPDX-License-Identifier: Apache-2.0
// Explains why a name could not be resolved, and suggests what to type instead.
#pragma once

#include "resolve/methods.hpp"
#include "resolve/point.hpp"

namespace uprobectl::resolve {

// The hint if a function is not found in a file without .symtab.
inline constexpr std::string_view no_symtab_hint =
    "it has no .symtab: to resolve functions that are not exported, give its symbol file or folder "
    "with --debug-dir";

// Whether the error means that the file does not have the function or static probe, in contrast to
// a file that cannot be read.
bool means_no_match(const Error& error);

// The error for a name without a function. what: "no function" or "no function matches". Has hints
// only if the file has other versions of the function.
Error no_function(const Query& query, std::string_view what);
// Adds similar names to it, or other reasons.
Error add_suggestions(Error error, const Query& query);

// The error for a symbol that is an import or data.
Error not_code(const Query& query, const elf::Symbol& symbol);

// The error for a function that exists only as clones.
Error only_clones(const Query& query, const std::vector<elf::Symbol>& clones);
// The error for "+N" in a function that exists only as several clones.
Error several_bodies(const Query& query, const std::vector<elf::Symbol>& bodies);

// Adds where an imported function can be probed: "uprobectl COMMAND LIBRARY FUNCTION".
Error hint_at_library(Error error, std::string_view command, const elf::Image& image,
                      const elf::Symbol& symbol);

// The error for a name without a PLT entry, with the reason.
Error no_plt_entry(const Query& query);

// The error for a name with several addresses. Lists at most ten of them, then a count.
Error ambiguous_name(const Query& query, const std::vector<elf::Symbol>& candidates);
// The error for another spelling of such a name. Adds a command with the name of one of the
// candidates.
Error ambiguous_spelling(const Query& query, const std::vector<elf::Symbol>& candidates);

// Java methods.
inline constexpr std::string_view method_name_hint =
    "Java methods are named as com.foo.Bar.baz or com.foo.Bar.baz(int, long)";
// The error for a name without a class. Lists the compiled methods that have it.
Error no_class_given(const Query& query, const art::OatFile& oat);
Error no_such_class(const Query& query, const art::OatFile& oat, const MethodName& name);
Error several_classes(const Query& query, const art::OatFile& oat,
                      std::span<const art::Class> classes);
// called: the methods of that name, whose signatures differ from the requested one.
Error no_such_method(const Query& query, const art::OatFile& oat, art::Class defined,
                     const MethodName& name, std::span<const art::Method> called);
// The error for methods that are abstract, native, or not compiled.
Error no_method_code(const Query& query, const art::OatFile& oat,
                     std::span<const art::Method> methods);
Error no_method_matches(const Query& query, const art::OatFile& oat);
// The error for an OAT file whose methods have no names because a DEX file is missing.
Error no_dex_file(std::string_view subject, const art::OatFile& oat);
std::string nothing_compiled(std::string_view subject, const art::OatFile& oat);

} // namespace uprobectl::resolve
