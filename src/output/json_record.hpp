// SPDX-License-Identifier: Apache-2.0
// Writes one line of JSON Lines key by key to a buffer. There is no tree and no formatting library,
// because 66,000 symbols must be listed in milliseconds.
#pragma once

#include "output/format.hpp"
#include "output/values.hpp"
#include "uprobectl/util.hpp"

namespace uprobectl::output {

inline std::optional<std::string_view> to_optional_view(const std::optional<std::string>& value) {
  return value ? std::optional<std::string_view>(*value) : std::nullopt;
}

// An optional or a pointer.
template <typename T>
concept MayBeMissing = !std::convertible_to<T, std::string_view> && requires(const T& value) {
  static_cast<bool>(value);
  *value;
};

// Appends the start of every record: {"type":"TYPE"
inline void append_record_start(std::string& out, std::string_view type) {
  out += "{\"type\":\"";
  out += type;
  out += '"';
}
inline std::string record_start(std::string_view type) {
  std::string start;
  append_record_start(start, type);
  return start;
}

// Writes a JSON object. A value may also be an optional or a pointer (null if it is not there), a
// function that returns the value, or a function that appends its JSON to a text.
//
// This is also the `io` of descriptions (output/descriptions.hpp).
class JsonRecord {
public:
  // Begins a record of this type. end() completes the line.
  JsonRecord(std::string& out, std::string_view type) : out_(out) {
    append_record_start(out_, type);
  }
  // Continues an object that has a key already. The caller writes its end.
  explicit JsonRecord(std::string& out) : out_(out) {}
  void end() { out_ += "}\n"; }
  // Appends an object. `add_keys` adds at least one.
  static void append_object(std::string& out, const auto& add_keys) {
    out += '{';
    const std::size_t comma = out.size();
    JsonRecord keys(out);
    add_keys(keys);
    out.erase(comma, 1);
    out += '}';
  }

  // `name` is a literal, so that its key is one append; a large library has half a million.
  void key(const auto& name, const auto& value) {
    write_key(name);
    write(value);
  }
  void key_if(bool is_there, const auto& name, const auto& value) {
    if (is_there) key(name, value);
  }
  void operator()(unsigned /*number*/, const auto& name, const auto& value) { key(name, value); }
  void null_unless(bool is_there, unsigned /*number*/, const auto& name, const auto& value) {
    is_there ? key(name, value) : key(name, nullptr);
  }
  void optional(unsigned /*number*/, const auto& name, const auto& value) {
    if (value) key(name, *value);
  }
  void keys_of(const auto& value) {
    if (value) describe(*this, *value);
  }
  template <typename T>
  void keys_or_nulls(const std::optional<T>& value) {
    if (value) return describe(*this, *value);
    NullKeys nulls{*this};
    const T none{};
    describe(nulls, none);
  }
  void saved(unsigned /*number*/, const char* /*name*/, const auto& /*value*/) {}

private:
  // Writes the keys of something that is not there.
  struct NullKeys {
    JsonRecord& record;
    void key(const auto& name, const auto& /*value*/) { record.key(name, nullptr); }
    void operator()(unsigned /*number*/, const auto& name, const auto& /*value*/) {
      record.key(name, nullptr);
    }
    void saved(unsigned /*number*/, const char* /*name*/, const auto& /*value*/) {}
  };

  template <std::size_t N>
  void write_key(const char (&name)[N]) {
    char key[N + 3] = {',', '"'};
    std::memcpy(key + 2, name, N - 1);
    key[N + 1] = '"';
    key[N + 2] = ':';
    out_.append(key, sizeof(key));
  }
  void write(std::nullptr_t) { out_ += std::string_view("null"); }
  void write(bool value) { out_ += std::string_view(value ? "true" : "false"); }
  void write(std::string_view value) {
    out_ += '"';
    append_json(out_, value);
    out_ += '"';
  }
  void write(const std::string& value) { write(std::string_view(value)); }
  void write(const char* value) { write(std::string_view(value)); }
  void write(std::uint64_t value) { append_decimal(out_, value); }
  void write(std::uint32_t value) { append_decimal(out_, value); }
  void write(std::int64_t value) {
    if (value < 0) out_ += '-';
    append_decimal(out_, value < 0 ? 0 - static_cast<std::uint64_t>(value)
                                   : static_cast<std::uint64_t>(value));
  }
  void write(Hex value) {
    out_ += '"';
    append_hex(out_, value.value);
    out_ += '"';
  }
  void write(FileOffset value) { write(Hex{value.value}); }
  void write(ImageOffset value) { write(Hex{value.value}); }
  void write(VirtualAddress value) { write(Hex{value.value}); }
  void write(Bytes value) {
    out_ += '"';
    append_hex_bytes(out_, value);
    out_ += '"';
  }
  void write(ErrorKind value) { write(code(value)); }
  void write(const values::Value& value) { append_json_value(out_, value); }
  void write(const std::vector<events::ArgumentValue>& values) {
    append_json_arguments(out_, values);
  }
  template <typename T>
    requires(std::is_enum_v<T> || std::is_class_v<T>) && (!MayBeMissing<T>)
  void write(const T& value) {
    if constexpr (std::invocable<const T&>) {
      write(value());
    } else if constexpr (std::invocable<const T&, std::string&>) {
      value(out_);
    } else if constexpr (requires { to_string(value); }) {
      write(to_string(value));
    } else {
      append_object(out_, [&](JsonRecord& keys) { describe(keys, value); });
    }
  }
  template <MayBeMissing T>
  void write(const T& value) {
    value ? write(*value) : write(nullptr);
  }
  template <typename T>
  void write(const std::vector<T>& values) {
    out_ += '[';
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i != 0) out_ += ',';
      write(values[i]);
    }
    out_ += ']';
  }

  std::string& out_;
};

} // namespace uprobectl::output
