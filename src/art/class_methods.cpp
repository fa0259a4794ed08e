#include "art/class_methods.hpp"

namespace uprobectl::art {

std::optional<ClassMethods> ClassMethods::read(const DexFile& dex, const DexFile::Class& defined,
                                               ClassBudget& budget) {
  ClassMethods methods;
  if (defined.data == 0) return methods;
  Leb128 cursor(dex.data(), defined.data);
  const auto static_fields = cursor.next();
  const auto instance_fields = cursor.next();
  const auto direct = cursor.next();
  const auto virtuals = cursor.next();
  if (!static_fields || !instance_fields || !direct || !virtuals) return std::nullopt;
  const std::uint64_t fields = std::uint64_t{*static_fields} + *instance_fields;
  const std::uint64_t count = std::uint64_t{*direct} + *virtuals;
  if (fields > budget.fields || count > budget.methods) return std::nullopt;
  budget.fields -= fields;
  budget.methods -= count;
  for (std::uint64_t i = 0; i < 2 * fields; ++i) // of each the index, and access_flags
    if (!cursor.next()) return std::nullopt;
  methods.cursor_ = cursor;
  methods.size_ = static_cast<std::uint32_t>(count);
  methods.direct_ = *direct;
  return methods;
}

std::optional<ClassMethods::Item> ClassMethods::next() {
  if (read_ == size_) return std::nullopt;
  if (read_ == direct_) index_ = 0; // each list counts from its own beginning
  ++read_;
  const auto difference = cursor_.next();
  const auto access = cursor_.next();
  const auto code = cursor_.next();
  if (!difference || !access || !code) return std::nullopt;
  index_ += *difference;
  return Item{index_, *access};
}

} // namespace uprobectl::art
