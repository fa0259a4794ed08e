// SPDX-License-Identifier: Apache-2.0
// Resolves names of compiled Java methods in OAT files.
#pragma once

#include "resolve/point.hpp"

namespace uprobectl {

// The methods of one OAT file, read when they are first needed.
class JavaMethods {
public:
  JavaMethods() = default;
  JavaMethods(art::DexSearch where, std::optional<std::string> oatdump)
      : where_(std::move(where)), oatdump_(std::move(oatdump)) {}

  // Null unless the image, which must outlive this, is an OAT file.
  const Result<art::OatFile>* in(elf::Image& image);

private:
  art::DexSearch where_;
  std::optional<std::string> oatdump_;
  bool looked_ = false;
  std::optional<Result<art::OatFile>> oat_;
};

// Whether the FUNCTION can mean a Java method or a place in one.
bool may_be_method(const FunctionSpec& function);

// The places of the methods that the name of a question with `methods` means. If there are none,
// and may_have_symbol() of the error is true, the file may have a symbol of that name.
Result<std::vector<ProbePoint>> resolve_method(const Question& question);
bool may_have_symbol(const Error& error);

// A warning for a point that was resolved by a symbol because methods could not be read; empty if
// they could.
std::string why_no_methods(const Question& question);

// Adds what is known of the method that covers the point. The point has its name already.
void describe_method(const Question& question, ProbePoint& point, const elf::Symbol& symbol);

} // namespace uprobectl
