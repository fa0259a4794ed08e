// SPDX-License-Identifier: Apache-2.0
// The values of --sample and --max-rate.
#include "events/limits.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::events {

using namespace std::chrono_literals;

namespace {

std::string rate_text(std::string_view text) {
  const auto rate = parse_rate(text);
  if (!rate) return rate.error().message;
  return std::to_string(rate->events) + " in " + std::to_string(rate->time.count()) + " ms";
}

std::string sample_text(std::string_view text) {
  const auto sample = parse_sample(text);
  return sample ? std::to_string(*sample) : sample.error().message;
}

} // namespace

TEST_CASE("a sample is one of a number of hits") {
  CHECK(sample_text("1/1") == "1");
  CHECK(sample_text("1/100") == "100");
  CHECK(sample_text("1/4294967295") == "4294967295");
}

TEST_CASE("the message about a sample names the character") {
  const std::string example = " (expected for example 1/100)";
  CHECK(sample_text("2/100") ==
        "invalid value '2/100': expected 1/, at character 1, before '2/100'" + example);
  CHECK(sample_text("1/") == "invalid value '1/': expected a number, at its end" + example);
  CHECK(sample_text("1/0") ==
        "invalid value '1/0': expected 1 to 4294967295, at character 3, before '0'" + example);
  CHECK(sample_text("1/4294967296") == "invalid value '1/4294967296': expected 1 to 4294967295, "
                                       "at character 3, before '4294967296'" +
                                           example);
  CHECK(sample_text("1/-2") ==
        "invalid value '1/-2': expected a number, at character 3, before '-2'" + example);
  CHECK(sample_text("1/10%") ==
        "invalid value '1/10%': expected nothing more, at character 5, before '%'" + example);
}

TEST_CASE("a rate is a number in a second or a minute") {
  CHECK(rate_text("100/s") == "100 in 1000 ms");
  CHECK(rate_text("5k/s") == "5000 in 1000 ms");
  CHECK(rate_text("2M/s") == "2000000 in 1000 ms");
  CHECK(rate_text("20/min") == "20 in 60000 ms");
  CHECK(rate_text("16777215/s") == "16777215 in 1000 ms");
}

TEST_CASE("the message about a rate names the character") {
  const std::string example = " (expected for example 5k/s, 100/s or 20/min)";
  CHECK(rate_text("") == "invalid value '': expected a number, at its end" + example);
  CHECK(rate_text("0/s") ==
        "invalid value '0/s': expected 1 to 16777215, at character 1, before '0/s'" + example);
  CHECK(rate_text("17M/s") ==
        "invalid value '17M/s': expected 1 to 16777215, at character 1, before '17M/s'" + example);
  CHECK(rate_text("5k") == "invalid value '5k': expected /s or /min, at its end" + example);
  CHECK(rate_text("5/h") ==
        "invalid value '5/h': expected s or min, at character 3, before 'h'" + example);
  CHECK(rate_text("5/sec") ==
        "invalid value '5/sec': expected nothing more, at character 4, before 'ec'" + example);
}

} // namespace uprobectl::events
