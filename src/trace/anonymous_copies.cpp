// SPDX-License-Identifier: Apache-2.0
#include "trace/anonymous_copies.hpp"

#include "process/anonymous_copy.hpp"
#include "uprobectl/process.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace uprobectl::trace {

namespace {

// Returns the bytes at the start of the ELF image that the loader does not change: those of its
// first page, in the segment that begins with the ELF header.
Bytes first_bytes(const std::shared_ptr<const resolve::ProbedBinary>& binary,
                  BinaryCache& binaries) {
  constexpr std::uint64_t page = 4096;
  const auto image = binaries.of(binary).image();
  if (!image || (*image)->segments().empty()) return {};
  const elf::Segment& first = (*image)->segments().front();
  if (first.offset.value != 0 || first.writable) return {};
  return slice(binary->file->bytes(), binary->entry_data.value, std::min(first.file_size, page))
      .value_or(Bytes());
}

std::optional<pid_t>
find_process_with_copy(const std::shared_ptr<const resolve::ProbedBinary>& binary,
                       std::span<const pid_t> pids, BinaryCache& binaries) {
  const Bytes start = first_bytes(binary, binaries);
  const auto found = std::ranges::find_if(
      pids, [&](pid_t pid) { return process::find_anonymous_copy(pid, start).has_value(); });
  if (found == pids.end()) return std::nullopt;
  return *found;
}

std::string explain(pid_t pid) {
  return fmt::format(
      "process {} has a copy of this file in anonymous memory, which cannot be "
      "probed: Android loads libraries this way on devices with 16 KiB pages, unless "
      "they are linked with -Wl,-z,max-page-size=16384",
      pid);
}

} // namespace

void warn_about_anonymous_copies(std::span<const Probe> probes, std::span<const pid_t> pids,
                                 BinaryCache& binaries, output::Output& output) {
  std::map<std::shared_ptr<const resolve::ProbedBinary>, bool> is_mapped;
  for (const Probe& probe : probes)
    is_mapped[probe.point.binary] |= !probe.survey.executable.empty();
  for (const auto& [binary, mapped] : is_mapped) {
    if (mapped) continue;
    if (const auto pid = find_process_with_copy(binary, pids, binaries))
      output.warn(to_string(binary->path) + ": " + explain(*pid));
  }
}

void explain_anonymous_copies(std::span<Probe> probes, std::span<const pid_t> pids,
                              BinaryCache& binaries) {
  std::map<std::shared_ptr<const resolve::ProbedBinary>, std::optional<pid_t>> known;
  for (Probe& probe : probes) {
    if (probe.hits != 0 || !probe.survey.executable.empty() || !probe.hidden_reason.empty())
      continue;
    const auto [found, is_new] = known.try_emplace(probe.point.binary);
    if (is_new) found->second = find_process_with_copy(probe.point.binary, pids, binaries);
    if (found->second) probe.hidden_reason = explain(*found->second);
  }
}

} // namespace uprobectl::trace
