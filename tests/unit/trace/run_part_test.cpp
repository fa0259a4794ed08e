// SPDX-License-Identifier: Apache-2.0
#include "trace/run_part.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::trace {

namespace {

// Writes down its calls. `takes`: what take() returns.
class NotedPart final : public RunPart {
public:
  NotedPart(std::string name, std::vector<std::string>& calls, bool takes = true)
      : name_(std::move(name)), calls_(calls), takes_(takes) {}

  bool take(Bytes /*record*/, events::Event& event) override {
    note("take");
    event.pid = event.pid * 10 + static_cast<std::uint32_t>(name_.size());
    return takes_;
  }
  void warn() override { note("warn"); }
  void add_losses(std::vector<Loss>& losses) const override {
    losses.push_back({.reason = loss_reasons::nested, .count = name_.size()});
  }
  void report_aggregates(Time /*now*/) override { note("report"); }
  void stop() override { note("stop"); }
  void finish(ProgramResults& results) override { results.without_stack += name_.size(); }

private:
  void note(const char* what) { calls_.push_back(name_ + " " + what); }

  std::string name_;
  std::vector<std::string>& calls_;
  bool takes_;
};

} // namespace

TEST_CASE("parts of a run take an event in their order until one keeps it from the others") {
  std::vector<std::string> calls;
  RunParts parts;
  parts.add<NotedPart>("a", calls);
  parts.add(std::make_unique<NotedPart>("bb", calls, false));
  parts.add<NotedPart>("ccc", calls);
  events::Event event;
  parts.take({}, event);
  CHECK(calls == std::vector<std::string>{"a take", "bb take"});
  CHECK(event.pid == 12);
}

TEST_CASE("parts of a run warn until it stops, and report afterwards") {
  std::vector<std::string> calls;
  RunParts parts;
  parts.add<NotedPart>("a", calls);
  parts.add<NotedPart>("bb", calls);
  parts.warn();
  parts.stop();
  parts.warn();
  parts.each(&RunPart::report_aggregates, RunPart::Time());
  CHECK(calls == std::vector<std::string>{"a warn", "bb warn", "a stop", "bb stop", "a report",
                                          "bb report"});
}

TEST_CASE("parts of a run add their losses and results to those before") {
  std::vector<std::string> calls;
  RunParts parts;
  parts.add<NotedPart>("a", calls);
  parts.add<NotedPart>("bb", calls);
  std::vector<Loss> losses = {{.reason = loss_reasons::corrupt, .count = 9}};
  parts.each(&RunPart::add_losses, losses);
  REQUIRE(losses.size() == 3);
  CHECK(losses[0].count == 9);
  CHECK(losses[1].count == 1);
  CHECK(losses[2].count == 2);
  ProgramResults results;
  parts.each(&RunPart::finish, results);
  CHECK(results.without_stack == 3);
}

} // namespace uprobectl::trace
