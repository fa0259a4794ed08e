// SPDX-License-Identifier: Apache-2.0
// Decodes bytes of BPF programs' maps and buffers by their types (BTF). Source of the format: Linux
// Documentation/bpf/btf.rst.
#pragma once

#include "uprobectl/util.hpp"
#include "values/value.hpp"

#include <memory>

struct btf;

namespace uprobectl {

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
