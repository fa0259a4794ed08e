// SPDX-License-Identifier: Apache-2.0
// Converts an address in an image to a ProbePoint and checks that the kernel can probe there.
#pragma once

#include "resolve/instructions.hpp"
#include "symbolize/symbolizer.hpp"
#include "symbols/classify.hpp"
#include "symbols/demangle.hpp"
#include "uprobectl/resolve.hpp"

namespace uprobectl::resolve {

// The image in which FUNCTIONs are resolved, with what was already read of it. It is the target's
// image, or for file-offset: in a whole archive the image at that offset.
struct ResolveContext {
  const std::shared_ptr<const ProbedBinary>& binary;
  const elf::Image& image;
  CodeIndex& code;
  symbols::Demangler& demangler;               // reuses its memory for each query
  const art::NameMapping* mapping = nullptr;   // names of Java methods in the source, or null
  symbolize::Symbolizer* symbolizer = nullptr; // never null if the FUNCTION is a number

  const Result<dwarf::DebugInfo>& debug_info() const { return code.file().debug_info(); }
  std::string subject() const { return to_string(binary->path); }
};

// A FUNCTION and the options to resolve it. A copy with another FUNCTION is a query in the same
// image.
struct Query : ResolveContext {
  FunctionSpec function; // borrows its text
  ResolveOptions options = {};
  // Null unless the image is an OAT file and the FUNCTION can mean a Java method.
  const Result<art::OatFile>* methods = nullptr;
};

// Stores the opened file in `binary`, and its entry_data, machine and build_id.
void describe(std::shared_ptr<binary::Binary> opened, ProbedBinary& binary);

// A point, and an error if its address is inside an instruction or in data. ProbePoint::effect is
// then set so that probe_error() rejects the point.
struct CheckedPoint {
  ProbePoint point;
  std::optional<Error> misplaced = {};
};

// Returns the point at an address, without its names. Except for make_unchecked_point(), this is
// the only function that makes a ProbePoint, so that each is checked, wherever its address comes
// from: that it is in an executable segment, that an instruction begins there, and what a probe
// does to this instruction. `known`: the symbol of the image's tables that covers the address, if
// one was looked up. `found`: the name of what was found there by debug information, a note or a
// plan; empty if the FUNCTION names the address. Errors: no_code outside of executable file bytes,
// misaligned if the kernel needs another alignment.
Result<CheckedPoint> make_point(const Query& query, VirtualAddress address,
                                const elf::Symbol* known, std::string_view found = {});

// A function whose code is examined but not probed at its start, so make_unchecked_point() does not
// check the start as make_point() does. FunctionReader::effect_at() checks the exits.
struct ExaminedFunction {
  VirtualAddress address;
  FileOffset offset;
  ImageOffset image_offset;
  std::optional<std::string> name = {};
  std::uint64_t size = 0;
};
ProbePoint make_unchecked_point(std::shared_ptr<const ProbedBinary> binary,
                                ExaminedFunction function);

// Splits the name of a clone or part of a function in its image; nullopt for other names, such as
// labels and functions of languages whose names have dots.
std::optional<symbols::CloneName> clone_name(const Query& query, const elf::Symbol& symbol);

// Returns ProbePoint::clone_of.
std::optional<std::string> function_of_clone(const Query& query, const elf::Symbol& symbol);

// Adds the symbol that covers the point.
void name_point(const Query& query, ProbePoint& point, const elf::Symbol& symbol,
                std::uint64_t symbol_offset);

// Resolves an address or offset to the point there, named by the symbol that covers it.
Result<std::vector<ProbePoint>> resolve_number(const Query& query);

} // namespace uprobectl::resolve
