// SPDX-License-Identifier: Apache-2.0
// Events of made functions, for the live view.
#pragma once

#include "live/layout.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace uprobectl::live {

constexpr std::uint64_t run_begin_ns = 5'000'000'000;
constexpr std::uint64_t ms = 1'000'000;

// A model, and hits by their time in ms since the begin of the run.
class MadeRun {
public:
  explicit MadeRun(bool hits_are_counted = false) : model(hits_are_counted) {
    binary_->path = {.file = "libf.so", .entry = {}};
    binary_->real_path = "/a/libf.so";
    model.begin({.monotonic_ns = run_begin_ns});
  }

  const resolve::ProbePoint& point(const std::string& name) {
    resolve::ProbePoint& point = points_[name];
    if (!point.symbol) {
      point.binary = binary_;
      point.symbol = name;
      point.address = VirtualAddress{0x1000 * points_.size()};
    }
    return point;
  }

  // Of a static probe, which may have several locations.
  const resolve::ProbePoint& location(const std::string& name, std::uint64_t address) {
    resolve::ProbePoint& point = points_[fmt::format("{} at {}", name, address)];
    if (!point.symbol) {
      point.binary = binary_;
      point.symbol = name;
      point.address = VirtualAddress{address};
      point.static_probe = std::make_shared<usdt::StaticProbe>();
    }
    return point;
  }
  void probe(const resolve::ProbePoint& point) {
    model.add(output::ProbeDescription{.point = &point});
  }

  void call(const std::string& name, std::uint64_t time_ms, std::uint64_t latency_ns = 1000) {
    events::Event event = hit(name, time_ms);
    event.kind = events::EventKind::on_return;
    event.latency_ns = latency_ns;
    model.add(event);
  }
  void enter(const std::string& name, std::uint64_t time_ms) { model.add(hit(name, time_ms)); }
  events::Event hit(const std::string& name, std::uint64_t time_ms) {
    events::Event event;
    event.point = &point(name);
    event.time_ns = run_begin_ns + time_ms * ms;
    event.tid = 7;
    event.comm = "app";
    return event;
  }
  void count(const std::string& name, std::uint64_t count, std::uint64_t since_ms,
             std::uint64_t until_ms) {
    model.add(output::CountRecord{.point = &point(name),
                                  .count = count,
                                  .since_ns = run_begin_ns + since_ms * ms,
                                  .time_ns = run_begin_ns + until_ms * ms,
                                  .is_interval = true});
  }
  void advance(std::uint64_t time_ms) { model.advance(run_begin_ns + time_ms * ms); }

  const Row& row(std::string_view name) const {
    return *std::ranges::find(model.rows(), name, &Row::name);
  }
  std::vector<std::uint64_t> hits_of_last_seconds(std::string_view name, std::size_t count) const {
    std::vector<std::uint64_t> hits;
    for (const Second& each : model.last_seconds(row(name), count)) hits.push_back(each.hits);
    return hits;
  }

  Model model;

private:
  std::shared_ptr<resolve::ProbedBinary> binary_ = std::make_shared<resolve::ProbedBinary>();
  std::map<std::string, resolve::ProbePoint> points_;
};

} // namespace uprobectl::live
