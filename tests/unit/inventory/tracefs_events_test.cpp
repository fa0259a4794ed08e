// SPDX-License-Identifier: Apache-2.0
#include "inventory/inventory.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::inventory {

// Lines as Linux 6.12 writes them.
TEST_CASE("events of tracefs are read as the kernel writes them") {
  const auto parsed = parse_uprobe_events(
      "p:uprobes/p_bash_0x4245c0 /bin/bash:0x00000000004245c0\n"
      "r:uprobes/r_libc /usr/lib/libc.so.6:0x0000000000098930(0x0000000000001000) arg1=$retval\n"
      "p:g/colon /tmp/a:0x1/x:0x0000000000000010 a=%ax b=+0(%di):string\n");
  CHECK(parsed.unknown_lines == 0);
  REQUIRE(parsed.events.size() == 3);
  CHECK(parsed.events[0].name == "uprobes/p_bash_0x4245c0");
  CHECK(parsed.events[0].path == "/bin/bash");
  CHECK(parsed.events[0].offset.value == 0x4245c0);
  CHECK(!parsed.events[0].on_return);
  CHECK(parsed.events[1].on_return);
  CHECK(parsed.events[1].offset.value == 0x98930);
  CHECK(parsed.events[2].path == "/tmp/a:0x1/x");
  CHECK(parsed.events[2].offset.value == 0x10);
}

TEST_CASE("invalid tracefs lines are counted") {
  const auto parsed = parse_uprobe_events("q:g/n /a:0x1\np:g/n\np /a:0x1\np:g/n /a\np:g/n /a:0xzz\n"
                                          "p:g/n /a:0x1)\np:g/n /a:0x\n\nr:g/n /a:0x2");
  CHECK(parsed.unknown_lines == 7);
  REQUIRE(parsed.events.size() == 1);
  CHECK(parsed.events[0].offset.value == 2);
}

} // namespace uprobectl::inventory
