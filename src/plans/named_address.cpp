// SPDX-License-Identifier: Apache-2.0
#include "plans/named_address.hpp"

#include "resolve/instructions.hpp"
#include "resolve/point.hpp"

#include <fmt/format.h>

namespace uprobectl::plans {

namespace {

resolve::FunctionSpec address_spec(std::string_view request, VirtualAddress address) {
  return {.form = resolve::FunctionSpec::Form::virtual_address,
          .request = request,
          .name = {},
          .number = address.value,
          .plus = std::nullopt};
}

} // namespace

Result<resolve::ProbePoint> find_point(const std::shared_ptr<const resolve::ProbedBinary>& binary,
                                       resolve::CodeIndex& code, const resolve::NamedAddress& named,
                                       const resolve::ResolveOptions& options) {
  const resolve::FunctionSpec function = address_spec(named.request, named.address);
  symbols::Demangler demangler;
  const resolve::Query query{{binary, code.image(), code, demangler}, function, options};
  auto made =
      make_point(query, named.address, nullptr, named.symbol ? *named.symbol : named.request);
  if (!made) return fail(std::move(made).error());
  if (made->misplaced) return fail(std::move(*made->misplaced));
  resolve::ProbePoint& point = made->point;
  static_cast<resolve::NamedAddress&>(point) = named;
  // The symbol of an inlined instance is not the one that covers it.
  const VirtualAddress start{named.address.value - named.symbol_offset};
  if (point.symbol && !point.inlined_into &&
      (named.symbol_offset > named.address.value ||
       code.image().find_segment(start) != code.image().find_segment(named.address)))
    return fail(ErrorKind::corrupt,
                fmt::format("{}: '{}+{:#x}' is not at {:#x}: the symbol would begin in another "
                            "segment",
                            query.subject(), *named.symbol, named.symbol_offset,
                            named.address.value));
  if (point.symbol && named.kind != symbols::SymbolKind::plt &&
      named.kind != symbols::SymbolKind::method)
    point.clone_of = function_of_clone(query, {.name = *point.symbol,
                                               .address = start,
                                               .type = elf::SymbolType::function,
                                               .table = elf::Table::symtab});
  finish_points(query, {&point, 1});
  return std::move(point);
}

std::optional<Error> exit_error(const std::shared_ptr<const resolve::ProbedBinary>& binary,
                                resolve::CodeIndex& code, VirtualAddress address,
                                const resolve::ResolveOptions& options) {
  const resolve::FunctionSpec function = address_spec("an exit of the plan", address);
  symbols::Demangler demangler;
  const resolve::Query query{{binary, code.image(), code, demangler}, function, options};
  auto made = make_point(query, address, nullptr, function.request);
  if (!made) return std::move(made).error();
  return std::move(made->misplaced);
}

} // namespace uprobectl::plans
