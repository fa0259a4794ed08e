// SPDX-License-Identifier: Apache-2.0
// Converts a place in an image to a ProbePoint and checks that the kernel can probe there.
#pragma once

#include "dwarf/dwarf.hpp"
#include "resolve/frame_table.hpp"
#include "resolve/instructions.hpp"
#include "resolve/nops.hpp"
#include "symbolize/symbolizer.hpp"
#include "symbols/demangle.hpp"
#include "uprobectl/resolve.hpp"

namespace uprobectl {

// Returns the debug information of an image, opened at the first call.
using DebugInfoSource = std::function<const Result<dwarf::DebugInfo>&()>;

// A FUNCTION and the image to resolve it in: the target's image, or for file-offset: in a whole
// archive the image at that offset.
struct Query {
  const std::shared_ptr<const ProbedBinary>& binary;
  const FunctionSpec& function;
  const elf::Image& image;
  Demangler& demangler; // reuses its memory for each query
  ResolveOptions options = {};
  // Null unless the image is an OAT file and the FUNCTION can mean a Java method.
  const Result<art::OatFile>* methods = nullptr;
  const art::NameMapping* mapping = nullptr;        // names of Java methods in the source, or null
  symbolize::Symbolizer* symbolizer = nullptr;      // never null if the FUNCTION is a number
  mutable std::optional<CodeMarks> code_marks = {}; // read when first needed
  // Shared by the queries of a target, read when first needed. Null: for this query only.
  std::optional<FrameTable>* frames = nullptr;
  std::optional<NopPasser>* nop_passer = nullptr; // likewise
  // Debug information of the image; null: names are not searched there.
  const DebugInfoSource* debug_info = nullptr;
  // Set if another spelling of the name was resolved: SpelledFunctions::distance.
  mutable std::optional<unsigned> distance = {};

  std::string subject() const { return to_string(binary->path); }
};

// Sets the machine, build id and entry offset from the image.
void describe(const elf::Image& image, ProbedBinary& binary);

// Returns the point at an address or image offset, without a symbol. Errors: no_code outside of
// executable file bytes, misaligned if no instruction of the machine can begin there.
Result<ProbePoint> point_at(const Query& query, VirtualAddress address);
Result<ProbePoint> point_at(const Query& query, ImageOffset offset);

// Adds the symbol that covers the point.
void name_point(const Query& query, ProbePoint& point, const elf::Symbol& symbol,
                std::uint64_t symbol_offset);

// Resolves an address or offset to the point there, named by the symbol that covers it.
Result<std::vector<ProbePoint>> resolve_number(const Query& query);

} // namespace uprobectl
