// SPDX-License-Identifier: Apache-2.0
// Compares a name as users spell it with the names of symbols: C++ and Rust names in any notation
// and with parts left out, Go names without the "(*...)" of a receiver.
#pragma once

#include "symbols/typedefs.hpp"
#include "uprobectl/symbols.hpp"

namespace uprobectl::symbols {

// Flags for the parts that a written name leaves out. A name with a lower sum of flags is closer;
// find_by_spelling() does not count ignores_abi if scopes are left out, too. 0: the names differ
// only in notation.
using NameMismatch = unsigned;
inline constexpr NameMismatch ignores_abi = 1;    // inline namespaces of std, ABI tags
inline constexpr NameMismatch ignores_parts = 2;  // as in Spelling::shortened
inline constexpr NameMismatch ignores_scopes = 4; // enclosing scopes, of the function or of types

class NameQuery {
public:
  // Returns nullopt if the text cannot be such a name, for example because it is a pattern or has a
  // version. A name of C can be one: that of a function template, or in an unnamed namespace.
  static std::optional<NameQuery> parse(std::string_view text);

  // Whether the text has parameters, so that '*' in it means a pointer.
  bool has_parameters() const;

  // Returns which parts of the symbol's name this name leaves out; nullopt if it does not mean the
  // symbol. Excludes clones and parts of functions. Charges the DemanglingBudget.
  std::optional<NameMismatch> match(std::string_view raw) const;
  // Whether the mangled name contains the identifiers of this one. Cheap.
  bool may_match(std::string_view raw) const;

  // Names in the types that may be typedefs, and the name with other types for them.
  std::vector<std::string> type_names() const;
  NameQuery with_types(const TypedefMap& typedefs) const;

private:
  NameQuery() = default;

  std::optional<NameMismatch> match_fortran(std::string_view raw) const;
  std::optional<NameMismatch> match_go(std::string_view raw) const;

  ParsedName name_;
  // Each mangled form of the name contains one text of each of these lists.
  std::vector<std::vector<std::string>> needed_;
  std::string rust_hash_;    // "17h0123456789abcdefE", if the name ends with it
  std::string fortran_name_; // "farm::weigh", "weigh": if the name can be Fortran's; else empty
  std::vector<std::string> modules_; // of C++20, that the name has: "@geo"
  std::string go_name_;              // the text, if it can be a name of Go; else empty
};

} // namespace uprobectl::symbols
