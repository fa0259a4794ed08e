#include "output/data_value.hpp"

#include "output/escape.hpp"
#include "output/json_record.hpp"

#include <cmath>
#include <fmt/format.h>

namespace uprobectl {

namespace {

// A double holds integers below this exactly, and so does every reader of JSON.
constexpr std::uint64_t first_inexact = 1ULL << 53;

class JsonValue {
public:
  explicit JsonValue(std::string& out) : out_(out) {}

  void operator()(bool value) { out_ += value ? "true" : "false"; }
  void operator()(std::uint64_t value) {
    fmt::format_to(std::back_inserter(out_), fmt::runtime(value < first_inexact ? "{}" : "\"{}\""),
                   value);
  }
  void operator()(std::int64_t value) {
    const auto limit = static_cast<std::int64_t>(first_inexact);
    const bool exact = value < limit && value > -limit;
    fmt::format_to(std::back_inserter(out_), fmt::runtime(exact ? "{}" : "\"{}\""), value);
  }
  void operator()(double value) {
    if (std::isfinite(value))
      fmt::format_to(std::back_inserter(out_), "{}", value);
    else
      out_ += "null";
  }
  void operator()(const std::string& value) {
    out_ += '"';
    append_json(out_, value);
    out_ += '"';
  }
  void operator()(DataValue::Pointer value) {
    out_ += '"';
    append_hex(out_, value.address);
    out_ += '"';
  }
  void operator()(const DataValue::Raw& value) {
    out_ += '"';
    append_hex_bytes(out_, value.bytes);
    out_ += '"';
  }
  void operator()(const DataValue::Struct& members) {
    out_ += '{';
    bool first = true;
    add_members(members, first);
    out_ += '}';
  }
  void operator()(const DataValue::Array& values) {
    out_ += '[';
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i != 0) out_ += ',';
      append_json_value(out_, values[i]);
    }
    out_ += ']';
  }

private:
  void add_members(const DataValue::Struct& members, bool& first) {
    for (const DataMember& member : members) {
      const auto* const nested = std::get_if<DataValue::Struct>(&member.value.value);
      if (member.name.empty() && nested != nullptr) {
        add_members(*nested, first);
        continue;
      }
      if (!std::exchange(first, false)) out_ += ',';
      (*this)(member.name);
      out_ += ':';
      append_json_value(out_, member.value);
    }
  }

  std::string& out_;
};

class TextValue {
public:
  TextValue(std::string& out, bool outermost) : out_(out), outermost_(outermost) {}

  void operator()(bool value) { out_ += value ? "true" : "false"; }
  void operator()(std::uint64_t value) { append_decimal(out_, value); }
  void operator()(std::int64_t value) { fmt::format_to(std::back_inserter(out_), "{}", value); }
  void operator()(double value) { fmt::format_to(std::back_inserter(out_), "{}", value); }
  void operator()(const std::string& value) { append_quoted(out_, value, '"'); }
  void operator()(DataValue::Pointer value) { append_hex(out_, value.address); }
  void operator()(const DataValue::Raw& value) { append_hex_bytes(out_, value.bytes); }
  void operator()(const DataValue::Struct& members) {
    if (!outermost_) out_ += '{';
    bool first = true;
    for (const DataMember& member : members) {
      if (!std::exchange(first, false)) out_ += ' ';
      if (!member.name.empty()) {
        append_printable(out_, member.name);
        out_ += '=';
      }
      std::visit(TextValue(out_, false), member.value.value);
    }
    if (!outermost_) out_ += '}';
  }
  void operator()(const DataValue::Array& values) {
    out_ += '[';
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i != 0) out_ += ' ';
      std::visit(TextValue(out_, false), values[i].value);
    }
    out_ += ']';
  }

private:
  std::string& out_;
  bool outermost_;
};

} // namespace

void append_hex_bytes(std::string& out, Bytes bytes) {
  for (const std::byte byte : bytes)
    fmt::format_to(std::back_inserter(out), "{:02x}", std::to_integer<unsigned>(byte));
}

void append_json_value(std::string& out, const DataValue& value) {
  std::visit(JsonValue(out), value.value);
}

void append_text_value(std::string& out, const DataValue& value) {
  std::visit(TextValue(out, true), value.value);
}

} // namespace uprobectl
