// SPDX-License-Identifier: Apache-2.0
#include "bpf/link.hpp"
#include "probe/mechanisms.hpp"

#include <map>

namespace uprobectl::probe {

namespace {

// A link has one file, one program and either entry or return probes, at many offsets.
struct BatchKey {
  int file = -1;
  int program = -1;
  bool on_return = false;
  auto operator<=>(const BatchKey&) const = default;
};
struct Batch {
  bpf::ProgramKind kind = bpf::ProgramKind::multi;
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> cookies;
  std::vector<std::uint64_t> semaphores; // 0: none
  std::string first_label;
};

std::map<BatchKey, Batch> make_batches(std::span<const ProbeSite> sites) {
  std::map<BatchKey, Batch> batches;
  for (const ProbeSite& site : sites) {
    // A session program runs at entry and return; the kernel rejects the return flag for it.
    const bool on_return = site.on_return && site.program.kind == bpf::ProgramKind::multi;
    Batch& batch = batches[{site.file, site.program.fd, on_return}];
    if (batch.offsets.empty()) {
      batch.kind = site.program.kind;
      batch.first_label = site.label;
    }
    batch.offsets.push_back(site.offset.value);
    batch.cookies.push_back(site.cookie);
    batch.semaphores.push_back(site.semaphore.value_or(FileOffset{}).value);
  }
  return batches;
}

} // namespace

Result<void> attach_multi(const MechanismRequest& plan, ProbeDescriptors& descriptors) {
  for (const auto& [key, batch] : make_batches(plan.sites)) {
    const std::string path = descriptor_path(key.file);
    for (const pid_t pid : plan.pids) {
      if (plan.interrupted()) return fail(interrupted_error());
      auto link = bpf::create_uprobe_multi_link(
          key.program, {.path = path.c_str(),
                        .offsets = batch.offsets.data(),
                        .cookies = batch.cookies.data(),
                        .semaphores = batch.semaphores.data(),
                        .count = static_cast<std::uint32_t>(batch.offsets.size()),
                        .on_return = key.on_return,
                        .pid = pid,
                        .attach_type = expected_attach_type(batch.kind)});
      if (!link) return fail(attach_error(link.error(), batch.first_label, plan));
      descriptors.links.push_back(std::move(*link));
    }
  }
  return {};
}

} // namespace uprobectl::probe
