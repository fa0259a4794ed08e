// What a Target holds.
#pragma once

#include "resolve/debug_source.hpp"

namespace uprobectl {

struct Target::State {
  std::string text; // as typed
  BinaryPath path;  // as found
  BinaryPath shown; // as typed, taken apart the way it was found
  std::shared_ptr<const MappedFile> file;
  std::string real_path;
  std::optional<elf::Image> image; // nothing for an archive as a whole
  DebugSource debug;
  std::vector<std::string> warnings;
  std::optional<Error> foreign; // why none of the processes can run it
};

} // namespace uprobectl
