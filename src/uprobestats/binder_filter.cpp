// SPDX-License-Identifier: Apache-2.0
#include "uprobestats/binder_filter.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::uprobestats {

namespace {

std::unexpected<Error> wrong(std::string_view interface_name, std::string_view what) {
  return fail(ErrorKind::usage,
              fmt::format("binder_transaction_filters of '{}': {}", interface_name, what));
}

Result<BinderMethod> make_method(std::string_view interface_name, const proto::MethodConfig& from) {
  if (from.method_id.value_or(0) <= 0)
    return wrong(interface_name, "method_id is missing or not positive");
  BinderMethod method{.code = static_cast<std::uint64_t>(*from.method_id),
                      .atom_id = {},
                      .to_event_service = from.event_service_config.has_value()};
  if (!from.event_service_config && !from.atom_config)
    return wrong(
        interface_name,
        fmt::format("method {} has neither event_service_config nor atom_config", method.code));
  if (!from.atom_config) return method;
  if (from.atom_config->atom_id.value_or(0) <= 0)
    return wrong(interface_name,
                 fmt::format("the atom_id of method {} is missing or not positive", method.code));
  method.atom_id = from.atom_config->atom_id;
  for (const std::int32_t position : from.atom_config->atom_field_positions) {
    if (position < proto::calling_uid || position > proto::ktime_ns)
      return wrong(interface_name, fmt::format("method {} has the unknown atom_field_positions {}",
                                               method.code, position));
    method.atom_fields.push_back(static_cast<proto::AtomFieldPosition>(position));
  }
  return method;
}

Result<std::vector<BinderMethod>> make_methods(std::string_view interface_name,
                                               const proto::BinderTransactionFilter& from) {
  std::vector<BinderMethod> methods;
  for (const proto::MethodConfig& config : from.method_configs) {
    auto method = make_method(interface_name, config);
    if (!method) return fail(std::move(method).error());
    methods.push_back(std::move(*method));
  }
  if (from.method_configs.empty())
    for (const std::int64_t id : from.method_ids) {
      if (id <= 0) return wrong(interface_name, "method_ids has a number that is not positive");
      methods.push_back({.code = static_cast<std::uint64_t>(id), .atom_id = {}});
    }
  return methods;
}

} // namespace

Result<BinderFilters> make_binder_filters(std::span<const proto::BinderTransactionFilter> filters) {
  if (filters.empty()) return fail(ErrorKind::usage, "binder_transaction_filters is missing");
  BinderFilters made;
  for (const proto::BinderTransactionFilter& from : filters) {
    const std::string name = from.interface_name.value_or("");
    if (name.empty())
      return fail(ErrorKind::usage, "binder_transaction_filters has no interface_name");
    if (std::ranges::any_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x20; }))
      return fail(ErrorKind::usage, "interface_name has a control character");
    if (name.size() > max_interface_name)
      return wrong(
          name, fmt::format("the name has more than {} bytes, which the program does not compare",
                            max_interface_name));
    if (std::ranges::find(made, name, &BinderFilter::interface_name) != made.end())
      return wrong(name, "the interface occurs twice");
    auto methods = make_methods(name, from);
    if (!methods) return fail(std::move(methods).error());
    if (methods->empty()) return wrong(name, "method_configs is missing");
    if (methods->size() > max_interface_codes)
      return wrong(name, fmt::format("{} methods (the program compares at most {})",
                                     methods->size(), max_interface_codes));
    for (std::size_t i = 0; i < methods->size(); ++i)
      if (std::ranges::count(*methods, (*methods)[i].code, &BinderMethod::code) > 1)
        return wrong(name, fmt::format("method {} occurs twice", (*methods)[i].code));
    made.push_back({.interface_name = name, .methods = std::move(*methods)});
  }
  return made;
}

const BinderMethod* find_method(const BinderFilters& filters, std::string_view interface_name,
                                std::uint64_t code) {
  const auto filter = std::ranges::find(filters, interface_name, &BinderFilter::interface_name);
  if (filter == filters.end()) return nullptr;
  const auto method = std::ranges::find(filter->methods, code, &BinderMethod::code);
  return method == filter->methods.end() ? nullptr : &*method;
}

void merge(BinderFilters& to, const BinderFilters& from) {
  for (const BinderFilter& filter : from) {
    const auto known = std::ranges::find(to, filter.interface_name, &BinderFilter::interface_name);
    if (known == to.end()) {
      to.push_back(filter);
      continue;
    }
    for (const BinderMethod& method : filter.methods)
      if (std::ranges::find(known->methods, method.code, &BinderMethod::code) ==
          known->methods.end())
        known->methods.push_back(method);
  }
}

} // namespace uprobectl::uprobestats
