// SPDX-License-Identifier: Apache-2.0
// What a saved run has of values before they are read, and what report makes of a run without it.
#include "saved/run_reader.hpp"
#include "saved/run_writer.hpp"
#include "trace/saved_report.hpp"

#include "saved_fixture.hpp"
#include "temporary_folder.hpp"

#include <catch2/catch.hpp>
#include <fstream>

namespace uprobectl::saved {

using test::bytes_written;
using test::hand_made_chunk;
using test::save_run;
using test::saved_point;
using namespace std::literals;
using Catch::Matchers::Contains;

namespace {

// Keeps what is known of probes.
class ProbedReplay final : public RunReplay {
public:
  Result<void> begin(const output::RunHeader& /*header*/) override { return {}; }
  void write(const output::Record& record) override {
    if (const auto* const probe = record.find<output::ProbeDescription>()) probed.push_back(*probe);
    if (const auto* const types = record.find<output::RecordTypesRecord>())
      record_types.push_back(*types);
    if (const auto* const event = record.find<events::Event>()) events.push_back(*event);
  }

  std::vector<output::ProbeDescription> probed;
  std::vector<output::RecordTypesRecord> record_types;
  std::vector<events::Event> events;
};

struct ReadProbes {
  std::vector<output::ProbeDescription> probed;
  std::optional<Error> error;
};

ReadProbes read_probes(std::string_view file) {
  ProbedReplay replay;
  RunReader reader(replay);
  ReadProbes reading;
  if (auto taken = reader.add(std::as_bytes(std::span(file))); !taken)
    reading.error = taken.error();
  reading.probed = std::move(replay.probed);
  for (output::ProbeDescription& each : reading.probed) each.point = nullptr; // the reader had it
  return reading;
}

} // namespace

TEST_CASE("a saved run has the types of values, and each enumeration once") {
  const resolve::ProbePoint first = saved_point();
  const resolve::ProbePoint second = saved_point();
  const auto color = std::make_shared<values::Enumeration>(
      values::Enumeration{.name = "Color", .enumerators = {{.name = "crimson", .value = -1}}});
  const values::ValueType member{
      .name = "Color", .bits = 8, .is_signed = true, .enumeration = color, .member_name = "shade"};
  const events::PointDescription description{
      .pairs_calls = true,
      .values = {{.name = "item",
                  .type = {.use = values::ValueUse::none, .name = "Item", .members = {member}},
                  .source = "arg1"}},
      .hidden = {"tid"}};
  const std::string made = save_run([&](RunWriter& writer) {
    writer.write(output::ProbeDescription{.point = &first, .probe = 4, .description = description});
    writer.write(
        output::ProbeDescription{.point = &second, .probe = 5, .description = description});
  });
  CHECK(made.find("crimson") == made.rfind("crimson"));
  const std::vector<output::ProbeDescription> probed = read_probes(made).probed;
  REQUIRE(probed.size() == 2);
  CHECK(probed[0].probe == 4);
  CHECK(probed[1].description.pairs_calls);
  CHECK(probed[1].description.hidden == std::vector<std::string>{"tid"});
  const values::DescribedValue& value = probed[1].description.values.at(0);
  CHECK(value.source == "arg1");
  const values::ValueType& read = value.type.members.at(0);
  CHECK(read.member_name == "shade");
  CHECK(read.bits == 8);
  CHECK(read.is_signed);
  REQUIRE(read.enumeration);
  CHECK(read.enumeration->enumerators.at(0).name == "crimson");
  CHECK(read.enumeration->enumerators.at(0).value == -1);
}

TEST_CASE("an enumeration of a saved run that no type has had is damaged") {
  const resolve::ProbePoint probed = saved_point();
  const std::string begin = save_run([&](RunWriter& writer) {
    events::Event event;
    event.point = &probed;
    writer.write(event);
  });
  // Probe 1, record: description: one value, whose type has the enumeration.
  const auto with_enumeration = [&](char number) {
    const std::string type = "\x08\1\x0b\x13\x1c\x0b\x13\x3b\x08"s + number + "\0\0\0\0\0"s;
    return read_probes(begin + hand_made_chunk(27, type));
  };
  const ReadProbes first = with_enumeration(1);
  CHECK_FALSE(first.error);
  REQUIRE(first.probed.size() == 1);
  CHECK(first.probed[0].description.values.at(0).type.enumeration != nullptr);
  const auto error = with_enumeration(2).error;
  REQUIRE(error);
  CHECK_THAT(error->message, Contains("a chunk of kind 27 is invalid"));
}

TEST_CASE("a description of a saved run whose probe has a number that no run gives is damaged") {
  const resolve::ProbePoint probed = saved_point();
  const auto error_of = [&](std::uint32_t number) {
    return read_probes(save_run([&](RunWriter& writer) {
             writer.write(
                 output::ProbeDescription{.point = &probed, .probe = number, .description = {}});
           }))
        .error;
  };
  CHECK_FALSE(error_of((1U << 20) - 1));
  const auto error = error_of(1U << 20);
  REQUIRE(error);
  CHECK_THAT(error->message, Contains("the saved run is damaged: a chunk of kind 27 is invalid"));
}

TEST_CASE("a saved run has the types of records of a user's program, and what was sent") {
  const auto step = std::make_shared<values::Enumeration>(
      values::Enumeration{.name = "step", .enumerators = {{.name = "CRIMSON", .value = 3}}});
  const values::ValueType member{
      .name = "step", .bits = 32, .enumeration = step, .member_name = "step"};
  const auto type = std::make_shared<const values::ValueType>(
      values::ValueType{.use = values::ValueUse::none, .name = "call", .members = {member}});
  const auto make_event = [&](std::shared_ptr<const values::ValueType> known) {
    auto record = std::make_shared<events::UserRecord>();
    record->map = "sent";
    record->value = values::Value{values::Value::Struct{{"step", {values::Value::Hex{3}}}}};
    if (known)
      record->sent =
          values::Value{values::Value::Struct{{"step", {values::Value::Name{"CRIMSON", 3}}}}};
    record->value_type = std::move(known);
    events::Event event;
    event.kind = events::EventKind::record;
    event.record = std::move(record);
    return event;
  };
  const std::string made = save_run([&](RunWriter& writer) {
    writer.write(output::RecordTypesRecord{.types = {*type}});
    for (int i = 0; i < 2; ++i) writer.write(make_event(type));
    writer.write(make_event(nullptr));
  });
  ProbedReplay replay;
  RunReader reader(replay);
  REQUIRE(reader.add(std::as_bytes(std::span(made))));
  REQUIRE(replay.record_types.size() == 1);
  CHECK(replay.record_types[0].types.at(0).members.at(0).bits == 32);
  REQUIRE(replay.events.size() == 3);
  const events::UserRecord& second = *replay.events[1].record;
  REQUIRE(second.value_type);
  CHECK(second.value_type == replay.events[0].record->value_type);
  CHECK(second.value_type->members.at(0).enumeration->enumerators.at(0).name == "CRIMSON");
  REQUIRE(second.sent);
  CHECK(number_of(std::get<values::Value::Struct>(second.sent->value).at(0).value) == 3);
  CHECK_FALSE(replay.events[2].record->value_type);
  CHECK_FALSE(replay.events[2].record->sent);
}

TEST_CASE("a record of a saved run whose type is not in it is damaged") {
  const auto save_records = [](int count) {
    return save_run([&](RunWriter& writer) {
      auto record = std::make_shared<events::UserRecord>();
      record->map = "sent";
      record->value = values::Value{std::int64_t{1}};
      record->value_type =
          std::make_shared<const values::ValueType>(values::ValueType{.name = "long"});
      events::Event event;
      event.kind = events::EventKind::record;
      event.record = std::move(record);
      for (int i = 0; i < count; ++i) writer.write(event);
    });
  };
  const std::string last = save_records(2).substr(save_records(1).size());
  CHECK_FALSE(read_probes(save_records(1) + last).error);
  const auto error = read_probes(save_records(0) + last).error;
  REQUIRE(error);
  CHECK_THAT(error->message, Contains("a chunk of kind 9 is invalid"));
}

TEST_CASE("report says of a run without types that --if needs them, and counts its values") {
  const resolve::ProbePoint probed = saved_point();
  const test::TemporaryFolder folder;
  const std::string path = folder.path / "run.uprobes";
  std::ofstream(path, std::ios::binary) << save_run([&](RunWriter& writer) {
    writer.write(output::AttachedRecord{.mechanism = "multi", .probes = 1, .program = "builtin"});
    for (const std::int64_t number : {5, 6, 5}) {
      events::Event event;
      event.point = &probed;
      event.has_arguments = true;
      event.typed_arguments = {{.name = "n", .type_name = "int", .value = {number}}};
      writer.write(event);
    }
    writer.end();
  });
  const auto report = [&](const trace::ReportRequest& request) {
    std::optional<Error> error;
    const std::string rows = bytes_written([&](int fd) {
      output::Output output(fd, {.json = true, .level = output::OutputOptions::Level::quiet});
      if (const auto reported = report_saved_run(request, output); !reported)
        error = reported.error();
      output.buffer().flush();
    });
    return std::pair(rows, error);
  };
  trace::ReportRequest request{.path = path};
  request.filter = events::parse_filter("n == 5").value();
  const auto [rows, error] = report(request);
  CHECK(rows.empty());
  REQUIRE(error);
  CHECK_THAT(error->message, Contains("--if cannot be answered from this run: the types of its "
                                      "values were not saved"));

  request = {.path = path};
  request.totals.aggregates.counts = true;
  request.totals.groups = events::parse_groups("n", {}).value();
  const auto [counted, problem] = report(request);
  CHECK_FALSE(problem);
  CHECK_THAT(counted, Contains(R"("count":2,)"));
  CHECK_THAT(counted, Contains(R"("value":5,)"));
}

} // namespace uprobectl::saved
