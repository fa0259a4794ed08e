// SPDX-License-Identifier: Apache-2.0
#include "plans/named_place.hpp"

#include "resolve/instructions.hpp"
#include "resolve/point.hpp"

#include <fmt/format.h>

namespace uprobectl {

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
  static_cast<NamedPlace&>(*point) = place;
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
