// The OatClass of each class: which of its methods are compiled, and where their code is.
#pragma once

#include "art/class_methods.hpp"
#include "art/oat_header.hpp"
#include "uprobectl/art.hpp"

#include <functional>

namespace uprobectl::art {

// Where code can be.
struct CodeRange {
  VirtualAddress begin;
  VirtualAddress end;
  bool may_be_thumb = false;   // bit 0 of an offset is the instruction set
  std::uint64_t alignment = 1; // of an instruction
};
CodeRange code_range(const elf::Image& image, const OatHeader& header);

// The classes of one DEX file in an OAT file.
struct OatClasses {
  const OatHeader& header;
  const CodeRange& code;
  const DexFile& dex;
  std::uint32_t offsets = 0; // OatRecord::class_offsets
  std::uint16_t number = 0;  // of the DEX file
  // From OAT 194 on the number of methods stands in front, of which the size of the bitmap follows.
  bool counts_methods = true;
};

// Visits the methods of a class, compiled or not. False where what is read contradicts itself.
bool visit_methods(const OatClasses& classes, std::uint32_t index, ClassBudget& budget,
                   const std::function<void(const Method&)>& visit);

// Adds every compiled method. False where anything contradicts itself: a class whose methods are
// not as many as its DEX file says, code outside the executable bytes, more than the most methods.
bool add_compiled(const OatClasses& classes, std::uint64_t most, std::vector<Method>& methods);

} // namespace uprobectl::art
