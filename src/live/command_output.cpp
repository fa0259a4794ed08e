// SPDX-License-Identifier: Apache-2.0
#include "live/command_output.hpp"

#include "output/format.hpp"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace uprobectl::live {

namespace {

// So that a command that prints much seldom waits for us. A smaller pipe works as well.
constexpr int pipe_size = 1 << 20;
constexpr std::size_t most_at_once = 1 << 20; // bytes

} // namespace

Result<CommandLines> CommandLines::open() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return fail(system_error(errno, "cannot create a pipe"));
  CommandLines lines{UniqueFd(ends[0]), UniqueFd(ends[1])};
  ::fcntl(ends[1], F_SETPIPE_SZ, pipe_size);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK); // only our end: each has its own flags
  return lines;
}

void CommandLines::add(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const std::string text = printable(bytes.substr(0, end));
    if (!is_in_line_) lines_.emplace_back();
    std::string& line = lines_.back();
    if (line.size() < max_line_bytes) line += text.substr(0, max_line_bytes - line.size());
    is_in_line_ = end == std::string_view::npos;
    if (is_in_line_) break;
    bytes.remove_prefix(end + 1);
  }
  while (lines_.size() > max_lines) {
    lines_.pop_front();
    ++omitted_;
  }
}

void CommandLines::read() {
  std::array<char, 64 << 10> chunk{};
  for (std::size_t all = 0; all < most_at_once;) {
    const ssize_t got = ::read(read_end_.get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    all += static_cast<std::size_t>(got);
    add(std::string_view(chunk.data(), static_cast<std::size_t>(got)));
  }
}

} // namespace uprobectl::live
