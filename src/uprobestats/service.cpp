// SPDX-License-Identifier: Apache-2.0
#include "uprobestats/service.hpp"

#include "uprobestats/binder_filter.hpp"
#include "util/mapped_file.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace uprobectl::uprobestats {

namespace {

constexpr std::string_view connection_program =
    "prog_Accessibility_uprobe_accessibility_service_connection";

// bpf_handler.rs, HANDLER_REGISTRY: the maps for which the daemon has a reader. It fails the whole
// task if there is another. UprobeStats.cpp selects its readers by a part of the name.
constexpr std::array<std::string_view, 9> maps_of_android16 = {
    "map_Accessibility_output_buf",
    "map_Binder_output_buf",
    "map_BitmapAllocation_output",
    "map_DisruptiveApp_BindServiceLocked_output_buf",
    "map_DisruptiveApp_ComponentEnabledSetting_output_buf",
    "map_GenericInstrumentation_call_detail_buf",
    "map_GenericInstrumentation_call_timestamp_buf",
    "map_ProcessManagement_output_buf",
    "map_ProcessManagement_update_device_idle_temp_allowlist_records",
};
constexpr std::array<std::string_view, 4> map_parts_of_android15 = {
    "GenericInstrumentation_call_detail",
    "GenericInstrumentation_call_timestamp",
    "ProcessManagement_output_buf",
    "ProcessManagement_update_device_idle_temp_allowlist_records",
};

bool is_empty(const std::optional<std::string>& field) { return !field || field->empty(); }

class Reviewer {
public:
  explicit Reviewer(Service service) : service_(service) {}

  std::vector<ServiceFinding> review(const proto::UprobestatsConfig& config) {
    const std::size_t tasks = config.tasks.size();
    if (service_ == Service::android16 && tasks != 1)
      reject(fmt::format("there are {} tasks (expected exactly one)", tasks));
    if (service_ == Service::android15 && tasks == 0) reject("contains no task");
    if (service_ == Service::android15 && tasks > 1)
      note(fmt::format("only the first of these {} tasks is run", tasks));
    for (const proto::Task& task : config.tasks) {
      task_ = task_.value_or(0) + 1;
      review_task(task);
      for (const proto::ProbeConfig& probe : task.probe_configs) {
        probe_ = probe_.value_or(0) + 1;
        if (service_ == Service::android15)
          review_for_oatdump(probe);
        else
          review_for_daemon(probe);
      }
      probe_.reset();
    }
    return std::move(findings_);
  }

private:
  void add(bool rejected, std::string text) {
    findings_.push_back(
        {.rejected = rejected, .task = task_, .probe = probe_, .text = std::move(text)});
  }
  void reject(std::string text) { add(true, std::move(text)); }
  void note(std::string text) { add(false, std::move(text)); }

  void review_task(const proto::Task& task) {
    if (!task.duration_seconds)
      reject("duration_seconds is missing");
    else if (*task.duration_seconds <= 0 && service_ == Service::android16)
      reject(fmt::format("duration_seconds is {} (expected more than 0)", *task.duration_seconds));
    else if (*task.duration_seconds <= 0)
      note(fmt::format("no record is read with duration_seconds {}", *task.duration_seconds));
    if (needs_process(task) && !task.target_process_name) reject("target_process_name is missing");
    if (task.probe_configs.empty() && service_ == Service::android15)
      reject("probe_configs is missing");
    for (const std::string& map : task.bpf_maps)
      if (!has_reader(map))
        note(fmt::format("bpf_maps: '{}' is not read", map));
      else if (service_ == Service::android16 && needs_android17(map))
        note(fmt::format("bpf_maps: '{}' is read from Android 17 on", map));
  }

  // Process.cpp is only reached with a name, process.rs waits for any app without one.
  bool needs_process(const proto::Task& task) const {
    return service_ == Service::android15 ||
           (task.target_process_selection != proto::any_app_process_on_start &&
            task.target_process_selection != proto::specific_app_process_on_start);
  }

  bool has_reader(std::string_view map) const {
    if (service_ == Service::android16) return std::ranges::count(maps_of_android16, map) > 0;
    return std::ranges::any_of(map_parts_of_android15, [&](std::string_view part) {
      return map.find(part) != std::string_view::npos;
    });
  }
  static bool needs_android17(std::string_view map) {
    return map.starts_with("map_Accessibility_") || map.starts_with("map_DisruptiveApp_");
  }

  // Offsets come from oatdump, or from ART where the build has the flag
  // executable_method_file_offsets.
  void review_for_oatdump(const proto::ProbeConfig& probe) {
    const bool for_oatdump = !is_empty(probe.method_signature) && !probe.file_paths.empty();
    if (!for_oatdump && is_empty(probe.fully_qualified_class_name))
      reject(is_empty(probe.method_signature) ? "method_signature is missing"
                                              : "file_paths is missing");
    else if (!for_oatdump)
      note("builds without the flag executable_method_file_offsets need method_signature and "
           "file_paths");
    if (!probe.binder_transaction_filters.empty()) note("binder_transaction_filters are ignored");
  }

  void review_for_daemon(const proto::ProbeConfig& probe) {
    if (!probe.bpf_name) reject("bpf_name is missing");
    const std::string name = probe.bpf_name.value_or("");
    if (name == binder_program) {
      if (auto wrong = make_binder_filters(probe.binder_transaction_filters); !wrong)
        reject(std::move(wrong.error().message));
      else
        review_filters(probe);
    } else if (!probe.binder_transaction_filters.empty()) {
      reject(fmt::format("binder_transaction_filters are only for {}", binder_program));
    }
    if (!probe.fully_qualified_class_name) reject("fully_qualified_class_name is missing");
    if (!probe.method_name) reject("method_name is missing");
    if (probe.method_signature && probe.fully_qualified_class_name)
      note("method_signature is ignored");
    if (!probe.file_paths.empty() && probe.fully_qualified_class_name)
      note("file_paths are ignored: ART is asked for the method's code");
    if (name == connection_program || name == gesture_program)
      note(fmt::format("this program is '{}' in some builds and '{}' in others", gesture_program,
                       connection_program));
  }

  // The deprecated method_ids were replaced before Android 17.
  void review_filters(const proto::ProbeConfig& probe) {
    for (const proto::BinderTransactionFilter& filter : probe.binder_transaction_filters)
      if (filter.method_configs.empty())
        reject(fmt::format("binder_transaction_filters of '{}': method_configs is missing",
                           filter.interface_name.value_or("")));
  }

  Service service_;
  std::vector<ServiceFinding> findings_;
  std::optional<std::size_t> task_;
  std::optional<std::size_t> probe_;
};

constexpr std::size_t max_program = std::size_t{64} << 20U;

// The names of crates are in a Rust program as the targets of its log messages.
std::optional<Service> recognize_program(const std::string& path) {
  const auto program = MappedFile::open(path);
  if (!program || program->bytes().size() > max_program) return std::nullopt;
  const std::string_view text = as_text(program->bytes());
  const bool is_rust = text.find("uprobestats_rs") != std::string_view::npos ||
                       text.find("uprobestats_core") != std::string_view::npos;
  return is_rust ? Service::android16 : Service::android15;
}

} // namespace

std::optional<Service> parse_service(std::string_view name) {
  for (const Service service : {Service::android15, Service::android16})
    if (to_string(service) == name) return service;
  return std::nullopt;
}

std::string_view to_string(Service service) {
  return service == Service::android15 ? "android15" : "android16";
}

std::string_view describe(Service service) {
  return service == Service::android15 ? "UprobeStats of Android 15"
                                       : "UprobeStats of Android 16 and later";
}

std::optional<Service> find_service(const std::string& root) {
  const std::string apex = root + "/apex/com.android.uprobestats";
  const auto script = MappedFile::open(apex + "/etc/init.rc");
  if (script &&
      as_text(script->bytes()).find("interface aidl uprobestats_service") != std::string_view::npos)
    return Service::android16;
  for (const std::string& program : {apex + "/bin/uprobestats", root + "/system/bin/uprobestats"})
    if (const auto found = recognize_program(program)) return found;
  return std::nullopt;
}

std::string to_string(const ServiceFinding& finding) {
  if (!finding.task) return finding.text;
  if (!finding.probe) return fmt::format("task {}: {}", *finding.task, finding.text);
  return fmt::format("task {}, probe {}: {}", *finding.task, *finding.probe, finding.text);
}

std::vector<ServiceFinding> review(const proto::UprobestatsConfig& config, Service service) {
  return Reviewer(service).review(config);
}

std::optional<std::string_view> other_program_name(std::string_view name) {
  if (name == gesture_program) return connection_program;
  if (name == connection_program) return gesture_program;
  return std::nullopt;
}

} // namespace uprobectl::uprobestats
