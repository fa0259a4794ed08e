// SPDX-License-Identifier: Apache-2.0
// What a saved run has of values before they are read, and what report makes of a run without it.
#include "saved/run_reader.hpp"
#include "saved/run_writer.hpp"
#include "trace/saved_report.hpp"

#include "temporary_folder.hpp"

#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <sys/mman.h>
#include <unistd.h>

using namespace uprobectl;
using namespace std::literals;
using Catch::Matchers::Contains;

namespace {

// Returns the bytes that `write` writes to a descriptor.
std::string written(const std::function<void(int)>& write) {
  const UniqueFd file{memfd_create("saved-types-test", MFD_CLOEXEC)};
  write(file.get());
  std::string text(1 << 16, '\0');
  const ssize_t size = pread(file.get(), text.data(), text.size(), 0);
  text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  return text;
}

std::string save(const std::function<void(saved::RunWriter&)>& use) {
  return written([&](int fd) {
    OutputBuffer out(fd);
    saved::RunWriter writer(out, true, {});
    use(writer);
  });
}

// Keeps what is known of probes.
class ProbedReplay final : public saved::RunReplay {
public:
  using RunReplay::write;
  Result<void> begin(const saved::RunHeader& /*header*/) override { return {}; }
  void write(const ProbedRecord& record) override { probed.push_back(record); }
  void write(const AttachedRecord& /*record*/) override {}
  void write(const Event& /*event*/) override {}
  void write(const CountRecord& /*record*/) override {}
  void write(const HistogramRecord& /*record*/) override {}
  void write(const MapEntryRecord& /*record*/) override {}
  void write(const ProbeRecord& /*record*/) override {}
  void write(const LostRecord& /*record*/) override {}
  void write(const SummaryRecord& /*record*/) override {}
  void write(const ErrorRecord& /*record*/) override {}
  void write(const StackSample& /*stack*/) override {}
  void write(const MessageRecord& /*message*/) override {}
  void write(const CallChange& /*change*/) override {}
  void write(const ProcessNameRecord& /*record*/) override {}
  void write(const ClockRecord& /*record*/) override {}
  void flush_rows() override {}
  Result<void> flush() override { return {}; }
  void end() override {}

  std::vector<ProbedRecord> probed;
};

struct Reading {
  std::vector<ProbedRecord> probed;
  std::optional<Error> error;
};

Reading read_saved(std::string_view file) {
  ProbedReplay replay;
  saved::RunReader reader(replay);
  Reading reading;
  if (auto taken = reader.add(std::as_bytes(std::span(file))); !taken)
    reading.error = taken.error();
  reading.probed = std::move(replay.probed);
  for (ProbedRecord& each : reading.probed) each.point = nullptr; // the reader had it
  return reading;
}

ProbePoint point() {
  ProbePoint point;
  point.binary = std::make_shared<const ProbedBinary>(ProbedBinary{.target = "f.so",
                                                                   .path = {"f.so", std::nullopt},
                                                                   .file = nullptr,
                                                                   .real_path = "/a/f.so",
                                                                   .entry_data = {},
                                                                   .machine = elf::Machine(62),
                                                                   .build_id = "abcd"});
  point.request = point.symbol.emplace("f");
  point.offset = {0x2010};
  return point;
}

std::string chunk(std::uint8_t kind, std::string_view content) {
  return std::string{static_cast<char>(kind), 0, 0, 0} +
         std::string{static_cast<char>(content.size()), 0, 0, 0} + std::string(content);
}

} // namespace

TEST_CASE("a saved run has the types of values, and each enumeration once") {
  const ProbePoint first = point();
  const ProbePoint second = point();
  const auto color = std::make_shared<Enumeration>(
      Enumeration{.name = "Color", .enumerators = {{.name = "crimson", .value = -1}}});
  const ValueType member{
      .name = "Color", .bits = 8, .is_signed = true, .enumeration = color, .member_name = "shade"};
  const PointDescription description{
      .pairs_calls = true,
      .values = {{.name = "item",
                  .type = {.use = ValueUse::none, .name = "Item", .members = {member}},
                  .source = "arg1"}},
      .hidden = {"tid"}};
  const std::string made = save([&](saved::RunWriter& writer) {
    writer.write(ProbedRecord{.point = &first, .probe = 4, .description = description});
    writer.write(ProbedRecord{.point = &second, .probe = 5, .description = description});
  });
  CHECK(made.find("crimson") == made.rfind("crimson"));
  const std::vector<ProbedRecord> probed = read_saved(made).probed;
  REQUIRE(probed.size() == 2);
  CHECK(probed[0].probe == 4);
  CHECK(probed[1].description.pairs_calls);
  CHECK(probed[1].description.hidden == std::vector<std::string>{"tid"});
  const PointValue& value = probed[1].description.values.at(0);
  CHECK(value.source == "arg1");
  const ValueType& read = value.type.members.at(0);
  CHECK(read.member_name == "shade");
  CHECK(read.bits == 8);
  CHECK(read.is_signed);
  REQUIRE(read.enumeration);
  CHECK(read.enumeration->enumerators.at(0).name == "crimson");
  CHECK(read.enumeration->enumerators.at(0).value == -1);
}

TEST_CASE("an enumeration of a saved run that no type has had is damaged") {
  const ProbePoint probed = point();
  const std::string begin = save([&](saved::RunWriter& writer) {
    writer.write(ProbedRecord{.point = &probed, .description = {}});
  });
  CHECK_FALSE(read_saved(begin).error);
  // Probe 1, record: description: one value, whose type has the enumeration 2.
  const std::string damaged = begin + chunk(27, "\x08\1\x0b\x13\x1c\x0b\x13\x3b\x08\2\0\0\0\0\0"sv);
  const auto error = read_saved(damaged).error;
  REQUIRE(error);
  CHECK_THAT(error->message, Contains("a chunk of kind 27 is invalid"));
}

TEST_CASE("report says of a run without types that --if needs them, and counts its values") {
  const ProbePoint probed = point();
  const test::TemporaryFolder folder;
  const std::string path = folder.path / "run.uprobes";
  std::ofstream(path, std::ios::binary) << save([&](saved::RunWriter& writer) {
    writer.write(AttachedRecord{.mechanism = "multi", .probes = 1, .program = "builtin"});
    for (const std::int64_t number : {5, 6, 5}) {
      Event event;
      event.point = &probed;
      event.has_arguments = true;
      event.typed_arguments = {{.name = "n", .type_name = "int", .value = {number}}};
      writer.write(event);
    }
    writer.end();
  });
  const auto report = [&](const ReportRequest& request) {
    std::optional<Error> error;
    const std::string rows = written([&](int fd) {
      Output output(fd, {.json = true, .level = OutputOptions::Level::quiet});
      if (const auto reported = report_saved_run(request, output); !reported)
        error = reported.error();
      output.buffer().flush();
    });
    return std::pair(rows, error);
  };
  ReportRequest request{.path = path};
  request.filter = parse_filter("n == 5").value();
  const auto [rows, error] = report(request);
  CHECK(rows.empty());
  REQUIRE(error);
  CHECK_THAT(error->message, Contains("--if cannot be answered from this run: the types of its "
                                      "values were not saved"));

  request = {.path = path};
  request.totals.aggregates.counts = true;
  request.totals.groups = parse_groups("n", {}).value();
  const auto [counted, problem] = report(request);
  CHECK_FALSE(problem);
  CHECK_THAT(counted, Contains(R"("count":2,)"));
  CHECK_THAT(counted, Contains(R"("value":5,)"));
}
