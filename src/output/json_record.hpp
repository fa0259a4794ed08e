// SPDX-License-Identifier: Apache-2.0
// One line of JSON Lines, written key by key straight into a buffer: 66,000 symbols must cost
// milliseconds, so there is no tree and no formatting library in between.
#pragma once

#include "output/format.hpp"
#include "output/values.hpp"
#include "uprobectl/util.hpp"

namespace uprobectl {

// Offsets, addresses and register values are "0x…" strings in the contract.
struct Hex {
  std::uint64_t value = 0;
};

// A view of text that may not be there.
inline std::optional<std::string_view> text_of(const std::optional<std::string>& value) {
  return value ? std::optional<std::string_view>(*value) : std::nullopt;
}

// Values may be wrapped in std::optional: nothing becomes null.
class JsonRecord {
public:
  // A record with its type; ends with the line when end() is called.
  JsonRecord(std::string& out, std::string_view type) : out_(out) {
    out_ += "{\"type\":\"";
    out_ += type;
    out_ += '"';
  }
  // Goes on with an object of which a key has been written; ends with whoever began it.
  explicit JsonRecord(std::string& out) : out_(out) {}
  void end() { out_ += "}\n"; }

  // A field whose value the caller appends to the text that this gives.
  template <std::size_t N>
  std::string& open(const char (&name)[N]) {
    write_key(name);
    return out_;
  }

  // The name is a literal: its key is one append, of which the listing of a large library makes
  // half a million.
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
  void write(const DataValue& value) { append_json_value(out_, value); }
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
