// SPDX-License-Identifier: Apache-2.0
#include "host/local_report.hpp"

#include <array>
#include <cerrno>
#include <fmt/format.h>
#include <unistd.h>

namespace uprobectl::host {

namespace {

using namespace std::chrono_literals;

// Writes what comes from the descriptor to its lines until the end.
void pass_on(const UniqueFd& from, MarkedLines& lines) {
  std::array<char, 64 << 10> chunk{};
  for (;;) {
    while (lines.is_full()) std::this_thread::sleep_for(5ms);
    const ssize_t got = ::read(from.get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || lines.is_closed()) break;
    if (!lines.add(std::string_view(chunk.data(), static_cast<std::size_t>(got)))) break;
  }
  lines.finish();
}

} // namespace

LocalReport::IgnoredStop::IgnoredStop() {
  struct sigaction action{};
  action.sa_handler = SIG_IGN;
  ::sigaction(SIGTSTP, &action, &before_);
}

LocalReport::IgnoredStop::~IgnoredStop() { ::sigaction(SIGTSTP, &before_, nullptr); }

Result<std::unique_ptr<LocalReport>> LocalReport::start(const std::vector<std::string>& arguments,
                                                        std::optional<MarkedLines> records,
                                                        std::optional<MarkedLines> messages,
                                                        bool is_live) {
  std::vector<std::string> words = {"/proc/self/exe", "report"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.emplace_back("-");
  auto process =
      AdbProcess::start(words, {.own_stdout = !records.has_value(),
                                .own_stderr = !messages.has_value(),
                                .own_group = is_live,
                                .variable = fmt::format("{}={}", parent_variable, ::getpid())});
  if (!process) return fail(std::move(process).error());
  std::unique_ptr<LocalReport> report(
      new LocalReport(std::move(*process), std::move(records), std::move(messages)));
  if (is_live) report->ignored_stop_.emplace();
  return report;
}

LocalReport::LocalReport(AdbProcess process, std::optional<MarkedLines> records,
                         std::optional<MarkedLines> messages)
    : process_(std::move(process)), records_(std::move(records)), messages_(std::move(messages)),
      input_(std::make_unique<Sink>(std::move(process_.input), false)) {
  if (records_) readers_.emplace_back([this] { pass_on(process_.output, *records_); });
  if (messages_) readers_.emplace_back([this] { pass_on(process_.errors, *messages_); });
}

LocalReport::~LocalReport() { finish(); }

int LocalReport::finish() {
  // The run has failed before it began, and said so.
  if (input_ && !input_->has_output()) static_cast<void>(process_.finish(0ms));
  if (input_) static_cast<void>(input_->finish()); // a report that has ended says why
  input_.reset();
  for (std::thread& reader : readers_) reader.join();
  readers_.clear();
  // Writing files, such as a flame graph of many stacks, takes seconds at most.
  return process_.finish(60s);
}

} // namespace uprobectl::host
