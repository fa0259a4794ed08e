// From a place in an image to a ProbePoint: checks that the kernel can probe there.
#pragma once

#include "resolve/code_marks.hpp"
#include "symbolize/symbolizer.hpp"
#include "symbols/demangle.hpp"
#include "uprobectl/resolve.hpp"

namespace uprobectl {

// What is asked, and where: the image may be that of the target or, for file-offset: in a whole
// archive, the one that was found at the offset.
struct Question {
  const std::shared_ptr<const ProbedBinary>& binary;
  const FunctionSpec& function;
  const elf::Image& image;
  Demangler& demangler; // keeps its memory from one question to the next
  ResolveOptions options = {};
  // Where the question may be about Java methods, and the image is an OAT file; else null.
  const Result<art::OatFile>* methods = nullptr;
  symbolize::Symbolizer* symbolizer = nullptr;      // never null where a number is asked for
  mutable std::optional<CodeMarks> code_marks = {}; // read when first needed

  std::string subject() const { return to_string(binary->path); }
};

// Adds what the image says of itself.
void describe(const elf::Image& image, ProbedBinary& binary);

// The numbers of a place that is known by its address or by its image offset, without a symbol.
// no_code outside executable file bytes, misaligned where the machine cannot have an instruction.
Result<ProbePoint> point_at(const Question& question, VirtualAddress address);
Result<ProbePoint> point_at(const Question& question, ImageOffset offset);

// Adds what is known from the symbol that covers the point.
void name_point(const Question& question, ProbePoint& point, const elf::Symbol& symbol,
                std::uint64_t symbol_offset);

// The point of a symbol, "+N" added.
Result<ProbePoint> point_of(const Question& question, const elf::Symbol& symbol);

Result<std::vector<ProbePoint>> resolve_name(const Question& question);
Result<std::vector<ProbePoint>> resolve_plt(const Question& question);
Result<std::vector<ProbePoint>> resolve_number(const Question& question);

} // namespace uprobectl
