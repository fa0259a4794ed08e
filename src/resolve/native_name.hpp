// What a native Java method is called in its library.
#pragma once

#include "uprobectl/art.hpp"

namespace uprobectl {

// "Resolving Native Method Names" of the JNI specification: the short name, which that of an
// overloaded method begins with, "__" and its parameters behind it.
std::string native_name(const art::Signature& signature);

} // namespace uprobectl
