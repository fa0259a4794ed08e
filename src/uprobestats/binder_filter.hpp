// SPDX-License-Identifier: Apache-2.0
// The binder_transaction_filters of a task file: they select the AIDL calls that the Binder program
// reports, and the atom of each. Source: AOSP packages/modules/UprobeStats,
// daemon/core/config_resolver.rs and bpf_handler/binder_transaction.rs.
#pragma once

#include "uprobectl/util.hpp"
#include "uprobestats/schema.hpp"

namespace uprobectl::uprobestats {

// One transaction code of an interface.
struct BinderMethod {
  std::uint64_t code = 0;
  std::optional<std::int32_t> atom_id;                 // of the atom to log; nullopt: none
  std::vector<proto::AtomFieldPosition> atom_fields{}; // in their order; never unknown_position
  bool to_event_service = false; // for DynamicInstrumentationEventService, which is not supported

  bool operator==(const BinderMethod&) const = default;
};

struct BinderFilter {
  std::string interface_name;
  std::vector<BinderMethod> methods; // distinct codes

  bool operator==(const BinderFilter&) const = default;
};
using BinderFilters = std::vector<BinderFilter>; // distinct interfaces

// The program's map has this much room: a key is a NUL-terminated name, a value an array of codes.
constexpr std::size_t max_interface_name = 127; // bytes
constexpr std::size_t max_interface_codes = 10;

// Checks the filters. Fails with usage, as the service does, or if they do not fit the program's
// map. method_ids, which method_configs replace, select without an atom.
Result<BinderFilters> make_binder_filters(std::span<const proto::BinderTransactionFilter> filters);

// Returns the method that a transaction calls, or nullptr if no filter selects it.
const BinderMethod* find_method(const BinderFilters& filters, std::string_view interface_name,
                                std::uint64_t code);

// Adds the filters of a further probe: the codes of both are selected. The method of `to` stays if
// both have one.
void merge(BinderFilters& to, const BinderFilters& from);

} // namespace uprobectl::uprobestats
