// SPDX-License-Identifier: Apache-2.0
#include "uprobectl/symbols.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::symbols {

TEST_CASE("C++ and Rust names are given as people write them") {
  CHECK(demangle("_ZN2ns3Foo3barEi") == "ns::Foo::bar(int)");
  CHECK(demangle("_Z3maxIiET_S0_S0_") == "int max<int>(int, int)");
  CHECK(demangle("_ZN3FoocvT_IiEEv") == "Foo::operator int<int>()");
  CHECK(demangle("_RNvNtCs1234_7mycrate3foo3bar") == "mycrate::foo::bar");
  CHECK(demangle("_ZN4core3fmt5write17h0123456789abcdefE") == "core::fmt::write");
  CHECK(demangle("_ZN53_$LT$Test$u20$as$u20$core..ops..Drop$LT$$RF$T$GT$$GT$4drop17h"
                 "0123456789abcdefE") == "<Test as core::ops::Drop<&T>>::drop");
}

TEST_CASE("back references to a scope are expanded in C++ names") {
  CHECK(demangle("_ZN1a2bc1dC2ERKS1_") == "a::bc::d::d(a::bc::d const&)");
  CHECK(demangle("_ZN1a2bc1dD0Ev") == "a::bc::d::~d()");
  CHECK(demangle("_ZN1a2bc1dILi1EE1eES_S0_") == "a::bc::d<1>::e(a, a::bc)");
  CHECK(demangle("_ZN1a2bcplERKNS_1dES3_") == "a::bc::operator+(a::d const&, a::d const&)");
  CHECK(demangle("_ZN1a1bB5cxx11C1Ev") == "a::b[abi:cxx11]::b()");
  CHECK(demangle("_ZNSt6vectorIN1a1bESaIS1_EE4backEv") ==
        "std::vector<a::b, std::allocator<a::b>>::back()");
  CHECK(demangle("_ZZN1a1bEvEN1c1dEv") == "a::b()::c::d()");
}

TEST_CASE("a name may have hundreds of scopes") {
  std::string raw = "_ZN";
  std::string written;
  for (int i = 0; i < 500; ++i) {
    raw += "2ab";
    written += i == 0 ? "ab" : "::ab";
  }
  CHECK(demangle(raw + "Ev") == written + "()");
  CHECK(demangle(raw + "C1Ev") == written + "::ab()");
}

TEST_CASE("names that are not mangled have no demangled name") {
  CHECK_FALSE(demangle("malloc"));
  CHECK_FALSE(demangle(""));
  CHECK_FALSE(demangle("_Z"));
  CHECK_FALSE(demangle("_Zebra"));
  CHECK_FALSE(demangle("_R"));
  CHECK_FALSE(demangle("_Reader"));
  CHECK_FALSE(demangle("_D3foo3barFZv")); // D is not demangled
}

namespace {

constexpr std::string_view digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

// f(A<int, int>, A<A<int, int>, A<int, int> >, ...): each type names the one before it twice.
std::string doubling_cxx(std::size_t levels) {
  std::string name = "_Z1f1AIiiE";
  for (std::size_t i = 0; i < levels; ++i) {
    const std::string previous = {'S', digits[i], '_'};
    name += "S_I" + previous + previous + "E";
  }
  return name;
}

// a::f::<(u32, u32), ((u32, u32), (u32, u32)), ...>; a back reference is the position of its
// target.
std::string doubling_rust(std::size_t levels) {
  constexpr std::string_view base62 =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::string name = "INvC1a1f";
  std::size_t previous = name.size();
  name += "TmmE";
  for (std::size_t i = 0; i < levels; ++i) {
    std::string reference = "B";
    const std::size_t number = previous - 1; // "B0_" is position 1
    if (number >= 62) reference.push_back(base62[number / 62]);
    reference.push_back(base62[number % 62]);
    reference.push_back('_');
    previous = name.size();
    name += "T";
    name += reference;
    name += reference;
    name += "E";
  }
  return "_R" + name + "E";
}

} // namespace

TEST_CASE("names that would demangle to gigabytes stay mangled") {
  CHECK(demangle(doubling_cxx(1)) == "f(A<int, int>, A<A<int, int>, A<int, int>>)");
  CHECK(demangle(doubling_cxx(6)));
  CHECK_FALSE(demangle(doubling_cxx(32)));
  CHECK(demangle(doubling_rust(1)) == "a::f::<(u32, u32), ((u32, u32), (u32, u32))>");
  CHECK(demangle(doubling_rust(6)));
  CHECK_FALSE(demangle(doubling_rust(40)));
}

// A name of librustc_driver; the expected name is llvm-cxxfilt's.
TEST_CASE("names of Rust that refer back over long distances are demangled") {
  CHECK(demangle("_RNvXsx_NtCsgEmfK2I1SDS_4core5tupleTNtNtNtCs9TyMziwztfq_15icu_locale_core7subtags"
                 "8language8LanguageINtNtB7_6option6OptionNtNtBB_6script6ScriptEIB1z_NtNtBB_6region"
                 "6RegionERNtNtBB_8variants8VariantsENtNtB7_3cmp3Ord3cmpBD_") ==
        "<(icu_locale_core::subtags::language::Language, "
        "core::option::Option<icu_locale_core::subtags::script::Script>, "
        "core::option::Option<icu_locale_core::subtags::region::Region>, "
        "&icu_locale_core::subtags::variants::Variants) as core::cmp::Ord>::cmp");
}

TEST_CASE("names that nest deeper than the stack stay as they are") {
  CHECK_FALSE(demangle("_Z1f" + std::string(60000, 'P') + "i"));
  CHECK_FALSE(demangle("_Z1fI" + std::string(60000, 'J')));
  CHECK_FALSE(demangle("_RY" + std::string(60000, 'S')));
  CHECK_FALSE(demangle("_Z" + std::string(100000, '1')));
}

} // namespace uprobectl::symbols
