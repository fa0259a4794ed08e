// SPDX-License-Identifier: Apache-2.0
#include "verify/record_file.hpp"

#include "output/descriptions.hpp"
#include "output/json_record.hpp"
#include "util/numbers.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <llvm/Support/JSON.h>
#include <set>
#include <tuple>

namespace uprobectl::verify {

namespace {

namespace fs = std::filesystem;
using llvm::json::Object;

// Fails if the key is there and is not a number.
Result<std::optional<std::uint64_t>> record_number(const Object& object, llvm::StringRef key) {
  const auto* const value = object.get(key);
  if (value == nullptr) return std::nullopt;
  const auto text = value->getAsString();
  const auto number = text && text->starts_with("0x")
                          ? parse_number<std::uint64_t>(text->drop_front(2), 16)
                          : std::nullopt;
  if (!number) return fail(ErrorKind::corrupt, fmt::format("invalid number for '{}'", key.str()));
  return number;
}

// The target and the entry that its pattern has matched.
std::string library_of(const std::string& target, const std::optional<std::string>& entry) {
  return entry ? target + '\0' + *entry : target;
}

Result<RecordedMatch> read_point(const Object& object) {
  const auto target = json_text(object, "target");
  const auto request = json_text(object, "request");
  const auto offset = record_number(object, "offset");
  const auto image_offset = record_number(object, "image_offset");
  const auto symbol_offset = record_number(object, "symbol_offset");
  const auto semaphore = record_number(object, "semaphore_address");
  for (const auto* number : {&offset, &image_offset, &symbol_offset, &semaphore})
    if (!*number) return fail(number->error());
  if (!target || !request || (!*offset && !*image_offset))
    return fail(ErrorKind::corrupt, "point without target, request or offset");
  RecordedMatch match{.target = *target,
                      .request = *request,
                      .entry = json_text(object, "entry"),
                      .file = json_text(object, "file"),
                      .offset = *offset,
                      .image_offset = image_offset->value_or(offset->value_or(0)),
                      .symbol = json_text(object, "symbol"),
                      .symbol_offset = symbol_offset->value_or(0),
                      .version = json_text(object, "version"),
                      .is_old_version = object.getBoolean("default_version") == false,
                      .build_id = std::nullopt,
                      .table = json_text(object, "table"),
                      .is_inlined = object.getBoolean("inlined").value_or(false),
                      .clones = json_text(object, "clones")};
  auto details = details_at(object);
  if (!details) return fail(std::move(details).error());
  match.details = std::move(*details);
  if (const auto arguments = json_text(object, "raw_arguments")) {
    if (!match.symbol || !match.symbol->contains(':'))
      return fail(ErrorKind::corrupt, "point of a static probe without its name");
    match.static_probe = {.semaphore_offset = std::nullopt,
                          .semaphore_address = *semaphore,
                          .raw_arguments = *arguments};
  }
  return match;
}

// The entry of the point, unless its target names it.
std::optional<std::string> matched_entry(const resolve::ProbePoint& point) {
  const auto& entry = point.binary->path.entry;
  return entry && !point.binary->target.ends_with("!/" + *entry) ? entry : std::nullopt;
}

std::string point_line(const resolve::ProbePoint& point, const std::string& target) {
  std::string line;
  output::JsonRecord record(line, "point");
  record.key("target", target);
  record.key("request", point.request);
  const auto entry = matched_entry(point);
  record.key_if(entry.has_value(), "entry", entry);
  const bool is_of_process = !point.binary->path.entry && target == "*";
  record.key_if(is_of_process, "file", point.binary->real_path);
  record.key_if(point.symbol.has_value(), "symbol", point.symbol);
  record.key_if(point.symbol_offset != 0, "symbol_offset", output::Hex{point.symbol_offset});
  record.key_if(point.version.has_value(), "version", point.version);
  record.key_if(point.default_version == false, "default_version", false);
  record.key_if(point.offset.has_value(), "offset", point.offset);
  record.key_if(!point.offset || point.offset->value != point.image_offset.value, "image_offset",
                point.image_offset);
  record.key_if(point.table.has_value(), "table", point.table);
  record.key_if(point.clones.has_value(), "clones", point.clones);
  record.key_if(point.inlined_into != nullptr, "inlined", true);
  if (const usdt::StaticProbe* const probe = point.static_probe.get()) {
    record.key_if(probe->semaphore.has_value(), "semaphore_address", probe->semaphore);
    record.key("raw_arguments", probe->raw_arguments);
  }
  record.key_if(point.details != nullptr, "details", point.details);
  record.end();
  return line;
}

} // namespace

Result<void> RecordFileReader::read_line(std::string_view line) {
  ++lines_;
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return {};
  const auto object = parse_record(line);
  if (!object) return fail(object.error());
  auto match = read_match_record(*object);
  if (!match) return fail(std::move(match).error());
  if (*match) {
    matches_.push_back(std::move(**match));
    matches_.back().line = lines_;
    return {};
  }
  const auto type = *object->getString("type");
  if (type == "record") {
    const auto version = object->getInteger("version");
    if (!version || *version < 0) return fail(ErrorKind::corrupt, "record without a version");
    if (static_cast<std::uint64_t>(*version) > record_version)
      return fail(
          ErrorKind::unsupported,
          fmt::format("version {} of records is not supported, only {}", *version, record_version));
    is_short_ = true;
  } else if (type == "build") {
    const auto target = json_text(*object, "target");
    const auto build_id = json_text(*object, "build_id");
    if (!target || !build_id) return fail(ErrorKind::corrupt, "build without target or build_id");
    builds_.insert_or_assign(library_of(*target, json_text(*object, "entry")), *build_id);
  } else if (type == "point") {
    auto point = read_point(*object);
    if (!point) return fail(std::move(point).error());
    libraries_of_points_.emplace_back(matches_.size(), library_of(point->target, point->entry));
    point->line = lines_;
    point->target = target_in_folder(point->target, folder_);
    // As in `match` records, a TARGET that names the entry has it, too.
    if (!point->entry)
      for (const BinaryPath& path : parse_candidates(point->target))
        if (path.entry && !point->entry) point->entry = path.entry;
    matches_.push_back(std::move(*point));
  }
  return {};
}

std::vector<RecordedMatch> RecordFileReader::take() {
  for (const auto& [index, library] : libraries_of_points_)
    if (const auto build = builds_.find(library); build != builds_.end())
      matches_[index].build_id = build->second;
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

std::string write_record(std::span<const resolve::ProbePoint> points,
                         const std::optional<std::string>& folder) {
  // By the name of the request, so that a moved function changes one line and moves none.
  using Key = std::tuple<std::string, std::string, std::string, std::string, std::uint64_t>;
  std::set<std::pair<Key, std::string>> lines;
  std::map<std::string, std::string> builds;
  std::map<std::string, std::string> targets; // relative ones
  for (const resolve::ProbePoint& point : points) {
    const resolve::ProbedBinary& binary = *point.binary;
    const auto [known, is_new] = targets.try_emplace(binary.target);
    if (is_new) known->second = relative_target(binary.target, folder);
    const std::string& target = known->second;
    const auto entry = matched_entry(point);
    if (binary.build_id) {
      std::string line;
      output::JsonRecord record(line, "build");
      record.key("target", target);
      record.key_if(entry.has_value(), "entry", entry);
      record.key("build_id", binary.build_id);
      record.end();
      builds.insert_or_assign(library_of(target, entry), std::move(line));
    }
    lines.emplace(Key{target, entry.value_or(""), point.request, point.symbol.value_or(""),
                      point.image_offset.value},
                  point_line(point, target));
  }
  std::string text = fmt::format("{{\"type\":\"record\",\"version\":{}}}\n", record_version);
  for (const auto& [library, line] : builds) text += line;
  for (const auto& [key, line] : lines) text += line;
  return text;
}

} // namespace uprobectl::verify
