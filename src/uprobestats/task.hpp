// A task file's messages -> tasks, and what is wrong with them.
#pragma once

#include "uprobestats/schema.hpp"
#include "uprobestats/task_file.hpp"

namespace uprobectl::uprobestats {

// out_of_range where there is more of something than a task file may have.
Result<std::vector<Task>> make_tasks(const proto::UprobestatsConfig& config);

} // namespace uprobectl::uprobestats
