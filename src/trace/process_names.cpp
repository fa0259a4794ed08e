// SPDX-License-Identifier: Apache-2.0
#include "trace/process_names.hpp"

namespace uprobectl::trace {

namespace {

constexpr std::size_t max_known_names = std::size_t{1} << 16;

} // namespace

void ProcessNameRecorder::write(const output::Record& record) {
  const auto* const event = record.find<events::Event>();
  if (event == nullptr || !output_.has_recorders()) return;
  if (known_.size() >= max_known_names) known_.clear();
  const auto [known, is_new] = known_.try_emplace(event->pid, false);
  if (is_new) known->second = record_name(event->pid);
}

void ProcessNameRecorder::finish() {
  for (const auto& [pid, has_name] : known_)
    if (!has_name) record_name(pid);
}

bool ProcessNameRecorder::record_name(std::uint32_t pid) {
  const auto name = history_.find_name(static_cast<pid_t>(pid));
  if (name) output_.record(output::ProcessNameRecord{.pid = pid, .name = *name});
  return name.has_value();
}

} // namespace uprobectl::trace
