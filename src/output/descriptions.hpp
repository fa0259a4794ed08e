// SPDX-License-Identifier: Apache-2.0
// The keys of the records whose JSON has one key for each member, in their order. `io` writes or
// reads them: as JSON, or as fields of a saved run (saved/fields.hpp), which have these numbers.
//
// A new key gets the next number, the number of a removed key stays unused.
#pragma once

#include "output/records.hpp"

#include <concepts>

namespace uprobectl {

// Whether T is Record or const Record.
template <typename T, typename Record>
concept Described = std::same_as<std::remove_const_t<T>, Record>;

void describe(auto& io, Described<ClockReading> auto& clocks) {
  io(1, "monotonic", clocks.monotonic_ns);
  io(2, "boottime", clocks.boottime_ns);
  io(3, "realtime", clocks.realtime_ns);
}
void describe(auto& io, Described<AttachedRecord> auto& record) {
  io(1, "mechanism", record.mechanism);
  io(2, "probes", record.probes);
  io(3, "program", record.program);
  io(4, "clocks", record.clocks);
}
void describe(auto& io, Described<MapEntryRecord> auto& record) {
  io(1, "map", record.map);
  io(2, "key", record.key);
  io(3, "value", record.value);
  io(4, "sum", record.sum);
  io(5, "time_ns", record.time_ns);
}
void describe(auto& io, Described<LostRecord> auto& record) {
  io(1, "count", record.count);
  io(2, "reason", record.reason);
  io(3, "since_ns", record.since_ns);
  io(4, "time_ns", record.time_ns);
}
void describe(auto& io, Described<SummaryRecord> auto& record) {
  io(1, "events", record.events);
  io(2, "lost", record.lost);
  io(3, "duration_ns", record.duration_ns);
  io(4, "probes_hit", record.probes_hit);
  io(5, "probes_silent", record.probes_silent);
  io(6, "detached_cleanly", record.detached_cleanly);
  io(7, "stacks", record.stacks);
  io(8, "stacks_truncated", record.stacks_truncated);
  io(9, "stacks_failed", record.stacks_failed);
  io(10, "command_exit", record.command_exit);
  io(11, "command_signal", record.command_signal);
  io(12, "unpaired", record.unpaired);
  io(13, "open", record.open);
  io(14, "single_stepped", record.single_stepped);
  io(15, "sampled_out", record.sampled_out);
  io(16, "rate_limited", record.rate_limited);
  io(17, "cost_hits", record.cost_hits);
  io(18, "hit_cost_ns", record.hit_cost_ns);
}
void describe(auto& io, Described<ErrorRecord> auto& record) {
  io(1, "target", record.target);
  io(2, "request", record.request);
  io(3, "code", record.error.kind);
  io(4, "message", record.error.message);
  io(5, "hints", record.error.hints);
}
void describe(auto& io, Described<DeviceRecord> auto& device) {
  io(1, "serial", device.serial);
  io(2, "state", device.state);
  io(3, "model", device.model);
  io(4, "android", device.android);
  io(5, "kernel", device.kernel);
  io(6, "abi", device.abi);
  io(7, "root", device.root);
  io(8, "attach", device.attach);
  io(9, "reason", device.reason);
}
void describe(auto& io, Described<DevicesSummaryRecord> auto& summary) {
  io(1, "devices", summary.devices);
  io(2, "failed", summary.failed);
  io(3, "events", summary.events);
  io(4, "lost", summary.lost);
}
void describe(auto& io, Described<Check> auto& check) {
  io(1, "name", check.name);
  io(2, "ok", check.ok);
  io(3, "reason", check.reason);
  io(4, "fix", check.fix);
}
void describe(auto& io, Described<Pin> auto& pin) {
  io(1, "kind", pin.kind);
  io(2, "name", pin.name);
  io(3, "path", pin.path);
  io(4, "section", pin.section);
}

} // namespace uprobectl
