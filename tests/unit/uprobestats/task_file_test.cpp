// SPDX-License-Identifier: Apache-2.0
// Whole task files: both forms, both numberings, and their errors. Bytes are written by hand after
// protobuf.dev/programming-guides/encoding.
#include "uprobestats/task_file.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::uprobestats {

using uprobestats::read_task_file;

namespace {

std::string field(int number, std::string_view bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} +
         std::string(bytes);
}
std::string field(int number, int value) {
  return {static_cast<char>(number << 3), static_cast<char>(value)};
}

const std::string probe = field(1, "prog_x") + field(2, "/a.odex") + field(3, "void a.B.c()");

Result<TaskFile> read_task(std::string_view file) { return read_task_file(as_bytes(file)); }

std::string fault_of(std::string_view file) {
  const auto read_file = read_task(file);
  REQUIRE_FALSE(read_file);
  return read_file.error().message;
}

// A text with one task of one probe; what is given replaces or joins it.
struct Draft {
  std::string probe = "bpf_name: 'prog_x' file_paths: '/a.odex' method_signature: 'void a.B.c()'";
  std::string process = "target_process_name: 'p'";
  std::string duration = "duration_seconds: 5";
  std::string more = {};

  Task task() const {
    const auto file = read_task("tasks { probe_configs { " + probe + " } " + process + " " +
                                duration + " " + more + " }");
    INFO((file ? std::string() : file.error().message));
    REQUIRE(file);
    return file->tasks.front();
  }
  std::string task_problem() const { return task().problem ? task().problem->message : ""; }
  std::string probe_problem() const {
    const auto found = task().probes.front();
    return found.problem ? found.problem->message : "";
  }
};

} // namespace

TEST_CASE("a text task file is parsed") {
  const auto file = read_task(R"(
# proto-file: config.proto
tasks {
  probe_configs: {
    bpf_name: "prog_GenericInstrumentation_uprobe_call_detail"
    file_paths: ["/system/framework/oat/arm64/services.odex", "/x/services.odex"]
    fully_qualified_class_name: "com.foo.Bar$Inner"
    method_name: "baz"
    fully_qualified_parameters: ["int", "java.lang.String[]"]
  }
  bpf_maps: "map_GenericInstrumentation_call_detail_buf"
  target_process_name: "system_server"
  duration_seconds: 60
  statsd_logging_config { atom_id: 915 primitive_argument_positions: [0, 2] }
  target_process_selection: SPECIFIC_APP_PROCESS_ON_START
  task_id: 7
}
)");
  REQUIRE(file);
  CHECK(file->warnings.empty());
  REQUIRE(file->tasks.size() == 1);
  const Task& task = file->tasks.front();
  CHECK_FALSE(task.problem);
  CHECK(task.bpf_maps == std::vector<std::string>{"map_GenericInstrumentation_call_detail_buf"});
  CHECK(task.target_process_name == "system_server");
  CHECK(task.duration == std::chrono::seconds(60));
  CHECK(task.on_start);
  CHECK(task.id == 7);
  REQUIRE(task.logging);
  CHECK(task.logging->atom_id == 915);
  CHECK(task.logging->primitive_argument_positions == std::vector<std::int32_t>{0, 2});
  REQUIRE(task.probes.size() == 1);
  const TaskProbe& found = task.probes.front();
  CHECK_FALSE(found.problem);
  CHECK(found.bpf_name == "prog_GenericInstrumentation_uprobe_call_detail");
  CHECK(found.file_paths ==
        std::vector<std::string>{"/system/framework/oat/arm64/services.odex", "/x/services.odex"});
  CHECK(found.method == "com.foo.Bar$Inner.baz(int, java.lang.String[])");
  CHECK(found.has_parameters);
}

TEST_CASE("the binary form in the current numbering is read, and written again as it was") {
  const std::string binary =
      field(1, field(1, probe) + field(2, "map_x") + field(3, "system_server") + field(4, 60));
  const auto file = read_task(binary);
  REQUIRE(file);
  CHECK(file->warnings.empty());
  CHECK(file->binary == binary);
  CHECK(file->tasks.front().target_process_name == "system_server");
  CHECK(file->tasks.front().bpf_maps == std::vector<std::string>{"map_x"});
}

TEST_CASE("the binary form of early Android 15 is reported by its types, and its map moved") {
  const std::string early =
      field(1, field(1, probe + field(4, "map_x")) + field(2, "system_server") + field(3, 60));
  const auto file = read_task(early);
  REQUIRE(file);
  REQUIRE(file->warnings.size() == 1);
  CHECK(file->warnings.front().starts_with("the file uses the field numbers of early Android 15"));
  const Task& task = file->tasks.front();
  CHECK_FALSE(task.problem);
  CHECK(task.target_process_name == "system_server");
  CHECK(task.duration == std::chrono::seconds(60));
  CHECK(task.bpf_maps == std::vector<std::string>{"map_x"});
  CHECK(file->binary ==
        field(1, field(1, probe) + field(2, "map_x") + field(3, "system_server") + field(4, 60)));
}

TEST_CASE("without a duration the strings distinguish the numberings") {
  const auto current = read_task(field(1, field(1, probe) + field(2, "map_x")));
  REQUIRE(current);
  CHECK(current->tasks.front().bpf_maps == std::vector<std::string>{"map_x"});
  const auto early = read_task(field(1, field(1, probe) + field(2, "system_server")));
  REQUIRE(early);
  CHECK(early->tasks.front().target_process_name == "system_server");
  const auto by_class = read_task(field(1, field(1, probe + field(4, "a.B"))));
  REQUIRE(by_class);
  CHECK(by_class->warnings.empty());
}

TEST_CASE("a binary file that fits both numberings or none is an error") {
  const auto both = read_task(field(1, field(1, probe) + field(2, "/data/x")));
  REQUIRE_FALSE(both);
  CHECK(both.error().kind == ErrorKind::ambiguous);
  CHECK(both.error().message.find("in both numberings") != std::string::npos);

  const auto none = read_task(field(1, field(1, probe) + field(3, 60) + field(4, 60)));
  REQUIRE_FALSE(none);
  CHECK(none.error().kind == ErrorKind::corrupt);
  CHECK(none.error().message.find("fits neither numbering") != std::string::npos);
  CHECK(
      none.error().hints ==
      std::vector<std::string>{
          "current numbering: tasks 1: field 3 (a number) at byte 0x23 has another type",
          "numbering of early Android 15: tasks 1: field 4 (a number) at byte 0x25 does not exist "
          "in that version"});
}

TEST_CASE("fields that are not known are reported with their positions") {
  const auto file =
      read_task(field(1, field(1, probe) + field(3, "p") + field(4, 60) + field(9, 1)));
  REQUIRE(file);
  CHECK(file->warnings ==
        std::vector<std::string>{"tasks 1: field 9 (a number) at byte 0x28 is not known"});
  CHECK(file->binary.find(field(9, 1)) != std::string::npos);
}

TEST_CASE("a field unknown in both numberings does not prevent reading an early file") {
  const auto file =
      read_task(field(1, field(1, probe) + field(2, "system_server") + field(3, 60) + field(9, 1)));
  REQUIRE(file);
  CHECK(file->tasks.front().target_process_name == "system_server");
  REQUIRE(file->warnings.size() == 2);
  CHECK(file->warnings.front().find(": field 9 (a number) at byte 0x") != std::string::npos);
  CHECK(file->warnings.front().ends_with(" is not known"));
}

TEST_CASE("an invalid task file is reported with the offset") {
  CHECK(fault_of(std::string_view("\x0a\x05\x00", 3)) ==
        "read as the binary form because it is not text: byte 0x0: field 1 is truncated");
  CHECK(fault_of(std::string_view("\x0b\x00", 2)).find("byte 0x0: invalid field tag") !=
        std::string::npos);
  CHECK(fault_of("") == "contains no task");
  CHECK(fault_of("# nothing") == "contains no task");
  // An empty line is the tag of a file's first field, too.
  CHECK(read_task("\n\ntasks { }"));
}

TEST_CASE("limits of task files are checked before allocation") {
  std::string many;
  for (int i = 0; i < 65; ++i) many += field(1, "");
  CHECK(fault_of(many).find("more than 64 tasks") != std::string::npos);
  many.clear();
  for (int i = 0; i < 100'000; ++i) many += field(1, "");
  CHECK(fault_of(many).find("more than 20000 fields") != std::string::npos);
  CHECK(fault_of(std::string((1U << 20U) + 1, ' ')) ==
        "the file has 1048577 bytes (expected at most 1048576)");
}

TEST_CASE("the first version's bpf_map is taken in a text, too") {
  Draft draft;
  draft.probe += " bpf_map: 'map_x'";
  draft.more = "bpf_maps: 'map_y'";
  CHECK(draft.task().bpf_maps == std::vector<std::string>{"map_y", "map_x"});
}

TEST_CASE("missing fields of a task are reported") {
  CHECK(Draft{}.task_problem().empty());
  CHECK(Draft{.duration = ""}.task_problem() == "duration_seconds is missing");
  CHECK(Draft{.duration = "duration_seconds: 0"}.task_problem() ==
        "invalid duration_seconds 0 (expected more than 0)");
  CHECK(Draft{.duration = "duration_seconds: -5"}.task_problem() ==
        "invalid duration_seconds -5 (expected more than 0)");
  CHECK(Draft{.process = ""}.task_problem() == "target_process_name is missing");
  CHECK(Draft{.process = "target_process_name: '\\n'"}.task_problem() ==
        "target_process_name has a control character");
  CHECK(Draft{.more = "bpf_maps: 'a/b'"}.task_problem() ==
        "invalid bpf_maps 'a/b': expected a file name, not a path");
  CHECK(Draft{.more = "bpf_maps: '/a/b'"}.task_problem().empty());
  CHECK(Draft{.more = "statsd_logging_config {}"}.task_problem() ==
        "statsd_logging_config has no atom_id");
  const auto empty = read_task("tasks { target_process_name: 'p' duration_seconds: 5 }");
  REQUIRE(empty);
  CHECK(empty->tasks.front().problem->message == "probe_configs is missing");
}

TEST_CASE("a task for any app that starts needs no name of a process") {
  const Draft any{.process = "", .more = "target_process_selection: ANY_APP_PROCESS_ON_START"};
  CHECK(any.task_problem().empty());
  CHECK(any.task().any_app);
  const Draft specific{.process = "",
                       .more = "target_process_selection: SPECIFIC_APP_PROCESS_ON_START"};
  CHECK(specific.task_problem() == "target_process_name is missing");
}

TEST_CASE("missing fields of a probe are reported") {
  const std::string path = "file_paths: '/a.odex' ";
  const std::string name = "bpf_name: 'x' ";
  const auto problem = [](std::string text) {
    return Draft{.probe = std::move(text)}.probe_problem();
  };
  CHECK(problem(path + "method_signature: 'void a.B.c()'") == "bpf_name is missing");
  CHECK(problem("bpf_name: '../x' " + path + "method_signature: 'void a.B.c()'") ==
        "invalid bpf_name '../x': expected a file name, not a path");
  CHECK(problem(name + path) == "method_signature, or method_name, is missing");
  CHECK(problem(name + path + "method_name: 'c'") == "fully_qualified_class_name is missing");
  CHECK(problem(name + "file_paths: '/lib/libx.so' method_name: 'c'").empty());
  CHECK(problem(name + "method_signature: 'void a.B.c()'") == "file_paths is missing");
  // As the service of Android 16, which asks ART for the file.
  CHECK(problem(name + "fully_qualified_class_name: 'a.B' method_name: 'c'").empty());
  CHECK(problem(name + "file_paths: 'a.odex' method_signature: 'void a.B.c()'") ==
        "file_paths: 'a.odex' is not an absolute path");
  CHECK(problem(name + path + "method_signature: 'void a.B.c(int'") ==
        "method_signature does not end with ')': 'void a.B.c(int'");
  CHECK(problem(name + path + "method_signature: 'public void a.B.c()'") ==
        "invalid method_signature 'public void a.B.c()'");
  CHECK(problem(name + path +
                "method_signature: 'void a.B.c()' fully_qualified_class_name: 'a.B' "
                "method_name: 'c'")
            .empty());
  CHECK(problem(name + path +
                "method_signature: 'void a.B.c()' fully_qualified_class_name: 'a.B' "
                "method_name: 'd'") ==
        "method_signature and method_name name different methods: 'a.B.c', 'a.B.d'");
}

TEST_CASE("fields beside a method's signature must agree with it") {
  const auto problem = [](std::string more) {
    return Draft{.probe = "bpf_name: 'x' file_paths: '/a.odex' "
                          "method_signature: 'void a.B.c(int, long)' " +
                          std::move(more)}
        .probe_problem();
  };
  CHECK(problem("fully_qualified_class_name: 'a.B'").empty());
  CHECK(problem("fully_qualified_parameters: ['int', 'long']").empty());
  CHECK(problem("method_name: 'c'").empty());
  CHECK(problem("fully_qualified_class_name: 'a.C'") ==
        "method_signature and fully_qualified_class_name name different classes: 'a.B', 'a.C'");
  CHECK(problem("fully_qualified_parameters: 'int'") ==
        "method_signature and fully_qualified_parameters differ: 'a.B.c(int, long)', '(int)'");
  CHECK(problem("method_name: 'd'") ==
        "method_signature and method_name name different methods: 'a.B.c', 'd'");
}

TEST_CASE("a class, a method and a parameter are names that the service finds") {
  const auto problem = [](std::string names) {
    return Draft{.probe = "bpf_name: 'x' file_paths: '/a.odex' " + std::move(names)}
        .probe_problem();
  };
  const std::string in_class = "fully_qualified_class_name: 'a.B' ";
  CHECK(problem("fully_qualified_class_name: 'a/B' method_name: 'c'") ==
        "invalid fully_qualified_class_name 'a/B'");
  CHECK(problem("fully_qualified_class_name: 'void a.B' method_name: 'c'") ==
        "invalid fully_qualified_class_name 'void a.B'");
  CHECK(problem(in_class + "method_name: 'c(int)'") == "invalid method_name 'c(int)'");
  CHECK(problem(in_class + "method_name: 'c' fully_qualified_parameters: 'int, long'") ==
        "fully_qualified_parameters has several types in one: 'int, long'");
  CHECK(problem(in_class + "method_name: '<init>' fully_qualified_parameters: 'int[]'").empty());
  // A library's symbol may be a C++ name.
  CHECK(Draft{.probe = "bpf_name: 'x' file_paths: '/libx.so' method_name: 'ns::f(int, long)'"}
            .probe_problem()
            .empty());
}

TEST_CASE("a value that an enumeration does not have is a warning") {
  const auto file =
      read_task(field(1, field(1, probe) + field(3, "p") + field(4, 5) + field(6, 7)));
  REQUIRE(file);
  CHECK(file->warnings == std::vector<std::string>{"tasks 1: value 7 of target_process_selection "
                                                   "at byte 0x28 is not known"});
}

TEST_CASE("an atom's id has 32 bits") {
  CHECK(Draft{.more = "statsd_logging_config { atom_id: 2147483647 }"}.task_problem().empty());
  CHECK(Draft{.more = "statsd_logging_config { atom_id: 2147483648 }"}.task_problem() ==
        "invalid atom_id 2147483648 (expected at most 2147483647)");
}

TEST_CASE("a task file names methods one by one") {
  for (const std::string_view odd :
       {"a.B.*", "a.B.c+0x10", "a.B.c?", "a.B.[ab]", "a.B.c\\\\*", "void a.B.c(int)+0x4()"}) {
    INFO(odd);
    Draft draft;
    draft.probe =
        "bpf_name: 'x' file_paths: '/a.odex' method_signature: '" + std::string(odd) + "'";
    CHECK(draft.probe_problem().ends_with("does not name one method"));
  }
  Draft arrays;
  arrays.probe =
      "bpf_name: 'x' file_paths: '/a.odex' method_signature: 'int[] a.B.<init>(int[][])'";
  CHECK(arrays.probe_problem().empty());
}

} // namespace uprobectl::uprobestats
