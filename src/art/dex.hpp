// SPDX-License-Identifier: Apache-2.0
// DEX files, plain and compact: https://source.android.com/docs/core/runtime/dex-format; CompactDex
// is AOSP art/libdexfile/dex/compact_dex_file.h. Only the tables that name methods are read. Also
// the VDEX files that hold DEX files of an OAT file.
#pragma once

#include "uprobectl/art.hpp"
#include "uprobectl/util.hpp"
#include "util/numbers.hpp"

#include <vector>

namespace uprobectl::art {

// Unsigned LEB128 numbers of at most 32 bits, one after another.
class Leb128 {
public:
  Leb128() = default; // nothing to read
  Leb128(Bytes bytes, std::uint64_t position) : bytes_(bytes), position_(position) {}

  // Nothing at the end, and for a number of more than five bytes.
  std::optional<std::uint32_t> next() {
    constexpr unsigned max_bytes = 5;
    const auto value = take_uleb128(bytes_, position_, max_bytes);
    return value ? std::optional(static_cast<std::uint32_t>(*value)) : std::nullopt;
  }

  std::uint64_t position() const { return position_; }

private:
  Bytes bytes_;
  std::uint64_t position_ = 0;
};

class DexFile {
public:
  struct Class {
    std::uint32_t type = 0;
    std::uint32_t superclass = 0; // a type; no_index: none
    std::uint32_t data = 0;       // offset of the class_data_item in data(); 0: none
  };
  struct MethodId {
    std::uint32_t type = 0; // of the class
    std::uint32_t proto = 0;
    std::uint32_t name = 0; // a string
  };
  struct Proto {
    std::uint32_t return_type = 0;
    std::uint32_t parameters = 0; // offset of a type_list in data(); 0: none
  };
  static constexpr std::uint32_t no_index = 0xffffffff;
  static constexpr std::uint32_t max_string_units = 65535; // UTF-16 units: JVMS 4.4.7

  // bytes: from the header on; what follows the file is needed for compact ones, whose data several
  // files share. A view: the bytes must outlive it.
  static Result<DexFile> parse(Bytes bytes);
  // Whether the bytes begin as a DEX file of either kind does.
  static bool looks_like_dex(Bytes bytes);

  Bytes signature() const;               // SHA-1 of the content, 20 bytes
  Bytes bytes() const { return bytes_; } // as many as the header says
  Bytes data() const { return data_; }   // what offsets of data count from
  std::uint32_t class_count() const { return classes_.count; }
  std::uint32_t method_count() const { return methods_.count; }
  std::uint32_t field_count() const { return fields_.count; }

  std::optional<Class> class_def(std::uint32_t index) const;
  std::optional<MethodId> method_id(std::uint32_t index) const;
  std::optional<Proto> proto(std::uint32_t index) const;
  // Modified UTF-8: a surrogate pair is six bytes, U+0000 two. Nothing for one that is longer than
  // it says, or than any can be.
  std::optional<std::string_view> string(std::uint32_t index) const;
  std::optional<std::string_view> type(std::uint32_t index) const; // "Lcom/foo/Bar;", "[I"
  // The types of a type_list.
  std::optional<std::uint32_t> type_in_list(std::uint32_t list, std::uint32_t index) const;
  std::uint32_t list_size(std::uint32_t list) const;

private:
  struct Table {
    Bytes bytes; // whole entries
    std::uint32_t count = 0;
  };
  Result<Table> table(std::uint64_t header_field, std::uint64_t entry_size) const;

  Bytes bytes_;
  Bytes data_;
  Table strings_;
  Table types_;
  Table protos_;
  Table fields_;
  Table methods_;
  Table classes_;
};

// How many fields and methods there can be left to read: each belongs to one class, so what is read
// of all classes is bounded by the size of the file, however often it points to the same bytes.
struct ClassBudget {
  explicit ClassBudget(const DexFile& dex)
      : fields(dex.field_count()), methods(dex.method_count()) {}

  std::uint64_t fields;
  std::uint64_t methods;
};

// The methods of a class_data_item, one after another: first the direct ones, then the virtual
// ones, which is the order that OAT files count them in.
class ClassMethods {
public:
  struct Item {
    std::uint32_t index = 0;  // in method_ids
    std::uint32_t access = 0; // access_flags
  };

  // Nothing for malformed data, or beyond the budget. A class without data has no methods.
  static std::optional<ClassMethods> read(const DexFile& dex, const DexFile::Class& defined,
                                          ClassBudget& budget);

  std::uint32_t size() const { return size_; }
  // Nothing at the end, and where the data is malformed.
  std::optional<Item> next();

private:
  Leb128 cursor_;
  std::uint32_t size_ = 0;
  std::uint32_t direct_ = 0;
  std::uint32_t read_ = 0;
  std::uint32_t index_ = 0;
};

// A VDEX file: AOSP art/runtime/vdex_file.h. The OAT file has the offsets of the DEX files in it,
// so only the checksums are read, which show that the two belong together.
struct Vdex {
  std::uint32_t version = 0;
  std::vector<std::uint32_t> checksums; // of its DEX files, as the OAT file has them
};

bool looks_like_vdex(Bytes bytes);

// unsupported, with the version named, for other versions than 006 to 027.
Result<Vdex> parse_vdex(Bytes bytes);

// "Lcom/foo/Bar;" becomes "com.foo.Bar", "[[I" "int[][]"; what is no descriptor stays as it is.
void append_type(std::string_view descriptor, std::string& text);

// Modified UTF-8 becomes UTF-8: surrogate pairs and U+0000.
void append_utf8(std::string_view modified, std::string& text);

// Of a method of the file; what cannot be read is "?", and so is what would make it longer than the
// longest signature: bytes of all its names, which a file that means no harm never comes near.
constexpr std::size_t max_signature_size = 65535;
Signature dex_method_signature(const DexFile& dex, std::uint32_t method);
void append_dex_method_name(const DexFile& dex, std::uint32_t method, std::string& text);

} // namespace uprobectl::art
