// SPDX-License-Identifier: Apache-2.0
#include "trace/run_loop.hpp"

#include "file_size_limit.hpp"
#include "temporary_folder.hpp"

#include <catch2/catch.hpp>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <thread>
#include <unistd.h>

namespace uprobectl::trace {

using namespace std::chrono_literals;

namespace {

// A source with a fixed number of pending records.
class FakeSource final : public EventSource {
public:
  explicit FakeSource(std::uint64_t waiting) : waiting_(waiting) {
    auto record = std::make_shared<events::UserRecord>();
    record->map = "events";
    record->raw.resize(200);
    event_.kind = events::EventKind::record;
    event_.record = std::move(record);
  }

  bool drain(const Visit& visit) override {
    while (waiting_ > 0) {
      --waiting_;
      if (!visit(event_)) return true;
    }
    is_given_up_ = unsubmitted_ > 0 && (is_given_up_ || --drains_until_given_up_ == 0);
    return false;
  }
  std::vector<Loss> losses() const override {
    return {{loss_reasons::buffer_full, full_}, {loss_reasons::no_return, left_}};
  }
  std::string list_unreturned() const {
    return left_ == 0 ? std::string() : "f (" + std::to_string(left_) + ")";
  }
  void leave(std::uint64_t count) { left_ += count; }
  std::uint64_t discard() override { return std::exchange(waiting_, 0); }
  void send(std::uint64_t count) { waiting_ += count; }
  void lose(std::uint64_t count) { full_ += count; }
  SourceState state() const override {
    return {.has_unfinished_record = !is_given_up_ && unsubmitted_ > 0,
            .unsubmitted = is_given_up_ ? unsubmitted_ : 0};
  }
  // So many records are reserved for ever, which is known at the third drain().
  void reserve(std::uint64_t count) { unsubmitted_ = count; }

  void add_to(std::vector<pollfd>& /*polled*/) const override {}

private:
  std::uint64_t waiting_;
  std::uint64_t full_ = 0;
  std::uint64_t left_ = 0; // calls without a return
  std::uint64_t unsubmitted_ = 0;
  int drains_until_given_up_ = 3;
  bool is_given_up_ = false;
  events::Event event_;
};

// Never end.
class NoProcesses final : public TargetProcesses {
public:
  bool all_gone() override { return false; }
  bool look(Time /*now*/) override { return true; }
  std::optional<Time> next_look() const override { return std::nullopt; }
  void add_to(std::vector<pollfd>& /*polled*/) const override {}
};

enum class Reader { reads, reads_slowly, stalls, goes_away };

// Counts of a run: received by its reader, and as the run reports them.
struct Ended {
  std::uint64_t received = 0; // whole `event` lines
  std::uint64_t events = 0;
  std::uint64_t lost = 0;
  std::vector<std::string_view> reasons;
};

std::uint64_t whole_events(const std::string& text) {
  std::uint64_t count = 0;
  for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    if (text.compare(at, 15, R"({"type":"event")") == 0 && text[end - 1] == '}') ++count;
  return count;
}

void read_from(int fd, Reader how, std::string& text) {
  std::string piece(1 << 18, '\0');
  if (how == Reader::reads_slowly) std::this_thread::sleep_for(100ms);
  for (;;) {
    const ssize_t size = ::read(fd, piece.data(), piece.size());
    if (size <= 0) return;
    text.append(piece, 0, static_cast<std::size_t>(size));
    if (how == Reader::reads_slowly) std::this_thread::sleep_for(1ms);
    if (how == Reader::goes_away) return;
  }
}

Ended end_of(std::uint64_t sent, Reader how, std::optional<std::uint64_t> max_events = {},
             bool interrupted = false) {
  std::signal(SIGPIPE, SIG_IGN); // as main does
  auto signals = SignalWatch::start();
  REQUIRE(signals);
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  UniqueFd read_end{ends[0]};
  UniqueFd write_end{ends[1]};
  FakeSource source(sent);
  Ended ended;
  std::string text;
  {
    output::Output output(write_end.get(), {.json = true, .messages_fd = -1});
    output.buffer().disable_auto_flush();
    NoProcesses processes;
    RunLoop loop(source, processes, *signals, output, {.max_events = max_events});
    std::thread other([&] {
      if (interrupted) {
        std::this_thread::sleep_for(100ms);
        ::kill(::getpid(), SIGTERM); // blocked in all threads
      } else if (how != Reader::stalls) {
        read_from(read_end.get(), how, text);
        if (how == Reader::goes_away) read_end.reset();
      }
    });
    // A reader that goes on reading is waited for, however busy the machine is.
    const bool goes_on = how == Reader::reads || how == Reader::reads_slowly;
    loop.finish(interrupted || goes_on ? 30s : 300ms);
    ended.events = loop.totals().events;
    ended.lost = loop.totals().lost();
    for (const Loss& loss : loop.totals().losses) ended.reasons.push_back(loss.reason);
    write_end.reset();
    other.join();
  }
  if (how == Reader::stalls && read_end) read_from(read_end.get(), Reader::reads, text);
  ended.received = whole_events(text);
  return ended;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// More text than waits for its reader at once.
constexpr std::uint64_t many = 30'000;

} // namespace

TEST_CASE("a slow reader receives all that waited when the run ended", "[large]") {
  const Ended ended = end_of(many, Reader::reads_slowly);
  CHECK(ended.received == many);
  CHECK(ended.events == many);
  CHECK(ended.lost == 0);
}

TEST_CASE("events and lost events add up to the sent ones however the run ends", "[large]") {
  SECTION("a reader that stalls") {
    const Ended ended = end_of(many, Reader::stalls);
    CHECK(ended.received == ended.events);
    CHECK(ended.events > 0); // what a pipe takes
    CHECK(ended.events + ended.lost == many);
    CHECK(ended.reasons == std::vector{loss_reasons::output_blocked});
  }
  SECTION("another signal while a reader stalls") {
    const Ended ended = end_of(many, Reader::stalls, {}, true);
    CHECK(ended.received == ended.events);
    CHECK(ended.events + ended.lost == many);
    CHECK(ended.reasons == std::vector{loss_reasons::interrupted});
  }
  SECTION("a reader that goes away") {
    const Ended ended = end_of(many, Reader::goes_away);
    CHECK(ended.received <= ended.events); // some were in the pipe
    CHECK(ended.events + ended.lost == many);
    CHECK(ended.reasons == std::vector{loss_reasons::output_closed});
  }
  SECTION("as many events as requested") {
    const Ended ended = end_of(many, Reader::reads, 100);
    CHECK(ended.received == 100);
    CHECK(ended.events == 100);
    CHECK(ended.lost == many - 100);
    CHECK(ended.reasons == std::vector{loss_reasons::over_max_events});
  }
}

TEST_CASE("records that a full disk rejects are lost") {
  auto signals = SignalWatch::start();
  REQUIRE(signals);
  const UniqueFd full{::open("/dev/full", O_WRONLY | O_CLOEXEC)};
  FakeSource source(1000);
  output::Output output(full.get(), {.json = true, .messages_fd = -1});
  output.buffer().disable_auto_flush();
  NoProcesses processes;
  RunLoop loop(source, processes, *signals, output, {});
  loop.finish(300ms);
  CHECK(loop.totals().events == 0);
  CHECK(loop.totals().lost() == 1000);
  REQUIRE(loop.totals().losses.size() == 1);
  CHECK(loop.totals().losses[0].reason == loss_reasons::output_failed);
  output.finish();
  CHECK(output.has_failed());
}

TEST_CASE("a run goes on while its disk is full, and writes all when there is room") {
  std::signal(SIGXFSZ, SIG_IGN); // as main does
  const test::TemporaryFolder folder;
  const std::string path = folder.path / "out";
  const std::string said = folder.path / "err";
  auto signals = SignalWatch::start();
  REQUIRE(signals);
  {
    UniqueFd file{::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
    const UniqueFd messages{::open(said.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
    FakeSource source(1000);
    output::Output output(std::move(file), {.json = true, .messages_fd = messages.get()});
    output.buffer().disable_auto_flush();
    NoProcesses processes;
    RunLoop loop(source, processes, *signals, output, {.duration = 60s});
    std::optional<test::FileSizeLimit> limit(100'000);
    const auto ending = loop.run(std::chrono::steady_clock::now(), [&](RunLoop::Time) {
      if (limit && output.buffer().shortage() != nullptr)
        limit.reset();
      else if (!limit && output.buffer().pending() == 0)
        ::kill(::getpid(), SIGTERM); // blocked in all threads
    });
    CHECK(ending == AttachOutcome::Ending::signal);
    loop.finish();
    CHECK(loop.totals().events == 1000);
    CHECK(loop.totals().lost() == 0);
  }
  CHECK(whole_events(content_of(path)) == 1000);
  CHECK(content_of(said) == "uprobectl: warning: cannot write the output: file too large: events "
                            "wait for space, and are lost when the buffers are full\n"
                            "uprobectl: warning: the output is written again\n");
}

TEST_CASE("SIGUSR1 opens the output again, and ends nothing") {
  const test::TemporaryFolder folder;
  const auto path = [&](const char* name) { return (folder.path / name).string(); };
  const auto open = [&] {
    return UniqueFd(::open(path("out").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  };
  auto signals = SignalWatch::start();
  REQUIRE(signals);
  {
    FakeSource source(10);
    output::Output output(open(), {.json = true, .messages_fd = -1});
    output.set_reopening(open);
    output.buffer().disable_auto_flush();
    NoProcesses processes;
    RunLoop loop(source, processes, *signals, output, {.duration = 60s});
    int turn = 0;
    bool has_sent = false;
    loop.run(std::chrono::steady_clock::now(), [&](RunLoop::Time) {
      if (++turn == 1) {
        REQUIRE(::rename(path("out").c_str(), path("out.1").c_str()) == 0);
        ::kill(::getpid(), SIGUSR1); // blocked in all threads
      } else if (!has_sent) {
        if (::access(path("out").c_str(), F_OK) != 0) return;
        has_sent = true;
        source.send(5);
      } else if (whole_events(content_of(path("out"))) == 5) {
        ::kill(::getpid(), SIGTERM);
      }
    });
    loop.finish();
  }
  CHECK(whole_events(content_of(path("out.1"))) == 10);
  CHECK(whole_events(content_of(path("out"))) == 5);
}

TEST_CASE("losses are warned of at once, and then at most once a minute") {
  const LossWarnings::Time start{};
  LossWarnings warnings;
  std::vector<Loss> losses = {{loss_reasons::buffer_full, 0}, {loss_reasons::corrupt, 0}};
  CHECK(warnings.take(losses, start).empty());
  losses[0].count = 3;
  CHECK(warnings.take(losses, start) == "3 events lost so far: ring buffer full");
  losses[0].count = 7;
  losses[1].count = 1;
  CHECK(warnings.take(losses, start + 59s).empty());
  CHECK(warnings.take(losses, start + 60s) ==
        "8 events lost so far: ring buffer full, record could not be decoded");
  CHECK(warnings.take(losses, start + 600s).empty());
  losses.push_back({loss_reasons::no_return, 2});
  losses.push_back({loss_reasons::rate_limited, 5});
  CHECK(warnings.take(losses, start + 601s) ==
        "8 events lost so far: ring buffer full, record could not be decoded; 2 calls not paired "
        "so far: left without a return; 5 events left out so far: more hits per second than "
        "--max-rate");
}

TEST_CASE("a run warns of losses while it goes on") {
  const test::TemporaryFolder folder;
  const std::string said = folder.path / "err";
  auto signals = SignalWatch::start();
  REQUIRE(signals);
  const UniqueFd null{::open("/dev/null", O_WRONLY | O_CLOEXEC)};
  const UniqueFd messages{::open(said.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
  FakeSource source(3);
  source.lose(4);
  output::Output output(null.get(), {.json = true, .messages_fd = messages.get()});
  NoProcesses processes;
  RunLoop loop(source, processes, *signals, output, {.max_events = 3});
  loop.run(std::chrono::steady_clock::now());
  CHECK(content_of(said) == "uprobectl: warning: 4 events lost so far: ring buffer full\n");
}

TEST_CASE("a run names the functions whose calls are left without a return while it goes on") {
  const test::TemporaryFolder folder;
  const std::string said = folder.path / "err";
  auto signals = SignalWatch::start();
  REQUIRE(signals);
  const UniqueFd null{::open("/dev/null", O_WRONLY | O_CLOEXEC)};
  const UniqueFd messages{::open(said.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
  FakeSource source(3);
  source.leave(2);
  output::Output output(null.get(), {.json = true, .messages_fd = messages.get()});
  NoProcesses processes;
  RunLoop loop(source, processes, *signals, output, {.max_events = 3});
  loop.set_loss_details({.list_unreturned = [&] { return source.list_unreturned(); }});
  loop.run(std::chrono::steady_clock::now());
  CHECK(content_of(said) == "uprobectl: warning: 2 calls not paired so far: left without a return; "
                            "by function: f (2)\n");
}

TEST_CASE("a loss has the time in which it happened") {
  auto signals = SignalWatch::start();
  REQUIRE(signals);
  const test::TemporaryFolder folder;
  const std::string path = folder.path / "out";
  FakeSource source(3);
  std::uint64_t before_ns = 0;
  std::uint64_t after_ns = 0;
  {
    UniqueFd file{::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
    output::Output output(std::move(file), {.json = true, .messages_fd = -1});
    NoProcesses processes;
    RunLoop loop(source, processes, *signals, output, {.duration = 200ms});
    bool has_lost = false;
    loop.run(std::chrono::steady_clock::now(), [&](RunLoop::Time) {
      if (std::exchange(has_lost, true)) return;
      before_ns = clock_ns(CLOCK_MONOTONIC);
      source.lose(4);
    });
    after_ns = clock_ns(CLOCK_MONOTONIC);
  }
  std::string text = content_of(path);
  text.erase(0, text.find(R"({"type":"lost")"));
  const auto number = [&](std::string_view key) {
    const auto at = text.find(key);
    REQUIRE(at != std::string::npos);
    return std::stoull(text.substr(at + key.size()));
  };
  CHECK(number(R"("since_ns":)") <= before_ns);
  CHECK(number(R"("time_ns":)") >= before_ns);
  CHECK(number(R"("time_ns":)") <= after_ns);
}

TEST_CASE("losses are reported once, by reason") {
  auto signals = SignalWatch::start();
  REQUIRE(signals);
  const UniqueFd null{::open("/dev/null", O_WRONLY | O_CLOEXEC)};
  FakeSource source(3);
  source.lose(4);
  output::Output output(null.get(), {.json = true, .messages_fd = -1});
  NoProcesses processes;
  RunLoop loop(source, processes, *signals, output, {.max_events = 1});
  loop.finish();
  REQUIRE(loop.totals().losses.size() == 2);
  CHECK(loop.totals().losses[0].reason == loss_reasons::buffer_full);
  CHECK(loop.totals().losses[0].count == 4);
  CHECK(loop.totals().losses[1].count == 2);
}

TEST_CASE("a record that is never submitted is counted as lost, and the run fails") {
  auto signals = SignalWatch::start();
  REQUIRE(signals);
  const UniqueFd null{::open("/dev/null", O_WRONLY | O_CLOEXEC)};
  FakeSource source(5);
  source.reserve(1);
  output::Output output(null.get(), {.json = true, .messages_fd = -1});
  NoProcesses processes;
  RunLoop loop(source, processes, *signals, output, {});
  loop.finish();
  CHECK(loop.totals().events == 5);
  REQUIRE(loop.totals().losses.size() == 1);
  CHECK(loop.totals().losses[0].reason == loss_reasons::unsubmitted);
  CHECK(loop.totals().losses[0].count == 1);
  CHECK(output.has_failed());
}

} // namespace uprobectl::trace
