// What FUNCTIONs mean in OAT files: compiled Java methods.
#pragma once

#include "resolve/point.hpp"

namespace uprobectl {

// The methods of one file, read when they are first asked for.
class JavaMethods {
public:
  JavaMethods() = default;
  JavaMethods(art::DexSearch where, std::optional<std::string> oatdump)
      : where_(std::move(where)), oatdump_(std::move(oatdump)) {}

  // Null where the image, which must outlive this, is no OAT file.
  const Result<art::OatFile>* in(elf::Image& image);

private:
  art::DexSearch where_;
  std::optional<std::string> oatdump_;
  bool looked_ = false;
  std::optional<Result<art::OatFile>> oat_;
};

// Whether the FUNCTION could mean a Java method, or be in one.
bool may_be_method(const FunctionSpec& function);

// Of a question with methods: the places that its name means. Where it means none, why; the symbols
// of the file may know it all the same where may_have_symbol() of the error is true.
Result<std::vector<ProbePoint>> resolve_method(const Question& question);
bool may_have_symbol(const Error& error);

// What to know where a symbol was taken, because the methods could not be read; empty where they
// were.
std::string why_no_methods(const Question& question);

// Adds what is known of the method that covers the point, which is named by it already.
void describe_method(const Question& question, ProbePoint& point, const elf::Symbol& symbol);

} // namespace uprobectl
