// SPDX-License-Identifier: Apache-2.0
// Mangled names are those of g++ 12, clang 19, rustc and Go; c++filt and llvm-cxxfilt print the
// names in the comments.
#include "symbols/name_query.hpp"

#include <bit>
#include <catch2/catch.hpp>

namespace uprobectl::symbols {

namespace {

constexpr NameMismatch equivalent = 0;
constexpr NameMismatch without_abi = ignores_abi;
constexpr NameMismatch without_parts = ignores_parts;
constexpr NameMismatch unqualified = ignores_scopes;

// The worst of what the written name leaves out.
std::optional<NameMismatch> match(std::string_view written, std::string_view raw) {
  CAPTURE(written, raw);
  const auto name = NameQuery::parse(written);
  const auto mismatch = name ? name->match(raw) : std::nullopt;
  return mismatch ? std::optional(std::bit_floor(*mismatch)) : std::nullopt;
}

bool is_name(std::string_view written) { return NameQuery::parse(written).has_value(); }

// shop::Cart::add(shop::Item const&, bool, shop::Color)
constexpr std::string_view cart_add = "_ZN4shop4Cart3addERKNS_4ItemEbNS_5ColorE";
// shop::Cart::size() const
constexpr std::string_view mangled_cart_size = "_ZNK4shop4Cart4sizeEv";
// shop::Cart::find(char const*, unsigned long, signed char) const
constexpr std::string_view find = "_ZNK4shop4Cart4findEPKcma";
// shop::Cart::name[abi:cxx11]() const
constexpr std::string_view tagged = "_ZNK4shop4Cart4nameB5cxx11Ev";
// shop::Cart::rename(std::string const&), of libstdc++ and of libc++
constexpr std::string_view rename_new =
    "_ZN4shop4Cart6renameERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
constexpr std::string_view rename_llvm =
    "_ZN4shop4Cart6renameERKNSt3__112basic_stringIcNS1_11char_traitsIcEENS1_9allocatorIcEEEE";
constexpr std::string_view rename_ndk =
    "_ZN4shop4Cart6renameERKNSt6__ndk112basic_stringIcNS1_11char_traitsIcEENS1_9allocatorIcEEEE";
// shop::Shelf<shop::Item, 5>::put(shop::Item)
constexpr std::string_view put = "_ZN4shop5ShelfINS_4ItemELi5EE3putES1_";
// double shop::cheapest<double>(double, double)
constexpr std::string_view cheapest = "_ZN4shop8cheapestIdEET_S1_S1_";

} // namespace

TEST_CASE("const may lead or follow, and words of integers may be in any order") {
  CHECK(match("shop::Cart::find(const char *, unsigned long, signed char) const", find) ==
        equivalent);
  CHECK(match("shop::Cart::find(char const*, long unsigned int, char signed) const", find) ==
        equivalent);
  CHECK(match("shop::Cart::find(const char*, long, signed char) const", find) == std::nullopt);
  CHECK(match("shop::Cart::find(char*, unsigned long, signed char) const", find) == std::nullopt);
  // f(char* const*), f(int const volatile*)
  CHECK(match("f(char *const *)", "_Z1fPKPc") == equivalent);
  CHECK(match("f(volatile const int *)", "_Z1fPVKi") == equivalent);
  CHECK(match("f(unsigned)", "_Z1fj") == equivalent);
  CHECK(match("f(long long int, long double)", "_Z1fxe") == equivalent);
}

TEST_CASE("parameters may have names, default values and const at top level, and arrays decay") {
  CHECK(match("shop::Cart::add(const shop::Item& item, bool gift = false, shop::Color color)",
              cart_add) == equivalent);
  CHECK(match("f(const int count, unsigned flags)", "_Z1fij") == equivalent);
  CHECK(match("f(char *argv[], int sizes[4])", "_Z1fPPcPi") == equivalent);
  CHECK(match("f(struct stat *buffer)", "_Z1fP4stat") == equivalent);
  CHECK(match("f(void)", "_Z1fv") == equivalent);
}

TEST_CASE("spaces do not matter") {
  CHECK(match(" shop :: Cart::add ( shop::Item const & , bool,shop::Color ) ", cart_add) ==
        equivalent);
  CHECK(match("shop::Shelf< shop::Item , 5 >::put", put) == equivalent);
}

TEST_CASE("an ABI tag may be left out, but another one does not match") {
  CHECK(match("shop::Cart::name() const", tagged) == without_abi);
  CHECK(match("shop::Cart::name[abi:cxx11]() const", tagged) == equivalent);
  CHECK(match("shop::Cart::name[abi:v2]() const", tagged) == std::nullopt);
  CHECK(match("shop::Cart::name", tagged) == without_abi);
}

TEST_CASE("const, & and && of a member function may be left out, but not contradict") {
  CHECK(match("shop::Cart::size() const", mangled_cart_size) == equivalent);
  CHECK(match("shop::Cart::size()", mangled_cart_size) == without_parts);
  CHECK(match("shop::Cart::size() const", "_ZN4shop4Cart4sizeEv") == std::nullopt);
  CHECK(match("shop::Cart::take() &&", "_ZNO4shop4Cart4takeEv") == equivalent);
  CHECK(match("shop::Cart::take() &&", "_ZNR4shop4Cart4takeEv") == std::nullopt);
}

TEST_CASE("std::string means the string of each standard library") {
  for (const std::string_view raw : {rename_new, rename_llvm, rename_ndk}) {
    CHECK(match("shop::Cart::rename(const std::string&)", raw) == without_abi);
    CHECK(match("shop::Cart::rename(std::basic_string<char> const&)", raw) == without_abi);
    CHECK(match("shop::Cart::rename(std::string_view)", raw) == std::nullopt);
    CHECK(match("shop::Cart::rename(std::wstring const&)", raw) == std::nullopt);
    CHECK(match("shop::Cart::rename(string const&)", raw) == unqualified);
  }
  CHECK(match("shop::Cart::rename(std::__cxx11::basic_string<char, std::char_traits<char>, "
              "std::allocator<char> > const&)",
              rename_new) == equivalent);
  // std::__cxx11::basic_string<char, ...>::append(char const*), std::string::append(char const*)
  constexpr std::string_view append_new =
      "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE6appendEPKc";
  constexpr std::string_view append_old = "_ZNSs6appendEPKc";
  CHECK(match("std::string::append(const char*)", append_new) == without_abi);
  CHECK(match("std::string::append(const char*)", append_old) == equivalent);
  CHECK(match("std::__cxx11::string::append(const char*)", append_new) == equivalent);
  CHECK(match("std::__cxx11::string::append(const char*)", append_old) == std::nullopt);
  CHECK(match("string::append(const char*)", append_new) == unqualified);
  // std::__cxx11::basic_string<char, ...>::basic_string()
  CHECK(match("std::string::string()",
              "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEC1Ev") == without_abi);
  // std::ostream::put(char)
  CHECK(match("std::basic_ostream<char>::put(char)", "_ZNSo3putEc") == equivalent);
}

TEST_CASE("default template arguments of the standard library may be left out") {
  // std::vector<int, std::allocator<int>>::push_back(int const&)
  CHECK(match("std::vector<int>::push_back(const int&)", "_ZNSt6vectorIiSaIiEE9push_backERKi") ==
        equivalent);
  CHECK(match("std::vector<int>::push_back",
              "_ZNSt3__16vectorIiNS_9allocatorIiEEE9push_backERKi") == without_abi);
  CHECK(match("std::vector<long>::push_back", "_ZNSt6vectorIiSaIiEE9push_backERKi") ==
        std::nullopt);
  CHECK(match("vector<int>::push_back", "_ZNSt6vectorIiSaIiEE9push_backERKi") == unqualified);
  // f(std::set<int, std::less<int>, ...>), f(std::set<int, std::less<void>, ...>)
  CHECK(match("f(std::set<int>)", "_Z1fSt3setIiSt4lessIiESaIiEE") == equivalent);
  CHECK(match("f(std::set<int>)", "_Z1fSt3setIiSt4lessIvESaIiEE") == std::nullopt);
  // shop::Cart::fill(std::vector<shop::Item> const&, std::map<std::string, int>*)
  constexpr std::string_view fill =
      "_ZN4shop4Cart4fillERKSt6vectorINS_4ItemESaIS2_EEPSt3mapINSt7__cxx1112basic_stringIcSt11char_"
      "traitsIcESaIcEEEiSt4lessISD_ESaISt4pairIKSD_iEEE";
  CHECK(
      match("shop::Cart::fill(const std::vector<shop::Item>& items, std::map<std::string, int>* n)",
            fill) == without_abi);
  CHECK(match("Cart::fill(const vector<Item>&, map<string, int>*)", fill) == unqualified);
}

TEST_CASE("arguments that only look like defaults belong to the name") {
  // shop::sort<int, std::less<int>>(int), shop::Box<int, std::allocator<int>>::put()
  constexpr std::string_view sort = "_ZN4shop4sortIiSt4lessIiEEEviT_";
  constexpr std::string_view put_in_box = "_ZN4shop3BoxIiSaIiEE3putEv";
  CHECK(match("shop::sort<int, std::less<int>>", sort) == equivalent);
  CHECK(match("shop::sort<int>", sort) == without_parts);
  CHECK(match("shop::sort<int, std::less<int>>", "_ZN4shop4sortIiEEviT_") == std::nullopt);
  CHECK(match("shop::Box<int>::put()", put_in_box) == without_parts);
  CHECK(match("shop::Box<int, std::allocator<int>>::put()", put_in_box) == equivalent);
  // f(std::vector<int, std::allocator<char>>)
  CHECK(match("f(std::vector<int>)", "_Z1fSt6vectorIiSaIcEE") == std::nullopt);
  CHECK(match("f(std::vector<int, std::allocator<char>>)", "_Z1fSt6vectorIiSaIcEE") == equivalent);
  // In types of parameters, where the source omits them: f(shop::Box<int, std::allocator<int>>&),
  // f(shop::Box<int, std::allocator<char>>), f(shop::Box<shop::Box<int, std::less<int>>, int>)
  CHECK(match("f(shop::Box<int>&)", "_Z1fRN4shop3BoxIiSaIiEEE") == without_parts);
  CHECK(match("f(shop::Box<int>)", "_Z1fN4shop3BoxIiSaIcEEE") == std::nullopt);
  CHECK(match("f(shop::Box<shop::Box<int>, int>)", "_Z1fN4shop3BoxINS0_IiSt4lessIiEEEiEE") ==
        without_parts);
  CHECK(match("f(shop::Box<shop::Box<int>>)", "_Z1fN4shop3BoxINS0_IiSt4lessIiEEEiEE") ==
        std::nullopt);
  // std::unordered_map<int, long, ...>::size() const of libc++
  CHECK(match("std::unordered_map<int, long>::size()",
              "_ZNKSt3__113unordered_mapIilNS_4hashIiEENS_8equal_toIiEENS_9allocatorINS_4pairIKil"
              "EEEEE4sizeEv") == without_parts);
}

TEST_CASE("template arguments may be left out from the end") {
  CHECK(match("shop::Shelf::put", put) == without_parts);
  CHECK(match("shop::Shelf<shop::Item>::put(shop::Item)", put) == without_parts);
  CHECK(match("shop::Shelf<Item, 5u>::put", put) == unqualified);
  CHECK(match("shop::Shelf<shop::Item, 6>::put", put) == std::nullopt);
  CHECK(match("shop::Shelf<shop::Item, 5, 1>::put", put) == std::nullopt);
  CHECK(match("shop::cheapest", cheapest) == without_parts);
  CHECK(match("shop::cheapest(double, double)", cheapest) == without_parts);
}

TEST_CASE("a return type is compared if the mangled name has it") {
  CHECK(match("double shop::cheapest<double>(double one, double other)", cheapest) == equivalent);
  CHECK(match("int shop::cheapest<double>(double, double)", cheapest) == std::nullopt);
  CHECK(match("virtual void shop::Cart::add(const shop::Item&, bool, shop::Color)", cart_add) ==
        without_parts);
  CHECK(match("const std::string &shop::Cart::name() const", tagged) == without_parts);
  CHECK_FALSE(is_name("void shop::Cart::add"));
}

TEST_CASE("enclosing scopes may be left out, of types too") {
  CHECK(match("Cart::add", cart_add) == unqualified);
  CHECK(match("Cart::add(const Item&, bool, Color)", cart_add) == unqualified);
  CHECK(match("shop::Cart::add(const Item&, bool, Color)", cart_add) == unqualified);
  CHECK(match("art::add", cart_add) == std::nullopt);
  CHECK(match("Cart::add(const em&, bool, Color)", cart_add) == std::nullopt);
  CHECK(match("::Cart::add", cart_add) == std::nullopt);
  CHECK(match("::shop::Cart::add", cart_add) == equivalent);
  CHECK(match("shop::add", cart_add) == std::nullopt);
}

TEST_CASE("a bare word, which may be a mistyped C name, finds no member") {
  CHECK(match("add", cart_add) == std::nullopt);
  CHECK(match("add(const Item&, bool, Color)", cart_add) == unqualified);
  CHECK(match("cheapest", cheapest) == std::nullopt);
  // int largest<int>(int, int), (anonymous namespace)::check(int)
  CHECK(match("largest", "_Z7largestIiET_S0_S0_") == without_parts);
  CHECK(match("check", "_ZN12_GLOBAL__N_15checkEi") == without_parts);
}

TEST_CASE("unnamed and inline namespaces may be left out") {
  constexpr std::string_view check = "_ZN4shop12_GLOBAL__N_15checkEi";
  for (const std::string_view anonymous :
       {"(anonymous namespace)", "{anonymous}", "<unnamed>", "(anonymous)", "_GLOBAL__N_1"})
    CHECK(match("shop::" + std::string(anonymous) + "::check(int)", check) == equivalent);
  CHECK(match("shop::check", check) == without_parts);
  CHECK(match("shop::ship", "_ZN4shop2v24shipERKNS_4ItemE") == without_parts);
  CHECK(match("fmt::vprint(int)", "_ZN3fmt2v96vprintEi") == without_parts);
  CHECK(match("Isolate::New", "_ZN2v87Isolate3NewEv") == unqualified); // a library's name
  CHECK(match("length", "_ZN2v26lengthEv") == std::nullopt);           // may be a class
  // f(shop::(anonymous namespace)::Item)
  CHECK(match("f(shop::Item)", "_Z1fN4shop12_GLOBAL__N_14ItemE") == without_parts);
}

TEST_CASE("operators and conversions are names") {
  CHECK(match("Cart::operator [](unsigned)", "_ZN4shop4CartixEj") == unqualified);
  CHECK(match("shop::Cart::operator+=(const shop::Item&)", "_ZN4shop4CartpLERKNS_4ItemE") ==
        equivalent);
  CHECK(match("shop::Cart::operator<(const shop::Cart&) const", "_ZNK4shop4CartltERKS0_") ==
        equivalent);
  CHECK(match("shop::Cart::operator()(int)", "_ZN4shop4CartclEi") == equivalent);
  CHECK(match("shop::Cart::operator const char *() const", "_ZNK4shop4CartcvPKcEv") == equivalent);
  CHECK(match("Cart::operator bool", "_ZNK4shop4CartcvbEv") == unqualified);
  CHECK(match("Cart::operator bool", "_ZNK4shop4CartcvPKcEv") == std::nullopt);
  CHECK(match("Cart::operator<", "_ZNK4shop4CartltERKS0_") == unqualified);
  CHECK(match("operator<<(std::ostream&, const Item&)", "_ZN4shoplsERSoRKNS_4ItemE") ==
        unqualified);
}

TEST_CASE("constructors, destructors and function pointers are names and types") {
  CHECK(match("Cart::Cart(int)", "_ZN4shop4CartC1Ei") == unqualified);
  CHECK(match("shop::Cart::~Cart(void)", "_ZN4shop4CartD2Ev") == equivalent);
  CHECK(match("~Cart", "_ZN4shop4CartD2Ev") == unqualified);
  // shop::Cart::on_change(void (*)(int, void*), int shop::Item::*, char const (&) [4])
  constexpr std::string_view on_change = "_ZN4shop4Cart9on_changeEPFviPvEMNS_4ItemEiRA4_Kc";
  CHECK(match("shop::Cart::on_change(void (*)(int, void *), int shop::Item::*, const char (&)[4])",
              on_change) == equivalent);
  CHECK(match("shop::Cart::on_change(void (*call)(int, void*), int shop::Item::*member, "
              "const char (&mark)[4])",
              on_change) == equivalent);
  CHECK(match("shop::Cart::on_change(void (*)(int), int shop::Item::*, const char (&)[4])",
              on_change) == std::nullopt);
}

TEST_CASE("lambdas are found by the names of both demanglers") {
  // main::'lambda'(int)::operator()(int) const, main::{lambda(int)#1}::operator()(int) const
  CHECK(match("main::{lambda(int)#1}::operator()(int) const", "_ZZ4mainENKUliE_clEi") ==
        equivalent);
  CHECK(match("main::'lambda'(int)::operator()", "_ZZ4mainENKUliE_clEi") == equivalent);
  CHECK(match("main::{lambda(int)#2}::operator()", "_ZZ4mainENKUliE0_clEi") == equivalent);
  CHECK(match("main::{lambda(int)#2}::operator()", "_ZZ4mainENKUliE_clEi") == std::nullopt);
}

TEST_CASE("Rust paths are found without hash, type arguments and trait") {
  constexpr std::string_view legacy = "_ZN4shop4Cart3add17h0123456789abcdefE";
  CHECK(match("Cart::add", legacy) == unqualified);
  CHECK(match("shop::Cart::add::h0123456789abcdef", legacy) == equivalent);
  CHECK(match("shop::Cart::add::h1123456789abcdef", legacy) == std::nullopt);
  // <shop::Cart>::add, shop::cheapest::<i32>
  CHECK(match("shop::Cart::add", "_RNvMs_C4shopNtB4_4Cart3add") == equivalent);
  CHECK(match("<Cart>::add", "_RNvMs_C4shopNtB4_4Cart3add") == unqualified);
  CHECK(match("shop::cheapest", "_RINvC4shop8cheapestlE") == without_parts);
  CHECK(match("shop::cheapest<i32>", "_RINvC4shop8cheapestlE") == equivalent);
  CHECK(match("shop::cheapest::<i64>", "_RINvC4shop8cheapestlE") == std::nullopt);
  // <shop::Cart as core::fmt::Display>::fmt
  constexpr std::string_view display =
      "_ZN49_$LT$shop..Cart$u20$as$u20$core..fmt..Display$GT$3fmt17h0123456789abcdefE";
  CHECK(match("shop::Cart::fmt", display) == without_parts);
  CHECK(match("<Cart as Display>::fmt", display) == unqualified);
  CHECK(match("<Cart as Debug>::fmt", display) == std::nullopt);
}

TEST_CASE("Go methods are found without the receiver's parentheses") {
  CHECK(match("main.Cart.Add", "main.(*Cart).Add") == equivalent);
  CHECK(match("Cart.Add", "main.(*Cart).Add") == unqualified);
  CHECK(match("http.(*Client).Do", "net/http.(*Client).Do") == unqualified);
  CHECK(match("gopkg.in/yaml.v3.Unmarshal", "gopkg.in/yaml%2ev3.Unmarshal") == equivalent);
  CHECK(match("main.Map", "main.Map[go.shape.int]") == without_parts);
  CHECK(match("main.List.Push", "main.(*List[go.shape.int]).Push") == without_parts);
  CHECK(match("cpu.cpuid", "internal/cpu.cpuid.abi0") == unqualified);
  CHECK(match("art.Add", "main.(*Cart).Add") == std::nullopt);
  CHECK(match("part.0", "work.part.0") == std::nullopt);
}

TEST_CASE("typedefs in types are replaced, with what follows them") {
  const auto written = NameQuery::parse("ns::Map<Id>::put(const Id&, ns::Ptr const *, Row, Call)");
  REQUIRE(written);
  CHECK(written->type_names() == std::vector<std::string>{"Id", "ns::Ptr", "Row", "Call"});
  const NameQuery replaced = written->with_types({{"Id", "unsigned short"},
                                                  {"ns::Ptr", "char const*"},
                                                  {"Row", "int[4]"},
                                                  {"Call", "void(*)(int)"}});
  // ns::Map<unsigned short>::put(unsigned short const&, char const* const*, int*, void (*)(int))
  CHECK(replaced.match("_ZN2ns3MapItE3putERKtPKPKcPiPFviE") == equivalent);
  CHECK(written->match("_ZN2ns3MapItE3putERKtPKPKcPiPFviE") == std::nullopt);
  CHECK(NameQuery::parse("f(const int*, unsigned long, bool, char (*)[5])")->type_names().empty());
  // Twice const, and const at top level: f(char const&), f(char)
  const TypedefMap constant = {{"C", "char const"}};
  CHECK(NameQuery::parse("f(const C&)")->with_types(constant).match("_Z1fRKc") == equivalent);
  CHECK(NameQuery::parse("f(C)")->with_types(constant).match("_Z1fc") == equivalent);
}

TEST_CASE("the C library's typedefs have the sizes of the data model") {
  CHECK(well_known_type("size_t", true) == "unsigned long");
  CHECK(well_known_type("size_t", false) == "unsigned int");
  CHECK(well_known_type("std::int64_t", true) == "long");
  CHECK(well_known_type("std::int64_t", false) == "long long");
  CHECK(well_known_type("uint8_t", false) == "unsigned char");
  CHECK(well_known_type("shop::size_t", true) == std::nullopt);
}

TEST_CASE("an unusually large name is charged to the budget, and skipped when that is used up") {
  // f(a<int, int>, a<a<int, int>, a<int, int>>, ...): each type has the one before it twice.
  const std::string large =
      "_Z1f1aIiiES_IS0_S0_ES_IS1_S1_ES_IS2_S2_ES_IS3_S3_ES_IS4_S4_ES_IS5_S5_E";
  DemanglingBudget& budget = DemanglingBudget::for_this_thread();
  budget.refill();
  const std::size_t full = budget.left();
  CHECK(match("f", "_Z1fi") == equivalent);
  CHECK(budget.left() == full);
  CHECK(match("f", large) == equivalent);
  CHECK(budget.left() < full);
  budget.charge({}, full);
  CHECK(match("f", large) == std::nullopt);
  CHECK(match("f", "_Z1fi") == equivalent);
  budget.refill();
  CHECK(match("f", large) == equivalent);
}

TEST_CASE("only a name without parameters can be a pattern") {
  CHECK(is_name_pattern("shop::*::add"));
  CHECK(is_name_pattern("*(char*)"));
  CHECK(is_name_pattern("f(*)"));
  CHECK_FALSE(is_name_pattern("f(char*)"));
  CHECK_FALSE(is_name_pattern("shop::Cart::on_change(char const (&) [4])"));
  CHECK_FALSE(is_name_pattern("malloc"));
}

TEST_CASE("a name that leaves out less is closer") {
  const auto mismatch = [](std::string_view written, std::string_view raw) {
    return NameQuery::parse(written)->match(raw).value();
  };
  CHECK(mismatch("Cart::size()", "_ZN4shop4Cart4sizeEv") <
        mismatch("Cart::size()", mangled_cart_size));
  CHECK(mismatch("std::basic_string<char>::append(const char *)", "_ZNSs6appendEPKc") == 0);
  CHECK(mismatch("shop::Shelf::put(shop::Item)", put) < mismatch("Shelf<shop::Item, 5>::put", put));
}

TEST_CASE("patterns, versions and malformed names have no other spelling") {
  for (const std::string_view text : {"shop::*::add",
                                      "*(char*)",
                                      "f(*)",
                                      "f(int, *)",
                                      "shop::Shelf<*>::put",
                                      "f?",
                                      "f(a?)",
                                      "f(char[ab])",
                                      "f@@V1",
                                      "shop::",
                                      "f(int",
                                      "f<int",
                                      "",
                                      "::",
                                      "f)",
                                      "std*get(int)",
                                      "a b",
                                      "*.Add",
                                      "f(int) override",
                                      "f(*int)",
                                      "f(*Item*)",
                                      "f(^::",
                                      "f(^::)"})
    CHECK_FALSE(is_name(text));
  CHECK(NameQuery::parse("f(char*)")->has_parameters());
  CHECK_FALSE(NameQuery::parse("ns::f")->has_parameters());
}

TEST_CASE("clones have the spellings of their function, parts have none") {
  CHECK(match("Cart::add", std::string(cart_add) + ".cold") == std::nullopt);
  CHECK(match("Cart::add", std::string(cart_add) + ".part.0") == std::nullopt);
  for (const std::string_view suffix : {".constprop.0", ".specialized.1", ".llvm.12", ".avx2"})
    CHECK(match("Cart::add", std::string(cart_add) + std::string(suffix)) == ignores_scopes);
}

TEST_CASE("deep and long names end") {
  std::string deep = "f(";
  for (int i = 0; i < 5000; ++i) deep += "a<";
  CHECK_FALSE(is_name(deep));
  CHECK_FALSE(is_name(std::string(5000, '(')));
  CHECK_FALSE(is_name("f(" + std::string(20000, '&') + ")"));
  CHECK_FALSE(is_name("<<<<<<<<" + std::string(5000, '<')));
}

} // namespace uprobectl::symbols
