// SPDX-License-Identifier: Apache-2.0
#include "plans/descriptions.hpp"
#include "util/json_fields.hpp"
#include "util/json_size.hpp"

#include <set>

namespace uprobectl::plans {

namespace {

using llvm::json::Array;
using llvm::json::Value;

// Enough for "files" > "probes" > "values" > "globals" > "variable" > "location" > "length" >
// "pieces" > "loads".
constexpr std::size_t max_nesting = 20;

// Checks what bounds the parser's recursion and memory.
Result<void> check_size(std::string_view text) {
  if (text.size() > max_plan_bytes)
    return fail(ErrorKind::corrupt, fmt::format("not a valid plan: {} bytes, at most {} are read",
                                                text.size(), max_plan_bytes));
  const JsonSize size = measure_json(text);
  if (size.depth > max_nesting)
    return fail(ErrorKind::corrupt, "not a valid plan: it is nested too deeply");
  if (size.values > max_plan_values)
    return fail(ErrorKind::corrupt, "not a valid plan: it has too many values");
  return {};
}

Result<Value> parse(std::string_view text) {
  if (measure_json(text).objects > max_json_objects)
    return fail(ErrorKind::corrupt, fmt::format("more than {} objects", max_json_objects));
  auto parsed = llvm::json::parse(llvm::StringRef(text.data(), text.size()));
  if (!parsed) return fail(ErrorKind::corrupt, "not JSON: " + llvm::toString(parsed.takeError()));
  return std::move(*parsed);
}

// The state that the readers of one plan share.
struct Reading {
  std::span<const std::string_view> parts; // of split_json()
  std::uint64_t version = 0;
  std::shared_ptr<dwarf::DescribedTypes> types = {}; // of the file; null: it has none
  JsonProblem problem = {};
};

// Reads the keys of an object: the `io` of plans/descriptions.hpp. All of them must be asked for
// before end().
class Fields : public JsonFields<Fields> {
public:
  Fields(const Value& value, const std::string& where, Reading& reading)
      : JsonFields(value.getAsObject(), where, reading.problem), reading_(reading) {
    if (object() == nullptr) problem().set(where, "expected an object");
  }

  template <typename T>
  void operator()(llvm::StringRef key, T& member) {
    const Value* const value = find(key);
    const bool may_be_missing =
        is_specialization<T, std::optional> || is_specialization<T, std::shared_ptr>;
    if (value != nullptr || !may_be_missing) read_key(value, key, member);
  }
  // A type that may be missing.
  void operator()(llvm::StringRef key, const dwarf::Type*& type) {
    if (const Value* const value = find(key)) type = read_type(*value, name_of(key));
  }
  void type(llvm::StringRef key, const dwarf::Type*& type) {
    (*this)(key, type);
    if (type == nullptr) wrong(key, "expected a type");
  }
  void optional(llvm::StringRef key, auto& member) {
    if (const Value* const value = find(key)) read(*value, name_of(key), member);
  }
  template <typename T>
  void unless(const T& left_out, llvm::StringRef key, T& member) {
    member = left_out;
    optional(key, member);
  }
  void optional_hex(llvm::StringRef key, std::uint64_t& member) {
    if (const Value* const value = find(key)) member = read_hex(*value, name_of(key));
  }
  void object_if(bool /*is_there*/, llvm::StringRef key, auto& member) { optional(key, member); }
  template <typename T, std::size_t N>
  void word(llvm::StringRef key, T& member, const std::array<Word<T>, N>& words) {
    if (find(key) == nullptr) return wrong(key, "expected a word");
    word_unless(member, key, member, words);
  }
  template <typename T, std::size_t N>
  void word_unless(T /*left_out*/, llvm::StringRef key, T& member,
                   const std::array<Word<T>, N>& words) {
    const auto text = optional_text(key);
    if (!text) return;
    for (const Word<T>& word : words)
      if (word.text == *text) {
        member = word.value;
        return;
      }
    wrong(key, "unknown word '" + *text + "'");
  }
  template <typename T>
  void choice(llvm::StringRef key, std::optional<T>& member, std::initializer_list<T> choices) {
    const auto text = optional_text(key);
    if (!text) return;
    for (const T choice : choices)
      if (to_string(choice) == *text) {
        member = choice;
        return;
      }
    wrong(key, "unknown word '" + *text + "'");
  }
  // A list whose objects are parsed one at a time.
  template <typename T>
  void parts(llvm::StringRef key, std::vector<T>& members) {
    for_each(key, [&](const Value& value, const std::string& where) {
      read_part(value, where, members.emplace_back());
    });
  }
  void line(llvm::StringRef key, auto& member) {
    if (reading_.version >= first_version_with_values) (*this)(key, member);
  }
  // Types refer to each other, so all of them exist before one is read.
  void types(llvm::StringRef key, std::shared_ptr<const dwarf::DescribedTypes>& member) {
    reading_.types.reset();
    if (reading_.version < first_version_with_values) return;
    const Value* const value = find(key);
    const Array* const array = value == nullptr ? nullptr : value->getAsArray();
    if (array == nullptr) return value == nullptr ? void() : wrong(key, "expected an array");
    reading_.types = std::make_shared<dwarf::DescribedTypes>(array->size());
    std::size_t index = 0;
    for_each(key, [&](const Value& each, const std::string& where) {
      dwarf::TypeDescription type;
      read_part(each, where, type);
      reading_.types->set(index++, std::move(type));
    });
    if (problem().text.empty()) check_targets(name_of(key));
    member = reading_.types;
  }
  template <typename T>
  void set(T& member, T value) {
    member = value;
  }

  std::optional<std::string> optional_text(llvm::StringRef key) {
    std::optional<std::string> text;
    (*this)(key, text);
    return text;
  }

  // Rejects keys that were not asked for.
  void end() {
    if (object() == nullptr) return;
    for (const auto& [key, value] : *object())
      if (!asked_.contains(key.str())) wrong(key, "unknown key");
  }

private:
  friend JsonFields;
  const Value* find(llvm::StringRef key) {
    asked_.insert(key.str());
    return object() == nullptr ? nullptr : object()->get(key);
  }
  void read_object(const Value& value, const std::string& where, auto& member) {
    Fields fields(value, where, reading_);
    plans::describe(fields, member);
    fields.end();
  }

  template <typename Visit>
  void for_each(llvm::StringRef key, Visit visit) {
    const Value* const value = find(key);
    if (value == nullptr) return wrong(key, "expected an array");
    read_each(*value, name_of(key), visit);
  }

  void read_part(const Value& value, const std::string& where, auto& member) {
    const auto number = value.getAsUINT64();
    if (!number || *number >= reading_.parts.size())
      return problem().set(where, "expected an object");
    const auto parsed = parse(reading_.parts[*number]);
    if (!parsed) return problem().set(where, parsed.error().message);
    read(*parsed, where, member);
  }

  const dwarf::Type* read_type(const Value& value, const std::string& where) {
    const auto number = value.getAsUINT64();
    const std::size_t size = reading_.types ? reading_.types->size() : 0;
    if (number && *number < size) return &reading_.types->at(*number);
    problem().set(where, fmt::format("expected a number of one of the {} types", size));
    return nullptr;
  }

  // Checks that code that follows targets comes to an end.
  void check_targets(const std::string& where) {
    constexpr int max_targets = 64;
    for (std::size_t i = 0; i < reading_.types->size(); ++i) {
      int left = max_targets;
      for (const dwarf::Type* type = &reading_.types->at(i); type != nullptr && --left >= 0;)
        type = type->dimensions() > 1 && type->row() != nullptr ? type->row() : type->target();
      if (left < 0) problem().set(fmt::format("{}[{}]", where, i), "its targets have no end");
    }
  }

  Reading& reading_;
  std::set<std::string> asked_;
};

} // namespace

Result<AttachPlan> read_plan(std::string_view text) {
  if (auto checked = check_size(text); !checked) return fail(std::move(checked).error());
  // "files" > a file > "types", "probes": all at once would take some fifty times the size of the
  // text.
  constexpr std::size_t parts_depth = 4;
  const auto parts = split_json(text, parts_depth);
  const auto parsed = parse(parts ? std::string_view(parts->rest) : text);
  if (!parsed) return fail(Error(parsed.error()).within("not a valid plan"));
  if (!parts)
    return fail(ErrorKind::corrupt,
                "not a valid plan: expected objects as the types and probes of a file");
  Reading reading{.parts = parts->objects};
  const JsonProblem& problem = reading.problem;
  Fields fields(*parsed, "", reading);
  std::optional<std::string> format;
  describe_format(fields, format);
  if (format == plan_error_format) {
    Error error{ErrorKind::not_found, {}};
    plans::describe(fields, error);
    if (problem.text.empty()) return fail(std::move(error));
  }
  if (format != plan_format)
    return fail(ErrorKind::corrupt,
                fmt::format("not a valid plan: it has no \"format\": \"{}\"", plan_format));
  describe_version(fields, reading.version);
  if (problem.text.empty() && (reading.version == 0 || reading.version > plan_version))
    return fail(Error{ErrorKind::unsupported, fmt::format("the plan has version {}, this program "
                                                          "reads versions 1 to {}",
                                                          reading.version, plan_version)}
                    .hint("use the version of uprobectl that has written it, or a later one"));
  AttachPlan plan;
  plans::describe(fields, plan);
  fields.end();
  if (!problem.text.empty()) return fail(ErrorKind::corrupt, "not a valid plan: " + problem.text);
  return plan;
}

} // namespace uprobectl::plans
