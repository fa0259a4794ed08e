// SPDX-License-Identifier: Apache-2.0
#include "verify/record_file.hpp"

#include "output/descriptions.hpp"
#include "output/json_reader.hpp"
#include "resolve/source_file.hpp"
#include "util/json_size.hpp"

#include <algorithm>
#include <filesystem>
#include <set>
#include <tuple>

namespace uprobectl::verify {

namespace {

namespace fs = std::filesystem;
using llvm::json::Object;

// The target and the entry that its pattern has matched.
std::string library_of(const std::string& target, const std::optional<std::string>& entry) {
  return entry ? target + '\0' + *entry : target;
}

// The entry of the point, unless its target names it.
std::optional<std::string> matched_entry(const resolve::ProbePoint& point) {
  const auto& entry = point.binary->path.entry;
  return entry && !point.binary->target.ends_with("!/" + *entry) ? entry : std::nullopt;
}

// The lines of the file, by their `type`.
constexpr std::string_view record_line = "record";
constexpr std::string_view build_line = "build";
constexpr std::string_view point_line = "point";

struct RecordLine {
  std::uint64_t version = 0;
};
void describe(auto& io, output::Described<RecordLine> auto& record) {
  io.key("version", record.version);
}
struct BuildLine {
  std::string target;
  std::optional<std::string> entry;
  std::string build_id;
};
void describe(auto& io, output::Described<BuildLine> auto& build) {
  io.key("target", build.target);
  io.key_if(build.entry.has_value(), "entry", build.entry);
  io.key("build_id", build.build_id);
}
void describe(auto& io, output::Described<RecordedMatch> auto& match) {
  io.key("target", match.target);
  io.key("request", match.request);
  io.key_if(match.entry.has_value(), "entry", match.entry);
  io.key_if(match.file.has_value(), "file", match.file);
  io.key_if(match.symbol.has_value(), "symbol", match.symbol);
  io.key_if(match.source_file.has_value(), "source_file", match.source_file);
  io.key_if(match.symbol_offset.value != 0, "symbol_offset", match.symbol_offset);
  io.key_if(match.version.has_value(), "version", match.version);
  io.key_if(!match.default_version.value_or(true), "default_version", match.default_version);
  io.key_if(match.offset.has_value(), "offset", match.offset);
  io.key_if(!match.offset || match.offset->value != match.image_offset.value, "image_offset",
            match.image_offset);
  io.key_if(match.table.has_value(), "table", match.table);
  io.key_if(match.clones.has_value(), "clones", match.clones);
  io.key_if(match.is_inlined, "inlined", match.is_inlined);
  io.key_if(match.semaphore.has_value(), "semaphore_address", match.semaphore);
  io.key_if(match.is_static_probe(), "raw_arguments", match.raw_arguments);
  io.key_if(match.details != nullptr, "details", match.details);
}

// Records of listings that are read as points.
constexpr std::string_view match_type = output::record_type<resolve::ProbePoint>;
constexpr std::string_view static_probe_type = output::record_type<output::StaticProbeRecord>;

std::string line_of(std::string_view type, const auto& described) {
  std::string line;
  output::JsonRecord record(line, type);
  describe(record, described);
  record.end();
  return line;
}

// A line of the file, or a record of a listing.
struct ParsedLine {
  std::string type;
  Object object;
};

Result<ParsedLine> parse_record(std::string_view line) {
  if (!is_parsable_record(line))
    return fail(ErrorKind::corrupt, "record of too many values, or nested too deeply");
  auto parsed = llvm::json::parse(llvm::StringRef(line.data(), line.size()));
  if (!parsed) {
    llvm::consumeError(parsed.takeError());
    return fail(ErrorKind::corrupt, "invalid JSON");
  }
  Object* const object = parsed->getAsObject();
  const auto type = object == nullptr ? std::nullopt : object->getString("type");
  if (!type) return fail(ErrorKind::corrupt, "record without a type");
  return ParsedLine{type->str(), std::move(*object)};
}

// Reads a point; also of a `match` or `usdt` record, most of whose keys are the same.
RecordedMatch read_point(const std::string& type, Object& object, JsonProblem& problem) {
  const bool is_short = type == point_line;
  // The function that is inlined at a source line, in those records.
  if (!is_short) object["inlined"] = object.getObject("inlined_into") != nullptr;
  output::JsonReader keys(object, problem);
  RecordedMatch match;
  describe(keys, match);
  if (is_short) {
    FileOffset offset = match.offset.value_or(FileOffset{});
    if (!keys.has("image_offset")) keys.key("offset", offset);
    if (!keys.has("image_offset")) match.image_offset = {offset.value};
    keys.expect(!match.is_static_probe() || (match.symbol && match.symbol->contains(':')), "symbol",
                "expected PROVIDER:NAME");
    return match;
  }
  keys.key("image_offset", match.image_offset);
  // Null in a compressed library.
  keys.expect(object.get("offset") != nullptr, "offset", "expected a number or null");
  keys.key("build_id", match.build_id);
  // A TARGET has the entry of an inner archive as "splits/base.apk!/lib/x.so".
  std::optional<std::string> container;
  keys.key("container", container);
  if (match.entry && container) match.entry = *container + "!/" + *match.entry;
  if (type == match_type) return match;
  std::string provider;
  std::string name;
  keys.key("provider", provider);
  keys.key("name", name);
  keys.key("raw_arguments", match.raw_arguments.emplace());
  match.symbol = provider + ":" + name;
  return match;
}

// The lines of a request in several libraries are apart from each other in the file: joins them at
// the first one.
void join_requests(std::vector<RecordedMatch>& matches) {
  std::map<std::tuple<std::string, std::string, bool>, std::size_t> first_lines;
  const auto request_of = [](const RecordedMatch& match) {
    return std::tuple(match.target, match.request, match.is_static_probe());
  };
  for (const RecordedMatch& match : matches) first_lines.try_emplace(request_of(match), match.line);
  std::ranges::sort(matches, {}, [&](const RecordedMatch& match) {
    return std::pair(first_lines.at(request_of(match)), match.line);
  });
}

} // namespace

Result<void> RecordFileReader::read_line(std::string_view line) {
  ++lines_;
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return {};
  auto parsed = parse_record(line);
  if (!parsed) return fail(parsed.error());
  const std::string& type = parsed->type;
  JsonProblem problem;
  output::JsonReader keys(parsed->object, problem);
  if (type == record_line) {
    RecordLine record;
    describe(keys, record);
    if (record.version > record_version)
      return fail(ErrorKind::unsupported,
                  fmt::format("version {} of records is not supported, only {}", record.version,
                              record_version));
    is_short_ = true;
  } else if (type == build_line) {
    BuildLine build;
    describe(keys, build);
    builds_.insert_or_assign(library_of(build.target, build.entry), build.build_id);
  } else if (type == point_line || type == match_type || type == static_probe_type) {
    RecordedMatch& match = matches_.emplace_back(read_point(type, parsed->object, problem));
    match.line = lines_;
    if (type == point_line) add_short(match);
  }
  if (!problem.text.empty()) return fail(ErrorKind::corrupt, problem.text);
  return {};
}

void RecordFileReader::add_short(RecordedMatch& point) {
  libraries_of_points_.emplace_back(matches_.size() - 1, library_of(point.target, point.entry));
  point.target = target_in_folder(point.target, folder_);
  // A TARGET that names the entry has it as `entry`, too, as in `match` records.
  if (!point.entry)
    for (const BinaryPath& path : parse_candidates(point.target))
      if (path.entry && !point.entry) point.entry = path.entry;
}

std::vector<RecordedMatch> RecordFileReader::take() {
  for (const auto& [index, library] : libraries_of_points_)
    if (const auto build = builds_.find(library); build != builds_.end())
      matches_[index].build_id = build->second;
  if (is_short_) join_requests(matches_);
  return std::move(matches_);
}

std::string relative_target(const std::string& target, const std::optional<std::string>& folder) {
  if (!folder) return target;
  std::error_code error;
  // The file ends at a '!', before an entry or the name of a library, or it is all of TARGET.
  for (std::size_t end = target.size(); end != std::string::npos;
       end = target.find('!', end == target.size() ? 0 : end + 1)) {
    const fs::path name = target.substr(0, end);
    if (!fs::is_regular_file(name, error)) continue;
    const fs::path base = fs::absolute(folder->empty() ? "." : *folder, error).lexically_normal();
    const fs::path file = fs::absolute(name, error).lexically_normal();
    std::string relative = file.lexically_relative(base).string();
    if (relative.empty()) return target;
    if (!relative.starts_with("../")) relative.insert(0, "./");
    return relative + target.substr(end);
  }
  return target;
}

std::string target_in_folder(const std::string& target, const std::optional<std::string>& folder) {
  if (!folder || folder->empty() || *folder == "." ||
      !(target.starts_with("./") || target.starts_with("../")))
    return target;
  const std::string name = target.starts_with("./") ? target.substr(2) : target;
  return folder->ends_with('/') ? *folder + name : *folder + "/" + name;
}

RecordedMatch record_of(const resolve::ProbePoint& point) {
  const usdt::StaticProbe* const probe = point.static_probe.get();
  const auto text_of = [](const auto& word) {
    return word ? std::optional<std::string>(to_string(*word)) : std::nullopt;
  };
  return {.target = point.binary->target,
          .request = point.request,
          .entry = point.binary->path.entry,
          .file = point.offset ? std::optional(point.binary->real_path) : std::nullopt,
          .offset = point.offset,
          .image_offset = point.image_offset,
          .symbol = point.symbol,
          .symbol_offset = {point.symbol_offset},
          .version = point.version,
          .default_version = point.default_version,
          .build_id = point.binary->build_id,
          .table = text_of(point.table),
          .source_file = point.source_file,
          .is_inlined = point.inlined_into != nullptr,
          .clones = text_of(point.clones),
          .semaphore = probe != nullptr ? probe->semaphore : std::nullopt,
          .raw_arguments = probe != nullptr ? std::optional(probe->raw_arguments) : std::nullopt,
          .details = point.details};
}

std::string write_record(std::span<const resolve::ProbePoint> recorded,
                         const std::optional<std::string>& folder) {
  std::vector<resolve::ProbePoint> points(recorded.begin(), recorded.end());
  resolve::set_source_files(points, {});
  // Points are sorted by the name of the request, so that a moved function changes one line and
  // moves none.
  using Key = std::tuple<std::string, std::string, std::string, std::string, std::uint64_t>;
  std::set<std::pair<Key, std::string>> lines;
  std::map<std::string, std::string> builds;
  std::map<std::string, std::string> targets; // relative ones
  for (const resolve::ProbePoint& point : points) {
    const resolve::ProbedBinary& binary = *point.binary;
    const auto [known, is_new] = targets.try_emplace(binary.target);
    if (is_new) known->second = relative_target(binary.target, folder);
    RecordedMatch match = record_of(point);
    match.target = known->second;
    match.entry = matched_entry(point);
    // The file is recorded only for "*", which stands for all files of a process and does not say
    // which one it is.
    if (binary.path.entry || match.target != "*") match.file.reset();
    if (binary.build_id) {
      const BuildLine build{match.target, match.entry, *binary.build_id};
      builds.insert_or_assign(library_of(match.target, match.entry), line_of(build_line, build));
    }
    lines.emplace(Key{match.target, match.entry.value_or(""), match.request,
                      match.symbol.value_or(""), match.image_offset.value},
                  line_of(point_line, match));
  }
  std::string text = line_of(record_line, RecordLine{record_version});
  for (const auto& [library, line] : builds) text += line;
  for (const auto& [key, line] : lines) text += line;
  return text;
}

} // namespace uprobectl::verify
