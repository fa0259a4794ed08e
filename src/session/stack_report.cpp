#include "session/stack_report.hpp"

#include "session/counted.hpp"
#include "session/report.hpp"

#include <fmt/format.h>

namespace uprobectl {

namespace {

std::string share_of(std::uint64_t part, std::uint64_t all) {
  return fmt::format("{} of {} stacks", part, all);
}

std::string explain_cut(const AttachRequest& request) {
  const std::uint32_t size = request.inspection.stack_bytes;
  if (request.inspection.stack == StackWalk::frame_pointers)
    return fmt::format("{} frames are the most that the kernel walks, --stack unwinds more",
                       MOST_FRAMES);
  return fmt::format(
      "more than the {} bytes that are copied of each{}", size,
      size < MOST_STACK_BYTES
          ? fmt::format(", --stack-size {} copies more",
                        std::min<std::uint64_t>(std::uint64_t{size} * 2, MOST_STACK_BYTES))
          : ", which is the most that can be");
}

} // namespace

void report_stacks(const StackTotals& totals, const AttachRequest& request,
                   const Reporter& reporter) {
  if (totals.truncated > 0)
    reporter.warning(fmt::format("{} cut off: {}", share_of(totals.truncated, totals.all),
                                 explain_cut(request)));
  if (totals.failed > 0)
    reporter.warning(fmt::format(
        "{} not unwound to the end: {}{}", share_of(totals.failed, totals.all), totals.failure,
        request.kept_stacks ? "" : "; --keep-stacks DIR saves some of them"));
  if (totals.lost_mappings > 0)
    reporter.warning(fmt::format("{} of what processes map lost: frames may have no names, or "
                                 "those of what was mapped there before",
                                 counted(totals.lost_mappings, "record", "records")));
  if (totals.saved > 0)
    reporter.status(fmt::format("{} saved below {}: look at them with uprobectl debug-unwind",
                                counted(totals.saved, "stack", "stacks"), *request.kept_stacks));
}

// Linux kernel/bpf/stackmap.c: stacks whose hashes have the same place in the map keep each other
// out of it.
void report_without_stack(std::uint64_t hits, const Reporter& reporter) {
  if (hits == 0) return;
  reporter.warning(fmt::format("{} counted without a stack, which the kernel could not keep: "
                               "--count --stack unwinds stacks and keeps them itself",
                               counted(hits, "hit", "hits")));
}

std::string picture_subtitle(std::chrono::nanoseconds duration, const StackTotals* totals) {
  std::string text =
      format_duration(std::chrono::duration_cast<std::chrono::milliseconds>(duration));
  if (totals == nullptr) return text;
  text += ", " + counted(totals->all, "stack", "stacks");
  if (totals->truncated > 0) text += fmt::format(", {} of them cut off", totals->truncated);
  if (totals->failed > 0) text += fmt::format(", {} not unwound to the end", totals->failed);
  return text;
}

} // namespace uprobectl
