// SPDX-License-Identifier: Apache-2.0
// Reads values of JSON by descriptions of records, and says which one is invalid: what readers of
// plans and of records have in common.
#pragma once

#include "uprobectl/util.hpp"
#include "util/numbers.hpp"

#include <concepts>
#include <fmt/format.h>
#include <limits>
#include <llvm/Support/JSON.h>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace uprobectl {

// Whether T is a vector, an optional, a shared pointer …: is_specialization<T, std::vector>.
template <typename T, template <typename...> typename Of>
constexpr bool is_specialization = false;
template <template <typename...> typename Of, typename... Arguments>
constexpr bool is_specialization<Of<Arguments...>, Of> = true;

// The first problem of a document, "files[0].target: expected text". Its readers go on with default
// values.
struct JsonProblem {
  std::string text = {};

  void set(std::string_view where, std::string_view what) {
    if (text.empty()) text = fmt::format("{}: {}", where, what);
  }
};

// The keys of an object. Io is the `io` of the descriptions: its read_object(value, where, member)
// reads an object in it.
template <typename Io>
class JsonFields {
public:
  void wrong(llvm::StringRef key, std::string_view what) { problem_.set(name_of(key), what); }
  void expect(bool is_valid, llvm::StringRef key, std::string_view what) {
    if (!is_valid) wrong(key, what);
  }

protected:
  const llvm::json::Object* object() const { return object_; }
  JsonProblem& problem() { return problem_; }
  std::string name_of(llvm::StringRef key) const {
    return where_.empty() ? key.str() : where_ + "." + key.str();
  }

  // `value`: null if the key is missing, which is a problem.
  void read_key(const llvm::json::Value* value, llvm::StringRef key, auto& member) {
    static const llvm::json::Value missing(nullptr);
    read(value == nullptr ? missing : *value, name_of(key), member);
  }

  template <typename T>
  void read(const llvm::json::Value& value, const std::string& where, T& member) {
    if constexpr (is_specialization<T, std::optional>) {
      read(value, where, member.emplace());
    } else if constexpr (is_specialization<T, std::shared_ptr>) {
      auto made = std::make_shared<std::remove_const_t<typename T::element_type>>();
      read(value, where, *made);
      member = std::move(made);
    } else if constexpr (std::same_as<T, std::string>) {
      if (const auto text = value.getAsString())
        member = text->str();
      else
        problem_.set(where, "expected text");
    } else if constexpr (std::same_as<T, bool>) {
      if (const auto flag = value.getAsBoolean())
        member = *flag;
      else
        problem_.set(where, "expected true or false");
    } else if constexpr (std::unsigned_integral<T>) {
      constexpr T most = std::numeric_limits<T>::max();
      if (const auto number = value.getAsUINT64(); number && *number <= most)
        member = static_cast<T>(*number);
      else if (value.kind() == llvm::json::Value::Null)
        problem_.set(where, "expected a number");
      else
        problem_.set(where, fmt::format("expected a number of at most {}", most));
    } else if constexpr (std::signed_integral<T>) {
      if (const auto number = value.getAsInteger())
        member = *number;
      else
        problem_.set(where, "expected a number");
    } else if constexpr (is_specialization<T, std::vector>) {
      read_each(value, where, [&](const llvm::json::Value& each, const std::string& element) {
        read(each, element, member.emplace_back());
      });
    } else if constexpr (std::same_as<T, FileOffset> || std::same_as<T, ImageOffset> ||
                         std::same_as<T, VirtualAddress>) {
      member.value = read_hex(value, where);
    } else {
      static_cast<Io&>(*this).read_object(value, where, member);
    }
  }

  template <typename Visit>
  void read_each(const llvm::json::Value& value, const std::string& where, const Visit& visit) {
    const llvm::json::Array* const array = value.getAsArray();
    if (array == nullptr) return problem_.set(where, "expected an array");
    for (std::size_t i = 0; i < array->size() && problem_.text.empty(); ++i)
      visit((*array)[i], fmt::format("{}[{}]", where, i));
  }

  std::uint64_t read_hex(const llvm::json::Value& value, const std::string& where) {
    const auto text = value.getAsString();
    if (text && text->starts_with("0x"))
      if (const auto number = parse_number<std::uint64_t>(text->drop_front(2), 16)) return *number;
    problem_.set(where, "expected a hexadecimal number in quotes, such as \"0x1a20\"");
    return 0;
  }

private:
  friend Io;
  // `object`: null is a value that is not an object, `where` its name.
  JsonFields(const llvm::json::Object* object, std::string where, JsonProblem& problem)
      : object_(object), where_(std::move(where)), problem_(problem) {}

  const llvm::json::Object* object_;
  std::string where_;
  JsonProblem& problem_;
};

} // namespace uprobectl
