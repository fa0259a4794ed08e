// SPDX-License-Identifier: Apache-2.0
#include "output/log2_slots.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::output {

// As print_log2_hist() of bcc prints these counts.
TEST_CASE("slots are drawn as bcc's tools draw them") {
  const std::string expected =
      "     usecs               : count    distribution\n"
      "         0 -> 1          : 0        |                                        |\n"
      "         2 -> 3          : 5        |**********                              |\n"
      "         4 -> 7          : 20       |****************************************|\n"
      "         8 -> 15         : 1        |**                                      |\n";
  CHECK(draw_slots({.name = "usecs", .counts = {0, 5, 20, 1, 0, 0}}) == expected);
  CHECK(draw_slots({.name = "slots", .counts = {0, 0}}).empty());
}

TEST_CASE("bounds of more than ten digits have wider columns and fewer stars") {
  std::vector<std::uint64_t> counts(64);
  counts[63] = 3;
  const std::string drawn = draw_slots({.name = "slots", .counts = counts});
  CHECK(drawn.starts_with("               slots                         : count    distribution\n"
                          "                   0 -> 1                    : 0        |"
                          "                    |\n"));
  CHECK(drawn.ends_with(" 9223372036854775808 -> 18446744073709551615 : 3        |"
                        "********************|\n"));
}

TEST_CASE("arrays named slots or hist are taken out of a value") {
  const values::Value::Array counts = {{std::uint64_t{1}}, {std::uint64_t{2}}};
  const std::string drawn = draw_slots({.name = "slots", .counts = {1, 2}});
  std::string text = "map ";
  CHECK(append_without_slots(
            text,
            {values::Value::Struct{{"slots", {counts}}, {"codes", {counts}}, {"total", {true}}}},
            "map") == drawn);
  CHECK(text == "map codes=[1 2] total=true");
  text.clear();
  CHECK(append_without_slots(text, {counts}, "slots") == drawn);
  CHECK(text.empty());
  CHECK(append_without_slots(text, {values::Value::Struct{{"slots", {std::string("no numbers")}}}},
                             "map")
            .empty());
  CHECK(text == R"(slots="no numbers")");
}

} // namespace uprobectl::output
