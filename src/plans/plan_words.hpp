// SPDX-License-Identifier: Apache-2.0
// The words of plans that stand for enumerators.
#pragma once

#include "dwarf/functions.hpp"
#include "uprobectl/resolve/function.hpp"

#include <array>

namespace uprobectl::plans {

constexpr std::string_view plan_format = "uprobectl-plan";
constexpr std::string_view plan_error_format = "uprobectl-plan-error";

template <typename T>
struct Word {
  std::string_view text;
  T value;
};

constexpr std::array type_kind_words = {
    Word{std::string_view("unknown"), dwarf::TypeKind::unknown},
    Word{std::string_view("void"), dwarf::TypeKind::none},
    Word{std::string_view("integer"), dwarf::TypeKind::integer},
    Word{std::string_view("boolean"), dwarf::TypeKind::boolean},
    Word{std::string_view("character"), dwarf::TypeKind::character},
    Word{std::string_view("floating"), dwarf::TypeKind::floating},
    Word{std::string_view("enumeration"), dwarf::TypeKind::enumeration},
    Word{std::string_view("pointer"), dwarf::TypeKind::pointer},
    Word{std::string_view("reference"), dwarf::TypeKind::reference},
    Word{std::string_view("array"), dwarf::TypeKind::array},
    Word{std::string_view("structure"), dwarf::TypeKind::structure},
    Word{std::string_view("variants"), dwarf::TypeKind::variants},
    Word{std::string_view("function"), dwarf::TypeKind::function},
};

constexpr std::array piece_words = {
    Word{std::string_view("missing"), dwarf::Piece::Kind::missing},
    Word{std::string_view("value"), dwarf::Piece::Kind::value},
    Word{std::string_view("memory"), dwarf::Piece::Kind::memory},
};

constexpr std::array base_words = {
    Word{std::string_view("zero"), dwarf::Formula::Base::zero},
    Word{std::string_view("register"), dwarf::Formula::Base::machine_register},
    Word{std::string_view("image"), dwarf::Formula::Base::image},
};

constexpr std::array string_layout_words = {
    Word{std::string_view("libstdc++"), resolve::StringLayout::libstdcxx},
    Word{std::string_view("libc++"), resolve::StringLayout::libcxx},
};

constexpr std::array jump_test_words = {
    Word{std::string_view("flags"), insn::JumpCondition::Test::flags},
    Word{std::string_view("zero"), insn::JumpCondition::Test::zero},
    Word{std::string_view("not_zero"), insn::JumpCondition::Test::not_zero},
    Word{std::string_view("bit_clear"), insn::JumpCondition::Test::bit_clear},
    Word{std::string_view("bit_set"), insn::JumpCondition::Test::bit_set},
};

template <typename T, std::size_t N>
constexpr std::string_view find_word(const std::array<Word<T>, N>& words, T value) {
  for (const Word<T>& word : words)
    if (word.value == value) return word.text;
  return {};
}

} // namespace uprobectl::plans
