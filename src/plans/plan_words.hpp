// SPDX-License-Identifier: Apache-2.0
// The words of plans that stand for enumerators.
#pragma once

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

constexpr std::array string_layout_words = {
    Word{std::string_view("libstdc++"), StringLayout::libstdcxx},
    Word{std::string_view("libc++"), StringLayout::libcxx},
};

constexpr std::array jump_test_words = {
    Word{std::string_view("flags"), JumpCondition::Test::flags},
    Word{std::string_view("zero"), JumpCondition::Test::zero},
    Word{std::string_view("not_zero"), JumpCondition::Test::not_zero},
    Word{std::string_view("bit_clear"), JumpCondition::Test::bit_clear},
    Word{std::string_view("bit_set"), JumpCondition::Test::bit_set},
};

template <typename T, std::size_t N>
constexpr std::string_view find_word(const std::array<Word<T>, N>& words, T value) {
  for (const Word<T>& word : words)
    if (word.value == value) return word.text;
  return {};
}

constexpr std::string_view word_of(StringLayout layout) {
  return find_word(string_layout_words, layout);
}
constexpr std::string_view word_of(JumpCondition::Test test) {
  return find_word(jump_test_words, test);
}

} // namespace uprobectl::plans
