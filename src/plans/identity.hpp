// SPDX-License-Identifier: Apache-2.0
// Identifies the build of a program or library that a plan is for.
#pragma once

#include "uprobectl/elf.hpp"

namespace uprobectl::plans {

// A file without a build id is identified by its content.
struct BuildIdentity {
  std::string machine = {}; // as elf::to_string() returns it
  std::optional<std::string> build_id = {};
  // Set if the ELF image has no build id.
  std::optional<std::uint64_t> size = {};
  std::optional<std::string> sha256 = {}; // lower-case hex

  bool operator==(const BuildIdentity&) const = default;
};

// Reads the whole image if it has no build id.
BuildIdentity identify(const elf::Image& image);

// Whether the image is of this build. Reads the whole image only if its size does not decide.
bool is_build(const BuildIdentity& build, const elf::Image& image);

// Fails with not_found and both values unless the image, which messages call `subject`, is of this
// build.
Result<void> check_build(const BuildIdentity& build, const elf::Image& image,
                         std::string_view subject);

} // namespace uprobectl::plans
