// SPDX-License-Identifier: Apache-2.0
#include "uprobectl/symbols.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::symbols {

namespace {

// "_ZN2ns3f17Ei" -> "ns::f17(int)"; every third is a C name.
std::string raw_name(std::size_t i) {
  const std::string name = "f" + std::to_string(i);
  return i % 3 == 2 ? name : "_ZN2ns" + std::to_string(name.size()) + name + "Ei";
}

std::vector<std::string> raw_names(std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back(raw_name(i));
  return names;
}

} // namespace

TEST_CASE("names of a list are demangled in its order, however long it is") {
  const std::size_t count = GENERATE(1, 31, 32, 33, 4095, 4096, 20001);
  const auto raw = raw_names(count);
  DemangledNames names(count, [&](std::size_t i) { return std::string_view(raw[i]); });
  for (std::size_t i = 0; i < count; ++i) {
    CAPTURE(count, i);
    const auto name = names.next();
    REQUIRE(name.has_value() == (i % 3 != 2));
    if (name) REQUIRE(*name == "ns::f" + std::to_string(i) + "(int)");
  }
}

TEST_CASE("a reader may stop in the middle of a long list, or before its first name") {
  const auto raw = raw_names(20000);
  const std::size_t read = GENERATE(0, 1, 100, 5000);
  DemangledNames names(raw.size(), [&](std::size_t i) { return std::string_view(raw[i]); });
  for (std::size_t i = 0; i < read; ++i) static_cast<void>(names.next());
}

TEST_CASE("an empty list has no names to be demangled") {
  DemangledNames names(0, [](std::size_t) { return std::string_view(); });
}

// Batches have a bound on their text, so these names do not fit into theirs.
TEST_CASE("names of thousands of bytes are demangled in a long list, too") {
  const std::string identifier(10000, 'x');
  const std::string raw_text = "_Z10000" + identifier + "v";
  const std::size_t count = 5000;
  DemangledNames names(count, [&](std::size_t) { return std::string_view(raw_text); });
  for (std::size_t i = 0; i < count; ++i) {
    CAPTURE(i);
    REQUIRE((names.next() == identifier + "()"));
  }
}

} // namespace uprobectl::symbols
