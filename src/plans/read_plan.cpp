// SPDX-License-Identifier: Apache-2.0
#include "plans/attach_plan.hpp"
#include "plans/plan_words.hpp"
#include "util/json_size.hpp"
#include "util/numbers.hpp"

#include <fmt/format.h>
#include <llvm/Support/JSON.h>
#include <set>

namespace uprobectl::plans {

namespace {

using llvm::json::Array;
using llvm::json::Object;
using llvm::json::Value;

// Enough for "files" > "probes" > "exits" > "tail_calls" > "condition".
constexpr std::size_t max_nesting = 16;

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

// Remembers the first problem of a plan. Its readers go on with default values.
struct Problem {
  std::string text = {};

  void set(const std::string& where, std::string_view what) {
    if (text.empty()) text = fmt::format("{}: {}", where, what);
  }
};

// Reads the keys of an object. All of them must be asked for before end().
class Fields {
public:
  Fields(const Value& value, std::string where, Problem& problem)
      : object_(value.getAsObject()), where_(std::move(where)), problem_(problem) {
    if (object_ == nullptr) problem_.set(where_, "expected an object");
  }

  std::string text(llvm::StringRef key) {
    auto value = optional_text(key);
    if (!value) wrong(key, "expected text");
    return value.value_or("");
  }
  std::optional<std::string> optional_text(llvm::StringRef key) {
    const Value* const value = find(key);
    if (value == nullptr) return std::nullopt;
    const auto text = value->getAsString();
    if (!text) wrong(key, "expected text");
    return text ? std::optional(text->str()) : std::nullopt;
  }
  bool flag(llvm::StringRef key) {
    const auto value = optional_flag(key);
    if (!value) wrong(key, "expected true or false");
    return value.value_or(false);
  }
  std::optional<bool> optional_flag(llvm::StringRef key) {
    const Value* const value = find(key);
    if (value == nullptr) return std::nullopt;
    const auto flag = value->getAsBoolean();
    if (!flag) wrong(key, "expected true or false");
    return flag;
  }
  template <typename T>
  std::optional<T> optional_number(llvm::StringRef key) {
    const Value* const value = find(key);
    if (value == nullptr) return std::nullopt;
    const auto number = value->getAsUINT64();
    if (!number || *number > std::numeric_limits<T>::max()) {
      wrong(key, fmt::format("expected a number of at most {}", std::numeric_limits<T>::max()));
      return std::nullopt;
    }
    return static_cast<T>(*number);
  }
  template <typename T>
  T number(llvm::StringRef key) {
    const auto value = optional_number<T>(key);
    if (!value) wrong(key, "expected a number");
    return value.value_or(0);
  }
  std::int64_t integer(llvm::StringRef key) {
    const Value* const value = find(key);
    const auto number = value == nullptr ? std::nullopt : value->getAsInteger();
    if (!number) wrong(key, "expected a number");
    return number.value_or(0);
  }
  std::uint64_t hex(llvm::StringRef key) { return read_hex(find(key), name_of(key)); }
  std::optional<std::uint64_t> optional_hex(llvm::StringRef key) {
    const Value* const value = find(key);
    if (value == nullptr) return std::nullopt;
    return read_hex(value, name_of(key));
  }
  // `words`: of plan_words.hpp.
  template <typename T, std::size_t N>
  std::optional<T> optional_word(llvm::StringRef key, const std::array<Word<T>, N>& words) {
    const auto text = optional_text(key);
    if (!text) return std::nullopt;
    for (const Word<T>& word : words)
      if (word.text == *text) return word.value;
    wrong(key, "unknown word '" + *text + "'");
    return std::nullopt;
  }
  // An enumerator by its to_string().
  template <typename T>
  std::optional<T> optional_choice(llvm::StringRef key, std::initializer_list<T> choices) {
    const auto text = optional_text(key);
    if (!text) return std::nullopt;
    for (const T choice : choices)
      if (to_string(choice) == *text) return choice;
    wrong(key, "unknown word '" + *text + "'");
    return std::nullopt;
  }
  // `read`: (Fields&) -> T.
  template <typename Read>
  auto optional_object(llvm::StringRef key, Read read)
      -> std::optional<std::invoke_result_t<Read, Fields&>> {
    const Value* const value = find(key);
    if (value == nullptr) return std::nullopt;
    return read_object(*value, name_of(key), read);
  }
  template <typename Read>
  auto objects(llvm::StringRef key, Read read) {
    std::vector<std::invoke_result_t<Read, Fields&>> all;
    for_each(key, [&](const Value& value, std::string where) {
      all.push_back(read_object(value, std::move(where), read));
    });
    return all;
  }
  // Same, of a list whose objects are parsed one at a time.
  template <typename Read>
  auto split_objects(llvm::StringRef key, std::span<const std::string_view> texts, Read read) {
    std::vector<std::invoke_result_t<Read, Fields&>> all;
    for_each(key, [&](const Value& value, std::string where) {
      const auto number = value.getAsUINT64();
      if (!number || *number >= texts.size()) return problem_.set(where, "expected an object");
      const auto parsed = parse(texts[*number]);
      if (!parsed) return problem_.set(where, parsed.error().message);
      all.push_back(read_object(*parsed, std::move(where), read));
    });
    return all;
  }
  std::vector<std::string> texts(llvm::StringRef key) {
    std::vector<std::string> all;
    for_each(key, [&](const Value& value, const std::string& where) {
      const auto text = value.getAsString();
      if (!text) problem_.set(where, "expected text");
      all.push_back(text ? text->str() : "");
    });
    return all;
  }
  std::vector<VirtualAddress> addresses(llvm::StringRef key) {
    std::vector<VirtualAddress> all;
    for_each(key, [&](const Value& value, const std::string& where) {
      all.push_back({read_hex(&value, where)});
    });
    return all;
  }

  void wrong(llvm::StringRef key, std::string_view what) { problem_.set(name_of(key), what); }

  // Rejects keys that were not asked for.
  void end() {
    if (object_ == nullptr) return;
    for (const auto& [key, value] : *object_)
      if (!asked_.contains(key.str())) wrong(key, "unknown key");
  }

private:
  const Value* find(llvm::StringRef key) {
    asked_.insert(key.str());
    return object_ == nullptr ? nullptr : object_->get(key);
  }
  std::string name_of(llvm::StringRef key) const {
    return where_.empty() ? key.str() : where_ + "." + key.str();
  }

  template <typename Read>
  auto read_object(const Value& value, std::string where, Read read) {
    Fields fields(value, std::move(where), problem_);
    auto made = read(fields);
    fields.end();
    return made;
  }

  template <typename Visit>
  void for_each(llvm::StringRef key, Visit visit) {
    const Value* const value = find(key);
    const Array* const array = value == nullptr ? nullptr : value->getAsArray();
    if (array == nullptr) return wrong(key, "expected an array");
    for (std::size_t i = 0; i < array->size() && problem_.text.empty(); ++i)
      visit((*array)[i], fmt::format("{}[{}]", name_of(key), i));
  }

  std::uint64_t read_hex(const Value* value, const std::string& where) {
    const auto text = value == nullptr ? std::nullopt : value->getAsString();
    if (text && text->starts_with("0x"))
      if (const auto number = parse_number<std::uint64_t>(text->drop_front(2), 16)) return *number;
    problem_.set(where, "expected a hexadecimal number in quotes, such as \"0x1a20\"");
    return 0;
  }

  const Object* object_;
  std::string where_;
  Problem& problem_;
  std::set<std::string> asked_;
};

InlinedInto read_inlined_into(Fields& fields) {
  return {.function = fields.text("function"),
          .demangled = fields.optional_text("demangled"),
          .source = fields.text("source"),
          .line = fields.number<std::uint32_t>("line"),
          .is_approximate = fields.flag("approximate")};
}

SourceLine read_source_line(Fields& fields) {
  return {.file = fields.text("file"),
          .line = fields.number<std::uint32_t>("line"),
          .inlined = fields.optional_text("inlined")};
}

JumpCondition read_condition(Fields& fields) {
  JumpCondition condition;
  if (const auto test = fields.optional_word("test", jump_test_words))
    condition.test = *test;
  else
    fields.wrong("test", "expected a word");
  condition.code = fields.number<std::uint8_t>("code"); // a condition, or the number of a bit
  const std::uint8_t last_code = condition.test == JumpCondition::Test::flags ? 15 : 63;
  if (condition.code > last_code)
    fields.wrong("code", fmt::format("expected at most {}", last_code));
  condition.tested = fields.number<std::uint8_t>("register");
  condition.size = fields.number<std::uint8_t>("size");
  if (condition.size != 1 && condition.size != 2 && condition.size != 4 && condition.size != 8)
    fields.wrong("size", "expected 1, 2, 4 or 8");
  return condition;
}

JumpSource read_jump_source(Fields& fields) {
  JumpSource source{.in_memory = fields.flag("memory"),
                    .base = fields.optional_number<std::uint8_t>("base"),
                    .index = fields.optional_number<std::uint8_t>("index"),
                    .scale = fields.number<std::uint8_t>("scale"),
                    .displacement = fields.integer("displacement")};
  if (source.scale != 1 && source.scale != 2 && source.scale != 4 && source.scale != 8)
    fields.wrong("scale", "expected 1, 2, 4 or 8");
  return source;
}

ReturnCode read_return_code(Fields& fields) {
  return {.raises_stack = fields.number<std::uint64_t>("raises_stack"),
          .stores = fields.flag("stores")};
}

PlannedExits::TailCall read_tail_call(Fields& fields) {
  PlannedExits::TailCall call{.address = {fields.hex("address")}};
  if (const auto condition = fields.optional_object("condition", read_condition))
    call.condition = *condition;
  call.source = fields.optional_object("source", read_jump_source);
  call.returns = fields.optional_object("returns", read_return_code);
  return call;
}

elf::AddressRange read_range(Fields& fields) {
  return {.address = {fields.hex("address")}, .size = fields.number<std::uint64_t>("size")};
}

PlannedExits read_exits(Fields& fields) {
  return {.returns = fields.addresses("returns"),
          .tail_calls = fields.objects("tail_calls", read_tail_call),
          .code = fields.objects("code", read_range)};
}

template <typename T>
std::shared_ptr<const T> to_shared(std::optional<T> value) {
  return value ? std::make_shared<const T>(std::move(*value)) : nullptr;
}

PlannedProbe read_probe(Fields& fields) {
  using enum SymbolKind;
  using elf::Table;
  PlannedProbe probe{.place = {.request = fields.text("function"),
                               .address = {fields.hex("address")},
                               .symbol = fields.optional_text("symbol")}};
  NamedPlace& place = probe.place;
  place.symbol_offset = fields.optional_hex("symbol_offset").value_or(0);
  place.demangled = fields.optional_text("demangled");
  place.version = fields.optional_text("version");
  place.default_version = fields.optional_flag("default_version");
  place.size = fields.optional_number<std::uint64_t>("size");
  place.kind = fields.optional_choice("kind", {function, ifunc, label, object, plt});
  place.table = fields.optional_choice(
      "table", {Table::dynsym, Table::symtab, Table::gnu_debugdata, Table::debug_file, Table::plt});
  place.inlined_into = to_shared(fields.optional_object("inlined_into", read_inlined_into));
  place.source = to_shared(fields.optional_object("source", read_source_line));
  probe.exits = fields.optional_object("exits", read_exits);
  if (!place.symbol && (place.symbol_offset != 0 || place.demangled || place.version ||
                        place.inlined_into || probe.exits))
    fields.wrong("symbol", "expected text");
  return probe;
}

PlannedFile read_file(Fields& fields, std::span<const std::string_view> probes) {
  PlannedFile file{.target = fields.text("target"),
                   .build = {.machine = fields.text("machine"),
                             .build_id = fields.optional_text("build_id"),
                             .size = fields.optional_number<std::uint64_t>("size"),
                             .sha256 = fields.optional_text("sha256")}};
  const BuildIdentity& build = file.build;
  if (build.build_id ? build.size || build.sha256 : !build.size || !build.sha256)
    fields.wrong("build_id", "expected a build_id, or size and sha256");
  file.strings =
      fields.optional_word("strings", string_layout_words).value_or(StringLayout::unknown);
  file.probes = fields.split_objects("probes", probes, read_probe);
  return file;
}

// The error of write_plan_error().
Error read_error(Fields& fields) {
  fields.text("format");
  return {ErrorKind::not_found, fields.text("message"), fields.texts("hints")};
}

} // namespace

Result<AttachPlan> read_plan(std::string_view text) {
  if (auto checked = check_size(text); !checked) return fail(std::move(checked).error());
  // "files" > a file > "probes": all at once would take some fifty times the size of the text.
  constexpr std::size_t probes_depth = 4;
  const auto parts = split_json(text, probes_depth);
  const auto parsed = parse(parts ? std::string_view(parts->rest) : text);
  if (!parsed) return fail(Error(parsed.error()).within("not a valid plan"));
  if (!parts)
    return fail(ErrorKind::corrupt, "not a valid plan: expected objects as the probes of a file");
  Problem problem;
  Fields fields(*parsed, "", problem);
  const Object* const object = parsed->getAsObject();
  const auto format = object == nullptr ? std::nullopt : object->getString("format");
  if (format == llvm::StringRef(plan_error_format.data())) {
    Error error = read_error(fields);
    if (problem.text.empty()) return fail(std::move(error));
  }
  if (format != llvm::StringRef(plan_format.data()))
    return fail(ErrorKind::corrupt,
                fmt::format("not a valid plan: it has no \"format\": \"{}\"", plan_format));
  fields.text("format");
  const auto version = fields.number<std::uint64_t>("version");
  if (problem.text.empty() && version != plan_version)
    return fail(Error{ErrorKind::unsupported,
                      fmt::format("the plan has version {}, expected {}", version, plan_version)}
                    .hint("write and use it with the same version of uprobectl"));
  AttachPlan plan{.program = fields.text("program"), .target = fields.text("target")};
  plan.functions = fields.texts("functions");
  if (plan.functions.empty()) fields.wrong("functions", "expected at least one");
  plan.options = fields.texts("options");
  plan.files =
      fields.objects("files", [&](Fields& file) { return read_file(file, parts->objects); });
  fields.end();
  if (!problem.text.empty()) return fail(ErrorKind::corrupt, "not a valid plan: " + problem.text);
  return plan;
}

} // namespace uprobectl::plans
