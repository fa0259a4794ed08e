// SPDX-License-Identifier: Apache-2.0
// Task files in both forms. The binary form of tasks reads back as the same tasks.
#include "uprobestats/task_file.hpp"

#include <cstdlib>

int fuzz_task_file(const std::uint8_t* data, std::size_t size) {
  using namespace uprobectl;
  const auto file = uprobestats::read_task_file({reinterpret_cast<const std::byte*>(data), size});
  if (!file) return 0;
  for (const auto service : {uprobestats::Service::android15, uprobestats::Service::android16})
    for (const auto& finding : review(file->config, service))
      if (finding.task.value_or(1) > file->tasks.size()) std::abort();
  const auto again = uprobestats::read_task_file(as_bytes(file->binary));
  // Without a duration the numbering of the written form may be in doubt.
  if (!again) {
    if (again.error().kind != ErrorKind::ambiguous) std::abort();
    return 0;
  }
  if (again->tasks.size() != file->tasks.size()) std::abort();
  for (std::size_t i = 0; i < file->tasks.size(); ++i)
    if (again->tasks[i].probes.size() != file->tasks[i].probes.size()) std::abort();
  return 0;
}
