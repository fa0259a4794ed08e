// SPDX-License-Identifier: Apache-2.0
// The table by which the Binder program selects transactions: which interfaces and codes.
// Source: AOSP packages/modules/UprobeStats, src/bpf_progs/Binder.c and
// daemon/core/bpf_map/binder_transaction.rs.
#pragma once

#include "bpf/maps.hpp"
#include "uprobestats/binder_filter.hpp"

namespace uprobectl::uprobestats {

// Entries that this program added to the table. The destructor removes them.
class BinderInterfaces {
public:
  // Adds the filters to the pinned table. Entries that another process may have made stay, and are
  // an error; those that no process can have made any more, because none has the table open, are
  // replaced. Fails with not_found if there is no pin.
  static Result<BinderInterfaces> add(const std::string& path, const BinderFilters& filters);

  BinderInterfaces(BinderInterfaces&& other) noexcept = default;
  BinderInterfaces& operator=(BinderInterfaces&&) = delete;
  ~BinderInterfaces();

  // The interfaces whose entries were left by an earlier run and replaced.
  const std::vector<std::string>& replaced() const { return replaced_; }

private:
  explicit BinderInterfaces(bpf::UserMap map) : map_(std::move(map)) {}

  bpf::UserMap map_;
  std::vector<std::vector<std::byte>> keys_; // of the entries to remove; empty after a move
  std::vector<std::string> replaced_;
};

} // namespace uprobectl::uprobestats
