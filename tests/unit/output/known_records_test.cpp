// SPDX-License-Identifier: Apache-2.0
#include "events/events.hpp"
#include "events/user_record.hpp"
#include "output/values.hpp"

#include <catch2/catch.hpp>
#include <cstring>

namespace uprobectl::output {

namespace {

// As UprobeStats declares them: the compiler lays them out.
struct CallResult {
  unsigned long pc;
  unsigned long regs[10];
};
struct CallTimestamp {
  unsigned event;
  unsigned long timestamp;
};
struct SetUid {
  std::uint64_t uid;
  bool on;
};
struct UpdateIdle {
  int changing_uid;
  bool adding;
  long duration;
  int type;
  int reason_code;
  char reason[256];
  int calling_uid;
};
struct UpdateIdleWithMethod {
  unsigned long method;
  UpdateIdle rest;
};
struct ProcessChange {
  int pid, uid;
  char name[256];
};
struct BitmapEvent {
  std::uint32_t type, width, height, scaled_width, scaled_height, storage, size;
  void* native;
  char activity[128];
};
struct BindService {
  char action[128], package[128], component_package[128], component_class[128];
  long flags;
  char calling[128];
};
struct BinderTransaction {
  char interface_descriptor[128];
  unsigned long code;
  int uid;
  unsigned long timestamp;
};
struct Accessibility {
  unsigned long timestamp;
  int variant;
  char package[128], permission[128];
  int uid, code;
};

events::UserRecordDecoder decoder_of(const std::string& pin,
                                     bpf::MapUse use = bpf::MapUse::ring_buffer) {
  std::vector<bpf::UserMap> maps(1);
  maps[0].name = "whatever";
  maps[0].pin = pin;
  maps[0].use = use;
  auto decoder = events::UserRecordDecoder::make(nullptr, maps);
  REQUIRE(decoder);
  return std::move(*decoder);
}

template <typename Record>
Bytes bytes_of(const Record& record) {
  return {reinterpret_cast<const std::byte*>(&record), sizeof(record)};
}

// "TYPE member=value …".
template <typename Record>
std::string read_known(const std::string& pin, const Record& record) {
  const events::Event event = decoder_of(pin).decode(0, bytes_of(record));
  if (!event.record->value) return "raw";
  std::string text = event.record->type.value_or("") + " ";
  append_text_value(text, *event.record->value);
  return text;
}

} // namespace

TEST_CASE("records of the generic programs are read by the name of the map's pin") {
  CallResult call{.pc = 0x1000, .regs = {1, 2, 3, 4, 5, 6, 7, 8, 9, 0xa}};
  CHECK(read_known("map_GenericInstrumentation_call_detail_buf", call) ==
        "CallResult pc=0x1000 regs=[0x1 0x2 0x3 0x4 0x5 0x6 0x7 0x8 0x9 0xa]");
  CHECK(read_known("map_GenericInstrumentation_call_timestamp_buf",
                   CallTimestamp{.event = 3, .timestamp = 77}) ==
        "CallTimestamp event=3 timestamp_ns=77");
}

TEST_CASE("records of process management are read in both their forms") {
  CHECK(read_known("map_ProcessManagement_output_buf", SetUid{.uid = 10123, .on = true}) ==
        "SetUidTempAllowlistStateRecord uid=10123 on_allowlist=true");
  UpdateIdle idle{.changing_uid = 10123,
                  .adding = true,
                  .duration = 5'000'000'000,
                  .type = 1,
                  .reason_code = -2,
                  .reason = "shell",
                  .calling_uid = 2000};
  const std::string rest = "changing_uid=10123 adding=true duration_ms=5000000000 type=1 "
                           "reason_code=-2 reason=\"shell\" calling_uid=2000";
  const std::string map = "map_ProcessManagement_update_device_idle_temp_allowlist_records";
  CHECK(sizeof(UpdateIdle) == 288);
  CHECK(read_known(map, idle) == "UpdateDeviceIdleTempAllowlistRecord " + rest);
  CHECK(read_known(map, UpdateIdleWithMethod{7, idle}) ==
        "UpdateDeviceIdleTempAllowlistRecord method_identifier=7 " + rest);
  CHECK(read_known("map_ProcessManagement_process_change_output_buf",
                   ProcessChange{.pid = 5, .uid = 6, .name = "com.example.shop"}) ==
        "ProcessChange pid=5 uid=6 process_name=\"com.example.shop\"");
}

TEST_CASE("records of the other objects lie as the compiler lays them out") {
  BitmapEvent bitmap{1, 2, 3, 4, 5, 6, 7, nullptr, "Main"};
  CHECK(sizeof(bitmap) == 168);
  CHECK(read_known("map_BitmapAllocation_output", bitmap) ==
        "BitmapEvent type=1 width=2 height=3 scaled_width=4 scaled_height=5 pixel_storage_type=6 "
        "bitmap_size=7 native_ptr=0x0 activity_name=\"Main\"");
  CHECK(
      read_known("map_DisruptiveApp_BindServiceLocked_output_buf",
                 BindService{"a", "b", "c", "d", 0x100000, "e"}) ==
      "BindServiceLocked intent_action=\"a\" intent_package=\"b\" intent_component_name_package=\"c\" "
      "intent_component_name_class=\"d\" bind_flags=1048576 calling_package=\"e\"");
  CHECK(read_known("map_Binder_output_buf", BinderTransaction{"IFoo", 2, 1000, 9}) ==
        "BinderTransaction interface_descriptor=\"IFoo\" code=2 calling_uid=1000 timestamp_ns=9");
  CHECK(
      read_known("map_Accessibility_output_buf", Accessibility{8, 1, "p", "q", 10, 11}) ==
      "AccessibilityEvent timestamp_ns=8 variant=1 package_name=\"p\" permission_name=\"q\" uid=10 "
      "code=11");
}

TEST_CASE("a record of a size that no version has is shown raw, and counted") {
  auto decoder = decoder_of("map_GenericInstrumentation_call_detail_buf");
  const std::uint64_t eleven[12] = {};
  const events::Event event = decoder.decode(0, bytes_of(eleven));
  CHECK_FALSE(event.record->value);
  CHECK(event.record->raw.size() == 96);
  CHECK(decoder.unknown_layouts() == 1);
  decoder.decode(0, bytes_of(CallResult{}));
  CHECK(decoder.unknown_layouts() == 1);
}

TEST_CASE("a text that fills its array ends with it") {
  ProcessChange change{};
  std::memset(change.name, 'x', sizeof(change.name));
  CHECK(read_known("map_ProcessManagement_process_change_output_buf", change) ==
        "ProcessChange pid=0 uid=0 process_name=\"" + std::string(256, 'x') + "\"");
}

TEST_CASE("the map's own name is enough where no other map is likely to have it") {
  CHECK(events::find_known_map("call_detail_buf"));
  CHECK_FALSE(events::find_known_map("call_detail_buf")->has_object_name);
  CHECK(events::find_known_map("call_timestamp_")); // as the kernel keeps it
  CHECK(events::find_known_map("map_Binder_output_buf")->has_object_name);
  CHECK_FALSE(events::find_known_map("output_buf"));
  CHECK_FALSE(events::find_known_map("output"));
  CHECK_FALSE(events::find_known_map("call_timestamp"));
  CHECK_FALSE(events::find_known_map("map_Binder_call_detail_buf"));
  CHECK_FALSE(events::find_known_map(""));
}

TEST_CASE("no two layouts of a map are of one size") {
  for (const auto* const name :
       {"map_BitmapAllocation_output", "map_DisruptiveApp_BindServiceLocked_output_buf",
        "map_DisruptiveApp_ComponentEnabledSetting_output_buf", "map_Binder_output_buf",
        "map_Accessibility_output_buf", "map_ArtTest_output_buf_jit"}) {
    const auto map = events::find_known_map(name);
    REQUIRE(map);
    for (std::size_t i = 1; i < map->layouts.size(); ++i)
      CHECK(size_of(map->layouts[i - 1]) < size_of(map->layouts[i]));
  }
}

} // namespace uprobectl::output
