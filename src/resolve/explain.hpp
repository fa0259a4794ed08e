// SPDX-License-Identifier: Apache-2.0
// Explains why a name could not be resolved, and suggests what to type instead.
#pragma once

#include "resolve/methods.hpp"
#include "resolve/point.hpp"

namespace uprobectl {

// what: "no function" or "no function matches".
Error no_function(const Query& query, std::string_view what);

// The symbol exists, but only as an import or as data.
Error not_code(const Query& query, const elf::Symbol& symbol);

// The compiler removed the function itself and left these clones of it.
Error only_clones(const Query& query, const std::vector<elf::Symbol>& clones);

// Adds where an imported function can be probed: "uprobectl COMMAND LIBRARY FUNCTION".
Error hint_at_library(Error error, std::string_view command, const elf::Image& image,
                      const elf::Symbol& symbol);

// Why there is no PLT entry of this name.
Error no_plt_entry(const Query& query);

// Lists at most ten candidates, then a count.
Error ambiguous_name(const Query& query, const std::vector<elf::Symbol>& candidates);

// Java methods.
inline constexpr std::string_view method_name_hint =
    "Java methods are named as com.foo.Bar.baz or com.foo.Bar.baz(int, long)";
Error no_such_class(const Query& query, const art::OatFile& oat, const MethodName& name);
Error several_classes(const Query& query, const art::OatFile& oat,
                      std::span<const art::Class> classes);
// called: the methods of that name, all with other signatures.
Error no_such_method(const Query& query, const art::OatFile& oat, art::Class defined,
                     const MethodName& name, std::span<const art::Method> called);
// The methods are abstract, native, or not compiled.
Error no_method_code(const Query& query, const art::OatFile& oat,
                     std::span<const art::Method> methods);
Error no_method_matches(const Query& query, const art::OatFile& oat);
// A DEX file is missing, so its methods have no names.
Error no_dex_file(std::string_view subject, const art::OatFile& oat);

} // namespace uprobectl
