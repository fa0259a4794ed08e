// SPDX-License-Identifier: Apache-2.0
#include "output/recorded_match.hpp"

#include "output/records.hpp"
#include "util/json_size.hpp"
#include "util/numbers.hpp"

#include <llvm/Support/JSON.h>

namespace uprobectl {

namespace {

std::optional<std::string> text_at(const llvm::json::Object& object, llvm::StringRef key) {
  const auto value = object.getString(key);
  return value ? std::optional(value->str()) : std::nullopt;
}

// Reads a number written as "0x2a".
std::optional<std::uint64_t> number_at(const llvm::json::Object& object, llvm::StringRef key) {
  const auto text = object.getString(key);
  if (!text || !text->starts_with("0x")) return std::nullopt;
  return parse_number<std::uint64_t>(text->drop_front(2), 16);
}

// Returns the entry as a TARGET has it: "splits/base.apk!/lib/x.so" in an inner archive.
std::optional<std::string> entry_of(const llvm::json::Object& object) {
  auto entry = text_at(object, "entry");
  if (const auto container = text_at(object, "container"); entry && container)
    entry = *container + "!/" + *entry;
  return entry;
}

// Reads a `usdt` record.
Result<std::optional<RecordedMatch>> static_record(const llvm::json::Object& object,
                                                   std::string target, std::string request,
                                                   std::optional<std::uint64_t> offset,
                                                   std::uint64_t image_offset) {
  const auto provider = text_at(object, "provider");
  const auto name = text_at(object, "name");
  const auto arguments = text_at(object, "raw_arguments");
  if (!provider || !name || !arguments)
    return fail(ErrorKind::corrupt, "usdt record without provider, name or raw_arguments");
  RecordedMatch match{.target = std::move(target),
                      .request = std::move(request),
                      .entry = entry_of(object),
                      .file = text_at(object, "file"),
                      .offset = offset,
                      .image_offset = image_offset,
                      .symbol = *provider + ":" + *name,
                      .version = std::nullopt,
                      .build_id = text_at(object, "build_id")};
  match.static_probe = {.semaphore_offset = number_at(object, "semaphore_offset"),
                        .semaphore_address = number_at(object, "semaphore_address"),
                        .raw_arguments = *arguments};
  return match;
}

} // namespace

Result<std::optional<RecordedMatch>> read_match_record(std::string_view line) {
  if (!is_parsable_record(line))
    return fail(ErrorKind::corrupt, "record of too many values, or nested too deeply");
  auto parsed = llvm::json::parse(llvm::StringRef(line.data(), line.size()));
  if (!parsed) {
    llvm::consumeError(parsed.takeError());
    return fail(ErrorKind::corrupt, "invalid JSON");
  }
  const llvm::json::Object* object = parsed->getAsObject();
  const auto type = object != nullptr ? object->getString("type") : std::nullopt;
  if (!type) return fail(ErrorKind::corrupt, "record without a type");
  if (*type != "match" && *type != "usdt") return std::nullopt;

  const auto target = text_at(*object, "target");
  const auto request = text_at(*object, "request");
  const auto offset = number_at(*object, "offset");
  const auto image_offset = number_at(*object, "image_offset");
  // "offset":null is valid for a compressed library.
  const auto* const written = object->get("offset");
  const bool inflated = written != nullptr && written->getAsNull();
  if (!target || !request || (!offset && !inflated) || !image_offset)
    return fail(ErrorKind::corrupt, "record without target, request, offset or image_offset");
  if (*type == "usdt") return static_record(*object, *target, *request, offset, *image_offset);
  return RecordedMatch{.target = *target,
                       .request = *request,
                       .entry = entry_of(*object),
                       .file = text_at(*object, "file"),
                       .offset = offset,
                       .image_offset = *image_offset,
                       .symbol = text_at(*object, "symbol"),
                       .symbol_offset = number_at(*object, "symbol_offset").value_or(0),
                       .version = text_at(*object, "version"),
                       .build_id = text_at(*object, "build_id"),
                       .table = text_at(*object, "table"),
                       .is_inlined = object->getObject("inlined_into") != nullptr,
                       .clones = text_at(*object, "clones")};
}

std::string_view to_string(DriftRecord::Change change) {
  switch (change) {
  case DriftRecord::Change::gone:
    return "gone";
  case DriftRecord::Change::added:
    return "new";
  case DriftRecord::Change::function_moved:
    return "function_moved";
  case DriftRecord::Change::archive_moved:
    return "archive_moved";
  case DriftRecord::Change::semaphore_moved:
    return "semaphore_moved";
  case DriftRecord::Change::arguments:
    return "arguments";
  case DriftRecord::Change::not_checked:
    return "not_checked";
  case DriftRecord::Change::build_id:
    return "build_id";
  }
  return "";
}

} // namespace uprobectl
