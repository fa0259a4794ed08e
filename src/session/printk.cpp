#include "session/printk.hpp"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace uprobectl {

namespace {

// A flood must not keep events waiting.
constexpr int most_reads = 64;
constexpr std::size_t longest_line = 8192;

} // namespace

Result<PrintkReader> PrintkReader::open() {
  PrintkReader reader;
  int reason = ENOENT;
  for (const char* const path :
       {"/sys/kernel/tracing/trace_pipe", "/sys/kernel/debug/tracing/trace_pipe"}) {
    reader.fd_ = UniqueFd{::open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
    if (!reader.fd_ && errno != ENOENT) reason = errno;
    if (reader.fd_) break;
  }
  if (!reader.fd_ && reason == ENOENT)
    return fail(Error{ErrorKind::not_found, "no trace_pipe, which --printk reads"}.hint(
        "mount -t tracefs tracefs /sys/kernel/tracing"));
  if (!reader.fd_) return fail(system_error(reason, "cannot read trace_pipe, as --printk does"));
  while (!reader.take_lines().empty()) {
  }
  return reader;
}

std::vector<std::string> PrintkReader::take_lines() {
  std::array<char, 4096> buffer{};
  for (int i = 0; i < most_reads; ++i) {
    const ssize_t size = ::read(fd_.get(), buffer.data(), buffer.size());
    if (size <= 0) break;
    unfinished_.append(buffer.data(), static_cast<std::size_t>(size));
  }
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (auto end = unfinished_.find('\n'); end != std::string::npos;
       begin = end + 1, end = unfinished_.find('\n', begin)) {
    const std::string_view line = std::string_view(unfinished_).substr(begin, end - begin);
    const auto text = line.find_first_not_of(' ');
    if (line.find("bpf_trace_printk: ") != std::string_view::npos)
      lines.emplace_back(line.substr(text));
  }
  unfinished_.erase(0, begin);
  if (unfinished_.size() > longest_line) unfinished_.clear();
  return lines;
}

} // namespace uprobectl
