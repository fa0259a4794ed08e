// SPDX-License-Identifier: Apache-2.0
// The behaviour of each generation of UprobeStats for a task file. The verdicts are those of its
// source: AOSP packages/modules/UprobeStats, src/ConfigResolver.cpp, src/UprobeStats.cpp and
// src/Process.cpp for Android 15; daemon/core/config_resolver.rs, daemon/android/process.rs and
// bpf_handler.rs for Android 16 and later.
#include "uprobestats/service.hpp"
#include "uprobestats/task_file.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace uprobectl::uprobestats {

namespace {

using Findings = std::vector<std::string>;

// Rejections begin with "rejected: ".
Findings findings(const std::string& text, Service service) {
  const auto file = uprobestats::read_task_file(as_bytes(std::string_view(text)));
  INFO((file ? std::string() : file.error().message));
  REQUIRE(file);
  Findings found;
  for (const ServiceFinding& each : review(file->config, service))
    found.push_back((each.rejected ? "rejected: " : "") + to_string(each));
  return found;
}

const std::string by_class = "bpf_name: 'prog_GenericInstrumentation_uprobe_call_detail' "
                             "fully_qualified_class_name: 'a.B' method_name: 'c' ";
const std::string by_signature =
    "bpf_name: 'prog_GenericInstrumentation_uprobe_call_detail' "
    "file_paths: '/system/framework/oat/arm64/services.odex' method_signature: 'void a.B.c()' ";
const std::string rest = "bpf_maps: 'map_GenericInstrumentation_call_detail_buf' "
                         "target_process_name: 'system_server' duration_seconds: 5 ";

std::string task(const std::string& probe, const std::string& more = rest) {
  return "tasks { probe_configs { " + probe + " } " + more + " }\n";
}

std::string transactions(const std::string& filter) {
  return task("bpf_name: 'prog_Binder_uprobe_exec_transact_internal' fully_qualified_class_name: "
              "'android.os.Binder' method_name: 'execTransactInternal' "
              "fully_qualified_parameters: ['int', 'android.os.Parcel', 'android.os.Parcel', "
              "'int', 'int'] " +
                  filter,
              "bpf_maps: 'map_Binder_output_buf' target_process_name: 'system_server' "
              "duration_seconds: 5");
}

struct Verdicts {
  std::string file;
  Findings android15;
  Findings android16;
};

const std::string needs_flag =
    "task 1, probe 1: builds without the flag "
    "executable_method_file_offsets need method_signature and file_paths";

const std::vector<Verdicts> task_files = {
    // The sample of each generation.
    {task(by_signature),
     {},
     {"rejected: task 1, probe 1: fully_qualified_class_name is missing",
      "rejected: task 1, probe 1: method_name is missing"}},
    {task(by_class), {needs_flag}, {}},
    // ConfigResolver.cpp: "The first task is read and the rest are ignored"; config_resolver.rs:
    // "Config must have exactly one task".
    {task(by_class) + task(by_class),
     {"only the first of these 2 tasks is run", needs_flag,
      "task 2, probe 1: builds without the flag executable_method_file_offsets need "
      "method_signature and file_paths"},
     {"rejected: there are 2 tasks (expected exactly one)"}},
    {task(by_class, "target_process_name: 'p'"),
     {"rejected: task 1: duration_seconds is missing", needs_flag},
     {"rejected: task 1: duration_seconds is missing"}},
    // ConfigResolver.cpp reports it and continues; its doPoll() ends at once.
    {task(by_class, "target_process_name: 'p' duration_seconds: 0"),
     {"task 1: no record is read with duration_seconds 0", needs_flag},
     {"rejected: task 1: duration_seconds is 0 (expected more than 0)"}},
    {task(by_class, "target_process_name: 'p' duration_seconds: -5"),
     {"task 1: no record is read with duration_seconds -5", needs_flag},
     {"rejected: task 1: duration_seconds is -5 (expected more than 0)"}},
    {task(by_class, "duration_seconds: 5"),
     {"rejected: task 1: target_process_name is missing", needs_flag},
     {"rejected: task 1: target_process_name is missing"}},
    // Only process.rs takes any app without a name.
    {task(by_class, "duration_seconds: 5 target_process_selection: ANY_APP_PROCESS_ON_START"),
     {"rejected: task 1: target_process_name is missing", needs_flag},
     {}},
    {"tasks { target_process_name: 'p' duration_seconds: 5 }",
     {"rejected: task 1: probe_configs is missing"},
     {}},
    {task("bpf_name: 'x' fully_qualified_class_name: 'a.B'", "target_process_name: 'p' "
                                                             "duration_seconds: 5"),
     {needs_flag},
     {"rejected: task 1, probe 1: method_name is missing"}},
    {task("fully_qualified_class_name: 'a.B' method_name: 'c'", "target_process_name: 'p' "
                                                                "duration_seconds: 5"),
     {needs_flag},
     {"rejected: task 1, probe 1: bpf_name is missing"}},
    {task("bpf_name: 'x' file_paths: '/a.odex'", "target_process_name: 'p' duration_seconds: 5"),
     {"rejected: task 1, probe 1: method_signature is missing"},
     {"rejected: task 1, probe 1: fully_qualified_class_name is missing",
      "rejected: task 1, probe 1: method_name is missing"}},
    {task("bpf_name: 'x' method_signature: 'void a.B.c()'",
          "target_process_name: 'p' duration_seconds: 5"),
     {"rejected: task 1, probe 1: file_paths is missing"},
     {"rejected: task 1, probe 1: fully_qualified_class_name is missing",
      "rejected: task 1, probe 1: method_name is missing"}},
    // The oatdump path is gone.
    {task(by_class + "method_signature: 'void a.B.c()' file_paths: '/a.odex'"),
     {},
     {"task 1, probe 1: method_signature is ignored",
      "task 1, probe 1: file_paths are ignored: ART is asked for the method's code"}},
    // HANDLER_REGISTRY has exact names; UprobeStats.cpp looks for a part.
    {task(by_class, "bpf_maps: ['map_x', 'map_GenericInstrumentation_call_timestamp_buffer'] "
                    "target_process_name: 'p' duration_seconds: 5"),
     {"task 1: bpf_maps: 'map_x' is not read", needs_flag},
     {"task 1: bpf_maps: 'map_x' is not read",
      "task 1: bpf_maps: 'map_GenericInstrumentation_call_timestamp_buffer' is not read"}},
    {task(by_class, "bpf_maps: ['map_Accessibility_output_buf', "
                    "'map_DisruptiveApp_BindServiceLocked_output_buf'] "
                    "target_process_name: 'p' duration_seconds: 5"),
     {"task 1: bpf_maps: 'map_Accessibility_output_buf' is not read",
      "task 1: bpf_maps: 'map_DisruptiveApp_BindServiceLocked_output_buf' is not read", needs_flag},
     {"task 1: bpf_maps: 'map_Accessibility_output_buf' is read from Android 17 on",
      "task 1: bpf_maps: 'map_DisruptiveApp_BindServiceLocked_output_buf' is read from Android 17 "
      "on"}},
    // resolve_binder_transaction_filters().
    {transactions("binder_transaction_filters { interface_name: 'a.IB' method_configs { method_id: "
                  "1 event_service_config {} } }"),
     {"task 1: bpf_maps: 'map_Binder_output_buf' is not read", needs_flag,
      "task 1, probe 1: binder_transaction_filters are ignored"},
     {}},
    {transactions(""),
     {"task 1: bpf_maps: 'map_Binder_output_buf' is not read", needs_flag},
     {"rejected: task 1, probe 1: binder_transaction_filters is missing"}},
    {task(by_class + "binder_transaction_filters { interface_name: 'a.IB' method_configs { "
                     "method_id: 1 event_service_config {} } }"),
     {needs_flag, "task 1, probe 1: binder_transaction_filters are ignored"},
     {"rejected: task 1, probe 1: binder_transaction_filters are only for "
      "prog_Binder_uprobe_exec_transact_internal"}},
    {transactions("binder_transaction_filters { interface_name: 'a.IB' method_ids: 1 }"),
     {"task 1: bpf_maps: 'map_Binder_output_buf' is not read", needs_flag,
      "task 1, probe 1: binder_transaction_filters are ignored"},
     {"rejected: task 1, probe 1: binder_transaction_filters of 'a.IB': method_configs is "
      "missing"}},
};

// A folder that is removed again.
class TaskFolder {
public:
  TaskFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "service-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~TaskFolder() { std::filesystem::remove_all(path_); }
  TaskFolder(const TaskFolder&) = delete;
  TaskFolder& operator=(const TaskFolder&) = delete;

  void write(const std::string& file, std::string_view content) const {
    const std::filesystem::path path = path_ + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << content;
  }
  const std::string& path() const { return path_; }

private:
  std::string path_;
};

} // namespace

TEST_CASE(
    "each generation of UprobeStats accepts and rejects the task files that its source says") {
  for (const Verdicts& each : task_files) {
    INFO(each.file);
    CHECK(findings(each.file, Service::android15) == each.android15);
    CHECK(findings(each.file, Service::android16) == each.android16);
  }
}

TEST_CASE("a filter of transactions that the daemon rejects is reported with its interface") {
  const auto verdict = [](const std::string& filter) {
    const auto found =
        findings(transactions("binder_transaction_filters { " + filter + " }"), Service::android16);
    return found.empty() ? "" : found.front();
  };
  const std::string of = "rejected: task 1, probe 1: binder_transaction_filters of 'a.IB': ";
  const std::string ib = "interface_name: 'a.IB' ";
  CHECK(verdict(ib + "method_configs { method_id: 1 atom_config { atom_id: 915 } }").empty());
  CHECK(verdict("method_configs { method_id: 1 event_service_config {} }") ==
        "rejected: task 1, probe 1: binder_transaction_filters has no interface_name");
  CHECK(verdict("interface_name: '' method_configs { method_id: 1 event_service_config {} }") ==
        "rejected: task 1, probe 1: binder_transaction_filters has no interface_name");
  CHECK(verdict(ib) == of + "method_configs is missing");
  CHECK(verdict(ib + "method_configs { event_service_config {} }") ==
        of + "method_id is missing or not positive");
  CHECK(verdict(ib + "method_configs { method_id: 0 event_service_config {} }") ==
        of + "method_id is missing or not positive");
  CHECK(verdict(ib + "method_configs { method_id: 7 }") ==
        of + "method 7 has neither event_service_config nor atom_config");
  CHECK(verdict(ib + "method_configs { method_id: 7 atom_config {} }") ==
        of + "the atom_id of method 7 is missing or not positive");
  CHECK(verdict(ib + "method_configs { method_id: 7 atom_config { atom_id: -1 } }") ==
        of + "the atom_id of method 7 is missing or not positive");
  CHECK(verdict(ib + "method_configs { method_id: 7 atom_config { atom_id: 9 } } method_configs { "
                     "method_id: 7 event_service_config {} }") == of + "method 7 occurs twice");
  CHECK(verdict(ib +
                "method_configs { method_id: 1 event_service_config {} } } "
                "binder_transaction_filters { " +
                ib + "method_configs { method_id: 2 event_service_config {} }") ==
        of + "the interface occurs twice");
}

TEST_CASE("a filter that does not fit the program's table is an error of its probe") {
  const auto problem = [](const std::string& filter) {
    const auto file = uprobestats::read_task_file(
        as_bytes(std::string_view(transactions("binder_transaction_filters { " + filter + " }"))));
    REQUIRE(file);
    const auto& found = file->tasks.front().probes.front().problem;
    return found ? found->message : "";
  };
  std::string eleven = "interface_name: 'a.IB' ";
  for (int id = 1; id <= 10; ++id)
    eleven += "method_configs { method_id: " + std::to_string(id) + " event_service_config {} } ";
  CHECK(problem(eleven).empty());
  CHECK(problem(eleven + "method_configs { method_id: 11 event_service_config {} }") ==
        "binder_transaction_filters of 'a.IB': 11 methods (the program compares at most 10)");
  const std::string method = "method_configs { method_id: 1 event_service_config {} }";
  CHECK(problem("interface_name: '" + std::string(127, 'x') + "' " + method).empty());
  CHECK(problem("interface_name: '" + std::string(128, 'x') + "' " + method)
            .ends_with(": the name has more than 127 bytes, which the program does not compare"));
  CHECK(problem("interface_name: 'a.IB' method_configs { method_id: 1 atom_config { atom_id: 9 "
                "atom_field_positions: [CODE, UNKNOWN] } }") ==
        "binder_transaction_filters of 'a.IB': method 1 has the unknown atom_field_positions 0");
}

TEST_CASE("filters select transactions by interface and code, with an atom or without") {
  const auto file = uprobestats::read_task_file(as_bytes(std::string_view(transactions(
      "binder_transaction_filters { interface_name: 'a.IB' method_configs { method_id: 1 "
      "atom_config { atom_id: 915 atom_field_positions: [CALLING_UID, KTIME_NS] } } "
      "method_configs { method_id: 3 event_service_config { flush: true } } } "
      "binder_transaction_filters { interface_name: 'a.IC' method_ids: [1, 2] }"))));
  REQUIRE(file);
  const TaskProbe& probe = file->tasks.front().probes.front();
  REQUIRE_FALSE(probe.problem);
  const auto* const with_atom = find_method(probe.filters, "a.IB", 1);
  REQUIRE(with_atom != nullptr);
  CHECK(with_atom->atom_id == 915);
  CHECK(with_atom->atom_fields ==
        std::vector{uprobestats::proto::calling_uid, uprobestats::proto::ktime_ns});
  CHECK_FALSE(with_atom->to_event_service);
  const auto* const to_service = find_method(probe.filters, "a.IB", 3);
  REQUIRE(to_service != nullptr);
  CHECK(to_service->to_event_service);
  CHECK_FALSE(to_service->atom_id);
  CHECK(find_method(probe.filters, "a.IC", 2) != nullptr);
  CHECK(find_method(probe.filters, "a.IB", 2) == nullptr);
  CHECK(find_method(probe.filters, "a.IBC", 1) == nullptr);
  CHECK(find_method(probe.filters, "", 1) == nullptr);
}

TEST_CASE("the filters of several probes are merged by interface") {
  BinderFilters all = {{"a.IB", {{.code = 1, .atom_id = 5}}}};
  merge(all, {{"a.IB", {{.code = 1, .atom_id = 6}, {.code = 2, .atom_id = {}}}},
              {"a.IC", {{.code = 9, .atom_id = {}}}}});
  CHECK(all == BinderFilters{{"a.IB", {{.code = 1, .atom_id = 5}, {.code = 2, .atom_id = {}}}},
                             {"a.IC", {{.code = 9, .atom_id = {}}}}});
}

TEST_CASE("the service of a device is recognized by its init script, then by its program") {
  const TaskFolder none;
  CHECK_FALSE(uprobestats::find_service(none.path()));

  const TaskFolder with_binder;
  with_binder.write("/apex/com.android.uprobestats/etc/init.rc",
                    "service uprobestats /apex/com.android.uprobestats/bin/uprobestats\n"
                    "    class main\n    interface aidl uprobestats_service\n    disabled\n");
  CHECK(uprobestats::find_service(with_binder.path()) == Service::android16);

  const TaskFolder rust;
  rust.write("/apex/com.android.uprobestats/etc/init.rc",
             "service uprobestats /apex/com.android.uprobestats/bin/uprobestats\n    disabled\n");
  rust.write("/apex/com.android.uprobestats/bin/uprobestats",
             "\x7f"
             "ELF...uprobestats_rs::config_resolver...");
  CHECK(uprobestats::find_service(rust.path()) == Service::android16);

  const TaskFolder cpp;
  cpp.write("/apex/com.android.uprobestats/bin/uprobestats", "\x7f"
                                                             "ELF...uprobestats_cpp::main");
  CHECK(uprobestats::find_service(cpp.path()) == Service::android15);

  const TaskFolder of_the_platform;
  of_the_platform.write("/system/bin/uprobestats", "\x7f"
                                                   "ELF...");
  CHECK(uprobestats::find_service(of_the_platform.path()) == Service::android15);
}

TEST_CASE("a program that was renamed is found under its other name") {
  CHECK(uprobestats::other_program_name("prog_Accessibility_uprobe_dispatch_gesture") ==
        "prog_Accessibility_uprobe_accessibility_service_connection");
  CHECK(uprobestats::other_program_name(
            "prog_Accessibility_uprobe_accessibility_service_connection") ==
        "prog_Accessibility_uprobe_dispatch_gesture");
  CHECK_FALSE(
      uprobestats::other_program_name("prog_Accessibility_uprobe_grant_runtime_permission"));
}

} // namespace uprobectl::uprobestats
