// SPDX-License-Identifier: Apache-2.0
// Mangled names are those of g++ 12; c++filt prints the names in the comments.
#include "function_fixture.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

namespace uprobectl::resolve {

using namespace uprobectl::test;

namespace {

// shop::Cart::size(), shop::Cart::size() const, other::shop::Cart::size(), last::shop::Cart::size()
constexpr std::string_view exact = "_ZN4shop4Cart4sizeEv";
constexpr std::string_view constant = "_ZNK4shop4Cart4sizeEv";
constexpr std::string_view other = "_ZN5other4shop4Cart4sizeEv";
constexpr std::string_view last = "_ZN4last4shop4Cart4sizeEv";
constexpr std::string_view cart_size = "shop::Cart::size()";

using Names = std::vector<std::string_view>;
// The functions of a library, and what it imports.
struct Library {
  Names functions;
  std::vector<std::string> imports = {};
};

// Libraries in a folder, "0.so" and so on.
class Libraries {
public:
  explicit Libraries(const std::vector<Library>& libraries) {
    for (const Library& library : libraries) {
      CodeLibrary code{.imports = library.imports};
      for (const std::string_view name : library.functions) {
        const std::size_t into = 0x10 * (1 + code.code.size());
        code.symbols += function_symbol(name, into, 0x10);
        code.code.emplace_back(into, "c3");
      }
      const std::string path =
          folder_.put(fmt::format("{}.so", targets_.files.size()), code_library(code));
      targets_.files.push_back({.path = {path, std::nullopt},
                                .display_path = {path, std::nullopt},
                                .opened = nullptr,
                                .warnings = {}});
    }
    targets_.text = "libraries";
    targets_.several = libraries.size() > 1;
  }

  FunctionResult resolve(std::string_view function) const {
    const auto results = resolve_all(targets_, std::vector<std::string_view>{function}, {}, {});
    REQUIRE(results);
    return results->functions.front();
  }

  // The raw names of the points, in the order of the files.
  Names found(std::string_view function) {
    result_ = resolve(function);
    Names names;
    for (const ProbePoint& point : result_.points) names.push_back(*point.symbol);
    for (const Error& error : result_.errors) UNSCOPED_INFO(error.message);
    return result_.errors.empty() ? names : Names{"error"};
  }

private:
  Folder folder_;
  Targets targets_;
  FunctionResult result_;
};

} // namespace

TEST_CASE("of several files those with the closest spelling count, in any order") {
  CHECK(Libraries({{{other}}, {{constant}}}).found(cart_size) == Names{constant});
  CHECK(Libraries({{{constant}}, {{other}}}).found(cart_size) == Names{constant});
  CHECK(Libraries({{{other}}, {{exact}}, {{constant}}}).found(cart_size) == Names{exact});
  Libraries equal({{{constant}}, {{other}}, {{constant}}});
  CHECK(equal.found(cart_size) == Names{constant, constant});
  CHECK(equal.resolve(cart_size).files == 2);
}

TEST_CASE("an ambiguous spelling in one file is not an error if another file has a closer one") {
  CHECK(Libraries({{{other, last}}, {{constant}}}).found(cart_size) == Names{constant});
  CHECK(Libraries({{{constant}}, {{other, last}}}).found(cart_size) == Names{constant});
  const FunctionResult both = Libraries({{{other, last}}, {{other}}}).resolve(cart_size);
  REQUIRE(both.errors.size() == 1);
  CHECK(both.errors.front().kind == ErrorKind::ambiguous);
}

TEST_CASE("an import with exactly this name is not replaced by another function") {
  const FunctionResult result =
      Libraries({{{}, {std::string(exact)}}, {{other}}}).resolve(cart_size);
  CHECK(result.points.empty());
  REQUIRE(result.errors.size() == 1);
  CHECK(result.errors.front().kind == ErrorKind::imported);
}

TEST_CASE("a name with parameters is not a pattern, in one file or in several") {
  // f(char const*), f(char*)
  constexpr std::string_view of_constant = "_Z1fPKc";
  constexpr std::string_view of_pointer = "_Z1fPc";
  for (const std::vector<Library>& libraries :
       {std::vector<Library>{{{of_constant}}}, {{{of_constant}}, {{of_constant}}}}) {
    const FunctionResult result = Libraries(libraries).resolve("f(char*)");
    CHECK(result.points.empty());
    REQUIRE(result.errors.size() == 1);
    CHECK(result.errors.front().kind == ErrorKind::not_found);
  }
  CHECK(Libraries({{{of_constant}}, {{of_pointer}}}).found("f(char *)") == Names{of_pointer});
  CHECK(Libraries({{{of_constant, of_pointer}}}).found("f(*)") == Names{of_constant, of_pointer});
}

TEST_CASE("typedefs of the C library are those of the machine") {
  // f(unsigned long), f(unsigned int), f(std::vector<unsigned char, std::allocator<unsigned
  // char>>&)
  CHECK(Libraries({{{"_Z1fm", "_Z1fj"}}}).found("f(size_t)") == Names{"_Z1fm"});
  CHECK(Libraries({{{"_Z1fm", "_Z1fj"}}}).found("f(std::uint32_t count)") == Names{"_Z1fj"});
  CHECK(Libraries({{{"_Z1fRSt6vectorIhSaIhEE"}}}).found("f(std::vector<uint8_t>&)") ==
        Names{"_Z1fRSt6vectorIhSaIhEE"});
  // f(size_t), a class of this name
  CHECK(Libraries({{{"_Z1fm", "_Z1f6size_t"}}}).found("f(size_t)") == Names{"_Z1f6size_t"});
}

} // namespace uprobectl::resolve
