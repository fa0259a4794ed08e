// SPDX-License-Identifier: Apache-2.0
#include "util/errnos.hpp"

#include <catch2/catch.hpp>

using namespace uprobectl;

TEST_CASE("numbers of errno have names, or else digits, and both are read") {
  CHECK(errno_name(2) == "ENOENT");
  CHECK(errno_name(-11) == "-EAGAIN");
  CHECK(errno_name(0) == std::nullopt);
  CHECK(errno_name(100'000) == std::nullopt);
  CHECK(errno_text(13) == "EACCES");
  CHECK(errno_text(524) == "524"); // ENOTSUPP is the kernel's own
  CHECK(errno_text(0).empty());
  CHECK(errno_number("ENOENT") == 2);
  CHECK(errno_number("-EAGAIN") == -11); // a program may set it
  CHECK(errno_number("524") == 524);
  CHECK(errno_number("ENOTHING") == std::nullopt);
  CHECK(errno_number("") == std::nullopt);
}
