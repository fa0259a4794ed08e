// SPDX-License-Identifier: Apache-2.0
// Writes and reads the fields of chunks. A type has one description of its fields, for both
// directions: describe() in saved/descriptions.hpp.
//
// Numbers are LEB128 (DWARF 5, 7.6), signed ones zigzag-coded as in protobuf, doubles 8 bytes.
// Texts and lists begin with their length. An optional begins with 0 or 1. A variant begins with
// the number of its alternative.
#pragma once

#include "util/numbers.hpp"
#include "values/value.hpp"

#include <array>
#include <bit>
#include <concepts>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace uprobectl::saved {

// Values in values, such as members of structures.
constexpr unsigned max_depth = 128;
// Elements of all lists of a chunk: bounds the memory for a chunk, some 100 bytes for each.
constexpr std::size_t max_elements = 1U << 20;

template <typename T>
constexpr bool is_vector = false;
template <typename T>
constexpr bool is_vector<std::vector<T>> = true;
template <typename T>
constexpr bool is_optional = false;
template <typename T>
constexpr bool is_optional<std::optional<T>> = true;
template <typename T>
constexpr bool is_shared = false;
template <typename T>
constexpr bool is_shared<std::shared_ptr<T>> = true;
template <typename T>
constexpr bool is_variant = false;
template <typename... T>
constexpr bool is_variant<std::variant<T...>> = true;

// Appends fields to a text.
class FieldWriter {
public:
  explicit FieldWriter(std::string& out) : out_(out) {}

  void operator()(const auto&... values) { (write(values), ...); }
  // An enumerator, or a number that is at most `last`.
  template <typename T>
  void choice(const T& value, T /*last*/) {
    number(static_cast<std::uint64_t>(value));
  }
  // Without a number of elements in front.
  template <typename T, std::size_t N>
  void fixed(const std::array<T, N>& values) {
    for (const T& value : values) write(value);
  }

private:
  void number(std::uint64_t value) {
    while (value >= 0x80) {
      out_ += static_cast<char>(value | 0x80U);
      value >>= 7U;
    }
    out_ += static_cast<char>(value);
  }

  template <typename T>
  void write(const T& value) {
    if constexpr (std::unsigned_integral<T>) {
      number(value);
    } else if constexpr (std::same_as<T, char>) {
      number(static_cast<unsigned char>(value));
    } else if constexpr (std::signed_integral<T>) {
      const auto wide = static_cast<std::int64_t>(value);
      number(static_cast<std::uint64_t>(wide) << 1U ^ static_cast<std::uint64_t>(wide >> 63));
    } else if constexpr (std::same_as<T, double>) {
      const auto bytes = std::bit_cast<std::array<char, sizeof(double)>>(value);
      out_.append(bytes.data(), bytes.size());
    } else if constexpr (std::convertible_to<T, std::string_view>) {
      const std::string_view text = value;
      number(text.size());
      out_ += text;
    } else if constexpr (std::same_as<T, std::vector<std::byte>>) {
      write(as_text(value));
    } else if constexpr (is_vector<T>) {
      number(value.size());
      for (const auto& each : value) write(each);
    } else if constexpr (is_optional<T> || is_shared<T>) {
      write(static_cast<bool>(value));
      if (value) write(*value);
    } else if constexpr (is_variant<T>) {
      number(value.index());
      std::visit([this](const auto& each) { this->write(each); }, value);
    } else {
      describe(*this, value);
    }
  }

  std::string& out_;
};

// Texts that outlive the chunk that they were read from.
using KeptTexts = std::set<std::string, std::less<>>;
constexpr std::size_t max_kept_texts = std::size_t{1} << 18;

// Reads fields from bytes. Texts that it reads as std::string_view borrow `kept`, without it the
// bytes. After an invalid field all further ones are left as they are.
class FieldReader {
public:
  explicit FieldReader(Bytes bytes, KeptTexts* kept = nullptr) : bytes_(bytes), kept_(kept) {}

  // Whether all fields were valid and nothing is left.
  bool is_complete() const { return is_valid_ && at_ == bytes_.size(); }
  bool is_valid() const { return is_valid_; }

  void operator()(auto&... values) { (read(values), ...); }
  template <typename T>
  void choice(T& value, T last) {
    const std::uint64_t read = number();
    if (read > static_cast<std::uint64_t>(last)) return reject();
    if (is_valid_) value = static_cast<T>(read);
  }
  template <typename T, std::size_t N>
  void fixed(std::array<T, N>& values) {
    for (T& value : values) read(value);
  }

private:
  void reject() { is_valid_ = false; }

  std::uint64_t number() {
    if (!is_valid_) return 0;
    const auto value = take_uleb128(bytes_, at_);
    if (!value) reject();
    return value.value_or(0);
  }

  std::string_view text() {
    const std::uint64_t size = number();
    const auto found = slice(bytes_, at_, size);
    if (!found) reject();
    if (!is_valid_) return {};
    at_ += size;
    return as_text(*found);
  }

  std::string_view borrowed_text() {
    const std::string_view read = text();
    if (kept_ == nullptr || read.empty()) return read;
    if (const auto known = kept_->find(read); known != kept_->end()) return *known;
    if (kept_->size() >= max_kept_texts) reject();
    return is_valid_ ? *kept_->emplace(read).first : std::string_view{};
  }

  // Each element has at least one byte.
  std::size_t size_of_list() {
    const std::uint64_t size = number();
    if (size > bytes_.size() - at_ || size > elements_left_) reject();
    if (!is_valid_) return 0;
    elements_left_ -= size;
    return size;
  }

  template <typename T>
  void read(T& value) {
    if constexpr (std::same_as<T, bool>) {
      choice(value, true);
    } else if constexpr (std::unsigned_integral<T>) {
      const std::uint64_t read = number();
      if (read > std::numeric_limits<T>::max()) return reject();
      if (is_valid_) value = static_cast<T>(read);
    } else if constexpr (std::same_as<T, char>) {
      const std::uint64_t read = number();
      if (read > 0xff) return reject();
      if (is_valid_) value = static_cast<char>(read);
    } else if constexpr (std::signed_integral<T>) {
      const std::uint64_t read = number();
      const auto wide = static_cast<std::int64_t>(read >> 1U ^ (0 - (read & 1U)));
      if (wide > std::numeric_limits<T>::max() || wide < std::numeric_limits<T>::min())
        return reject();
      if (is_valid_) value = static_cast<T>(wide);
    } else if constexpr (std::same_as<T, double>) {
      const auto bits = read_at<std::uint64_t>(bytes_, at_);
      if (!bits) return reject();
      if (!is_valid_) return;
      value = std::bit_cast<double>(*bits);
      at_ += sizeof(double);
    } else if constexpr (std::same_as<T, std::string_view>) {
      value = borrowed_text();
    } else if constexpr (std::same_as<T, std::string>) {
      value = text();
    } else if constexpr (std::same_as<T, std::vector<std::byte>>) {
      const Bytes read = std::as_bytes(std::span(text()));
      value.assign(read.begin(), read.end());
    } else if constexpr (is_vector<T>) {
      value.clear();
      for (std::size_t left = size_of_list(); left > 0 && is_valid_; --left)
        read(value.emplace_back());
    } else if constexpr (is_optional<T>) {
      bool has_value = false;
      read(has_value);
      if (has_value) read(value.emplace());
    } else if constexpr (is_shared<T>) {
      bool has_value = false;
      read(has_value);
      if (!has_value) return;
      auto made = std::make_shared<std::remove_const_t<typename T::element_type>>();
      read(*made);
      value = std::move(made);
    } else if constexpr (is_variant<T>) {
      read_variant(value, std::make_index_sequence<std::variant_size_v<T>>());
    } else {
      describe(*this, value);
    }
  }

  template <typename T, std::size_t... numbers>
  void read_variant(T& value, std::index_sequence<numbers...> /*alternatives*/) {
    const std::uint64_t wanted = number();
    if (wanted >= sizeof...(numbers) || depth_ >= max_depth) return reject();
    if (!is_valid_) return;
    ++depth_;
    ((wanted == numbers ? read(value.template emplace<numbers>()) : void()), ...);
    --depth_;
  }

  Bytes bytes_;
  KeptTexts* kept_;
  std::uint64_t at_ = 0;
  bool is_valid_ = true;
  std::size_t elements_left_ = max_elements;
  unsigned depth_ = 0;
};

} // namespace uprobectl::saved
