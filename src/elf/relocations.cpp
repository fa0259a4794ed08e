// SPDX-License-Identifier: Apache-2.0
#include "elf/relocations.hpp"

#include "util/numbers.hpp"

namespace uprobectl::elf {

namespace {

constexpr std::string_view packed_magic = "APS2";
// Flags of a group, as bionic names them (RELOCATION_GROUPED_BY_INFO_FLAG).
constexpr std::uint64_t same_info = 1;
constexpr std::uint64_t same_step = 2;
constexpr std::uint64_t same_addend = 4;
constexpr std::uint64_t with_addend = 8;

} // namespace

PackedRelocations::PackedRelocations(Bytes bytes, bool is_64bit, bool has_addends)
    : bytes_(bytes), is_64bit_(is_64bit), has_addends_(has_addends) {
  if (!as_text(bytes).starts_with(packed_magic)) return;
  at_ = packed_magic.size();
  left_ = 1; // for take()
  const std::uint64_t count = take();
  address_ = take();
  left_ = left_ == 0 ? 0 : count;
}

std::uint64_t PackedRelocations::take() {
  const auto number = take_sleb128(bytes_, at_);
  if (!number) left_ = 0;
  return static_cast<std::uint64_t>(number.value_or(0));
}

// Reads the head of a group as read_group_fields() of bionic does. Its linker does not load files
// that have addends in DT_ANDROID_REL.
bool PackedRelocations::begin_group() {
  in_group_ = take();
  flags_ = take();
  if ((flags_ & same_step) != 0) step_ = take();
  if ((flags_ & same_info) != 0) info_ = take();
  if ((flags_ & with_addend) == 0)
    addend_ = 0;
  else if (!has_addends_)
    left_ = 0;
  else if ((flags_ & same_addend) != 0)
    addend_ += take();
  return left_ != 0 && in_group_ != 0;
}

std::optional<Relocation> PackedRelocations::next(std::uint64_t max_count) {
  if (left_ == 0 || returned_ == max_count) return std::nullopt;
  if (in_group_ == 0 && !begin_group()) {
    left_ = 0;
    return std::nullopt;
  }
  address_ += (flags_ & same_step) != 0 ? step_ : take();
  if ((flags_ & same_info) == 0) info_ = take();
  if ((flags_ & with_addend) != 0 && (flags_ & same_addend) == 0) addend_ += take();
  if (left_ == 0) return std::nullopt; // the numbers have ended
  --left_;
  --in_group_;
  ++returned_;
  Relocation made;
  made.address = {is_64bit_ ? address_ : address_ & 0xffffffffU};
  made.symbol = static_cast<std::uint32_t>(is_64bit_ ? info_ >> 32U : (info_ & 0xffffffffU) >> 8U);
  made.type = static_cast<std::uint32_t>(is_64bit_ ? info_ : info_ & 0xffU);
  if (has_addends_) made.addend = addend_;
  return made;
}

} // namespace uprobectl::elf
