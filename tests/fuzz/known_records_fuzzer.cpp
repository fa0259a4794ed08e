// SPDX-License-Identifier: Apache-2.0
// Records of UprobeStats' maps. The first byte selects the map.
#include "events/user_record.hpp"
#include "output/values.hpp"

#include <array>
#include <cstdlib>

using namespace uprobectl;

namespace {

constexpr std::array map_names = {"map_GenericInstrumentation_call_detail_buf",
                                  "map_GenericInstrumentation_call_timestamp_buf",
                                  "map_ProcessManagement_output_buf",
                                  "map_ProcessManagement_update_device_idle_temp_allowlist_records",
                                  "map_BitmapAllocation_output",
                                  "map_DisruptiveApp_BindServiceLocked_output_buf",
                                  "map_Accessibility_output_buf",
                                  "map_ArtTest_output_buf_jit"};

} // namespace

int fuzz_known_records(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Bytes bytes{reinterpret_cast<const std::byte*>(data + 1), size - 1};
  const auto map = events::find_known_map(map_names[data[0] % map_names.size()]);
  if (!map) std::abort();
  for (const events::RecordLayout& layout : map->layouts) {
    if (size_of(layout) > bytes.size()) continue;
    const values::Value value = read_record(layout, bytes);
    const auto* const members = std::get_if<values::Value::Struct>(&value.value);
    if (members == nullptr || members->size() != layout.fields.size()) std::abort();
    std::string text;
    output::append_json_value(text, value);
  }
  return 0;
}
