// SPDX-License-Identifier: Apache-2.0
// Reads the method tables of DEX files (https://source.android.com/docs/core/runtime/dex-format)
// and CompactDex files (AOSP art/libdexfile/dex/compact_dex_file.h), and the checksums of VDEX
// files.
#pragma once

#include "uprobectl/art.hpp"
#include "uprobectl/util.hpp"
#include "util/numbers.hpp"

#include <vector>

namespace uprobectl::art {

// Reads consecutive unsigned LEB128 numbers of at most 32 bits.
class Leb128 {
public:
  Leb128() = default; // nothing to read
  Leb128(Bytes bytes, std::uint64_t position) : bytes_(bytes), position_(position) {}

  // Returns nullopt at the end, and for a number of more than five bytes.
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

// A parsed DEX file. Accessors return nullopt for an invalid index or a truncated item.
class DexFile {
public:
  struct Class {
    std::uint32_t type = 0;
    std::uint32_t superclass = 0; // type index; no_index if none
    std::uint32_t data = 0;       // offset of the class_data_item in data(); 0 if none
  };
  struct MethodId {
    std::uint32_t type = 0; // of the class
    std::uint32_t proto = 0;
    std::uint32_t name = 0; // string index
  };
  struct Proto {
    std::uint32_t return_type = 0;
    std::uint32_t parameters = 0; // offset of a type_list in data(); 0 if none
  };
  static constexpr std::uint32_t no_index = 0xffffffff;
  static constexpr std::uint32_t max_string_units = 65535; // UTF-16 units: JVMS 4.4.7

  // The bytes begin with the file, or with the container that holds it (version 041), and may
  // extend beyond it: the data of a CompactDex file follows it and is shared with other files.
  // `at` is the offset of the file's header, not 0 only in a container. The result is a view of
  // the bytes. Errors: corrupt; unsupported for other versions.
  static Result<DexFile> parse(Bytes bytes, std::uint64_t at = 0);
  // Whether the bytes begin with the magic of a DEX or CompactDex file.
  static bool looks_like_dex(Bytes bytes);
  // Whether the bytes begin with the header of a DEX file in a container (version 041).
  static bool looks_like_container(Bytes bytes);

  Bytes signature() const;        // SHA-1 of the content, 20 bytes
  std::uint32_t checksum() const; // Adler-32 of the content
  bool is_in_container() const { return in_container_; }
  Bytes bytes() const { return bytes_; } // the size is that in the header
  Bytes data() const { return data_; }   // the base of data offsets
  std::uint32_t class_count() const { return classes_.count; }
  std::uint32_t method_count() const { return methods_.count; }
  std::uint32_t field_count() const { return fields_.count; }
  std::uint32_t string_count() const { return strings_.count; }

  std::optional<Class> class_def(std::uint32_t index) const;
  std::optional<MethodId> method_id(std::uint32_t index) const;
  std::optional<Proto> proto(std::uint32_t index) const;
  // Returns modified UTF-8: a surrogate pair takes six bytes, U+0000 two. Returns nullopt for a
  // string that is longer than its stated length or than max_string_units.
  std::optional<std::string_view> string(std::uint32_t index) const;
  std::optional<std::string_view> type(std::uint32_t index) const; // "Lcom/foo/Bar;", "[I"
  // The type index at a position of a type_list.
  std::optional<std::uint32_t> type_in_list(std::uint32_t list, std::uint32_t index) const;
  std::uint32_t list_size(std::uint32_t list) const;

private:
  struct Table {
    Bytes bytes; // whole entries
    std::uint32_t count = 0;
  };
  static Result<DexFile> parse_in_container(Bytes bytes, std::uint64_t at);
  // Reads the tables, whose offsets count from the base.
  static Result<DexFile> with_tables(DexFile dex, Bytes base);
  Result<Table> table(Bytes base, std::uint64_t header_field, std::uint64_t entry_size) const;

  bool in_container_ = false;
  Bytes bytes_;
  Bytes data_;
  Table strings_;
  Table types_;
  Table protos_;
  Table fields_;
  Table methods_;
  Table classes_;
};

// Returns the offsets of the headers of the DEX files in the bytes: of the files of a container, or
// 0 for another DEX file. Ends at the first header that is not valid.
std::vector<std::uint64_t> dex_headers(Bytes bytes);

// Returns the offset at which the container of a DEX file begins, for the offset of the file's
// header; that offset itself for other DEX files. Returns nullopt if it is outside the bytes.
std::optional<std::uint64_t> container_begin(Bytes bytes, std::uint64_t header);

// The fields and methods that may still be read. Each belongs to one class, so this bounds the work
// even if all classes of a malicious file share the same data.
struct ClassBudget {
  explicit ClassBudget(const DexFile& dex)
      : fields(dex.field_count()), methods(dex.method_count()) {}

  std::uint64_t fields;
  std::uint64_t methods;
};

// Iterates over the methods of a class_data_item: direct methods, then virtual ones. OAT files
// number methods in this order.
class ClassMethods {
public:
  struct Item {
    std::uint32_t index = 0;  // in method_ids
    std::uint32_t access = 0; // access_flags
  };

  // Returns nullopt for malformed data or if the budget is exceeded. A class without data has no
  // methods.
  static std::optional<ClassMethods> read(const DexFile& dex, const DexFile::Class& defined,
                                          ClassBudget& budget);

  std::uint32_t size() const { return size_; }
  // Returns nullopt at the end and for malformed data.
  std::optional<Item> next();

private:
  Leb128 cursor_;
  std::uint32_t size_ = 0;
  std::uint32_t direct_ = 0;
  std::uint32_t read_ = 0;
  std::uint32_t index_ = 0;
};

// A VDEX file (AOSP art/runtime/vdex_file.h). Only the checksums are read, to verify that it
// belongs to the OAT file, which holds the offsets of the DEX files in it.
struct Vdex {
  std::uint32_t version = 0;
  std::vector<std::uint32_t> checksums; // of its DEX files; equal to those in the OAT file
};

bool looks_like_vdex(Bytes bytes);

// Supports versions 006 to 027. Errors: corrupt; unsupported for other versions.
Result<Vdex> parse_vdex(Bytes bytes);

// Appends the Java name of a type descriptor: "com.foo.Bar" for "Lcom/foo/Bar;", "int[][]" for
// "[[I". Appends an invalid descriptor unchanged.
void append_type(std::string_view descriptor, std::string& text);

// The types of a method descriptor (JVMS 4.3.3), as append_type() writes them: "([JLa/B;)V".
struct MethodTypes {
  std::string return_type;
  std::vector<std::string> parameters;
};
std::optional<MethodTypes> parse_descriptor(std::string_view descriptor);

// Converts modified UTF-8 to UTF-8 and appends it.
void append_utf8(std::string_view modified, std::string& text);

// Returns the ids of the mapping files that R8 wrote for the code, usually one: its marker in the
// strings has it, `~~R8{…,"pg-map-id":"3f1c2ab",…}` (com.android.tools.r8.dex.Marker).
std::vector<std::string_view> r8_map_ids(const DexFile& dex);

// Returns the signature of a method, by its index in method_ids. Unreadable names are "?", and so
// are names beyond max_signature_size bytes in total, which only malicious files reach.
constexpr std::size_t max_signature_size = 65535;
Signature dex_method_signature(const DexFile& dex, std::uint32_t method);
void append_dex_method_name(const DexFile& dex, std::uint32_t method, std::string& text);

} // namespace uprobectl::art
