// What a FunctionReader holds.
#pragma once

#include "resolve/code_marks.hpp"
#include "resolve/function_frames.hpp"
#include "resolve/function_names.hpp"
#include "uprobectl/resolve/function.hpp"

namespace uprobectl {

struct FunctionReader::State {
  State(std::shared_ptr<const ProbedBinary> of, elf::Image opened, elf::DebugSearch where)
      : binary(std::move(of)), image(std::move(opened)), debug(std::move(where)) {}

  std::string subject() const { return to_string(binary->path); }
  const JumpTargets& jump_targets() {
    if (!targets) targets.emplace(image, debug);
    return *targets;
  }
  const FrameTable& frame_table() {
    if (!frames) frames.emplace(image);
    return *frames;
  }
  const CodeMarks& code_marks() {
    if (!marks) marks.emplace(image);
    return *marks;
  }

  // Whether so many more bytes of code may be decoded. The functions of a file that is not made to
  // cost much lie side by side: all of them together, and their parts a few times more, are no
  // longer than it.
  bool may_decode(std::uint64_t bytes) {
    constexpr std::uint64_t times = 8;
    decoded += bytes;
    return decoded / times <= image.bytes().size();
  }

  std::shared_ptr<const ProbedBinary> binary; // its file has the image's bytes
  elf::Image image;
  DebugSource debug;
  FrameKnowledge has_frame = {};

  // Found out when first asked for.
  std::optional<JumpTargets> targets = {};
  std::optional<FrameTable> frames = {};
  std::optional<CodeMarks> marks = {};
  std::optional<bool> is_oat = {};    // Java's
  std::optional<bool> has_go = {};    // Go's tables
  std::optional<bool> has_cgo = {};   // C code linked to Go's
  std::optional<bool> may_throw = {}; // C++'s or Rust's unwinding
  std::optional<StringLayout> strings = {};
  std::uint64_t decoded = 0; // bytes
};

} // namespace uprobectl
