// SPDX-License-Identifier: Apache-2.0
#include "plans/identity.hpp"

#include "util/sha256.hpp"

#include <fmt/format.h>

namespace uprobectl::plans {

namespace {

std::string describe(const BuildIdentity& build) {
  if (build.build_id) return "build id " + *build.build_id;
  std::string text = "no build id";
  if (build.size) text += fmt::format(", {} bytes", *build.size);
  if (build.sha256) text += ", SHA-256 " + *build.sha256;
  return text;
}

} // namespace

BuildIdentity identify(const elf::Image& image) {
  BuildIdentity build{.machine = elf::to_string(image.machine()), .build_id = image.build_id()};
  if (build.build_id) return build;
  build.size = image.bytes().size();
  build.sha256 = sha256_of(image.bytes());
  return build;
}

bool is_build(const BuildIdentity& build, const elf::Image& image) {
  if (build.machine != elf::to_string(image.machine())) return false;
  if (build.build_id) return build.build_id == image.build_id();
  return !image.build_id() && build.size == image.bytes().size() &&
         build.sha256 == sha256_of(image.bytes());
}

Result<void> check_build(const BuildIdentity& build, const elf::Image& image,
                         std::string_view subject) {
  if (is_build(build, image)) return {};
  const BuildIdentity found = identify(image);
  if (found.machine != build.machine)
    return fail(ErrorKind::not_found, fmt::format("{}: the plan is for {}, the file is for {}",
                                                  subject, build.machine, found.machine));
  return fail(Error{ErrorKind::not_found,
                    fmt::format("{}: the plan is for another build: it is for {}, the file has {}",
                                subject, describe(build), describe(found))}
                  .hint("write the plan again from the file of this build"));
}

} // namespace uprobectl::plans
