// SPDX-License-Identifier: Apache-2.0
#include "trace/builtin_points.hpp"

#include "bpf/bpf.hpp"
#include "bpf/kernel_types.hpp"
#include "trace/known_functions.hpp"
#include "trace/typed_probes.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::trace {

namespace {

// Whether the argument `size` is the size of one of `count` elements, as that of calloc().
bool has_element_size(const events::KnownCall& call) {
  const auto has_number = [&](std::string_view name) {
    return std::ranges::any_of(call.arguments, [&](const events::ArgumentSpec& spec) {
      return spec.name == name && spec.type == events::ArgumentType::u64;
    });
  };
  return has_number("count") && has_number("size");
}

bool captures_type(const events::CaptureSpec& capture, events::ArgumentType type) {
  return std::ranges::find(capture.filter.terms, type, &events::ConditionSpec::type) !=
             capture.filter.terms.end() ||
         std::ranges::any_of(capture.arguments, [&](const events::ArgumentList& list) {
           return std::ranges::find(list.arguments, type, &events::ArgumentSpec::type) !=
                  list.arguments.end();
         });
}

std::vector<events::CapturePoint> points_of(std::span<const Probe> probes, bool finds_strings,
                                            BinaryCache& binaries) {
  std::vector<events::CapturePoint> points;
  points.reserve(probes.size());
  for (const Probe& probe : probes)
    points.push_back({.point = &probe.point,
                      .code = binaries.of(probe.point).code_abi(probe.point, finds_strings),
                      .is_recorded = probe.is_recorded,
                      .is_trigger = (probe.triggers & ENDS_WAITING) != 0,
                      .roles = probe.roles});
  return points;
}

void report_moved(std::span<const resolve::ProbePoint* const> moved, output::Output& output) {
  if (moved.empty()) return;
  for (const resolve::ProbePoint* point : moved)
    output.detail(fmt::format("{} is probed after its prologue, at +{:#x}", display_name(*point),
                              point->uprobe_distance));
  const resolve::ProbePoint& first = *moved.front();
  const std::string others =
      moved.size() == 1 ? fmt::format("is probed after its prologue, at +{:#x}: its parameters "
                                      "cannot all be read before it",
                                      first.uprobe_distance)
                        : fmt::format("and {} are probed after their prologues: their "
                                      "parameters cannot all be read before them (-v lists them)",
                                      counted(moved.size() - 1, "other", "others"));
  output.status(fmt::format("{} {}", display_name(first), others));
}

} // namespace

std::vector<events::CapturePoint> make_capture_points(std::span<const Probe> probes,
                                                      const events::CaptureSpec& capture,
                                                      BinaryCache& binaries) {
  return points_of(probes, captures_type(capture, events::ArgumentType::cxx_string), binaries);
}

void find_return_addresses(std::span<events::CapturePoint> points,
                           const events::CaptureSpec& capture, BinaryCache& binaries) {
  const bool copies = copies_stacks(capture.stack) && !capture.groups.has(BY_STACK);
  const bool has_stacks = !copies && capture.asks_for_stacks();
  const bool compares =
      std::ranges::find(capture.filter.terms, COMPARE_CALLER, &events::ConditionSpec::built_in) !=
      capture.filter.terms.end();
  if (!has_stacks && !compares) return;
  for (events::CapturePoint& each : points) {
    TracedBinary& binary = binaries.of(*each.point);
    each.has_return_address = binary.has_return_address(*each.point);
    if (has_stacks && capture.stack != events::StackWalk::caller)
      each.walk_finds_caller = bpf::walk_finds_caller(binary.code_at(*each.point));
  }
}

void warn_of_unknown_callers(std::span<const events::CapturePoint> points,
                             const events::CaptureSpec& capture, std::span<const Probe> probes,
                             std::span<const exit_rule> rules, output::Output& output) {
  if (capture.stack != events::StackWalk::caller) return;
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const resolve::ProbePoint& point = probes[i].point;
    const bool is_inside =
        !points[i].has_return_address.value_or(point.symbol_offset == 0 && !point.inlined_into);
    const auto is_unknown = [&](const PlannedSite& site) {
      if (!site.on_return) return is_inside;
      return !capture.pair_calls && site.exit && site.exit->rule < rules.size() &&
             rules[site.exit->rule].left_by == LEFT_BY_EPILOGUE;
    };
    if (probes[i].is_recorded && std::ranges::any_of(probes[i].sites, is_unknown))
      output.gathered_warning("--caller is not known inside a stack frame (--stack finds it)",
                              fmt::format("{}: --caller is not known {}: the code there has a "
                                          "stack frame (--stack finds it)",
                                          display_name(point),
                                          is_inside ? "at the probe" : "at some of its exits"));
  }
}

void add_known_calls(std::span<events::CapturePoint> points, const events::CaptureSpec& capture,
                     BinaryCache& binaries, events::KernelLayouts& layouts,
                     output::Output& output) {
  KnownFunctions known(capture, points.size(), binaries);
  const bool needs_thread = capture.pair_calls && known.needs_thread_pointer(points);
  layouts.thread =
      needs_thread ? bpf::find_thread_layout().value_or(thread_layout{}) : thread_layout{};
  known.add_to(points, layouts.thread.address != 0);
  const bool sums_sizes =
      capture.groups.measured == "size" || (capture.measured && capture.measured->text == "size");
  if (!sums_sizes) return;
  for (const events::CapturePoint& each : points)
    if (each.known && has_element_size(*each.known))
      output.warn_once(fmt::format("{}: 'size' is that of one element, without 'count': to sum "
                                   "bytes, use --measure 'count*size'",
                                   each.known->function));
}

void move_after_prologues(events::CaptureSpec& capture, BinaryCache& binaries,
                          ResolvedProbes& resolved, output::Output& output) {
  if (!capture.uses_values()) return;
  auto types = std::make_shared<TypedProbes>(binaries, capture);
  std::vector<events::CapturePoint> points = points_of(resolved.probes, false, binaries);
  KnownFunctions(capture, points.size(), binaries).add_to(points, false);
  types->prefer_variables(points, capture.groups);
  std::vector<const resolve::ProbePoint*> moved;
  for (Probe& probe : resolved.probes) {
    const bool is_entry_only = probe.triggers == 0 && !probe.is_graph_root &&
                               probe.sites.size() == 1 && !probe.sites.front().on_return;
    if (!is_entry_only) continue;
    const auto end = types->choose_prologue(points[probe.number]);
    if (!end)
      output.detail(fmt::format("{}: its parameters are not read after its prologue: {}",
                                display_name(probe.point), end.error()));
    if (!end || !*end) continue;
    probe.point.uprobe_distance = (*end)->size;
    probe.point.effect = (*end)->effect;
    moved.push_back(&probe.point);
  }
  report_moved(moved, output);
  resolved.types = std::move(types);
}

} // namespace uprobectl::trace
