// SPDX-License-Identifier: Apache-2.0
// Reads records of other runs, also of those on devices, from JSON.
#pragma once

#include "output/descriptions.hpp"
#include "output/json_record.hpp"
#include "output/record_types.hpp"
#include "util/json_fields.hpp"
#include "util/json_size.hpp"

namespace uprobectl::output {

// Reads the keys of an object: the `io` of descriptions (output/descriptions.hpp), as far as they
// describe members. Values that may be missing may be null, too. Unknown keys are ignored.
class JsonReader : public JsonFields<JsonReader> {
public:
  JsonReader(const llvm::json::Object& object, JsonProblem& problem, std::string where = {})
      : JsonFields(&object, std::move(where), problem) {}

  // Whether the key has a value that is not null.
  bool has(llvm::StringRef key) const { return find(key) != nullptr; }
  template <typename T>
  void key(llvm::StringRef key, T& value) {
    const llvm::json::Value* const found = find(key);
    if (found != nullptr || !MayBeMissing<T>) read_key(found, key, value);
  }
  void operator()(unsigned /*number*/, llvm::StringRef name, auto& value) { key(name, value); }
  void key_if(bool /*is_there*/, llvm::StringRef key, auto& value) {
    if (has(key)) read_key(find(key), key, value);
  }

private:
  friend JsonFields;
  const llvm::json::Value* find(llvm::StringRef key) const {
    const llvm::json::Value* const value = object()->get(key);
    return value != nullptr && !value->getAsNull() ? value : nullptr;
  }
  void read_object(const llvm::json::Value& value, const std::string& where, Hex& number) {
    number.value = read_hex(value, where);
  }
  void read_object(const llvm::json::Value& value, const std::string& where, auto& member) {
    const llvm::json::Object* const object = value.getAsObject();
    if (object == nullptr) return problem().set(where, "expected an object");
    JsonReader keys(*object, problem(), where);
    describe(keys, member);
  }
};

// Reads a line that JsonRecord has written of a record of this type. Returns nullopt if it is of
// another type or has other values. Such a line may come from a device, so it is not trusted.
template <typename T>
std::optional<T> read_record(std::string_view line) {
  static const std::string start = record_start(record_type<T>);
  if (!line.starts_with(start) || !is_parsable_record(line)) return std::nullopt;
  auto parsed = llvm::json::parse(llvm::StringRef(line.data(), line.size()));
  if (!parsed) {
    llvm::consumeError(parsed.takeError());
    return std::nullopt;
  }
  const llvm::json::Object* const object = parsed->getAsObject();
  if (object == nullptr) return std::nullopt;
  JsonProblem problem;
  JsonReader keys(*object, problem);
  T record;
  describe(keys, record);
  return problem.text.empty() ? std::optional(std::move(record)) : std::nullopt;
}

} // namespace uprobectl::output
