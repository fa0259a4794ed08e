// SPDX-License-Identifier: Apache-2.0
// The generations of Android's UprobeStats: how to recognize the one of a device, and what each
// rejects or ignores in a task file. Source: AOSP packages/modules/UprobeStats,
// src/ConfigResolver.cpp (Android 15) and daemon/core/config_resolver.rs (Android 16 and later).
#pragma once

#include "uprobectl/util.hpp"
#include "uprobestats/schema.hpp"

namespace uprobectl::uprobestats {

// android15: the C++ program, which reads a file and calls oatdump. android16: the Rust daemon,
// which gets task files through binder and offsets from ART. The module is updated separately from
// the platform, so a device of Android 16 may have either.
enum class Service { android15, android16 };
constexpr Service newest_service = Service::android16;

std::optional<Service> parse_service(std::string_view name); // "android15", "android16"
std::string_view to_string(Service service);
std::string_view describe(Service service); // "UprobeStats of Android 15", for messages

// Returns the service that is installed below `root` ("" for this system), or nullopt if there is
// none or it cannot be read. Its init script registers a binder service since Android 17; before
// that only the names in the program distinguish the generations.
std::optional<Service> find_service(const std::string& root);

// A part of a task file that a service treats differently from uprobectl.
struct ServiceFinding {
  bool rejected = false; // the service does not run the file at all
  std::optional<std::size_t> task;
  std::optional<std::size_t> probe; // of the task
  std::string text;

  bool operator==(const ServiceFinding&) const = default;
};
// "task 1, probe 2: TEXT"; numbers begin at 1.
std::string to_string(const ServiceFinding& finding);

// Returns the findings in the order of the file.
std::vector<ServiceFinding> review(const proto::UprobestatsConfig& config, Service service);

// The programs and maps that are treated specially.
constexpr std::string_view binder_program = "prog_Binder_uprobe_exec_transact_internal";
constexpr std::string_view binder_interfaces_map = "map_Binder_interfaces";
// The built-in policy of Android 16 allows this program for any method.
constexpr std::string_view gesture_program = "prog_Accessibility_uprobe_dispatch_gesture";

// Returns the other name of a program that was renamed: some builds of the service's objects have
// one, some the other.
std::optional<std::string_view> other_program_name(std::string_view name);

} // namespace uprobectl::uprobestats
