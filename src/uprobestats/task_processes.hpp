// SPDX-License-Identifier: Apache-2.0
// Finds the processes that tasks name by their whole argv[0], as on Android, including processes
// that start later; and the compiled file of a jar that a process maps.
#pragma once

#include "trace/process_filter.hpp"
#include "uprobectl/process.hpp"

namespace uprobectl::uprobestats {

// Whether the name equals the process's argv[0].
bool has_process_name(pid_t pid, std::string_view name);

// Whether this is a process of an app: a child of a zygote with the user id of an app and a name of
// its own. Before that it is one of the zygote's prepared processes. Source: AOSP
// frameworks/base/core/java/com/android/internal/os/Zygote.java, android/os/Process.java.
bool is_app(pid_t pid);

// Whether the process has code that ART compiled into memory.
bool has_run_time_code(pid_t pid);

// Finds processes by name as they start, and notices their end.
class TaskProcesses {
public:
  using Time = std::chrono::steady_clock::time_point;

  // New processes are found at once if the kernel reports renames to us, otherwise within 500 ms.
  // `any_app`: also finds apps of whatever name that start after the first call.
  explicit TaskProcesses(std::vector<std::string> names, bool any_app = false);

  // `name`: index in the list of names, or their number for an app that has started.
  struct Found {
    std::size_t name = 0;
    pid_t pid = 0;
  };
  // Returns the processes that have started, or changed to such a name, since the last call; at the
  // first call all that are running, but no apps.
  std::vector<Found> find_new(Time now);
  // Returns the found processes that have ended since the last call.
  std::vector<pid_t> take_ended();
  Time next_look() const;
  // Adds a descriptor that is readable when a process changes its name.
  void add_to(std::vector<pollfd>& polled) const;

private:
  struct Known {
    std::size_t name = 0;
    process::ProcessHandle process;
  };
  void add_if_new(pid_t pid, std::span<const std::size_t> names, std::vector<Found>& found);
  void forget_ended();

  std::size_t app_index_; // number of names
  bool has_looked_ = false;
  trace::NameWatch names_;
  std::optional<bpf::ProcessSet> renames_;
  std::multimap<pid_t, Known> known_;
  std::vector<pid_t> ended_;
  Time next_scan_;
};

// Returns the name of the jar from which a file was compiled: "services" for
// "/system/framework/oat/arm64/services.odex" and for its path in dalvik-cache,
// "/data/dalvik-cache/arm64/system@framework@services.jar@classes.odex". Empty for other paths.
std::string_view jar_name(std::string_view compiled);

// Returns the package of an app's compiled file: "com.foo" for
// "/data/app/~~…==/com.foo-…==/oat/arm64/base.odex", and for the path in dalvik-cache of
// "/data/app/com.foo-1/base.apk". Empty for paths outside of apps' folders.
std::string_view package_name(std::string_view compiled);

// Whether both files were compiled from the same jar, or from the same APK of the same app.
bool is_same_jar(std::string_view one, std::string_view other);

// Finds a mapped file that was compiled from the same jar or APK as one of `files`, but is not one
// of them. Task files often name the compiled file of another build than a process maps.
std::optional<std::string> find_other_build(pid_t pid, std::span<const std::string> files);

} // namespace uprobectl::uprobestats
