// What a task's probe means in an OAT file.
#include "oat_samples.hpp"
#include "session/task_probes.hpp"

#include <catch2/catch.hpp>

using namespace uprobectl;
using namespace uprobectl::test;

TEST_CASE("a method is static as its own declaration says, whoever shares its code") {
  auto image = elf::Image::open({made_sample("v244").oat, std::nullopt});
  REQUIRE(image);
  const auto read = art::OatFile::read(*image, {});
  REQUIRE(read);
  const art::OatFile& oat = *read;
  const auto greeter = oat.find_class("com.example.Greeter");
  REQUIRE(greeter);
  for (const art::Method& method : oat.methods_of(*greeter)) {
    if (!method.compiled) continue;
    const std::string signature = to_string(oat.signature(method));
    INFO(signature);
    const auto known = is_static_method(oat, method.code, signature);
    REQUIRE(known);
    // greeter.json: of those that are compiled, this one alone.
    CHECK(*known == (signature == "int com.example.Greeter.count()"));
  }
  // Two constructors have this code; a method that is none of them is not judged by theirs.
  const VirtualAddress shared = oat.compiled().front().code;
  REQUIRE(oat.methods_at(shared).size() == 2);
  const auto own = is_static_method(oat, shared, "void com.example.Greeter.<init>()");
  REQUIRE(own);
  CHECK_FALSE(*own);
  const auto strange = is_static_method(oat, shared, "void com.example.Greeter.other()");
  REQUIRE_FALSE(strange);
  CHECK(strange.error().message == "its class is not known");
}
