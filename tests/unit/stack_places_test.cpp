#include "session/stack_places.hpp"

#include <catch2/catch.hpp>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace uprobectl;

// Exported to the symbol table under a name that nobody else has.
extern "C" [[gnu::noinline]] long stack_places_here(long n) {
  asm volatile("" ::: "memory");
  return n + 1;
}

namespace {

std::uint64_t address_of_here() { return reinterpret_cast<std::uint64_t>(&stack_places_here); }

// The point in this very program.
ProbePoint here() {
  const auto target = Target::open("/proc/self/exe");
  REQUIRE(target);
  const std::string name = "stack_places_here";
  auto points = target->resolve(*parse_function(name));
  REQUIRE(points);
  return std::move(points->front());
}

} // namespace

TEST_CASE("an address of a process lies in the file that is mapped there") {
  ProcessMaps maps;
  maps.look_at(::getpid());
  const Mapping* const mapping = maps.find(::getpid(), address_of_here());
  REQUIRE(mapping);
  CHECK(mapping->executable);
  CHECK(mapping->start <= address_of_here());
  CHECK(maps.find(::getpid(), 0x10) == nullptr);
  CHECK(maps.find(1 << 30, address_of_here()) == nullptr);
}

TEST_CASE("frames are named by their files, return addresses by the call before") {
  ProcessMaps maps;
  maps.look_at(::getpid());
  StackPlaces places({});
  const std::uint64_t address = address_of_here();
  // Whatever returns to the function's own start was called by what lies before it.
  const auto frames = places.frames(maps, ::getpid(),
                                    std::vector{address, address + 4, std::uint64_t{0x10}}, here());
  REQUIRE(frames.size() == 3);
  REQUIRE(frames[0].place);
  CHECK(frames[0].place->symbol == "stack_places_here");
  CHECK(frames[0].place->symbol_offset == 0);
  REQUIRE(frames[1].place);
  CHECK(frames[1].pc == address + 4);
  CHECK(frames[1].place->symbol == "stack_places_here");
#if defined(__aarch64__)
  CHECK(frames[1].place->symbol_offset == 0);
#else
  CHECK(frames[1].place->symbol_offset == 3);
#endif
  CHECK_FALSE(frames[2].place);
  CHECK(display_frame(frames[2]) == "0x10");
}

TEST_CASE("frames in memory that is no file are named by that") {
  constexpr std::size_t size = 0x1000;
  void* const memory =
      ::mmap(nullptr, size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  const UniqueFd fd{::memfd_create("jit-cache", MFD_CLOEXEC)};
  REQUIRE(::ftruncate(fd.get(), size) == 0);
  void* const compiled = ::mmap(nullptr, size, PROT_READ | PROT_EXEC, MAP_SHARED, fd.get(), 0);
  REQUIRE(compiled != MAP_FAILED);
  ProcessMaps maps;
  maps.look_at(::getpid());
  StackPlaces places({});
  const std::vector addresses{reinterpret_cast<std::uint64_t>(memory) + 16,
                              reinterpret_cast<std::uint64_t>(compiled) + 16,
                              ::getauxval(AT_SYSINFO_EHDR) + 16};
  const auto frames = places.frames(maps, ::getpid(), addresses, here());
  REQUIRE(frames.size() == 3);
  // Neighbours without a name are one mapping.
  CHECK_THAT(frames[0].module, Catch::StartsWith("[anon 0x"));
  CHECK(frames[1].module == "/memfd:jit-cache");
  CHECK_THAT(display_frame(frames[1]), Catch::EndsWith("010 (/memfd:jit-cache)"));
  CHECK(frames[2].module == "[vdso]");
  ::munmap(memory, size);
  ::munmap(compiled, size);
}

TEST_CASE("what lies in the probed file is named without any mappings") {
  StackPlaces places({});
  const ProbePoint point = here();
  const std::uint64_t anywhere = 0x7f0000000000 + point.address.value;
  const auto frames = places.frames(ProcessMaps(), 1, std::vector{anywhere, anywhere + 4}, point);
  REQUIRE(frames[0].place);
  CHECK(frames[0].place->symbol == "stack_places_here");
  REQUIRE(frames[1].place);
  CHECK(frames[1].place->symbol == "stack_places_here");
}

TEST_CASE("a frame is a function, a file and an address in it, as far as they are known") {
  StackFrame frame{.pc = 0x7f0000005a1c, .place = {}, .module = {}};
  CHECK(display_frame(frame) == "0x7f0000005a1c");
  frame.module = "libgone.so";
  CHECK(display_frame(frame) == "0x7f0000005a1c (libgone.so)");
  auto binary = std::make_shared<ProbedBinary>();
  binary->path = {.file = "/data/app/base.apk", .entry = "lib/arm64-v8a/libfoo.so"};
  ProbePoint& place = frame.place.emplace();
  place.binary = binary;
  place.address = {0x5a1c};
  CHECK(display_frame(frame) == "(base.apk!/lib/arm64-v8a/libfoo.so+0x5a1c)");
  place.symbol = "f";
  place.symbol_offset = 0x1c;
  CHECK(display_frame(frame) == "f+0x1c (base.apk!/lib/arm64-v8a/libfoo.so+0x5a1c)");
}
