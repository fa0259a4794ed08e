// SPDX-License-Identifier: Apache-2.0
// Writes and reads the fields of chunks. A type has one description of its fields, for both
// directions: describe() in saved/descriptions.hpp and output/descriptions.hpp, which calls
//
//   io(3, "since_ns", record.since_ns);         // number and name of the field
//   io.always(2, "hits", sample.hits);          // also if it is 0: its default is another value
//
// in ascending order of the numbers. A field is its tag and its value. The tag is a number: the
// difference from the number of the previous field, times 8, plus the wire type. A field that is 0,
// empty or nullopt is left out. The reader leaves fields that are not there as they are, and skips
// those that it does not know.
#pragma once

#include "uprobectl/util.hpp"
#include "util/numbers.hpp"
#include "values/value.hpp"

#include <array>
#include <bit>
#include <concepts>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace uprobectl::saved {

enum class Wire : std::uint8_t {
  number,  // LEB128 (DWARF 5, 7.6), signed ones zigzag-coded as in protobuf
  word,    // 8 bytes
  bytes,   // their number, then the bytes
  message, // fields, then the tag 0
  list,    // the number of elements times 8 plus their wire type, then the elements
  variant, // the number of the alternative, from 1, times 8 plus its wire type, then the value
};

// The maximum nesting of messages and variants, such as structures in structures.
constexpr unsigned max_depth = 256;
// The maximum number of elements in all lists of a chunk together. It bounds the memory for a
// chunk: an element takes some 100 bytes.
constexpr std::size_t max_elements = 1U << 20;

template <typename T>
constexpr bool is_vector = false;
template <typename T>
constexpr bool is_vector<std::vector<T>> = true;
template <typename T>
constexpr bool is_array = false;
template <typename T, std::size_t N>
constexpr bool is_array<std::array<T, N>> = true;
// An optional or a shared pointer.
template <typename T>
constexpr bool may_be_missing = false;
template <typename T>
constexpr bool may_be_missing<std::optional<T>> = true;
template <typename T>
constexpr bool may_be_missing<std::shared_ptr<T>> = true;
template <typename T>
constexpr bool is_variant = false;
template <typename... T>
constexpr bool is_variant<std::variant<T...>> = true;
template <typename T>
constexpr bool is_bytes = std::convertible_to<T, std::string_view> ||
                          std::same_as<T, std::vector<std::byte>> || std::same_as<T, Bytes>;

// Has the last enumerator of T as `value`: readers reject greater numbers.
template <typename T>
struct LastEnumerator;

// Types with one member, which is saved instead of a message.
template <typename T, typename... Types>
concept OneOf = (std::same_as<std::remove_const_t<T>, Types> || ...);
constexpr auto& inner(OneOf<FileOffset, ImageOffset, VirtualAddress, values::Value> auto& whole) {
  return whole.value;
}
constexpr auto& inner(OneOf<values::Value::Pointer> auto& whole) { return whole.address; }
constexpr auto& inner(OneOf<values::Value::Hex> auto& whole) { return whole.number; }
constexpr auto& inner(OneOf<values::Value::Frames> auto& whole) { return whole.names; }
constexpr auto& inner(OneOf<values::Value::Character> auto& whole) { return whole.code; }
constexpr auto& inner(OneOf<values::Value::TruncatedString> auto& whole) { return whole.text; }
template <typename T>
concept Wrapper = requires(T& value) { inner(value); };

template <typename T>
consteval Wire wire_of() {
  if constexpr (std::integral<T> || std::is_enum_v<T>)
    return Wire::number;
  else if constexpr (std::same_as<T, double>)
    return Wire::word;
  else if constexpr (is_bytes<T>)
    return Wire::bytes;
  else if constexpr (is_vector<T> || is_array<T>)
    return Wire::list;
  else if constexpr (may_be_missing<T>)
    return wire_of<std::remove_cvref_t<decltype(*std::declval<T&>())>>();
  else if constexpr (is_variant<T>)
    return Wire::variant;
  else if constexpr (Wrapper<T>)
    return wire_of<std::remove_cvref_t<decltype(inner(std::declval<T&>()))>>();
  else
    return Wire::message;
}

// Ignores the parts of a description that only JSON has, and takes the saved ones of those that
// both have (output/descriptions.hpp).
template <typename Io>
class KeysAsFields {
public:
  void key(const char* /*name*/, const auto& /*value*/) {}
  void key_if(bool /*is_there*/, const char* /*name*/, const auto& /*value*/) {}
  void keys_of(const auto& /*value*/) {}
  void keys_or_nulls(const auto& /*value*/) {}
  void saved(unsigned number, const char* name, auto& value) { io()(number, name, value); }
  void optional(unsigned number, const char* name, auto& value) { io()(number, name, value); }
  void null_unless(bool /*is_there*/, unsigned number, const char* name, auto& value) {
    io()(number, name, value);
  }

private:
  friend Io;
  KeysAsFields() = default;
  Io& io() { return static_cast<Io&>(*this); }
};

// Appends the fields of one message to a text.
class FieldWriter : public KeysAsFields<FieldWriter> {
public:
  explicit FieldWriter(std::string& out) : out_(out) {}

  template <typename T>
  void operator()(unsigned number, const char* name, const T& value) {
    if (is_left_out(value)) return;
    if constexpr (wire_of<T>() == Wire::message && !may_be_missing<T>) {
      const std::size_t begin = out_.size();
      const unsigned last = last_;
      always(number, name, value);
      if (out_.size() == begin + 2) { // a tag and an end: none of its fields is there
        out_.resize(begin);
        last_ = last;
      }
    } else {
      always(number, name, value);
    }
  }
  template <typename T>
  void always(unsigned number, const char* /*name*/, const T& value) {
    append_tag(std::exchange(last_, number), number, wire_of<T>());
    write(value);
  }

private:
  void append_tag(unsigned last, unsigned number, Wire wire) { append_pair(number - last, wire); }
  void append_pair(std::uint64_t first, Wire wire) {
    append_number(first << 3U | static_cast<unsigned>(wire));
  }
  static constexpr std::size_t max_number_bytes = 10;
  static char* put_number(char* at, std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) *at++ = static_cast<char>(value | 0x80U);
    *at++ = static_cast<char>(value);
    return at;
  }
  // Writes at most `most` bytes by a function that gets their beginning and returns their end.
  void append(std::size_t most, const auto& put) {
    const std::size_t size = out_.size();
    out_.resize_and_overwrite(size + most, [&](char* text, std::size_t /*most*/) {
      return static_cast<std::size_t>(put(text + size) - text);
    });
  }
  void append_number(std::uint64_t value) {
    append(max_number_bytes, [=](char* at) { return put_number(at, value); });
  }

  template <typename T>
  static bool is_left_out(const T& value) {
    if constexpr (std::integral<T> || std::is_enum_v<T> || is_array<T>)
      return value == T{};
    else if constexpr (std::same_as<T, double>)
      return std::bit_cast<std::uint64_t>(value) == 0;
    else if constexpr (is_bytes<T> || is_vector<T>)
      return value.empty();
    else if constexpr (may_be_missing<T>)
      return !value;
    else if constexpr (Wrapper<T>)
      return is_left_out(inner(value));
    else
      return false;
  }

  template <typename T>
  void write(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      append_number(static_cast<std::uint64_t>(value));
    } else if constexpr (std::unsigned_integral<T>) {
      append_number(value);
    } else if constexpr (std::same_as<T, char>) {
      append_number(static_cast<unsigned char>(value));
    } else if constexpr (std::signed_integral<T>) {
      const auto wide = static_cast<std::int64_t>(value);
      append_number(static_cast<std::uint64_t>(wide) << 1U ^
                    static_cast<std::uint64_t>(wide >> 63));
    } else if constexpr (std::same_as<T, double>) {
      const auto bytes = std::bit_cast<std::array<char, sizeof(double)>>(value);
      out_.append(bytes.data(), bytes.size());
    } else if constexpr (std::convertible_to<T, std::string_view>) {
      const std::string_view text = value;
      append_number(text.size());
      out_ += text;
    } else if constexpr (is_bytes<T>) {
      write(as_text(value));
    } else if constexpr (is_vector<T> || is_array<T>) {
      using Element = typename T::value_type;
      append_pair(value.size(), wire_of<Element>());
      if constexpr (std::unsigned_integral<Element> || std::is_enum_v<Element>)
        append(value.size() * max_number_bytes, [&](char* at) {
          for (const Element each : value) at = put_number(at, static_cast<std::uint64_t>(each));
          return at;
        });
      else
        for (const auto& each : value) write(each);
    } else if constexpr (may_be_missing<T>) {
      write(*value);
    } else if constexpr (is_variant<T>) {
      std::visit(
          [&]<typename Alternative>(const Alternative& each) {
            this->append_pair(value.index() + 1, wire_of<Alternative>());
            this->write(each);
          },
          value);
    } else if constexpr (Wrapper<T>) {
      write(inner(value));
    } else {
      FieldWriter fields(out_);
      describe(fields, value);
      out_ += '\0';
    }
  }

  std::string& out_;
  unsigned last_ = 0;
};

// Texts that outlive the chunk that they were read from.
using KeptTexts = std::set<std::string, std::less<>>;
constexpr std::size_t max_kept_texts = std::size_t{1} << 18;

// Reads a message that takes all of the bytes. Texts that it reads as std::string_view borrow
// `kept`, or the bytes if `kept` is null. Bytes always borrow the bytes.
class FieldReader : public KeysAsFields<FieldReader> {
public:
  explicit FieldReader(Bytes bytes, KeptTexts* kept = nullptr) : bytes_(bytes), kept_(kept) {}

  // Returns whether all bytes were valid. Otherwise some fields may have been read.
  template <typename T>
  bool read_all(T& value) {
    read_fields(value);
    return is_valid_;
  }
  // Whether fields, or alternatives of a variant, were skipped, because they are not known.
  bool has_skipped() const { return has_skipped_; }

  template <typename T>
  void operator()(unsigned number, const char* /*name*/, T& value) {
    while (next_.number < number) skip_field();
    if (next_.number != number) return;
    if (next_.wire != wire_of<T>()) return reject();
    read(value);
    find_next();
  }
  template <typename T>
  void always(unsigned number, const char* name, T& value) {
    (*this)(number, name, value);
  }

private:
  static constexpr std::uint64_t no_field = std::numeric_limits<std::uint64_t>::max();
  struct Field {
    std::uint64_t number = 0; // no_field: the message ends
    Wire wire = Wire::number;
  };

  void reject() {
    is_valid_ = false;
    next_.number = no_field;
  }

  std::uint64_t number() {
    if (!is_valid_) return 0;
    if (at_ < bytes_.size() && std::to_integer<unsigned>(bytes_[at_]) < 0x80)
      return std::to_integer<unsigned>(bytes_[at_++]);
    const auto value = take_uleb128(bytes_, at_);
    if (!value) reject();
    return value.value_or(0);
  }

  void find_next() {
    if (depth_ == 0 && at_ == bytes_.size()) {
      next_.number = no_field;
      return;
    }
    const std::uint64_t tag = number();
    const bool is_end = tag == 0 && depth_ > 0;
    const std::uint64_t difference = tag >> 3U;
    if (!is_end && (difference == 0 || difference >= no_field - next_.number)) return reject();
    next_ = {.number = is_end ? no_field : next_.number + difference,
             .wire = static_cast<Wire>(tag & 7U)};
  }

  void skip_field() {
    has_skipped_ = true;
    skip(next_.wire);
    find_next();
  }

  // Skips a value of an unknown field.
  void skip(Wire wire) {
    switch (wire) {
    case Wire::number:
      number();
      return;
    case Wire::word:
      if (!slice(bytes_, at_, sizeof(double))) return reject();
      at_ += sizeof(double);
      return;
    case Wire::bytes:
      text();
      return;
    case Wire::message:
      if (!enter()) return;
      while (const std::uint64_t tag = number()) skip(static_cast<Wire>(tag & 7U));
      --depth_;
      return;
    case Wire::list: {
      // A list of lists counts as a level of nesting. No known field has one.
      const std::uint64_t head = number();
      const auto element = static_cast<Wire>(head & 7U);
      if (element == Wire::list && !enter()) return;
      for (std::uint64_t left = size_of_list(head); left > 0 && is_valid_; --left) skip(element);
      if (element == Wire::list) --depth_;
      return;
    }
    case Wire::variant:
      if (!enter()) return;
      skip(static_cast<Wire>(number() & 7U));
      --depth_;
      return;
    }
    reject();
  }

  bool enter() {
    if (depth_ >= max_depth) reject();
    if (is_valid_) ++depth_;
    return is_valid_;
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
  std::size_t size_of_list(std::uint64_t head) {
    const std::uint64_t size = head >> 3U;
    if (size > bytes_.size() - at_ || size > elements_left_) reject();
    if (!is_valid_) return 0;
    elements_left_ -= size;
    return size;
  }
  template <typename Element>
  std::size_t begin_list() {
    const std::uint64_t head = number();
    if (static_cast<Wire>(head & 7U) != wire_of<Element>()) reject();
    return size_of_list(head);
  }

  template <typename T>
  void set_number(T& value, std::uint64_t read, std::uint64_t most) {
    if (read > most) return reject();
    if (is_valid_) value = static_cast<T>(read);
  }

  template <typename T>
  void read(T& value) {
    if constexpr (std::is_enum_v<T>) {
      set_number(value, number(), static_cast<std::uint64_t>(LastEnumerator<T>::value));
    } else if constexpr (std::same_as<T, char>) {
      set_number(value, number(), 0xff);
    } else if constexpr (std::unsigned_integral<T>) { // also bool
      set_number(value, number(), std::numeric_limits<T>::max());
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
    } else if constexpr (std::same_as<T, Bytes>) {
      value = as_bytes(text());
    } else if constexpr (is_bytes<T>) {
      const Bytes read = std::as_bytes(std::span(text()));
      value.assign(read.begin(), read.end());
    } else if constexpr (is_vector<T>) {
      value.clear();
      for (auto left = begin_list<typename T::value_type>(); left > 0 && is_valid_; --left)
        read(value.emplace_back());
    } else if constexpr (is_array<T>) {
      const std::size_t size = begin_list<typename T::value_type>();
      if (size > value.size()) return reject();
      for (std::size_t i = 0; i < size; ++i) read(value[i]);
    } else if constexpr (may_be_missing<T>) {
      read_present(value);
    } else if constexpr (is_variant<T>) {
      read_variant(value, std::make_index_sequence<std::variant_size_v<T>>());
    } else if constexpr (Wrapper<T>) {
      read(inner(value));
    } else {
      if (!enter()) return;
      const Field around = std::exchange(next_, {});
      read_fields(value);
      --depth_;
      next_ = around;
    }
  }

  template <typename T>
  void read_fields(T& value) {
    find_next();
    describe(*this, value);
    while (next_.number != no_field) skip_field();
  }

  template <typename T>
  void read_present(std::optional<T>& value) {
    read(value.emplace());
  }
  template <typename T>
  void read_present(std::shared_ptr<T>& value) {
    auto made = std::make_shared<std::remove_const_t<T>>();
    read(*made);
    value = std::move(made);
  }

  template <std::size_t... numbers>
  void read_variant(decltype(values::Value::value)& value,
                    std::index_sequence<numbers...> /*alternatives*/) {
    const std::uint64_t head = number();
    const std::uint64_t wanted = (head >> 3U) - 1;
    const auto wire = static_cast<Wire>(head & 7U);
    if (head >> 3U == 0 || !enter()) return reject();
    if (wanted >= sizeof...(numbers)) {
      has_skipped_ = true;
      skip(wire);
      value = values::Value::Unreadable{"saved by a later version of uprobectl"};
    } else {
      ((wanted == numbers ? read_alternative<numbers>(value, wire) : void()), ...);
    }
    --depth_;
  }
  template <std::size_t number, typename T>
  void read_alternative(T& value, Wire wire) {
    if (wire != wire_of<std::variant_alternative_t<number, T>>()) return reject();
    read(value.template emplace<number>());
  }

  Bytes bytes_;
  KeptTexts* kept_;
  std::uint64_t at_ = 0;
  bool is_valid_ = true;
  bool has_skipped_ = false;
  std::size_t elements_left_ = max_elements;
  unsigned depth_ = 0;
  Field next_; // of the message that is being read
};

} // namespace uprobectl::saved
