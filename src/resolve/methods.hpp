// SPDX-License-Identifier: Apache-2.0
// Resolves names of compiled Java methods in OAT files.
#pragma once

#include "resolve/method_names.hpp"
#include "resolve/point.hpp"
#include "uprobectl/art.hpp"

namespace uprobectl::resolve {

// The methods of one OAT file, read on first use.
class JavaMethods {
public:
  JavaMethods() = default;
  JavaMethods(art::DexSearch where, std::optional<std::string> oatdump)
      : where_(std::move(where)), oatdump_(std::move(oatdump)) {}

  // Returns the methods of the image, or why they cannot be read; null if it is not an OAT file.
  // The image must be the same in each call and outlive this.
  const Result<art::OatFile>* in(elf::Image& image);
  const art::NameMapping* mapping() const { return where_.mapping.get(); }

private:
  art::DexSearch where_;
  std::optional<std::string> oatdump_;
  bool searched_ = false;
  std::optional<Result<art::OatFile>> oat_;
};

// Whether the FUNCTION can mean a Java method of an OAT file or an address in one.
bool may_be_method(const FunctionSpec& function);

// Returns the points of the methods that the query's name means. Query::methods must be set. If it
// fails and may_have_symbol() is true for the error, the file may have a symbol of that name.
Result<std::vector<ProbePoint>> resolve_method(const Query& query);
bool may_have_symbol(const Error& error);

// Returns the warning for a point that was resolved by a symbol because the methods could not be
// read; empty if they could.
std::string missing_methods_warning(const Query& query);

// Returns the points of the function that implements a native Java method, by the name that JNI
// gives it. Returns none if the query's name is not that of a method, or there is no such function.
Result<std::vector<ProbePoint>> resolve_native_method(const Query& query);

// Adds Java types, aliases and warnings for the method that covers a named point.
void describe_method(const Query& query, ProbePoint& point, const elf::Symbol& symbol);

} // namespace uprobectl::resolve
