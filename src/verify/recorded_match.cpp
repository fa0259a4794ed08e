// SPDX-License-Identifier: Apache-2.0
#include "verify/recorded_match.hpp"

#include "util/json_size.hpp"
#include "util/numbers.hpp"

#include <llvm/Support/JSON.h>

namespace uprobectl::verify {

namespace {

// Reads a number written as "0x2a".
std::optional<std::uint64_t> number_at(const llvm::json::Object& object, llvm::StringRef key) {
  const auto text = object.getString(key);
  if (!text || !text->starts_with("0x")) return std::nullopt;
  return parse_number<std::uint64_t>(text->drop_front(2), 16);
}

// Returns the entry as a TARGET has it: "splits/base.apk!/lib/x.so" in an inner archive.
std::optional<std::string> entry_of(const llvm::json::Object& object) {
  auto entry = json_text(object, "entry");
  if (const auto container = json_text(object, "container"); entry && container)
    entry = *container + "!/" + *entry;
  return entry;
}

// Reads a `usdt` record.
Result<std::optional<RecordedMatch>> static_record(const llvm::json::Object& object,
                                                   std::string target, std::string request,
                                                   std::optional<std::uint64_t> offset,
                                                   std::uint64_t image_offset) {
  const auto provider = json_text(object, "provider");
  const auto name = json_text(object, "name");
  const auto arguments = json_text(object, "raw_arguments");
  if (!provider || !name || !arguments)
    return fail(ErrorKind::corrupt, "usdt record without provider, name or raw_arguments");
  RecordedMatch match{.target = std::move(target),
                      .request = std::move(request),
                      .entry = entry_of(object),
                      .file = json_text(object, "file"),
                      .offset = offset,
                      .image_offset = image_offset,
                      .symbol = *provider + ":" + *name,
                      .version = std::nullopt,
                      .build_id = json_text(object, "build_id")};
  match.static_probe = {.semaphore_offset = number_at(object, "semaphore_offset"),
                        .semaphore_address = number_at(object, "semaphore_address"),
                        .raw_arguments = *arguments};
  return match;
}

std::optional<std::uint64_t> count_at(const llvm::json::Object& object, llvm::StringRef key) {
  const auto number = object.getInteger(key);
  return number && *number >= 0 ? std::optional(static_cast<std::uint64_t>(*number)) : std::nullopt;
}

// Reads a list, each of whose elements `read` accepts. A missing list and null are nullopt.
template <typename T, typename Read>
Result<std::optional<std::vector<T>>> list_at(const llvm::json::Object& object, llvm::StringRef key,
                                              const Read& read) {
  const auto* const value = object.get(key);
  if (value == nullptr || value->getAsNull()) return std::nullopt;
  const auto* const array = value->getAsArray();
  std::vector<T> list;
  if (array != nullptr)
    for (const auto& element : *array)
      if (std::optional<T> made = read(element)) list.push_back(std::move(*made));
  if (array == nullptr || list.size() != array->size())
    return fail(ErrorKind::corrupt, "details with an invalid list '" + key.str() + "'");
  return list;
}

std::optional<resolve::DetailParameter> read_parameter(const llvm::json::Value& value) {
  const auto* const object = value.getAsObject();
  const auto name = object != nullptr ? json_text(*object, "name") : std::nullopt;
  const auto type = object != nullptr ? json_text(*object, "type_name") : std::nullopt;
  if (!name || !type) return std::nullopt;
  return resolve::DetailParameter{.name = *name, .type = *type};
}

struct MemberOfStructure {
  std::string structure;
  resolve::DetailMember member;
};
std::optional<MemberOfStructure> read_member(const llvm::json::Value& value) {
  const auto* const object = value.getAsObject();
  if (object == nullptr) return std::nullopt;
  const auto structure = json_text(*object, "structure");
  const auto name = json_text(*object, "name");
  const auto type = json_text(*object, "type_name");
  const auto offset = count_at(*object, "offset");
  const auto size = count_at(*object, "size");
  if (!structure || !name || !type || !offset || !size) return std::nullopt;
  return MemberOfStructure{.structure = *structure,
                           .member = {.name = *name,
                                      .type = *type,
                                      .offset = *offset,
                                      .size = *size,
                                      .bit_offset = count_at(*object, "bit_offset"),
                                      .bit_size = count_at(*object, "bit_size")}};
}

// The members of a structure stand together.
std::vector<std::shared_ptr<const resolve::DetailStructure>>
make_structures(std::vector<MemberOfStructure> members) {
  std::vector<std::shared_ptr<const resolve::DetailStructure>> structures;
  std::shared_ptr<resolve::DetailStructure> last;
  for (MemberOfStructure& each : members) {
    if (!last || last->name != each.structure) {
      last = std::make_shared<resolve::DetailStructure>(
          resolve::DetailStructure{.name = std::move(each.structure)});
      structures.push_back(last);
    }
    last->members.push_back(std::move(each.member));
  }
  return structures;
}

Result<std::shared_ptr<const resolve::PointDetails>>
read_details(const llvm::json::Object& object) {
  auto parameters = list_at<resolve::DetailParameter>(object, "parameters", read_parameter);
  auto members = list_at<MemberOfStructure>(object, "members", read_member);
  auto exits = list_at<std::int64_t>(object, "exits", [](const llvm::json::Value& value) {
    const auto number = value.getAsInteger();
    return number ? std::optional<std::int64_t>(*number) : std::nullopt;
  });
  auto pages = list_at<std::string>(object, "pages", [](const llvm::json::Value& value) {
    const auto text = value.getAsString();
    return text ? std::optional(text->str()) : std::nullopt;
  });
  if (!parameters) return fail(std::move(parameters).error());
  if (!members) return fail(std::move(members).error());
  if (!exits) return fail(std::move(exits).error());
  if (!pages) return fail(std::move(pages).error());
  return std::make_shared<const resolve::PointDetails>(resolve::PointDetails{
      .parameters = std::move(*parameters),
      .result = json_text(object, "result"),
      .structures = make_structures(std::move(*members).value_or(std::vector<MemberOfStructure>())),
      .exits = std::move(*exits),
      .code = json_text(object, "code").value_or(""),
      .pages = std::move(*pages).value_or(std::vector<std::string>())});
}

} // namespace

std::optional<std::string> json_text(const llvm::json::Object& object, std::string_view key) {
  const auto value = object.getString(llvm::StringRef(key.data(), key.size()));
  return value ? std::optional(value->str()) : std::nullopt;
}

Result<std::shared_ptr<const resolve::PointDetails>> details_at(const llvm::json::Object& object) {
  const auto* const value = object.get("details");
  if (value == nullptr || value->getAsNull()) return nullptr;
  const auto* const details = value->getAsObject();
  if (details == nullptr) return fail(ErrorKind::corrupt, "details that are not an object");
  return read_details(*details);
}

Result<llvm::json::Object> parse_record(std::string_view line) {
  if (!is_parsable_record(line))
    return fail(ErrorKind::corrupt, "record of too many values, or nested too deeply");
  auto parsed = llvm::json::parse(llvm::StringRef(line.data(), line.size()));
  if (!parsed) {
    llvm::consumeError(parsed.takeError());
    return fail(ErrorKind::corrupt, "invalid JSON");
  }
  llvm::json::Object* const object = parsed->getAsObject();
  if (object == nullptr || !object->getString("type"))
    return fail(ErrorKind::corrupt, "record without a type");
  return std::move(*object);
}

Result<std::optional<RecordedMatch>> read_match_record(const llvm::json::Object& object) {
  const auto type = object.getString("type");
  if (type != "match" && type != "usdt") return std::nullopt;

  const auto target = json_text(object, "target");
  const auto request = json_text(object, "request");
  const auto offset = number_at(object, "offset");
  const auto image_offset = number_at(object, "image_offset");
  // "offset":null is valid for a compressed library.
  const auto* const written = object.get("offset");
  const bool inflated = written != nullptr && written->getAsNull();
  if (!target || !request || (!offset && !inflated) || !image_offset)
    return fail(ErrorKind::corrupt, "record without target, request, offset or image_offset");
  auto details = details_at(object);
  if (!details) return fail(std::move(details).error());
  if (type == "usdt") {
    auto match = static_record(object, *target, *request, offset, *image_offset);
    if (match && *match) (*match)->details = std::move(*details);
    return match;
  }
  return RecordedMatch{.target = *target,
                       .request = *request,
                       .entry = entry_of(object),
                       .file = json_text(object, "file"),
                       .offset = offset,
                       .image_offset = *image_offset,
                       .symbol = json_text(object, "symbol"),
                       .symbol_offset = number_at(object, "symbol_offset").value_or(0),
                       .version = json_text(object, "version"),
                       .is_old_version = object.getBoolean("default_version") == false,
                       .build_id = json_text(object, "build_id"),
                       .table = json_text(object, "table"),
                       .is_inlined = object.getObject("inlined_into") != nullptr,
                       .clones = json_text(object, "clones"),
                       .details = std::move(*details)};
}

} // namespace uprobectl::verify
