#include "bpf/libbpf_log.hpp"

#include <array>
#include <bpf/libbpf.h>
#include <cstdarg>
#include <cstdio>

namespace uprobectl {

namespace {

constexpr std::size_t most_text = 16384;

// libbpf's callback has no context argument.
thread_local std::string* collected = nullptr;

int collect(libbpf_print_level level, const char* format, va_list arguments) {
  if (level != LIBBPF_WARN || collected == nullptr || collected->size() > most_text) return 0;
  std::array<char, 1024> line{};
  const int size = std::vsnprintf(line.data(), line.size(), format, arguments);
  if (size > 0) *collected += line.data();
  return size;
}

} // namespace

LibbpfLog::LibbpfLog() {
  collected = &text_;
  libbpf_set_print(collect);
}

LibbpfLog::~LibbpfLog() {
  libbpf_set_print(nullptr);
  collected = nullptr;
}

std::string LibbpfLog::cause() const {
  // libbpf raises the limit of locked memory wherever it cannot find out that no kernel since Linux
  // 5.11 asks for it: what keeps it from finding out comes next.
  std::string_view text = text_;
  if (text.starts_with("libbpf: Failed to bump RLIMIT_MEMLOCK") &&
      text.find('\n') + 1 < text.size())
    text.remove_prefix(text.find('\n') + 1);
  std::string line(text.substr(0, text.find('\n')));
  constexpr std::string_view prefix = "libbpf: ";
  if (line.starts_with(prefix)) line.erase(0, prefix.size());
  return line;
}

std::string last_lines(std::string_view log, int count) {
  while (log.ends_with('\n')) log.remove_suffix(1);
  if (log.empty()) return {};
  auto start = log.size();
  while (count-- > 0 && start != std::string_view::npos && start > 0)
    start = log.rfind('\n', start - 1);
  return std::string(start == std::string_view::npos ? log : log.substr(start + 1));
}

} // namespace uprobectl
