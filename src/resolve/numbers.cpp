#include "resolve/boundary.hpp"
#include "resolve/methods.hpp"

#include <fmt/format.h>

namespace uprobectl {

namespace {

Result<ProbePoint> point_of_number(const Question& question) {
  const FunctionSpec& function = question.function;
  if (function.form == FunctionSpec::Form::virtual_address) {
    // Code addresses carry the instruction set in bit 0 (AAELF32), the place does not.
    const bool may_be_thumb = question.image.machine().info().thumb_bit;
    return point_at(question, VirtualAddress{function.number & ~std::uint64_t{may_be_thumb}});
  }
  const std::uint64_t size = question.image.bytes().size();
  if (function.form == FunctionSpec::Form::image_offset) {
    if (function.number >= size)
      return fail(ErrorKind::out_of_range,
                  fmt::format("{}: '{}' is beyond the end, the ELF image has {:#x} bytes",
                              question.subject(), function.request, size));
    return point_at(question, ImageOffset{function.number});
  }
  if (question.image.is_inflated())
    return fail(Error{ErrorKind::no_code,
                      fmt::format("{}: '{}': the library is compressed, no byte of the archive is "
                                  "its code",
                                  question.subject(), function.request)}
                    .hint("for an offset in the installed library ask for offset:0x…"));
  const std::uint64_t begin = question.image.entry_data().value;
  if (function.number < begin || function.number - begin >= size)
    return fail(ErrorKind::out_of_range,
                fmt::format("{}: '{}' is not in it, its bytes are at {:#x} to {:#x}",
                            question.subject(), function.request, begin, begin + size));
  return point_at(question, ImageOffset{function.number - begin});
}

void name_by_number(const Question& question, ProbePoint& point,
                    const symbolize::Covering& covering) {
  name_point(question, point, covering.symbol, covering.offset);
  if (covering.symbol.table == elf::Table::oat) describe_method(question, point, covering.symbol);
  point.table.reset(); // the place comes from the number, not from a table
}

} // namespace

Result<std::vector<ProbePoint>> resolve_number(const Question& question) {
  auto point = point_of_number(question);
  if (!point) return fail(std::move(point).error());
  if (const auto covering = question.symbolizer->find(point->address)) {
    name_by_number(question, *point, *covering);
    auto doubt = check_boundary(question, covering->symbol, covering->offset);
    if (!doubt && question.options.to_probe) return fail(std::move(doubt).error());
    if (!doubt)
      point->warnings.push_back(std::move(doubt).error().message);
    else if (*doubt)
      point->warnings.push_back(std::move(**doubt));
  }
  std::vector<ProbePoint> points;
  points.push_back(std::move(*point));
  return points;
}

} // namespace uprobectl
