// The methods of a class_data_item, one after another: first the direct ones, then the virtual
// ones, which is the order that OAT files count them in.
#pragma once

#include "art/dex.hpp"
#include "art/leb128.hpp"

namespace uprobectl::art {

// How many fields and methods there can be left to read: each belongs to one class, so what is read
// of all classes is bounded by the size of the file, however often it points to the same bytes.
struct ClassBudget {
  explicit ClassBudget(const DexFile& dex)
      : fields(dex.field_count()), methods(dex.method_count()) {}

  std::uint64_t fields;
  std::uint64_t methods;
};

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

} // namespace uprobectl::art
