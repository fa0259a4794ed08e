// SPDX-License-Identifier: Apache-2.0
#include "plans/named_place.hpp"

#include "resolve/instructions.hpp"
#include "resolve/point.hpp"

#include <fmt/format.h>

namespace uprobectl {

NamedPlace to_named_place(const ProbePoint& point) {
  return {.request = point.request,
          .address = point.address,
          .symbol = point.symbol,
          .symbol_offset = point.symbol_offset,
          .demangled = point.demangled,
          .version = point.version,
          .default_version = point.default_version,
          .size = point.size,
          .kind = point.kind,
          .table = point.table,
          .inlined_into = point.inlined_into,
          .source = point.source};
}

Result<ProbePoint> find_point(const std::shared_ptr<const ProbedBinary>& binary,
                              const elf::Image& image, const NamedPlace& place,
                              const ResolveOptions& options) {
  const FunctionSpec function{.form = FunctionSpec::Form::virtual_address,
                              .request = place.request,
                              .name = {},
                              .number = place.address.value,
                              .plus = std::nullopt};
  Demangler demangler;
  const Query query{binary, function, image, demangler, options};
  auto point = point_at(query, place.address);
  if (!point) return point;
  point->symbol = place.symbol;
  point->symbol_offset = place.symbol_offset;
  point->demangled = place.demangled;
  point->version = place.version;
  point->default_version = place.default_version;
  point->size = place.size;
  point->kind = place.kind;
  point->table = place.table;
  point->inlined_into = place.inlined_into;
  point->source = place.source;
  // The symbol of an inlined instance is not the one that covers it.
  if (point->symbol && !point->inlined_into) {
    const VirtualAddress start{place.address.value - place.symbol_offset};
    if (place.symbol_offset > place.address.value ||
        image.find_segment(start) != image.find_segment(place.address))
      return fail(ErrorKind::corrupt,
                  fmt::format("{}: '{}+{:#x}' is not at {:#x}: the symbol would begin in another "
                              "segment",
                              query.subject(), *place.symbol, place.symbol_offset,
                              place.address.value));
    const elf::Symbol symbol{
        .name = *place.symbol, .address = start, .size = place.size.value_or(0)};
    auto warning = check_boundary(query, symbol, place.symbol_offset);
    if (!warning) return fail(std::move(warning).error());
    if (*warning) point->warnings.push_back(std::move(**warning));
  }
  finish_points(query, {&*point, 1});
  return point;
}

} // namespace uprobectl
