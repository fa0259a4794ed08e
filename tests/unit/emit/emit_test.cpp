// SPDX-License-Identifier: Apache-2.0
#include "emit/emit.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

namespace uprobectl::emit {

namespace {

resolve::ProbePoint point(const std::string& symbol, std::uint64_t offset = 0x10,
                          const std::string& real_path = "/lib/x.so") {
  resolve::ProbePoint point;
  point.binary =
      std::make_shared<const resolve::ProbedBinary>(resolve::ProbedBinary{.real_path = real_path});
  point.symbol = symbol;
  point.offset = {offset};
  point.address = {0x1000 + offset};
  return point;
}

} // namespace

TEST_CASE("an event's name is a recognizable C identifier of at most 63 bytes") {
  CHECK(event_name(point("malloc")) == "malloc");
  CHECK(event_name(point("2fast")) == "_2fast");
  CHECK(event_name(point("\xc3\xa9.cold")) == "cold");
  CHECK(event_name(point("$$")) == "_");
  CHECK(event_name(point(std::string(300, 'x'))).size() < 64);

  auto inside = point("f");
  inside.symbol_offset = 0x1f;
  CHECK(event_name(inside) == "f_0x1f");
  auto entry = point("free");
  entry.kind = symbols::SymbolKind::plt;
  CHECK(event_name(entry) == "free_plt");
  auto method = point("_ZN2ns3Foo3barEi");
  method.demangled = "ns::Foo::bar(int)";
  CHECK(event_name(method) == "ns_Foo_bar");
  auto nameless = point("");
  nameless.symbol.reset();
  CHECK(event_name(nameless) == "at_0x1010");
}

TEST_CASE("events of similar locations have different names") {
  EventNames names;
  CHECK(names.name(point("f", 0x10)) == "f");
  CHECK(names.name(point("f", 0x20)) == "f_20");
  CHECK(names.name(point("f", 0x20)) == "f_20_2"); // of another file
  CHECK(names.name(point("f", 0x20)) == "f_20_3");
  CHECK(names.name(point("g", 0x20)) == "g");
}

TEST_CASE("a path longer than a line of uprobe_events is refused") {
  const std::string path = "/" + std::string(4060, 'd');
  CHECK(tracefs_line(point("f", 0x10, path), "f"));
  const auto probed = point("f", 0x10, path + std::string(20, 'd'));
  CHECK(tracefs_line(probed, "f").error().kind == ErrorKind::unsupported);
}

TEST_CASE("each character that uprobe_events reads for itself is refused in a path") {
  for (const char c : {' ', '\t', '\n', '\v', '\f', '\r', '#', '\xa0'}) {
    const auto probed = point("f", 0x10, std::string("/a") + c + "b");
    INFO(static_cast<int>(c));
    CHECK_FALSE(tracefs_line(probed, "f"));
    CHECK_FALSE(perf_line(probed, "f"));
    CHECK(libbpf_line(probed));
  }
}

TEST_CASE("a path becomes a C string that no following character continues") {
  const auto probed = point("f", 0x10,
                            "/a\"\\\x01"
                            "1?\xff");
  CHECK(libbpf_line(probed) == R"(bpf_program__attach_uprobe_opts(prog, -1, )"
                               R"("/a\"\\\0011\077\377", 0x10, NULL);)");
}

TEST_CASE("paths that a terminal cannot show are rejected") {
  for (const std::string path : {"/a\x1b[2Jb", "/a\u202eb",
                                 "/a\xc2\x9b"
                                 "b",
                                 "/a\xff"
                                 "b",
                                 "/a\u2066"}) {
    const auto probed = point("f", 0x10, path);
    CAPTURE(path);
    CHECK_FALSE(tracefs_line(probed, "f"));
    CHECK_FALSE(perf_line(probed, "f"));
    CHECK_FALSE(Bpftrace().line(probed));
    const auto c = libbpf_line(probed);
    REQUIRE(c);
    CHECK(std::ranges::all_of(*c, [](char each) { return each >= 0x20 && each < 0x7f; }));
  }
  CHECK(tracefs_line(point("f", 0x10, "/gr\u00f6\u00dfe"), "f"));
}

} // namespace uprobectl::emit
