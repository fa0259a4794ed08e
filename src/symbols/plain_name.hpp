// A node of our own in LLVM's tree of a demangled name.
#pragma once

#include <cstdint>
#include <string_view>

#include <llvm/Demangle/ItaniumDemangle.h>

namespace uprobectl {

// A qualified name of identifiers alone, such as "v8::internal::Heap": one piece of text instead of
// the tree that LLVM makes of it, which is walked again for each of the name's substitutions.
class PlainName final : public llvm::itanium_demangle::Node {
public:
  // base_size: of its last identifier, bytes.
  PlainName(std::string_view text, std::uint32_t base_size)
      : Node(KNestedName), base_size_(base_size), text_(text) {}

  std::string_view text() const { return text_; }
  // LLVM's names.
  // NOLINTBEGIN(readability-identifier-naming)
  std::string_view getBaseName() const override { return text_.substr(text_.size() - base_size_); }
  void printLeft(llvm::itanium_demangle::OutputBuffer& out) const override { out += text_; }
  // NOLINTEND(readability-identifier-naming)

private:
  std::uint32_t base_size_;
  std::string_view text_;
};
static_assert(sizeof(PlainName) == sizeof(llvm::itanium_demangle::NestedName)); // as memory counts

} // namespace uprobectl
