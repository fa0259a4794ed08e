#include "bpf/verifier_log.hpp"

namespace uprobectl {

std::string last_lines(std::string_view log, int count) {
  while (log.ends_with('\n')) log.remove_suffix(1);
  if (log.empty()) return {};
  auto start = log.size();
  while (count-- > 0 && start != std::string_view::npos && start > 0)
    start = log.rfind('\n', start - 1);
  return std::string(start == std::string_view::npos ? log : log.substr(start + 1));
}

} // namespace uprobectl
