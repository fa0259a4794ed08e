// SPDX-License-Identifier: Apache-2.0
// Writes one line of JSON Lines key by key to a buffer. There is no tree and no formatting library,
// because 66,000 symbols must be listed in milliseconds.
#pragma once

#include "output/format.hpp"
#include "output/values.hpp"
#include "uprobectl/util.hpp"

namespace uprobectl {

// A number written as a string, "0x…": offsets, addresses and register values.
struct Hex {
  std::uint64_t value = 0;
};

inline std::optional<std::string_view> to_optional_view(const std::optional<std::string>& value) {
  return value ? std::optional<std::string_view>(*value) : std::nullopt;
}

// Writes a JSON object. Values may be wrapped in std::optional; nullopt is written as null.
class JsonRecord {
public:
  // Begins a record of this type. end() completes the line.
  JsonRecord(std::string& out, std::string_view type) : out_(out) {
    out_ += "{\"type\":\"";
    out_ += type;
    out_ += '"';
  }
  // Continues an object that has a key already. The caller writes its end.
  explicit JsonRecord(std::string& out) : out_(out) {}
  void end() { out_ += "}\n"; }

  // Writes a key and returns the text to which the caller appends the value.
  template <std::size_t N>
  std::string& begin_field(const char (&name)[N]) {
    write_key(name);
    return out_;
  }

  // `name` is a literal, so that its key is one append; a large library has half a million.
  template <std::size_t N, typename T>
  void field(const char (&name)[N], const T& value) {
    write_key(name);
    write(value);
  }

private:
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
  void write(const Value& value) { append_json_value(out_, value); }
  template <typename T>
  void write(const std::optional<T>& value) {
    if (value)
      write(*value);
    else
      write(nullptr);
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

} // namespace uprobectl
