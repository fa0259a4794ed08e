// SPDX-License-Identifier: Apache-2.0
// The processes that tasks name: by their whole argv[0], as on Android, those that begin later
// included, and which compiled file of a jar they map.
#pragma once

#include "trace/process_filter.hpp"
#include "uprobectl/process.hpp"

namespace uprobectl {

// Whether it is the process's argv[0], up to its end.
bool has_process_name(pid_t pid, std::string_view name);

class TaskProcesses {
public:
  using Time = std::chrono::steady_clock::time_point;

  // The kernel tells of new ones at once where it can; else they are found within half a second.
  explicit TaskProcesses(std::vector<std::string> names);

  // Those that have begun, or taken such a name, since: by the name's number. At first, all.
  struct Found {
    std::size_t name = 0;
    pid_t pid = 0;
  };
  std::vector<Found> look(Time now);
  // Those found that have ended since it was asked last.
  std::vector<pid_t> take_ended();
  Time next_look() const;
  // Readable when a process takes another name.
  void add_to(std::vector<pollfd>& polled) const;

private:
  struct Known {
    std::size_t name = 0;
    ProcessHandle process;
  };
  void judge(pid_t pid, std::span<const std::size_t> names, std::vector<Found>& found);
  void forget_ended();

  NameWatch names_;
  std::optional<ProcessSet> renames_;
  std::multimap<pid_t, Known> known_;
  std::vector<pid_t> ended_;
  Time next_scan_;
};

// Task files often name another build's compiled file than the one that a process maps.

// "services" of "/system/framework/oat/arm64/services.odex", and of what dalvik-cache makes of a
// path, "/data/dalvik-cache/arm64/system@framework@services.jar@classes.odex". Empty for other
// paths.
std::string_view jar_of(std::string_view compiled);

// "com.foo" of "/data/app/~~…==/com.foo-…==/oat/arm64/base.odex", and of what dalvik-cache makes of
// "/data/app/com.foo-1/base.apk". Empty for paths outside of apps' folders.
std::string_view package_of(std::string_view compiled);

// Compiled from one jar, or from one APK of an app: all apps have a base.apk.
bool is_same_jar(std::string_view one, std::string_view other);

// A mapped file that was compiled from the same jar or APK as one of `files`, but is not in it.
std::optional<std::string> mapped_for_same_jar(pid_t pid, std::span<const std::string> files);

} // namespace uprobectl
