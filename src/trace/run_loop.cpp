// SPDX-License-Identifier: Apache-2.0
#include "trace/run_loop.hpp"

#include "bpf/ring.hpp"
#include "output/format.hpp"
#include "util/clock.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <sys/signalfd.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace uprobectl::trace {

namespace {

using Clock = std::chrono::steady_clock;

// Limit of output buffered for a slow reader, bytes. Above it, records stay in the kernel's
// buffers; when these are full, further records are lost and counted.
constexpr std::size_t max_pending_output = 4U << 20;
// After this time, a status message reports what the end of the run waits for.
constexpr std::chrono::seconds slow_flush_timeout{2};
// How long the end of a run waits for reserved records: long enough to decide that they will never
// be submitted.
constexpr std::chrono::milliseconds max_submit_time = 2 * bpf::reserved_record_timeout;
constexpr std::chrono::milliseconds unsubmitted_interval{10};

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGCONT); // blocking SIGCONT does not keep it from continuing the process
  // nohup ignores SIGHUP; keep it ignored.
  struct sigaction hangup{};
  if (::sigaction(SIGHUP, nullptr, &hangup) != 0 || hangup.sa_handler != SIG_IGN)
    sigaddset(&set, SIGHUP);
  return set;
}

// This handler makes only async-signal-safe calls.
void exit_at_once(int /*signal*/) {
  constexpr std::string_view message =
      "uprobectl: error: interrupted while the functions were looked up, nothing was attached\n";
  static_cast<void>(!::write(STDERR_FILENO, message.data(), message.size()));
  constexpr int interrupted = 130;
  ::_exit(interrupted);
}

} // namespace

Result<SignalWatch> SignalWatch::start() {
  const sigset_t set = watched_signals();
  sigset_t previous;
  ::sigprocmask(SIG_BLOCK, &set, &previous);
  UniqueFd fd{::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)};
  if (!fd) {
    const int error = errno;
    ::sigprocmask(SIG_SETMASK, &previous, nullptr);
    return fail(system_error(error, "cannot watch for signals"));
  }
  return SignalWatch(std::move(fd), previous);
}

SignalWatch::SignalWatch(SignalWatch&& other) noexcept = default;

SignalWatch::~SignalWatch() {
  if (!fd_) return; // moved from
  arrived();
  ::sigprocmask(SIG_SETMASK, &previous_, nullptr);
}

void SignalWatch::read_signals() {
  signalfd_siginfo info;
  while (::read(fd_.get(), &info, sizeof(info)) == sizeof(info))
    if (info.ssi_signo == SIGCONT)
      continued_ = true;
    else if (info.ssi_signo == SIGUSR1)
      reopens_ = true;
    else
      ++count_;
}

bool SignalWatch::arrived() { return count() > 0; }

std::uint64_t SignalWatch::count() {
  read_signals();
  return count_;
}

bool SignalWatch::take_continued() {
  read_signals();
  return std::exchange(continued_, false);
}

bool SignalWatch::take_reopen() {
  read_signals();
  return std::exchange(reopens_, false);
}

ExitOnSignal::ExitOnSignal() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const sigset_t watched = watched_signals();
    if (sigismember(&watched, signal) != 1) continue;
    struct sigaction action{};
    action.sa_handler = exit_at_once;
    struct sigaction before{};
    if (::sigaction(signal, &action, &before) != 0) continue;
    actions_before_.emplace_back(signal, before);
    sigaddset(&set, signal);
  }
  ::pthread_sigmask(SIG_UNBLOCK, &set, &mask_before_);
}

ExitOnSignal::~ExitOnSignal() {
  ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  for (const auto& [signal, before] : actions_before_) ::sigaction(signal, &before, nullptr);
}

std::uint64_t RunTotals::lost() const {
  std::uint64_t sum = 0;
  for (const Loss& loss : losses) sum += loss.count;
  return sum;
}

std::string LossWarnings::take(std::span<const Loss> losses, Time now) {
  constexpr std::chrono::minutes interval{1};
  std::uint64_t all = 0;
  for (const Loss& loss : losses) all += loss.count;
  if (all <= reported_ || now < next_) return {};
  reported_ = all;
  next_ = now + interval;
  std::string text;
  const auto add = [&](std::string_view one, std::string_view many, const auto& belongs) {
    std::uint64_t count = 0;
    std::string reasons;
    for (const Loss& loss : losses) {
      if (loss.count == 0 || !belongs(loss.reason)) continue;
      count += loss.count;
      reasons += (reasons.empty() ? "" : ", ") + std::string(loss.reason);
    }
    if (count == 0) return;
    text += fmt::format("{}{} so far: {}", text.empty() ? "" : "; ", counted(count, one, many),
                        reasons);
  };
  const auto is_limited = [](std::string_view reason) {
    return reason == loss_reasons::rate_limited;
  };
  add("event lost", "events lost", [&](std::string_view reason) {
    return !is_limited(reason) && !loss_reasons::is_unpaired(reason);
  });
  add("call not paired", "calls not paired", loss_reasons::is_unpaired);
  add("event left out", "events left out", is_limited);
  return text;
}

bool RunLoop::takes_more() const {
  return !is_full() && !out_.closed() && !out_.error() && out_.pending() <= max_pending_output;
}

void RunLoop::keep(const KeepSpec& spec) {
  window_.emplace(
      spec, [this](const events::Event& event) { deliver(event); },
      [this](const output::TriggerRecord& trigger) {
        shows_events_ ? output_.write(trigger) : output_.record(trigger);
      });
}

void RunLoop::take(const events::Event& event) { window_ ? window_->take(event) : deliver(event); }

void RunLoop::deliver(const events::Event& event) {
  if (window_ && is_full()) {
    ++beyond_max_;
    return;
  }
  if (event.sample != nullptr) output_.record(*event.sample);
  for (output::Recorder* const each : recorders_) each->write(event);
  if (std::ranges::any_of(recorders_, &output::Recorder::has_excluded_event)) return;
  if (shows_events_)
    output_.write(event);
  else
    output_.record(event);
  ++totals_.events;
}

bool RunLoop::drain() {
  if (!takes_more()) return false;
  return source_.drain([this](const events::Event& event) {
    take(event);
    return takes_more();
  });
}

bool RunLoop::drain_even_if_blocked() {
  return source_.drain([this](const events::Event& event) {
    take(event);
    return true;
  });
}

// While the output is blocked, no losses are written. One record later covers all of them.
std::vector<Loss> RunLoop::report_losses() {
  const std::uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
  const std::vector<Loss> losses = source_.losses();
  bool has_unreported = false;
  for (const Loss& loss : losses)
    if (out_.pending() <= max_pending_output)
      report_loss(loss);
    else
      has_unreported |= loss.count > reported_count(loss.reason);
  if (!has_unreported) losses_reported_until_ns_ = now_ns;
  return losses;
}

std::uint64_t RunLoop::reported_count(std::string_view reason) const {
  const auto known = std::ranges::find(totals_.losses, reason, &Loss::reason);
  return known == totals_.losses.end() ? 0 : known->count;
}

void RunLoop::warn_of_losses(std::vector<Loss> losses, Time now) {
  constexpr std::chrono::seconds interval{1}; // counting reads the counts of all probes
  if (now >= next_rate_limited_count_) {
    next_rate_limited_count_ = now + interval;
    rate_limited_ = loss_details_.count_rate_limited();
  }
  losses.push_back({.reason = loss_reasons::rate_limited, .count = rate_limited_});
  std::string text = loss_warnings_.take(losses, now);
  if (text.empty()) return;
  if (const std::string functions = loss_details_.list_unreturned(); !functions.empty())
    text += fmt::format("; by function: {}", functions);
  output_.warn(text);
}

void RunLoop::follow_clocks() {
  const auto record = clocks_.look();
  if (!record) return;
  for (output::Recorder* const each : recorders_) each->write(*record);
  output_.write(*record);
  if (record->jump) output_.warn(describe_jump(*record->jump, record->clocks));
}

// `loss` is the total since the start; reports the increase.
void RunLoop::report_loss(const Loss& loss) {
  const std::uint64_t before = reported_count(loss.reason);
  if (loss.count <= before) return;
  const output::LostRecord lost{.count = loss.count - before,
                                .reason = loss.reason,
                                .since_ns = losses_reported_until_ns_,
                                .time_ns = clock_ns(CLOCK_MONOTONIC)};
  for (output::Recorder* const each : recorders_) each->write(lost);
  output_.write(lost);
  if (before == 0)
    totals_.losses.push_back(loss);
  else
    std::ranges::find(totals_.losses, loss.reason, &Loss::reason)->count = loss.count;
}

void RunLoop::wait(std::chrono::milliseconds timeout) {
  // poll() reports a closed reader even if no events are requested.
  const short writable = out_.pending() > 0 && out_.shortage() == nullptr ? POLLOUT : 0;
  std::vector<pollfd> polled = {{.fd = out_.fd(), .events = writable, .revents = 0},
                                {.fd = signals_.fd(), .events = POLLIN, .revents = 0}};
  if (takes_more()) source_.add_to(polled);
  processes_.add_to(polled);
  output_.add_recorders_to(polled);
  if (::poll(polled.data(), polled.size(), static_cast<int>(timeout.count())) <= 0) return;
  if ((polled[0].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) out_.abandon();
}

RunLoop::Ending RunLoop::run(Time start, const std::function<void(Time)>& meanwhile) {
  std::optional<Time> deadline;
  if (limits_.duration) deadline = start + *limits_.duration;
  auto next_report = Clock::now() + interval_.value_or(std::chrono::nanoseconds());
  for (;;) {
    // Check before draining, so that the events of an ended process are still written.
    const bool gone = processes_.all_gone();
    follow_clocks(); // before the events that were hit until now
    const bool more = drain();
    warn_of_losses(report_losses(), Clock::now());
    warn_of_unsubmitted();
    for (output::Recorder* const each : recorders_) {
      each->advance(clock_ns(CLOCK_MONOTONIC));
      static_cast<void>(each->flush());
    }
    out_.flush_some();
    output_.report_shortage();
    output_.flush_recorders();
    if (signals_.take_reopen()) output_.reopen();

    if (out_.closed() || out_.error()) return Ending::output_closed;
    if (is_full()) return Ending::max_events;
    if (source_.state().has_stopped) return Ending::stopped;
    if (signals_.arrived() || output_.wants_end()) return Ending::signal;
    const auto now = Clock::now();
    if (!processes_.look(now)) return Ending::processes_gone;
    if (meanwhile) meanwhile(now);
    if (deadline && now >= *deadline) return Ending::duration;
    if (interval_ && now >= next_report) {
      // Hits counted from here on are in the report after the next interval.
      if (out_.pending() <= max_pending_output) source_.report_aggregates(now);
      out_.flush_some();
      next_report = std::max(next_report + *interval_, now);
    }
    if (gone && !more) return Ending::processes_gone;
    if (more) continue;

    auto until = now + poll_timeout;
    if (deadline) until = std::min(until, *deadline);
    if (interval_) until = std::min(until, next_report);
    if (const auto look = processes_.next_look()) until = std::clamp(*look, now, until);
    wait(std::chrono::ceil<std::chrono::milliseconds>(until - now));
  }
}

void RunLoop::warn_of_unsubmitted() {
  if (source_.state().unsubmitted > 0)
    output_.warn_once("a record in the ring buffer is reserved and not written: its program was "
                      "stopped in the middle, and the buffer fills up after it");
}

// A program writes no more records once no probe is attached.
void RunLoop::report_unsubmitted() {
  const std::uint64_t count = source_.state().unsubmitted;
  if (count == 0) return;
  report_loss({.reason = loss_reasons::unsubmitted, .count = count});
  output_.fail(
      Error{ErrorKind::corrupt,
            fmt::format("{} reserved in the ring buffer and never written",
                        count == 1 ? "1 record was" : fmt::format("{} records were", count))}
          .hint("the kernel has killed a thread while a BPF program ran: see dmesg"));
}

// Waits a little. Returns false at once if nothing is being written or the time is over.
bool RunLoop::wait_for_record(Time until) const {
  if (!source_.state().has_unfinished_record || Clock::now() >= until) return false;
  std::this_thread::sleep_for(unsubmitted_interval);
  return true;
}

std::uint64_t RunLoop::discard_rest(Time until) {
  std::uint64_t count = source_.discard();
  while (wait_for_record(until)) count += source_.discard();
  return count;
}

// Returns the reason why remaining events cannot be written; empty if all were. Waits until `until`
// for records that are being written.
std::string_view RunLoop::write_rest(std::chrono::milliseconds timeout, Time until) {
  const std::uint64_t signals_before = signals_.count();
  const auto begin = Clock::now();
  bool notified = false;
  const auto is_cancelled = [&] {
    if (!notified && Clock::now() - begin > slow_flush_timeout) {
      notified = true;
      output_.status(fmt::format("writing the remaining events: {} (ctrl-c discards them)",
                                 out_.shortage() != nullptr ? "no space is left"
                                                            : "the output is read slowly"));
    }
    return signals_.count() > signals_before;
  };
  for (;;) {
    // While the output is blocked, drain() reads nothing: false does not mean that nothing is left.
    const bool was_blocked = out_.pending() > max_pending_output;
    follow_clocks();
    const bool more = drain();
    output_.flush_recorders();
    if (!out_.flush_within(timeout, is_cancelled))
      return signals_.count() > signals_before ? loss_reasons::interrupted
             : out_.shortage() != nullptr      ? loss_reasons::output_failed
                                               : loss_reasons::output_blocked;
    if (out_.closed()) return loss_reasons::output_closed;
    if (out_.error()) return loss_reasons::output_failed;
    if (is_full()) return loss_reasons::over_max_events;
    if (!more && !was_blocked && !wait_for_record(until)) return {};
  }
}

void RunLoop::finish(std::chrono::milliseconds timeout) {
  const auto until = Clock::now() + max_submit_time;
  const std::string_view reason = write_rest(timeout, until);
  const std::uint64_t unread = beyond_max_ + (reason.empty() ? 0 : discard_rest(until));
  if (window_) window_->finish();
  const std::uint64_t unwritten = out_.unwritten_events();
  out_.give_up_waiting();
  if (reason == loss_reasons::interrupted || reason == loss_reasons::output_blocked) out_.abandon();
  totals_.events -= std::min(totals_.events, unwritten);
  report_losses();
  report_loss({.reason = reason, .count = unread + unwritten});
  report_unsubmitted();
  // Only the small `lost` record is left to write; after abandon(), nothing is.
  out_.flush_within(timeout);
}

} // namespace uprobectl::trace
