#include "resolve/probeable.hpp"

#include "resolve/boundary.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace uprobectl {

namespace {

// Bounds what a symbol table can ask to be read; no function known is half as long.
constexpr std::uint64_t most_code = std::uint64_t{4} << 20U;

// How far behind a place another one is looked for, bytes.
constexpr std::uint64_t nearby = 64;

ProbeEffect effect_at(const elf::Image& image, VirtualAddress start, std::uint64_t size,
                      std::uint64_t offset) {
  const auto arch = code_arch(image.machine());
  if (!arch) return {};
  const std::uint64_t known = std::max(std::min(size, most_code), offset + instruction_window);
  const bool is_whole = offset < size && size <= most_code;
  return probe_effect(*arch, code_at(image, start, is_whole ? size : known), offset,
                      is_whole || offset == 0 ? CodeExtent::function : CodeExtent::part);
}

ProbeEffect effect_of(const elf::Image& image, const ProbePoint& point) {
  if (point.symbol)
    return effect_at(image, {point.address.value - point.symbol_offset}, point.size.value_or(0),
                     point.symbol_offset);
  const auto arch = code_arch(image.machine());
  if (!arch) return {};
  return probe_effect(*arch, code_at(image, point.address, instruction_window), 0,
                      CodeExtent::part);
}

// "f+0x4": the first instruction behind the point that can be probed.
std::optional<std::string> next_to_probe(const ProbePoint& point) {
  const auto arch = code_arch(point.binary->machine);
  if (!arch || !point.offset || !point.symbol || point.static_probe) return std::nullopt;
  const std::uint64_t size = point.size.value_or(0);
  if (point.symbol_offset >= size || size > most_code) return std::nullopt;
  const auto function =
      slice(point.binary->file->bytes(), point.offset->value - point.symbol_offset, size);
  if (!function) return std::nullopt;
  std::uint64_t at = point.symbol_offset;
  while (at - point.symbol_offset < nearby) {
    const auto length = instruction_size(*arch, function->subspan(at));
    if (!length || *length >= size - at) return std::nullopt;
    at += *length;
    if (probe_effect(*arch, *function, at).kind != ProbeEffect::Kind::right) continue;
    ProbePoint next = point;
    next.symbol_offset = at;
    return display_name(next);
  }
  return std::nullopt;
}

void warn_of_effects(const Question& question, std::span<ProbePoint> points) {
  std::map<std::string_view, std::vector<ProbePoint*>> by_reason;
  for (ProbePoint& point : points)
    if (point.effect.kind != ProbeEffect::Kind::right)
      by_reason[point.effect.reason].push_back(&point);
  for (const auto& [reason, troubled] : by_reason) {
    ProbePoint& first = *troubled.front();
    const std::string places =
        troubled.size() == 1 ? fmt::format("'{}' must", display_name(first))
                             : fmt::format("'{}' and {} others of '{}' must", display_name(first),
                                           troubled.size() - 1, question.function.request);
    first.warnings.push_back(
        fmt::format("{}: {} not be probed: {}", question.subject(), places, reason));
  }
}

} // namespace

void finish_points(const Question& question, std::span<ProbePoint> points) {
  for (ProbePoint& point : points) point.effect = effect_of(question.image, point);
  if (!question.options.to_probe) warn_of_effects(question, points);
  add_instructions(question, points);
}

ProbeEffect effect_of_static(const elf::Image& image, VirtualAddress address) {
  const auto arch = code_arch(image.machine());
  if (!arch) return {};
  const ProbeEffect alone =
      probe_effect(*arch, code_at(image, address, instruction_window), 0, CodeExtent::part);
  if (alone.kind == ProbeEffect::Kind::right) return alone;
  const auto covering = symbol_at(image, address);
  if (!covering) return alone;
  return effect_at(image, covering->symbol.address, covering->symbol.size, covering->offset);
}

std::optional<Error> probe_trouble(const ProbePoint& point) {
  if (point.effect.kind == ProbeEffect::Kind::right) return std::nullopt;
  const bool is_refused = point.effect.kind == ProbeEffect::Kind::refused;
  Error error{ErrorKind::unsupported,
              fmt::format("{}: '{}' cannot be probed{}: {}", to_string(point.binary->path),
                          display_name(point), is_refused ? "" : " without harm to the program",
                          point.effect.reason)};
  if (const auto next = next_to_probe(point))
    error = std::move(error).hint(fmt::format("the nearest instruction that can: '{}'", *next));
  return error;
}

} // namespace uprobectl
