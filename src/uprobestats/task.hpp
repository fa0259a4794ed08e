// A task file's messages -> tasks, and what is wrong with them.
#pragma once

#include "uprobectl/uprobestats/task_file.hpp"
#include "uprobestats/task_file.pb.h"

namespace uprobectl::uprobestats {

// Moves each probe's bpf_map to where it belongs now, its task's bpf_maps.
void move_early_maps(wire::UprobestatsConfig& config);

// out_of_range where there is more of something than a task file may have.
Result<std::vector<Task>> make_tasks(const wire::UprobestatsConfig& config);

} // namespace uprobectl::uprobestats
