// What a Target holds.
#pragma once

#include "resolve/debug_source.hpp"
#include "resolve/methods.hpp"

namespace uprobectl {

struct Target::State {
  std::string text; // as typed
  BinaryPath path;  // as found
  // As typed, taken apart the way it was found; for an archive as a whole without what is its
  // entries'.
  std::shared_ptr<const ProbedBinary> binary;
  std::optional<elf::Image> image; // nothing for an archive as a whole
  DebugSource debug;
  JavaMethods methods;
  std::optional<symbolize::Symbolizer> symbolizer; // made for the first number
  Demangler demangler;
  std::shared_ptr<const StaticProbes> static_notes; // null: not read yet
  std::vector<std::string> warnings;
  std::optional<Error> foreign; // why none of the processes can run it
};

} // namespace uprobectl
