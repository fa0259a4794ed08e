#include "attach/placement.hpp"
#include "bpf/link_create.hpp"

#include <map>

namespace uprobectl {

namespace {

// What one link can carry: many offsets of one file, all entries or all returns.
struct Batch {
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> cookies;
  std::string first_label;
};

} // namespace

Result<void> place_multi(const Placement& placement, Descriptors& placed) {
  std::map<std::pair<int, bool>, Batch> batches; // by (file, on_return)
  for (const ProbeSite& site : placement.sites) {
    Batch& batch = batches[{site.file, site.on_return}];
    if (batch.offsets.empty()) batch.first_label = site.label;
    batch.offsets.push_back(site.offset.value);
    batch.cookies.push_back(site.cookie);
  }

  for (const auto& [key, batch] : batches) {
    const auto& [file, on_return] = key;
    const std::string path = descriptor_path(file);
    for (const pid_t pid : placement.pids) {
      if (placement.interrupted()) return fail(interrupted_error());
      auto link = create_uprobe_multi_link(
          on_return ? placement.program.return_fd() : placement.program.entry_fd(),
          {.path = path.c_str(),
           .offsets = batch.offsets.data(),
           .cookies = batch.cookies.data(),
           .count = static_cast<std::uint32_t>(batch.offsets.size()),
           .on_return = on_return,
           .pid = pid});
      if (!link) return fail(placement_error(link.error(), batch.first_label, Mechanism::multi));
      placed.links.push_back(std::move(*link));
    }
  }
  return {};
}

} // namespace uprobectl
