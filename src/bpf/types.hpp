// Bytes that BPF programs leave in maps and buffers, read by the types their authors gave them.
// Source of the format: Linux Documentation/bpf/btf.rst.
#pragma once

#include "uprobectl/util.hpp"

#include <memory>
#include <variant>

struct btf;

namespace uprobectl {

struct DataMember;

// A value read by its type.
struct DataValue {
  struct Pointer { // not followed: it belongs to another address space, or another time
    std::uint64_t address = 0;
  };
  struct Raw { // what has no better reading: byte arrays, numbers over 64 bits
    std::vector<std::byte> bytes;
  };
  using Struct = std::vector<DataMember>;
  using Array = std::vector<DataValue>;
  // A string is a char array up to its first NUL, or the name of an enumerator.
  std::variant<bool, std::int64_t, std::uint64_t, double, std::string, Pointer, Raw, Struct, Array>
      value;
};

struct DataMember {
  std::string name; // empty for a member that is an anonymous struct or union
  DataValue value;
};

// The types of one object, program or map. Owns what libbpf parsed.
class DataTypes {
public:
  // Of a BTF blob, as section .BTF holds it. corrupt.
  static Result<DataTypes> parse(Bytes blob);
  // Of a loaded program or a map, by the id their info tells. not_permitted names the capability.
  static Result<DataTypes> of_kernel(std::uint32_t btf_id);

  struct Type {
    std::string name; // without "struct"
    std::uint32_t id = 0;
    std::size_t size = 0; // bytes
  };
  // A struct, union or typedef as written in C, with or without its keyword. not_found with names
  // that are near.
  Result<Type> find(std::string_view name) const;
  std::optional<Type> type(std::uint32_t id) const;

  // Nothing where there are fewer bytes than the type has, or the type is nothing that can lie in
  // memory. Further bytes are ignored: a ring buffer's records may be padded.
  std::optional<DataValue> decode(std::uint32_t id, Bytes bytes) const;

private:
  struct Free {
    void operator()(btf* types) const;
  };
  explicit DataTypes(btf* types) : types_(types) {}
  std::unique_ptr<btf, Free> types_;
};

} // namespace uprobectl
