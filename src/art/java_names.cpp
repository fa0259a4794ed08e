// SPDX-License-Identifier: Apache-2.0
#include "art/java_names.hpp"

#include "util/utf8.hpp"

#include <algorithm>

namespace uprobectl::art {

namespace {

std::string_view primitive(char letter) {
  switch (letter) {
  case 'V':
    return "void";
  case 'Z':
    return "boolean";
  case 'B':
    return "byte";
  case 'S':
    return "short";
  case 'C':
    return "char";
  case 'I':
    return "int";
  case 'J':
    return "long";
  case 'F':
    return "float";
  case 'D':
    return "double";
  default:
    return {};
  }
}

// The UTF-16 unit of three bytes of modified UTF-8; 0 where there are none.
std::uint32_t unit_at(std::string_view text, std::size_t at) {
  if (at > text.size() || text.size() - at < 3) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  if ((byte(0) & 0xf0U) != 0xe0U || (byte(1) & 0xc0U) != 0x80U || (byte(2) & 0xc0U) != 0x80U)
    return 0;
  return (byte(0) & 0xfU) << 12U | (byte(1) & 0x3fU) << 6U | (byte(2) & 0x3fU);
}

bool is_high(std::uint32_t unit) { return unit >= 0xd800 && unit < 0xdc00; }
bool is_low(std::uint32_t unit) { return unit >= 0xdc00 && unit < 0xe000; }

std::string type_text(const DexFile& dex, std::uint32_t type) {
  std::string text;
  append_type(dex.type(type).value_or("?"), text);
  return text;
}

} // namespace

void append_utf8(std::string_view modified, std::string& text) {
  for (std::size_t at = 0; at < modified.size();) {
    const std::uint32_t high = unit_at(modified, at);
    const std::uint32_t low = is_high(high) ? unit_at(modified, at + 3) : 0;
    if (is_low(low)) {
      append_code_point(text, 0x10000 + ((high - 0xd800) << 10U) + (low - 0xdc00));
      at += 6;
    } else if (modified.substr(at, 2) == "\xc0\x80") {
      text += '\0';
      at += 2;
    } else {
      text += modified[at++];
    }
  }
}

void append_type(std::string_view descriptor, std::string& text) {
  const std::size_t dimensions = std::min(descriptor.find_first_not_of('['), descriptor.size());
  const std::string_view element = descriptor.substr(dimensions);
  if (element.size() > 2 && element.front() == 'L' && element.back() == ';') {
    const std::size_t begin = text.size();
    append_utf8(element.substr(1, element.size() - 2), text);
    for (std::size_t i = begin; i < text.size(); ++i)
      if (text[i] == '/') text[i] = '.';
  } else if (const auto name = primitive(element.empty() ? '\0' : element.front());
             element.size() == 1 && !name.empty()) {
    text += name;
  } else {
    append_utf8(descriptor, text);
    return;
  }
  for (std::size_t i = 0; i < dimensions; ++i) text += "[]";
}

void append_name_of(const DexFile& dex, std::uint32_t method, std::string& text) {
  const auto id = dex.method_id(method).value_or(DexFile::MethodId());
  append_type(dex.type(id.type).value_or("?"), text);
  text += '.';
  append_utf8(dex.string(id.name).value_or("?"), text);
}

Signature signature_of(const DexFile& dex, std::uint32_t method) {
  // Types can be long, and a method can have 255 of them: what goes beyond all reason is cut off.
  std::size_t room = longest_signature;
  const auto fitting = [&room](std::string text) {
    if (text.size() > room) return std::string("?");
    room -= text.size();
    return text;
  };
  Signature signature;
  const auto id = dex.method_id(method).value_or(DexFile::MethodId());
  const auto proto = dex.proto(id.proto).value_or(DexFile::Proto());
  append_utf8(dex.string(id.name).value_or("?"), signature.name);
  signature.name = fitting(std::move(signature.name));
  signature.class_name = fitting(type_text(dex, id.type));
  signature.return_type = fitting(type_text(dex, proto.return_type));
  constexpr std::uint32_t most = 255; // parameters: JVMS 4.3.3, words of them
  const std::uint32_t count = std::min(dex.list_size(proto.parameters), most);
  for (std::uint32_t i = 0; i < count && room != 0; ++i) {
    const auto type = dex.type_in_list(proto.parameters, i);
    if (!type) break;
    signature.parameters.push_back(fitting(type_text(dex, *type)));
  }
  return signature;
}

std::string to_string(const Signature& signature) {
  std::string text =
      signature.return_type + ' ' + signature.class_name + '.' + signature.name + '(';
  bool first = true;
  for (const std::string& parameter : signature.parameters) {
    if (!std::exchange(first, false)) text += ", ";
    text += parameter;
  }
  return text + ')';
}

} // namespace uprobectl::art
