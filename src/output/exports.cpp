// SPDX-License-Identifier: Apache-2.0
#include "output/exports.hpp"

#include "output/output.hpp"
#include "uprobectl/path.hpp"
#include "util/protobuf_reader.hpp"
#include "util/text.hpp"

#include <filesystem>
#include <fmt/format.h>
#include <limits>
#include <sys/stat.h>
#include <sys/utsname.h>

namespace uprobectl::output {

namespace {

struct FormatName {
  ExportFormat format;
  std::string_view name;
  std::string_view extension;
  Result<std::unique_ptr<Export>> (*open)(const std::string& path, Workstation& workstation);
};

constexpr FormatName format_names[] = {
    {ExportFormat::perfetto, "perfetto", ".pftrace", open_perfetto_trace},
    {ExportFormat::chrome, "chrome", ".trace.json", open_chrome_trace},
    {ExportFormat::pprof, "pprof", ".pb.gz", open_pprof_profile},
    {ExportFormat::folded, "folded", ".folded", open_folded_stacks},
    {ExportFormat::flame_graph, "flamegraph", ".svg", open_flame_graph},
    {ExportFormat::page, "html", ".html", open_page},
};

// Returns nullopt if the path is not a regular file: pipes and devices can receive several outputs.
std::optional<FileIdentity> find_regular_file(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return FileIdentity{.device = status.st_dev, .inode = status.st_ino};
}

// Whether the path is a pipe or a device.
bool is_other_kind(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
}

bool are_one_file(const ExportRequest& one, const ExportRequest& other) {
  std::error_code error; // then the paths are empty
  const auto canonical = [&](const ExportRequest& request) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(request.path, error), error);
  };
  if (!canonical(one).empty() && canonical(one) == canonical(other))
    return !is_other_kind(one.path);
  const auto file = find_regular_file(one.path);
  return file && file == find_regular_file(other.path);
}

} // namespace

std::optional<ExportFormat> export_format_of(std::string_view path) {
  for (const FormatName& each : format_names)
    if (path.ends_with(each.extension)) return each.format;
  return std::nullopt;
}

std::optional<ExportFormat> parse_export_format(std::string_view name) {
  for (const FormatName& each : format_names)
    if (each.name == name) return each.format;
  return std::nullopt;
}

std::string describe_system() {
  utsname names{};
  ::uname(&names); // fails only for a bad address
  return fmt::format("{} {} {}", names.sysname, names.release, names.machine);
}

Result<void> check_different_files(std::span<const ExportRequest> requests) {
  for (std::size_t i = 0; i < requests.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (are_one_file(requests[k], requests[i]))
        return fail(ErrorKind::usage,
                    requests[k].option + " and " + requests[i].option + " need different files");
  return {};
}

std::string_view module_name(const resolve::ProbePoint& point) {
  const resolve::ProbedBinary& binary = *point.binary;
  return file_name_of(binary.path.entry ? *binary.path.entry : std::string_view(binary.real_path));
}

std::string valid_utf8(std::string_view text, std::size_t max_bytes) {
  std::string valid;
  valid.reserve(std::min(text.size(), max_bytes));
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    const std::string_view character = length == 0 ? "\ufffd" : text.substr(at, length);
    if (character.size() > max_bytes - std::min(valid.size(), max_bytes)) return valid + "…";
    valid += character;
    at += std::max<std::size_t>(length, 1);
  }
  return valid;
}

Result<std::unique_ptr<Exports>> Exports::open(std::span<const ExportRequest> requests,
                                               Output& output) {
  if (auto checked = check_different_files(requests); !checked)
    return fail(std::move(checked).error());
  auto exports = std::make_unique<Exports>(output);
  for (const ExportRequest& request : requests)
    for (const FormatName& each : format_names) {
      if (each.format != request.format) continue;
      auto opened = each.open(request.path, output.workstation());
      if (!opened) return fail(std::move(opened).error());
      exports->exports_.push_back(std::move(*opened));
    }
  if (!exports->empty()) output.add_recorder(*exports);
  return exports;
}

Exports::~Exports() { output_.remove_recorder(*this); }

void Exports::begin(ExportedRun run) {
  run_ = std::move(run);
  is_running_ = true;
  for (const auto& each : exports_) each->begin(run_);
}

void Exports::write(const Record& record) {
  const bool is_event = record.find<events::Event>() != nullptr;
  const bool is_sum =
      record.find<CountRecord>() != nullptr || record.find<HistogramRecord>() != nullptr;
  // A run sends events or their sums. `report` may also sum up the events of a saved run: exports
  // then get only the events.
  if (!is_running_ || (is_event && run_.header.graph) || (is_sum && run_.header.sends_events))
    return;
  const auto* const sample = record.find<StackSample>();
  if (sample == nullptr) {
    for (const auto& each : exports_) each->write(record);
    return;
  }
  hits_ += sample->hits;
  StackSample weighed = *sample;
  // A weight is a width, so it has no sign. One from 2^63 on, such as a size_t of -1, would hide
  // all others.
  if (weighed.value && static_cast<std::int64_t>(*weighed.value) < 0) {
    weighed.value.reset();
    negative_ += weighed.hits;
  }
  if (run_.header.value_unit && !weighed.value) unweighed_ += weighed.hits;
  for (const auto& each : exports_) each->write(weighed);
}

void Exports::opened(const events::OpenCall& call, const events::Event& entry) {
  for (const auto& each : exports_) each->opened(call, entry);
}

void Exports::closed(const events::OpenCall& call, events::CallEnd end, std::uint64_t end_ns,
                     const events::Event* exit) {
  for (const auto& each : exports_) each->closed(call, end, end_ns, exit);
}

// perfetto/trace/trace.proto: a Trace is a sequence of fields 1, `packet`.
std::uint64_t Exports::add_trace(Bytes trace) {
  constexpr std::uint32_t packet_field = 1;
  ProtobufReader reader(trace, std::numeric_limits<std::size_t>::max());
  std::uint64_t at = 0;
  while (at < trace.size()) {
    const std::uint64_t begin = at;
    const auto packet = reader.take(at, trace.size());
    if (!packet || packet->number != packet_field || packet->type != WireType::bytes) return begin;
    for (const auto& each : exports_)
      each->add_packet(as_text(trace.subspan(begin, packet->end - begin)));
  }
  return at;
}

Result<void> Exports::flush() {
  if (is_running_)
    for (const auto& each : exports_) static_cast<void>(each->flush());
  return {};
}

std::vector<Error> Exports::finish(ExportedEnd end) {
  is_running_ = false;
  std::vector<Error> errors;
  if (negative_ > 0 && !exports_.empty())
    output_.warn(
        fmt::format("{} no weight in the exported stacks: '{}' was negative, or 2^63 or more",
                    negative_ == 1 ? "1 hit has" : fmt::format("{} hits have", negative_),
                    run_.header.value_unit.value_or("the value")));
  if (unweighed_ > 0)
    end.summary += fmt::format(", {} without {}", unweighed_, *run_.header.value_unit);
  for (const auto& each : exports_)
    if (auto finished = each->finish(end); !finished) errors.push_back(std::move(finished).error());
  if (!exports_.empty() && hits_ > 0 && unweighed_ == hits_)
    errors.push_back(
        Error{ErrorKind::not_found,
              fmt::format("--weight: no hit has a value '{}'", *run_.header.value_unit)}
            .hint("name a value that events show: see them without exports, or declare it with "
                  "--args"));
  return errors;
}

} // namespace uprobectl::output
