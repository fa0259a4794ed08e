// SPDX-License-Identifier: Apache-2.0
// A position in DWARF data. A read beyond the end returns 0 and leaves the cursor failed and at the
// end, so that loops over it terminate.
#pragma once

#include "uprobectl/util.hpp"
#include "util/numbers.hpp"

#include <algorithm>

namespace uprobectl::elf {

class DwarfCursor {
public:
  DwarfCursor(Bytes bytes, ByteOrder order) : bytes_(bytes), order_(order) {}

  bool failed() const { return failed_; }
  bool at_end() const { return at_ == bytes_.size(); }
  std::uint64_t at() const { return at_; }

  void seek(std::uint64_t at) {
    if (at > bytes_.size())
      fail();
    else
      at_ = at;
  }
  void skip(std::uint64_t size) {
    if (size > bytes_.size() - at_)
      fail();
    else
      at_ += size;
  }

  // size: 1, 2, 3, 4 or 8 bytes.
  std::uint64_t number(unsigned size) {
    if (size > bytes_.size() - at_) {
      fail();
      return 0;
    }
    if (size == 1) return std::to_integer<std::uint64_t>(bytes_[at_++]);
    std::uint64_t value = 0;
    for (unsigned i = 0; i < size; ++i) {
      const unsigned index = order_ == ByteOrder::little ? i : size - 1 - i;
      value |= std::to_integer<std::uint64_t>(bytes_[at_ + i]) << (8 * index);
    }
    at_ += size;
    return value;
  }

  // LEB128 (DWARF 5, 7.6). Fails if the number does not fit into 64 bits.
  std::uint64_t unsigned_leb() {
    if (at_ < bytes_.size() && std::to_integer<unsigned>(bytes_[at_]) < 0x80) // most have one byte
      return std::to_integer<std::uint64_t>(bytes_[at_++]);
    const auto value = take_uleb128(bytes_, at_);
    if (!value) fail();
    return value.value_or(0);
  }
  std::int64_t signed_leb() {
    const auto value = take_sleb128(bytes_, at_);
    if (!value) fail();
    return value.value_or(0);
  }
  // Signed or unsigned.
  void skip_leb() {
    while (at_ < bytes_.size())
      if ((std::to_integer<unsigned>(bytes_[at_++]) & 0x80U) == 0) return;
    fail();
  }

  std::string_view text() {
    const auto text = c_string_at(bytes_, at_);
    if (!text) {
      fail();
      return {};
    }
    at_ += text->size() + 1;
    return *text;
  }

  void fail() {
    failed_ = true;
    at_ = bytes_.size();
  }

private:
  Bytes bytes_;
  ByteOrder order_;
  std::uint64_t at_ = 0; // never beyond the end
  bool failed_ = false;
};

} // namespace uprobectl::elf
