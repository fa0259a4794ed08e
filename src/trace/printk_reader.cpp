// SPDX-License-Identifier: Apache-2.0
#include "trace/printk_reader.hpp"

#include "bpf/load_error.hpp"
#include "bpf/tracefs.hpp"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace uprobectl::trace {

namespace {

// Limits the reads of one call, so that much output does not delay events.
constexpr int max_reads = 64;
constexpr std::size_t max_line_length = 8192;

} // namespace

Result<PrintkReader> PrintkReader::open(output::Output& output) {
  PrintkReader reader(output);
  int reason = ENOENT;
  for (const char* const folder : {"/sys/kernel/tracing/", "/sys/kernel/debug/tracing/"}) {
    reader.folder_ = folder;
    const std::string path = reader.folder_ + "trace_pipe";
    reader.fd_ = UniqueFd{::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
    if (!reader.fd_ && errno != ENOENT) reason = errno;
    if (reader.fd_) break;
  }
  if (!reader.fd_ && reason == ENOENT)
    return fail(bpf::with_lockdown_hint(
        Error{ErrorKind::not_found, "--printk: trace_pipe does not exist"}.hint(
            "mount -t tracefs tracefs /sys/kernel/tracing")));
  if (!reader.fd_ && (reason == EPERM || reason == EACCES))
    return fail(bpf::with_refusal_hints(
        Error{ErrorKind::not_permitted, "--printk: this user may not read trace_pipe"}.hint(
            "needs root, or read permission for the file")));
  if (!reader.fd_) return fail(system_error(reason, "--printk: cannot read trace_pipe"));
  while (!reader.take_lines().empty()) {
  }
  reader.report_silence();
  return reader;
}

void PrintkReader::add_to(std::vector<pollfd>& polled) const {
  polled.push_back({.fd = fd_.get(), .events = POLLIN, .revents = 0});
}

void PrintkReader::update(Time /*now*/) {
  for (const std::string& line : take_lines()) output_->status_even_quiet(line);
}

void PrintkReader::report_silence() {
  if (is_silent_) return;
  const auto reason = explain_silence();
  is_silent_ = reason.has_value();
  if (reason) output_->notice(*reason);
}

// The event exists since Linux 5.9, and loading a program that calls bpf_printk enables it (Linux
// kernel/trace/bpf_trace.c). Tools that reset tracing disable all events.
std::optional<std::string> PrintkReader::explain_silence() const {
  for (const auto& [file, reason] : {std::pair("tracing_on", ", as after a kernel oops"),
                                     std::pair("events/bpf_trace/bpf_trace_printk/enable", "")})
    if (bpf::is_switched_off(folder_ + file))
      return fmt::format("--printk: bpf_printk prints nothing: {0}{1} is 0{2} (echo 1 >{0}{1})",
                         folder_, file, reason);
  return std::nullopt;
}

std::vector<std::string> PrintkReader::take_lines() {
  std::array<char, 4096> buffer{};
  for (int i = 0; i < max_reads; ++i) {
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
  if (unfinished_.size() > max_line_length) unfinished_.clear();
  return lines;
}

} // namespace uprobectl::trace
