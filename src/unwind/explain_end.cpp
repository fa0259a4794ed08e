// SPDX-License-Identifier: Apache-2.0
#include "uprobectl/unwind.hpp"

#include <fmt/format.h>

namespace uprobectl::unwind {

namespace {

// A stack with more frames is left as it is from there on.
constexpr std::size_t max_frames_with_inlined = 16384;

std::string describe_code(const Frame& frame) {
  if (!frame.code) return fmt::format("{:#x}", frame.pc);
  if (frame.code->module == nullptr)
    return fmt::format("{:#x} in {}", frame.pc, frame.code->mapping);
  return fmt::format("{:#x} in {}", frame.code->address.value,
                     file_name_of(frame.code->module->path()));
}

std::string explain_missing_data(const Frame& frame) {
  if (frame.code && frame.code->module != nullptr) {
    const Module& module = *frame.code->module;
    if (module.error())
      return fmt::format("{} cannot be read: {}", file_name_of(module.path()),
                         module.error()->message);
    if (!unwound_arch(module.image()->machine()))
      return fmt::format("{} is for {}, for which unwinding is not supported",
                         file_name_of(module.path()), elf::to_string(module.image()->machine()));
  }
  return "there is no unwind information for " + describe_code(frame);
}

} // namespace

std::shared_ptr<const symbolize::Frame> Frame::symbolized() const {
  const bool is_known = code && code->module != nullptr;
  return is_known ? code->module->frame(code->address) : nullptr;
}

void add_inlined_frames(Stack& stack) {
  std::vector<Frame> frames;
  frames.reserve(stack.frames.size());
  for (const Frame& frame : stack.frames) {
    const auto symbolized = frame.symbolized();
    const std::size_t positions = symbolized ? symbolized->positions.size() : 0;
    if (frames.size() < max_frames_with_inlined)
      for (std::size_t depth = positions; depth-- > 1;) {
        frames.push_back(frame);
        frames.back().inline_depth = static_cast<std::uint16_t>(depth);
      }
    frames.push_back(frame);
  }
  stack.frames = std::move(frames);
}

std::string_view to_string(FoundBy found_by) {
  switch (found_by) {
  case FoundBy::registers:
    return "registers";
  case FoundBy::frame_data:
    return "frame_data";
  case FoundBy::signal_frame:
    return "signal_frame";
  case FoundBy::return_instruction:
    return "return_instruction";
  case FoundBy::function_entry:
    return "function_entry";
  case FoundBy::link_register:
    return "link_register";
  case FoundBy::frame_pointer:
    return "frame_pointer";
  case FoundBy::kernel_walk:
    return "kernel_walk";
  }
  return {};
}

std::string_view to_string(End end) {
  switch (end) {
  case End::outermost:
    return "outermost";
  case End::unknown:
    return "unknown";
  case End::no_mapping:
    return "no_mapping";
  case End::no_unwind_data:
    return "no_unwind_data";
  case End::stack_too_short:
    return "stack_too_short";
  case End::corrupt:
    return "corrupt";
  case End::no_return_address:
    return "no_return_address";
  case End::unknown_register:
    return "unknown_register";
  case End::return_probe:
    return "return_probe";
  case End::loop:
    return "loop";
  case End::too_many:
    return "too_many";
  }
  return {};
}

std::string explain_end(const Stack& stack) {
  if (!stack.explanation.empty()) return stack.explanation;
  const Frame nowhere;
  const Frame& last = stack.frames.empty() ? nowhere : stack.frames.back();
  switch (stack.end) {
  case End::outermost:
    return "the stack ends here";
  case End::unknown:
    return "the kernel's walk along frame pointers ended here";
  case End::no_mapping:
    return fmt::format("{:#x} is in no executable mapping", stack.address);
  case End::no_unwind_data:
    return explain_missing_data(last);
  case End::stack_too_short:
    return fmt::format("the saved stack does not have the bytes at {:#x}", stack.address);
  case End::corrupt:
    return "the unwind information is corrupt for " + describe_code(last);
  case End::no_return_address:
    return fmt::format("the function at {} has not saved its return address", describe_code(last));
  case End::unknown_register:
    return fmt::format("the caller of {} depends on a register whose value is unknown",
                       describe_code(last));
  case End::return_probe:
    return "a return probe has replaced the return address with the kernel's trampoline";
  case End::loop:
    return "the frames repeat without end";
  case End::too_many:
    return fmt::format("there are more than {} frames", stack.frames.size());
  }
  return {};
}

} // namespace uprobectl::unwind
