// Which file a probe lies in. The kernel tells its path only, as the file's own mount namespace has
// it: at the same path of another namespace there may be another file.
#pragma once

#include "process/mapped_path.hpp"
#include "uprobectl/inventory.hpp"

#include <map>
#include <set>
#include <span>

namespace uprobectl {

class InventoryFiles {
public:
  explicit InventoryFiles(std::span<const InstalledProbe> probes);

  struct Found {
    std::string path; // where it can be opened from here, maybe only by a descriptor of its holder
    FileIdentity identity;
    // In another mount namespace, or below another root folder, to which `path` leads.
    bool elsewhere = false;
  };
  // Nullopt if it is gone. ambiguous if it may be one of several.
  Result<std::optional<Found>> find(const InstalledProbe& probe);

private:
  struct ForeignRoot {
    pid_t pid = 0;
    FileIdentity identity;
    std::string mount_namespace;
    auto operator<=>(const ForeignRoot& other) const {
      return std::tie(mount_namespace, identity) <=>
             std::tie(other.mount_namespace, other.identity);
    }
  };

  void look_at(pid_t pid, const std::set<std::string_view>& wanted);
  Result<std::optional<Found>> search(const InstalledProbe& probe) const;
  std::optional<Found> by_descriptor(const std::string& path, pid_t holder) const;
  std::optional<Found> by_holder(const std::string& path, pid_t holder) const;
  Result<std::optional<Found>> by_all(const std::string& path) const;

  std::optional<std::string> own_namespace_;
  std::set<ForeignRoot> foreign_roots_;
  std::multimap<std::string, Found> foreign_mappings_; // by path
  std::map<std::tuple<std::string, std::string, std::vector<ProbeHolder>>,
           Result<std::optional<Found>>>
      known_; // by path, mechanism and holders
};

} // namespace uprobectl
