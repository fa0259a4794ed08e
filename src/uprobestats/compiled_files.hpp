// SPDX-License-Identifier: Apache-2.0
// Where the compiled code of Java methods is: the OAT files of the system, of its modules, and
// those that a process maps. Source: AOSP art/runtime/oat/oat_file_assistant.cc and
// art/odrefresh/odrefresh.cc.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace uprobectl::uprobestats {

// Returns the OAT files in which a method of the process may be, in preference order. The task
// files of Android 16 and later do not name files: ART finds them. `root`: a sysroot, in which only
// files of the system are searched. Otherwise the files that the running processes of this name map
// come first; an empty name means no process.
std::vector<std::string> find_compiled_files(const std::optional<std::string>& root,
                                             std::string_view process_name);

} // namespace uprobectl::uprobestats
