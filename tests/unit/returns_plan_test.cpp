#include "session/returns.hpp"

#include <catch2/catch.hpp>

using namespace uprobectl;

namespace {

// The return of a method in a file that is no longer readable as what it was.
Resolved unreadable(const std::string& path, bool is_method) {
  auto file = MappedFile::open("/etc/passwd"); // no ELF file
  REQUIRE(file);
  ProbedBinary binary{.target = path,
                      .path = {.file = path, .entry = std::nullopt},
                      .file = std::make_shared<const MappedFile>(std::move(*file)),
                      .real_path = path,
                      .entry_data = {},
                      .machine = {},
                      .build_id = std::nullopt};
  ProbePoint point;
  point.binary = std::make_shared<const ProbedBinary>(std::move(binary));
  point.request = "void com.foo.Bar.baz()";
  point.offset = FileOffset{0x1000};
  if (is_method)
    point.java =
        std::make_shared<const JavaMethod>(JavaMethod{.return_type = "void", .parameters = {}});
  PlannedSite site;
  site.point = 0;
  site.on_return = true;
  Resolved resolved;
  resolved.points.push_back(std::move(point));
  resolved.sites.push_back(std::move(site));
  return resolved;
}

Resolved planned(Resolved resolved, ReturnAt return_at) {
  AttachRequest request;
  request.return_at = return_at;
  CodeReaders readers({});
  plan_returns(request, readers, resolved, Reporter(-1, false, Reporter::Level::quiet));
  return resolved;
}

} // namespace

TEST_CASE("no return probe of the kernel's is put on Java code that cannot be read") {
  for (const ReturnAt return_at :
       {ReturnAt::automatic, ReturnAt::trampoline, ReturnAt::instruction}) {
    const Resolved method = planned(unreadable("/data/app/strange.name", true), return_at);
    CHECK(method.sites.empty());
    CHECK(method.failures.size() == 1);
    // Code that methods share has no signature.
    const Resolved shared = planned(unreadable("/data/app/base.odex", false), return_at);
    CHECK(shared.sites.empty());
    CHECK(shared.failures.size() == 1);
  }
}

TEST_CASE("other code that cannot be read is left to the kernel's return probe") {
  const Resolved native = planned(unreadable("/data/app/libf.so", false), ReturnAt::automatic);
  CHECK(native.failures.empty());
  REQUIRE(native.sites.size() == 1);
  CHECK(native.sites.front().return_instruction == std::nullopt);
}
