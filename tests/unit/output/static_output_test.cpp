// SPDX-License-Identifier: Apache-2.0
// How static probes are written: on a terminal, piped, and in JSON.
#include "output/output.hpp"

#include <catch2/catch.hpp>
#include <sys/mman.h>
#include <unistd.h>

namespace uprobectl::output {

namespace {

std::string written(const std::vector<resolve::ProbePoint>& points, const TextStyle& style,
                    std::string_view target = {}) {
  const UniqueFd file{memfd_create("static-output-test", MFD_CLOEXEC)};
  {
    OutputBuffer out(file.get());
    const auto records = make_text_formatter(out, style);
    for (const resolve::ProbePoint& point : points)
      records->write(StaticProbeRecord{.point = &point, .target = target});
  }
  std::string text(1 << 16, '\0');
  const ssize_t size = pread(file.get(), text.data(), text.size(), 0);
  text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  return text;
}

usdt::StaticArgument argument(std::string raw, usdt::StaticArgument::Kind kind) {
  usdt::StaticArgument made{.raw = std::move(raw), .kind = kind, .size = 8};
  if (kind == usdt::StaticArgument::Kind::in_register) made.base = "rdi";
  if (kind == usdt::StaticArgument::Kind::unparsed) made.problem = "why not";
  return made;
}

resolve::ProbePoint static_point(std::string name, std::uint64_t offset,
                                 std::uint16_t machine = 62) {
  auto probe = std::make_shared<usdt::StaticProbe>();
  probe->provider = "shop";
  probe->name = name;
  probe->raw_arguments = "8@%rdi 8@what";
  probe->arguments = {argument("8@%rdi", usdt::StaticArgument::Kind::in_register),
                      argument("8@what", usdt::StaticArgument::Kind::unparsed)};
  resolve::ProbePoint point;
  resolve::ProbedBinary binary{.target = "x.so", .path = {"x.so", std::nullopt}};
  binary.machine = elf::Machine(machine);
  point.binary = std::make_shared<const resolve::ProbedBinary>(std::move(binary));
  point.offset = {offset};
  point.symbol = "shop:" + name;
  point.static_probe = std::move(probe);
  return point;
}

} // namespace

TEST_CASE(
    "on a terminal the points of a static probe stand together, in the order of their first") {
  resolve::ProbePoint guarded = static_point("b", 0x20000);
  guarded.semaphore = {0x3000};
  const std::vector points = {static_point("a", 0x10), guarded, static_point("a", 0x30)};
  CHECK(written(points, {.aligned = true}) == "shop:a  2 probe points\n"
                                              "  0x10     -       8@%rdi ?8@what\n"
                                              "  0x30     -       8@%rdi ?8@what\n"
                                              "shop:b  1 probe point\n"
                                              "  0x20000  0x3000  8@%rdi ?8@what\n");
  CHECK(written({points[0]}, {.aligned = true, .verbose = true}, "lib.so") ==
        "shop:a  lib.so  1 probe point\n"
        "  0x10  -  8@%rdi ?8@what\n"
        "      u64 rdi, u64 <why not>\n");
}

TEST_CASE("each location of a static probe is a line in piped output") {
  const std::vector points = {static_point("a", 0x10), static_point("b", 0x20)};
  CHECK(written(points, {.header = true}, "lib.so") ==
        "OFFSET\tSEMAPHORE\tPROVIDER:NAME\tARGUMENTS\tTARGET\n"
        "0x10\t-\tshop:a\t8@%rdi ?8@what\tlib.so\n"
        "0x20\t-\tshop:b\t8@%rdi ?8@what\tlib.so\n");
}

TEST_CASE("arguments of machines whose operands are not known are not marked") {
  CHECK(written({static_point("a", 0x10, 22)}, {}) ==
        "0x10\t-\tshop:a\t8@%rdi 8@what\n"); // EM_S390
}

TEST_CASE("control characters in a static probe's names do not reach the terminal") {
  CHECK(written({static_point("a\x1b[31m", 0x10)}, {.aligned = true})
            .starts_with("shop:a\\x1b[31m  1 probe point\n"));
}

} // namespace uprobectl::output
