#include "session/lost_map.hpp"

#include <algorithm>
#include <fcntl.h>

namespace uprobectl {

std::optional<UserMap> find_lost_map(const std::vector<UserMap>& maps) {
  const auto found = std::ranges::find(maps, "lost", &UserMap::name);
  if (found == maps.end() || found->key_size != 4 || found->value_size != 8) return std::nullopt;
  if (found->use != MapUse::table && found->use != MapUse::per_cpu) return std::nullopt;
  auto copy = describe_map(UniqueFd{::fcntl(found->fd.get(), F_DUPFD_CLOEXEC, 0)});
  return copy ? std::optional(std::move(*copy)) : std::nullopt;
}

std::uint64_t lost_in(const UserMap& map) {
  const auto table = read_table(map, 1);
  std::uint64_t sum = 0;
  if (!table || table->entries.empty()) return 0;
  for (const auto& value : table->entries.front().values) {
    std::uint64_t count = 0;
    std::memcpy(&count, value.data(), sizeof(count));
    sum += count;
  }
  return sum;
}

} // namespace uprobectl
