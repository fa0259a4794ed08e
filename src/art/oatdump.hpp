// SPDX-License-Identifier: Apache-2.0
// The output of a device's own oatdump for an OAT file:
// `oatdump --oat-file=FILE --dump-method-and-offset-as-json` prints a line for each method. AOSP
// art/oatdump/oatdump.cc.
#pragma once

#include "uprobectl/art.hpp"

namespace uprobectl::art {

// "void com.foo.Bar.baz(int, long)". Returns nullopt if it is not a signature.
std::optional<Signature> parse_signature(std::string_view text);

// The classes and methods of a listing. A method is identified by its index in it.
class DumpedNames {
public:
  explicit DumpedNames(std::vector<DumpedMethod> methods);

  std::span<const DumpedMethod> methods() const { return methods_; }
  Signature signature(std::uint32_t method) const;
  std::optional<Class> find_class(std::string_view name) const;

  struct DumpedClass {
    std::string name;
    std::vector<std::uint32_t> methods;
  };
  std::span<const DumpedClass> classes() const { return classes_; } // by name

private:
  std::vector<DumpedMethod> methods_;
  std::vector<DumpedClass> classes_;
};

} // namespace uprobectl::art
