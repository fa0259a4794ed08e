// The layouts behind known_records.hpp.
#pragma once

#include "events/known_records.hpp"

#include <array>

namespace uprobectl::known_records {

using enum FieldKind;

inline constexpr std::array call_result = {RecordField{"pc", pointer},
                                           RecordField{"regs", words, 10}};
inline constexpr std::array call_timestamp = {RecordField{"event", u32},
                                              RecordField{"timestamp_ns", u64}};
inline constexpr std::array set_uid = {RecordField{"uid", u64},
                                       RecordField{"on_allowlist", boolean}};
inline constexpr std::array update_idle = {
    RecordField{"changing_uid", s32}, RecordField{"adding", boolean},
    RecordField{"duration_ms", s64},  RecordField{"type", s32},
    RecordField{"reason_code", s32},  RecordField{"reason", text, 256},
    RecordField{"calling_uid", s32}};
// Where code that was compiled at run time is probed as well.
inline constexpr std::array update_idle_with_method = {RecordField{"method_identifier", u64},
                                                       RecordField{"changing_uid", s32},
                                                       RecordField{"adding", boolean},
                                                       RecordField{"duration_ms", s64},
                                                       RecordField{"type", s32},
                                                       RecordField{"reason_code", s32},
                                                       RecordField{"reason", text, 256},
                                                       RecordField{"calling_uid", s32}};
inline constexpr std::array process_change = {RecordField{"pid", s32}, RecordField{"uid", s32},
                                              RecordField{"process_name", text, 256}};

inline constexpr std::array bitmap_number = {RecordField{"value", u64}};
inline constexpr std::array bitmap_sizes = {RecordField{"width", u32}, RecordField{"height", u32},
                                            RecordField{"pixel_storage_type", u32}};
inline constexpr std::array bitmap_allocation = {RecordField{"type", u32},
                                                 RecordField{"width", u32},
                                                 RecordField{"height", u32},
                                                 RecordField{"pixel_storage_type", u32},
                                                 RecordField{"bitmap_size", u32},
                                                 RecordField{"native_ptr", pointer},
                                                 RecordField{"activity_name", text, 128}};
inline constexpr std::array bitmap_event = {RecordField{"type", u32},
                                            RecordField{"width", u32},
                                            RecordField{"height", u32},
                                            RecordField{"scaled_width", u32},
                                            RecordField{"scaled_height", u32},
                                            RecordField{"pixel_storage_type", u32},
                                            RecordField{"bitmap_size", u32},
                                            RecordField{"native_ptr", pointer},
                                            RecordField{"activity_name", text, 128}};

// MAX_STRING_LENGTH was 64, then 128.
template <std::size_t length>
inline constexpr std::array bind_service = {
    RecordField{"intent_action", text, length},
    RecordField{"intent_package", text, length},
    RecordField{"intent_component_name_package", text, length},
    RecordField{"intent_component_name_class", text, length},
    RecordField{"bind_flags", s64},
    RecordField{"calling_package", text, length}};
inline constexpr std::array bind_service_with_error = {
    RecordField{"intent_action", text, 128},
    RecordField{"intent_package", text, 128},
    RecordField{"intent_component_name_package", text, 128},
    RecordField{"intent_component_name_class", text, 128},
    RecordField{"bind_flags", s64},
    RecordField{"calling_package", text, 128},
    RecordField{"error_code", s32}};
template <std::size_t length>
inline constexpr std::array component_enabled = {
    RecordField{"package_name", text, length}, RecordField{"class_name", text, length},
    RecordField{"new_state", s32}, RecordField{"calling_package_name", text, length}};
template <std::size_t length>
inline constexpr std::array binder_transaction = {
    RecordField{"interface_descriptor", text, length}, RecordField{"code", u64},
    RecordField{"calling_uid", s32}, RecordField{"timestamp_ns", u64}};
template <std::size_t length>
inline constexpr std::array start_activity = {RecordField{"method_identifier", u64},
                                              RecordField{"calling_package", text, length},
                                              RecordField{"request_code", s32},
                                              RecordField{"start_flags", s32},
                                              RecordField{"user_id", s32},
                                              RecordField{"validate_incoming_user", s32},
                                              RecordField{"x0", pointer}};
// The newest has an error code where older ones have four bytes of padding, so that their size is
// the same: it is not shown.
template <std::size_t length>
inline constexpr std::array accessibility = {RecordField{"timestamp_ns", u64},
                                             RecordField{"variant", s32},
                                             RecordField{"package_name", text, length},
                                             RecordField{"permission_name", text, length},
                                             RecordField{"uid", s32},
                                             RecordField{"code", s32}};

inline constexpr std::array call_results = {RecordLayout{"CallResult", call_result}};
inline constexpr std::array call_timestamps = {RecordLayout{"CallTimestamp", call_timestamp}};
inline constexpr std::array set_uids = {RecordLayout{"SetUidTempAllowlistStateRecord", set_uid}};
inline constexpr std::array update_idles = {
    RecordLayout{"UpdateDeviceIdleTempAllowlistRecord", update_idle},
    RecordLayout{"UpdateDeviceIdleTempAllowlistRecord", update_idle_with_method}};
inline constexpr std::array process_changes = {RecordLayout{"ProcessChange", process_change}};
inline constexpr std::array bitmap_numbers = {RecordLayout{"u64", bitmap_number}};
inline constexpr std::array bitmaps = {RecordLayout{"BitmapAllocation", bitmap_sizes},
                                       RecordLayout{"BitmapAllocation", bitmap_allocation},
                                       RecordLayout{"BitmapEvent", bitmap_event}};
inline constexpr std::array bind_services = {
    RecordLayout{"BindServiceLocked", bind_service<64>},
    RecordLayout{"BindServiceLocked", bind_service<128>},
    RecordLayout{"BindServiceLocked", bind_service_with_error}};
inline constexpr std::array components = {
    RecordLayout{"ComponentEnabledSetting", component_enabled<64>},
    RecordLayout{"ComponentEnabledSetting", component_enabled<128>}};
inline constexpr std::array binder_transactions = {
    RecordLayout{"BinderTransaction", binder_transaction<64>},
    RecordLayout{"BinderTransaction", binder_transaction<128>}};
inline constexpr std::array start_activities = {
    RecordLayout{"StartActivityAsUser", start_activity<64>},
    RecordLayout{"StartActivityAsUser", start_activity<128>}};
inline constexpr std::array accessibilities = {
    RecordLayout{"AccessibilityEvent", accessibility<64>},
    RecordLayout{"AccessibilityEvent", accessibility<128>}};

struct ObjectMap {
  std::string_view object;
  std::string_view map;
  std::span<const RecordLayout> layouts;
  bool says_enough = true; // the map's name alone; anybody may call a map "output"
};

inline constexpr std::array object_maps = {
    ObjectMap{"GenericInstrumentation", "call_detail_buf", call_results},
    ObjectMap{"GenericInstrumentation", "call_timestamp_buf", call_timestamps},
    ObjectMap{"ProcessManagement", "output_buf", set_uids, false},
    ObjectMap{"ProcessManagement", "update_device_idle_temp_allowlist_records", update_idles},
    ObjectMap{"ProcessManagement", "process_change_output_buf", process_changes},
    ObjectMap{"BitmapAllocation", "output_buf", bitmap_numbers, false},
    ObjectMap{"BitmapAllocation", "output", bitmaps, false},
    ObjectMap{"DisruptiveApp", "BindServiceLocked_output_buf", bind_services},
    ObjectMap{"DisruptiveApp", "ComponentEnabledSetting_output_buf", components},
    ObjectMap{"Binder", "output_buf", binder_transactions, false},
    ObjectMap{"Accessibility", "output_buf", accessibilities, false},
    ObjectMap{"ArtTest", "output_buf_aot", update_idles},
    ObjectMap{"ArtTest", "output_buf_jit", start_activities},
};

} // namespace uprobectl::known_records
