// SPDX-License-Identifier: Apache-2.0
#include "../../../src/cli/option_values.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::cli {

TEST_CASE("-p takes pids and names, in lists and several times, each once") {
  const auto words = parse_processes({"12,nginx", "php-fpm: master,12", "7", "nginx"});
  REQUIRE(words);
  CHECK(words->pids == std::vector<pid_t>{12, 7});
  CHECK(words->names == std::vector<std::string>{"nginx", "php-fpm: master"});
}

TEST_CASE("a name of -p has something in it that is not a digit") {
  const auto words = parse_processes({"7zip,com.foo:remote,-bash"});
  REQUIRE(words);
  CHECK(words->pids.empty());
  CHECK(words->names == std::vector<std::string>{"7zip", "com.foo:remote", "-bash"});
}

TEST_CASE("an invalid value of -p is rejected and named") {
  const auto message = [](const char* list) {
    const auto words = parse_processes({list});
    return words ? std::string("taken") : words.error().message;
  };
  CHECK(message("0") == "invalid pid '0'");
  CHECK(message("-1") == "invalid pid '-1'");
  CHECK(message("12,99999999999") == "invalid pid '99999999999'");
  CHECK(message("") == "invalid value '' for -p (expected pids or names, separated by commas)");
  CHECK(message("nginx,") ==
        "invalid value 'nginx,' for -p (expected pids or names, separated by commas)");
  CHECK(message("1,,2") ==
        "invalid value '1,,2' for -p (expected pids or names, separated by commas)");
}

} // namespace uprobectl::cli
