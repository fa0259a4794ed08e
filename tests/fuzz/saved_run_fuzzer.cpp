// SPDX-License-Identifier: Apache-2.0
// A saved run. Its first byte says how many bytes are read at a time; the head of the file is
// added.
#include "events/event_filter.hpp"
#include "events/record_filter.hpp"
#include "output/exports.hpp"
#include "output/output.hpp"
#include "saved/run_reader.hpp"

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>

using namespace uprobectl;

namespace {

// Uses all that it receives, as `report` does.
class Replay final : public saved::RunReplay {
public:
  Replay(output::Recorder& text, output::Recorder& json, output::Exports& files)
      : text_(text), json_(json), files_(files) {
    if (auto filter = events::parse_filter("a.b[1] < 2 || (a != 0.5 && ret ^= \"x\") || pid == 1"))
      spec_ = std::move(*filter);
    if (auto made = events::EventFilter::make(spec_, {})) filter_.emplace(std::move(*made));
    if (auto made = events::RecordFilter::make(spec_)) records_.emplace(std::move(*made));
  }
  Result<void> begin(const output::RunHeader&) override { return {}; }
  void write(const output::Record& record) override {
    text_.write(record);
    json_.write(record);
    record.visit([this](const auto& each) { take(each); });
  }
  void flush_rows() override { text_.flush_rows(); }

private:
  void take(const auto& /*record*/) {}
  void take(const output::ProbeDescription& record) {
    values_.describe(record.probe, record.description);
    if (filter_) filter_->add_point(record.probe, record.description, "f");
  }
  void take(const output::RecordTypesRecord& record) {
    if (records_) static_cast<void>(records_->check(record.types));
  }
  void take(const events::Event& event) {
    if (records_ && event.record) static_cast<void>(records_->holds(event));
    if (filter_) static_cast<void>(filter_->decide(event));
    static_cast<void>(values_.find("a.b[1]", event));
    static_cast<void>(values_.find_weight(weight_, event));
  }
  void take(const output::SpanSummaryRecord& record) { files_.write(record); }
  void take(const output::StackSample& stack) { files_.write(stack); }
  void take(const output::ClockRecord& record) { files_.write(record); }

  events::Filter spec_;
  std::optional<events::EventFilter> filter_;
  std::optional<events::RecordFilter> records_;
  events::EventValues values_;
  events::SummedValue weight_ = *events::parse_summed_value("ret");
  output::Recorder& text_;
  output::Recorder& json_;
  output::Exports& files_;
};

} // namespace

int fuzz_saved_run(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string file(saved::magic);
  for (unsigned shift = 0; shift < 32; shift += 8)
    file += static_cast<char>(saved::format_version >> shift);
  file.append(data + 1, data + size);
  const std::size_t step = std::size_t{data[0]} * 16 + 1;
  const UniqueFd nowhere{::open("/dev/null", O_WRONLY | O_CLOEXEC)};
  output::OutputBuffer text(nowhere.get());
  output::OutputBuffer json(nowhere.get());
  const auto text_formatter = make_text_formatter(text, {.aligned = (data[0] & 1U) != 0});
  const auto json_formatter = make_json_formatter(json);
  const output::ExportRequest folded{.path = "/dev/null", .format = output::ExportFormat::folded};
  output::Output output(-1, {});
  auto files = output::Exports::open(std::span(&folded, 1), output);
  if (!files) std::abort();
  Replay replay(*text_formatter, *json_formatter, **files);
  (*files)->begin({});
  saved::RunReader reader(replay);
  for (std::size_t at = 0; at < file.size(); at += step) {
    const auto piece = std::string_view(file).substr(at, step);
    if (!reader.add(std::as_bytes(std::span(piece)))) break;
    if (reader.whole_bytes() > std::min(at + step, file.size())) std::abort();
  }
  static_cast<void>((*files)->finish({}));
  return 0;
}
