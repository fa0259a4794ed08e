// Why a Java method could not be turned into a place, and what to type instead.
#pragma once

#include "resolve/method_name.hpp"
#include "resolve/point.hpp"

namespace uprobectl {

Error no_such_class(const Question& question, const art::OatFile& oat, const MethodName& name);
Error several_classes(const Question& question, const art::OatFile& oat,
                      std::span<const art::Class> classes);
// called: the methods of that name, whose signatures are all different from the one asked for.
Error no_such_method(const Question& question, const art::OatFile& oat, art::Class defined,
                     const MethodName& name, std::span<const art::Method> called);
// Abstract, native, or not compiled.
Error no_code_of(const Question& question, const art::OatFile& oat,
                 std::span<const art::Method> methods);
Error no_method_matches(const Question& question, const art::OatFile& oat);
inline constexpr std::string_view how_methods_are_named =
    "Java methods are named as com.foo.Bar.baz or com.foo.Bar.baz(int, long)";
// The methods of a DEX file that is not there have no names.
Error no_dex_file(std::string_view subject, const art::OatFile& oat);

} // namespace uprobectl
