// SPDX-License-Identifier: Apache-2.0
// Decodes bytes of BPF programs' maps and buffers by their types (BTF). Source of the format: Linux
// Documentation/bpf/btf.rst.
#pragma once

#include "uprobectl/util.hpp"

#include <memory>
#include <variant>

struct btf;

namespace uprobectl {

struct DataMember;

// A value read by its type: BTF, or that of debug information (events/typed_values.hpp).
struct DataValue {
  struct Pointer { // not dereferenced: it belongs to another address space
    std::uint64_t address = 0;
  };
  struct Raw { // byte arrays, numbers over 64 bits
    std::vector<std::byte> bytes;
  };
  struct Name { // of an enumerator, or flags: shown without quotes
    std::string text;
  };
  struct Character {
    char code;
  };
  struct Unreadable {
    std::string reason;    // as JSON has it
    std::string text = {}; // to show, if it says more
  };
  struct Cut { // the beginning of a string
    std::string text;
  };
  struct More {}; // left out because of a limit
  using Struct = std::vector<DataMember>;
  using Array = std::vector<DataValue>;
  struct Dynamic { // an interface of Go, with a value of this type
    std::string type;
    Struct words;       // as in the source: {tab, data}
    Array content = {}; // the value, if it was captured; shown in the place of the words
  };
  // A string is a char array up to its first NUL.
  std::variant<bool, std::int64_t, std::uint64_t, double, std::string, Pointer, Raw, Name,
               Character, Unreadable, Cut, More, Struct, Array, Dynamic>
      value;
};

// A member of a struct or union.
struct DataMember {
  std::string name; // empty for a member that is an anonymous struct or union
  DataValue value;
};

// The BTF types of one object, program or map.
class DataTypes {
public:
  // Parses the content of a section .BTF. Fails with corrupt.
  static Result<DataTypes> parse(Bytes blob);
  // Reads the types of a loaded program or a map from the kernel, by the BTF id in its info.
  // not_permitted names the capability.
  static Result<DataTypes> load_from_kernel(std::uint32_t btf_id);

  struct Type {
    std::string name; // without "struct"
    std::uint32_t id = 0;
    std::size_t size = 0; // bytes
  };
  // Finds a struct, union or typedef as written in C, with or without its keyword. not_found
  // suggests similar names.
  Result<Type> find(std::string_view name) const;
  std::optional<Type> type(std::uint32_t id) const;

  // Decodes a value of a type. If there are fewer bytes, the members and elements that are there,
  // and in the member "<rest>" what is left. Nullopt if that is nothing. Ignores further bytes
  // (padding).
  std::optional<DataValue> decode(std::uint32_t id, Bytes bytes) const;

private:
  struct Free {
    void operator()(btf* types) const;
  };
  explicit DataTypes(btf* types) : types_(types) {}
  std::unique_ptr<btf, Free> types_;
};

} // namespace uprobectl
