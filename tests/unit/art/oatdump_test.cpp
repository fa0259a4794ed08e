// SPDX-License-Identifier: Apache-2.0
#include "art/oat_format.hpp"
#include "art/oat_state.hpp"
#include "oat_samples.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <set>
#include <unistd.h>

namespace uprobectl::art {

using namespace uprobectl::test;

namespace {

constexpr std::string_view one_line =
    R"-({"method":"void com.foo.Bar.baz(int, java.lang.String)","offset":"0x00003020"})-";

VirtualAddress oatdata_of(const elf::Image& image) {
  const auto found = image.find_dynamic("oatdata");
  REQUIRE(found);
  REQUIRE(found->size() == 1);
  return found->front().address;
}

// The output of oatdump for a sample, made from the list of its methods.
std::vector<DumpedMethod> dump_of(const OatSample& sample, const elf::Image& image,
                                  bool from_file) {
  std::vector<DumpedMethod> methods;
  for (const auto& row : read_table(sample.list)) {
    std::uint64_t offset = 0;
    if (row[0] != "-") {
      const std::uint64_t in_file = std::stoull(row[0], nullptr, 16);
      const auto address = image.to_address(ImageOffset{in_file});
      REQUIRE(address);
      offset = from_file ? in_file : address->value - oatdata_of(image).value;
    }
    methods.push_back({.signature = row[1], .offset = offset});
  }
  return methods;
}

using NamedOffset = std::pair<std::uint64_t, std::string>;

std::set<NamedOffset> methods_in(const OatFile& oat, const elf::Image& image) {
  std::set<NamedOffset> methods;
  for (const Method& method : oat.compiled())
    methods.emplace(image.to_image(method.code)->value, to_string(oat.signature(method)));
  return methods;
}

std::set<NamedOffset> methods_of(const OatSample& sample) {
  std::set<NamedOffset> methods;
  for (const auto& row : read_table(sample.list))
    if (row[0] != "-") methods.emplace(std::stoull(row[0], nullptr, 16), row[1]);
  return methods;
}

Result<OatFile> ask(elf::Image& image, std::vector<DumpedMethod> methods) {
  return OatFile::from_oatdump(image, std::move(methods), {});
}

template <typename Number>
void put(std::string& bytes, std::size_t at, Number value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
}

elf::Image open_as(const std::string& bytes, std::string_view name) {
  const auto path =
      std::filesystem::temp_directory_path() / fmt::format("{}-{}.odex", name, ::getpid());
  std::ofstream(path, std::ios::binary) << bytes;
  auto image = elf::Image::open({path.string(), std::nullopt});
  std::filesystem::remove(path);
  REQUIRE(image);
  return std::move(*image);
}

} // namespace

TEST_CASE("a line of oatdump names a method and its offset") {
  const auto method = art::parse_dumped_method(one_line);
  REQUIRE(method);
  CHECK(method->signature == "void com.foo.Bar.baz(int, java.lang.String)");
  CHECK(method->offset == 0x3020);
  CHECK(art::parse_dumped_method(R"-( { "offset" : "0x0" , "method" : "int a.<init>()" } )-"));
}

TEST_CASE("invalid lines are rejected") {
  for (const std::string_view line :
       {"", "{", "{}", "[]", R"-({"method":"void a.b()"})-", R"-({"offset":"0x1"})-",
        R"-({"method":"void a.b()","offset":"1"})-", R"-({"method":"void a.b()","offset":"0xg"})-",
        R"-({"method":"void a.b()","offset":"0x1"}x)-", R"-({"method":"void b()","offset":"0x1"})-",
        R"-({"method":"a.b()","offset":"0x1"})-", R"-({"method":"void a.b(","offset":"0x1"})-",
        R"-({"method":"void a.b(int, )","offset":"0x1"})-",
        R"-({"method":"void a.b()","offset":"0x10000000000000000"})-"}) {
    INFO(line);
    CHECK(art::parse_dumped_method(line).error().kind == ErrorKind::corrupt);
  }
  CHECK(art::parse_dumped_method("{oops").error().message ==
        "invalid line '{oops' of oatdump (expected a JSON object with method and offset)");
}

TEST_CASE("a signature is taken apart into class, name and parameters") {
  const auto signature = art::parse_signature("byte[][] com.foo.Outer$Inner.<init>(int, a.B[])");
  REQUIRE(signature);
  CHECK(signature->return_type == "byte[][]");
  CHECK(signature->class_name == "com.foo.Outer$Inner");
  CHECK(signature->name == "<init>");
  CHECK(signature->parameters == std::vector<std::string>{"int", "a.B[]"});
}

TEST_CASE("offsets of both kinds lead to the same locations in files of every layout") {
  for (const OatSample& sample : made_samples())
    for (const bool from_file : {false, true}) {
      INFO(sample.oat << (from_file ? " from the file" : " from oatdata"));
      auto image = elf::Image::open({sample.oat, std::nullopt});
      REQUIRE(image);
      const auto oat = ask(*image, dump_of(sample, *image, from_file));
      INFO((oat ? "" : oat.error().message));
      REQUIRE(oat);
      CHECK(methods_in(*oat, *image) == methods_of(sample));
    }
}

// The golden lists have both offsets, the second as ART has it, with the Thumb bit.
TEST_CASE("offsets of both kinds lead to the same locations in real files") {
  for (const OatSample& sample : corpus_samples())
    for (const bool from_file : {false, true}) {
      INFO(sample.oat << (from_file ? " from the file" : " from oatdata"));
      std::vector<DumpedMethod> methods;
      std::set<NamedOffset> expected;
      for (const auto& row : read_table(sample.list)) {
        const std::uint64_t in_file = std::stoull(row.at(0), nullptr, 16);
        const std::uint64_t from_data = std::stoull(row.at(1), nullptr, 16);
        methods.push_back({row.at(2), from_file ? in_file | (from_data & 1U) : from_data});
        expected.emplace(in_file, row.at(2));
      }
      auto image = elf::Image::open({sample.oat, std::nullopt});
      REQUIRE(image);
      const auto oat = ask(*image, std::move(methods));
      INFO((oat ? "" : oat.error().message));
      REQUIRE(oat);
      CHECK(methods_in(*oat, *image) == expected);
    }
}

TEST_CASE("oatdump reads a file of a version that is refused") {
  const OatSample sample = made_sample("v127-unconfirmed");
  auto image = elf::Image::open({sample.oat, std::nullopt});
  REQUIRE(image);
  REQUIRE_FALSE(OatFile::read(*image, {}));
  const auto oat = ask(*image, dump_of(sample, *image, false));
  REQUIRE(oat);
  CHECK(oat->version() == 127);
  CHECK_FALSE(oat->has_access_flags());
  CHECK(oat->has_all_dex_files());
  CHECK(methods_in(*oat, *image) == methods_of(sample));
  const auto greeter = oat->find_class("com.example.Greeter");
  REQUIRE(greeter);
  CHECK(oat->class_name(*greeter) == "com.example.Greeter");
  CHECK(oat->superclass(*greeter).empty());
  std::size_t compiled = 0;
  const auto methods = oat->class_methods(*greeter);
  for (const Method& method : methods) {
    CHECK(oat->signature(method).class_name == "com.example.Greeter");
    compiled += method.compiled ? 1 : 0;
  }
  CHECK(methods.size() == 7);
  CHECK(compiled == 4);
  CHECK_FALSE(oat->find_class("com.example.Gre"));
}

TEST_CASE("offsets where no function begins are refused") {
  const OatSample sample = made_sample("v239");
  auto image = elf::Image::open({sample.oat, std::nullopt});
  REQUIRE(image);
  auto methods = dump_of(sample, *image, true);
  for (DumpedMethod& method : methods)
    if (method.offset != 0) method.offset += 1;
  CHECK(ask(*image, methods).error().message ==
        "oatdump's offsets are not the starts of functions in this file, counted from oatdata or "
        "from the start of the file");
  methods = {{.signature = "void a.b()", .offset = 0x7fffffffffff}};
  CHECK(ask(*image, methods).error().kind == ErrorKind::corrupt);
  methods = {{.signature = "void a.b()", .offset = 0xffffffffffffffff}};
  CHECK(ask(*image, methods).error().kind == ErrorKind::corrupt);
  CHECK(ask(*image, {}).error().message == "oatdump lists no methods of the file");
}

TEST_CASE("a listing without compiled methods is valid") {
  const OatSample sample = made_sample("v239");
  auto image = elf::Image::open({sample.oat, std::nullopt});
  REQUIRE(image);
  const auto oat = ask(*image, {{.signature = "void a.b()", .offset = 0}});
  REQUIRE(oat);
  CHECK(oat->compiled().empty());
  CHECK(oat->find_class("a"));
}

TEST_CASE("a listing of another file's methods is refused, though functions are there") {
  const OatSample sample = made_sample("v239");
  auto image = elf::Image::open({sample.oat, std::nullopt});
  REQUIRE(image);
  auto methods = dump_of(sample, *image, true);
  const auto named = [&](std::string_view signature) {
    const auto found = std::ranges::find(methods, signature, &DumpedMethod::signature);
    REQUIRE(found != methods.end());
    return found;
  };
  std::swap(named("int com.example.Greeter.count()")->offset,
            named("void com.example.Greeter.greet(int)")->offset);
  const auto oat = ask(*image, methods);
  REQUIRE_FALSE(oat);
  CHECK(oat.error().kind == ErrorKind::corrupt);
  CHECK(oat.error().message == "oatdump lists other methods at these offsets than the file has");
}

// Without its APK, and with one of two DEX files named.
TEST_CASE("methods of DEX files that are missing are taken from oatdump") {
  const OatSample sample = made_sample("v232");
  const auto folder =
      std::filesystem::temp_directory_path() / fmt::format("half-known-{}", ::getpid());
  std::filesystem::create_directory(folder);
  std::filesystem::copy_file(sample.oat, folder / "v232.odex");
  auto image = elf::Image::open({(folder / "v232.odex").string(), std::nullopt});
  std::filesystem::remove_all(folder);
  REQUIRE(image);
  const DexSearch where{.files = {made_folder() + "/classes1.dex"}, .root = {}};
  const auto own = OatFile::read(*image, where);
  REQUIRE(own);
  REQUIRE_FALSE(own->has_all_dex_files());
  REQUIRE(own->compiled().size() == 6);

  const auto methods = dump_of(sample, *image, true);
  const auto oat = OatFile::from_oatdump(*image, methods, where);
  INFO((oat ? "" : oat.error().message));
  REQUIRE(oat);
  CHECK(methods_in(*oat, *image) == methods_of(sample));

  auto fewer = methods;
  std::erase_if(fewer, [](const DumpedMethod& method) {
    return method.signature == "int com.example.Greeter.count()";
  });
  REQUIRE(fewer.size() + 1 == methods.size());
  CHECK(OatFile::from_oatdump(*image, fewer, where).error().kind == ErrorKind::corrupt);
}

TEST_CASE("too few functions leave the base of offsets unknown") {
  const OatSample sample = made_sample("v127-unconfirmed");
  auto image = elf::Image::open({sample.oat, std::nullopt});
  REQUIRE(image);
  auto methods = dump_of(sample, *image, true);
  const auto forget = [&](std::string_view signature) {
    REQUIRE(std::erase_if(methods, [&](const DumpedMethod& method) {
              return method.signature == signature;
            }) == 1);
  };
  forget("int com.example.Greeter.count()"); // eight are left, one of them shared by two methods
  REQUIRE(ask(*image, methods));
  forget("void com.example.Greeter.greet(int)");
  const auto oat = ask(*image, methods);
  REQUIRE_FALSE(oat);
  CHECK(oat.error().kind == ErrorKind::ambiguous);
  CHECK(
      oat.error().message ==
      "oatdump's offsets may count from oatdata or from the start of the file: the method headers "
      "are too few or inconclusive");
}

TEST_CASE("a word that is zero is not a header of a function") {
  const OatSample sample = made_sample("v239");
  std::string bytes = read_whole(sample.oat);
  std::size_t looked_at = 0;
  for (const auto& row : read_table(sample.list))
    if (row[0] != "-") put(bytes, std::stoull(row[0], nullptr, 16) - 4, std::uint32_t{0});
  auto whole = elf::Image::open({sample.oat, std::nullopt});
  auto image = open_as(bytes, "zero-headers");
  REQUIRE(whole);
  for (const auto& row : read_table(sample.list)) {
    if (row[0] == "-") continue;
    INFO(row[1]);
    const auto address = image.to_address(ImageOffset{std::stoull(row[0], nullptr, 16)});
    REQUIRE(address);
    CHECK(art::code_size(*whole, *address, CodeSizeForm::in_code_info) == std::stoull(row[2]));
    CHECK(art::code_size(image, *address, CodeSizeForm::in_code_info) == 0);
    ++looked_at;
  }
  CHECK(looked_at == 10);
}

namespace {

// The code of OAT 170, whose headers say sizes without looking elsewhere, twice: 0x1000 bytes
// apart, which is how far oatdata is from the beginning of the file. The second time so many
// functions are without a size.
elf::Image code_twice(const OatSample& sample, std::size_t sizeless) {
  std::string bytes = read_whole(sample.oat);
  constexpr std::size_t code_at = 0x3000;
  constexpr std::size_t third_segment = 52 + 2 * 32; // Elf32_Phdr
  std::uint32_t code_size = 0;
  std::memcpy(&code_size, bytes.data() + third_segment + 16, 4);
  const std::string code = bytes.substr(code_at, code_size);
  bytes.resize(code_at + 0x1000, '\0');
  bytes.replace(code_at, 0x1000, code + std::string(0x1000 - code.size(), '\0'));
  bytes += code;
  put(bytes, third_segment + 16, std::uint32_t{0x1000 + code_size});
  put(bytes, third_segment + 20, std::uint32_t{0x1000 + code_size});
  put(bytes, 32, std::uint32_t{0}); // e_shoff
  put(bytes, 48, std::uint32_t{0}); // e_shnum, e_shstrndx
  bytes.replace(0x1000 + 4, 3, "250");
  std::set<std::uint64_t> functions;
  for (const auto& row : read_table(sample.list))
    if (row[0] != "-") functions.insert(std::stoull(row[0], nullptr, 16));
  REQUIRE(functions.size() == 9);
  for (const std::uint64_t function : functions)
    if (sizeless > 0) {
      put(bytes, function + 0x1000 - 4, std::uint32_t{0});
      --sizeless;
    }
  return open_as(bytes, "twice");
}

} // namespace

TEST_CASE("offsets that fit both bases are rejected") {
  const OatSample sample = made_sample("v170");
  auto whole = elf::Image::open({sample.oat, std::nullopt});
  REQUIRE(whole);
  const auto methods = dump_of(sample, *whole, true);
  for (const auto& [sizeless, reason] : {std::pair(0, "functions begin at both"),
                                         {5, "the method headers are too few or inconclusive"}}) {
    INFO(sizeless);
    auto image = code_twice(sample, static_cast<std::size_t>(sizeless));
    const auto oat = ask(image, methods);
    REQUIRE_FALSE(oat);
    CHECK(oat.error().kind == ErrorKind::ambiguous);
    CHECK(oat.error().message ==
          std::string("oatdump's offsets may count from oatdata or from the start of the file: ") +
              reason);
  }
  // Clearly: less than a quarter has a header there.
  auto image = code_twice(sample, 7);
  const auto oat = ask(image, methods);
  REQUIRE(oat);
  CHECK(methods_in(*oat, image) == methods_of(sample));
}

} // namespace uprobectl::art
