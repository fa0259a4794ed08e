// DEX files, plain and compact: https://source.android.com/docs/core/runtime/dex-format; CompactDex
// is AOSP art/libdexfile/dex/compact_dex_file.h. Only what names methods is read.
#pragma once

#include "uprobectl/base.hpp"

namespace uprobectl::art {

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
  static constexpr std::uint32_t longest_string = 65535; // UTF-16 units: JVMS 4.4.7

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

} // namespace uprobectl::art
