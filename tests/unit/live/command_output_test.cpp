// SPDX-License-Identifier: Apache-2.0
#include "live/command_output.hpp"

#include "util/descriptor_io.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::live {

TEST_CASE("what a command prints is read while nobody asks for it, and the last lines are kept") {
  const auto command = CommandLines::open();
  REQUIRE(command);
  constexpr std::size_t count = 40'000; // 4 MB, more than any pipe holds
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += std::string(99, 'x') + '\n';
  REQUIRE(write_all((*command)->write_fd(), as_bytes(text)));
  REQUIRE(write_all((*command)->write_fd(), as_bytes("the last\nand a part")));
  LastLines last;
  while (last.lines.empty() || last.lines.back() != "and a part") last = (*command)->last();
  CHECK(last.lines.size() == CommandLines::max_lines);
  CHECK(last.lines[CommandLines::max_lines - 2] == "the last");
  CHECK(last.omitted == count + 2 - CommandLines::max_lines);
  REQUIRE(write_all((*command)->write_fd(), as_bytes(" of it\n\x1b[2J")));
  while (last.omitted != count + 3 - CommandLines::max_lines) last = (*command)->last();
  CHECK(last.lines[CommandLines::max_lines - 2] == "and a part of it");
  CHECK(last.lines.back().find('\x1b') == std::string::npos);
}

} // namespace uprobectl::live
