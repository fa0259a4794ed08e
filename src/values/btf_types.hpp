// SPDX-License-Identifier: Apache-2.0
// Decodes bytes of BPF programs' maps and buffers by their types: BTF (Linux
// Documentation/bpf/btf.rst), or debug information.
#pragma once

#include "dwarf/dwarf.hpp"
#include "uprobectl/util.hpp"
#include "values/shown_as.hpp"
#include "values/value.hpp"
#include "values/value_type.hpp"

#include <functional>
#include <map>
#include <memory>

struct btf;

namespace uprobectl::values {

// The types of one object, program or map. Types of debug information are turned into BTF, so that
// values of both are decoded in one way.
class BtfTypes {
public:
  BtfTypes(); // without types
  // Parses the content of a section .BTF. Fails with corrupt.
  static Result<BtfTypes> parse(Bytes blob);
  // Reads the types of a loaded program or a map from the kernel, by the BTF id in its info.
  // not_permitted names the capability.
  static Result<BtfTypes> load_from_kernel(std::uint32_t btf_id);

  // Adds the types of another object; call it before types of debug information are added. If both
  // have a type of one name, find() prefers the one that was added first. Returns the number to add
  // to the ids of the other object; nullopt if memory is exhausted.
  std::optional<std::uint32_t> add(const BtfTypes& other);
  // Adds the structures, unions, enumerations and typedefs of debug information: clang emits no BTF
  // for types that are only used inside of functions. find() prefers types that were known before.
  // Adds nothing if memory is exhausted. Members whose types BTF does not have, such as enums of
  // Rust, are arrays of bytes.
  void add(const dwarf::DebugInfo& debug);

  // Marks the types with ids from `first` on as types of this object; by default those that are
  // added from now on.
  void begin_object(std::size_t object, std::optional<std::uint32_t> first = {});

  struct Type {
    std::string name; // without "struct"
    std::uint32_t id = 0;
    std::optional<std::size_t> object = {}; // as begin_object() says
    std::size_t size = 0;                   // bytes
    // A local variable of a program has this type or points to it, by debug information. Used to
    // guess which types programs send as records: false for the keys of maps, which also have
    // variables.
    bool has_variable = false;
    // Values of a map other than an array have this type: programs seldom send such variables.
    bool is_map_value = false;
    // Offset of the array that makes up at least half of the structure, mostly at its end: programs
    // may send only the part that they have filled. `has_flexible_array`: it is a flexible array
    // member, also that of a structure at the end.
    std::optional<std::size_t> tail = {};
    std::size_t tail_size = 0; // bytes
    bool has_flexible_array = false;
  };
  // Finds a type by its name as written in C, with or without its keyword. not_found suggests
  // similar structures, unions and typedefs. If several types have the name, the type of the object
  // comes first.
  Result<Type> find(std::string_view name, std::optional<std::size_t> object = {}) const;
  std::optional<Type> type(std::uint32_t id) const;
  // Returns the structures and unions with this property, each name once.
  std::vector<Type> find_structures(const std::function<bool(const Type&)>& is_wanted) const;

  // Whether a value of the type may have this size: the type's own size, or one that ends in its
  // tail.
  static bool may_have_size(const Type& type, std::size_t size) {
    return size == type.size ||
           (type.tail && size >= *type.tail && (type.has_flexible_array || size < type.size));
  }

  // Whether a record of this size is likely a value of the type, if only the size is known. The
  // record must have a part of the tail. The tail must not be a thread name, which programs send
  // whole.
  static bool is_likely_size(const Type& type, std::size_t size) {
    constexpr std::size_t thread_name = 16; // TASK_COMM_LEN
    if (size == type.size) return true;
    return type.tail && size > *type.tail &&
           (type.has_flexible_array || type.tail_size > thread_name) && may_have_size(type, size);
  }

  // Decodes a value of a type. A flexible array member has all further bytes; other further bytes
  // are padding, and ignored. If bytes are missing, returns the complete members and elements, and
  // the remaining bytes as a member "<rest>". nullopt without any bytes, and for a number whose
  // bytes are missing.
  std::optional<Value> decode(std::uint32_t id, Bytes bytes) const;

  // Returns how a value of the type, and its members, can be compared.
  ValueType value_type(std::uint32_t id) const;

  // Returns a rule for each member whose declaration tag in the source says how it is shown.
  std::vector<ShownAsRule> list_tags(std::uint32_t id) const;
  // Whether a declaration of any type has one of these tags.
  bool has_tag(std::initializer_list<ShownAs> wanted) const;

private:
  struct Free {
    void operator()(btf* types) const;
  };
  explicit BtfTypes(btf* types) : types_(types) {} // takes ownership
  // The BTF that types_ extends after debug information was added. It is freed after types_.
  // types_ is never extended again: libbpf 1.1 finds wrong names in split BTF of split BTF.
  std::unique_ptr<btf, Free> base_;
  std::map<std::uint32_t, bool> variables_;      // ids with has_variable, and their is_map_value
  std::map<std::uint32_t, std::size_t> objects_; // by their first ids
  std::unique_ptr<btf, Free> types_;
};

} // namespace uprobectl::values
