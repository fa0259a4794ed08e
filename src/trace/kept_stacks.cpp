// SPDX-License-Identifier: Apache-2.0
#include "trace/kept_stacks.hpp"

#include "output/records.hpp"
#include "trace/hit_stacks.hpp"

#include <algorithm>
#include <tuple>

namespace uprobectl::trace {

namespace {

constexpr std::size_t max_stacks = 65536;
constexpr std::size_t max_frames = 1U << 20; // of all stacks together: about 64 MiB

// Code that was compiled at run time may have replaced other code at its address.
std::tuple<const unwind::Module*, std::uint64_t, std::string_view>
code_of(const unwind::Frame& frame) {
  const std::string_view compiled = frame.jit ? std::string_view(frame.jit->symbol) : "";
  if (frame.code && frame.code->module != nullptr)
    return {frame.code->module, frame.code->address.value, compiled};
  return {nullptr, frame.pc, compiled};
}

} // namespace

void fold_exit(unwind::Stack& stack, const resolve::ProbePoint& point) {
  std::vector<unwind::Frame>& frames = stack.frames;
  // Functions that were inlined at the exit precede it.
  const auto function = std::ranges::find(frames, 0, &unwind::Frame::inline_depth);
  if (function == frames.end() || function->jit) return;
  auto& located = function->code;
  if (!located || located->module == nullptr) return;
  const std::uint64_t distance = point.address.value - located->address.value;
  const auto begin = located->offset_by(distance);
  if (!begin) return;
  function->pc += distance;
  located = begin;
  frames.erase(frames.begin(), function);
}

unwind::Stack make_probe_stack(unwind::LiveProcesses& processes, pid_t pid,
                               std::span<const std::uint64_t> addresses, const Probe& probe,
                               bool at_exits) {
  const resolve::ProbePoint& point = probe.point;
  std::optional<FileOffset> offset; // of the instruction that was hit
  // An offset in a file and the address of its mapped byte are equal within their pages.
  const auto add = [&](FileOffset each) {
    constexpr std::uint64_t within_page = (std::uint64_t{1} << BITS_WITHIN_PAGE) - 1;
    if (!addresses.empty() && ((addresses.front() ^ each.value) & within_page) == 0) offset = each;
  };
  if (point.offset) add(*uprobe_offset(point));
  if (at_exits)
    for (const PlannedSite& site : probe.sites)
      if (site.exit) add(site.exit->offset);
  unwind::Stack stack;
  if (offset) {
    const unwind::ProbedInstruction hit{.pc = addresses.front(),
                                        .file = point.binary->file,
                                        .path = point.binary->real_path,
                                        .offset = *offset};
    stack = processes.make_stack(pid, 0, addresses, &hit);
  } else {
    stack = processes.make_stack(pid, 0, addresses);
  }
  if (at_exits) fold_exit(stack, point);
  return stack;
}

std::shared_ptr<const KeptStack> make_kept_stack(unwind::Stack stack) {
  auto made = std::make_shared<KeptStack>(KeptStack{.stack = std::move(stack)});
  for (const unwind::Frame& frame : made->stack.frames)
    made->text += output::display_frame(frame) + "\n";
  return made;
}

bool KeptStacks::Order::precedes(const unwind::Stack& left, const unwind::Stack& right) {
  return std::ranges::lexicographical_compare(left.frames, right.frames, {}, code_of, code_of);
}

bool KeptStacks::has_room_for(const unwind::Stack& stack) const {
  return stack.frames.empty() ||
         (stacks_.size() < max_stacks && frames_ + stack.frames.size() <= max_frames);
}

std::shared_ptr<const KeptStack> KeptStacks::keep(const unwind::Stack& stack) {
  if (const auto known = stacks_.find(stack); known != stacks_.end()) return *known;
  if (!has_room_for(stack)) {
    were_too_many_ = true;
    return keep({});
  }
  unwind::Stack copy = stack;
  copy.frames.shrink_to_fit();
  keep_frames(copy.frames, mapping_names_);
  frames_ += copy.frames.size();
  return *stacks_.insert(make_kept_stack(std::move(copy))).first;
}

} // namespace uprobectl::trace
