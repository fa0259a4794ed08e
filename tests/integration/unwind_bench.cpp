// SPDX-License-Identifier: Apache-2.0
// unwind_bench FOLDER [SECONDS]
// Unwinds, names and shows stacks again and again. FOLDER has maps.txt, the mapped files by base
// name, and samples.bin: of each stack the 17 registers of x86-64 in DWARF's order, the size of the
// stack in bytes, 8 bytes each, and that from the stack pointer on. Prints "KEY VALUE" lines.
#include "output/output.hpp"
#include "uprobectl/unwind/saved.hpp"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>

using namespace uprobectl;
using namespace uprobectl::unwind;

namespace {

struct Taken {
  Registers registers{Arch::x86_64};
  MemoryPiece stack;
};

std::vector<Taken> read_samples(Bytes bytes) {
  constexpr std::size_t register_count = 17;
  std::vector<Taken> samples;
  std::uint64_t at = 0;
  while (read_at<std::uint64_t>(bytes, at)) {
    Taken sample;
    for (std::size_t i = 0; i < register_count; ++i, at += 8)
      sample.registers.set(i, read_at<std::uint64_t>(bytes, at).value());
    const std::uint64_t size = read_at<std::uint64_t>(bytes, at).value();
    at += 8;
    sample.stack = {*sample.registers.stack_pointer(), slice(bytes, at, size).value()};
    at += size;
    samples.push_back(sample);
  }
  return samples;
}

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace

int main(int count, char** arguments) {
  if (count < 2) return 2;
  const std::string folder = arguments[1];
  const double seconds = count > 2 ? std::atof(arguments[2]) : 1;
  const auto bytes = MappedFile::open(folder + "/samples.bin");
  if (!bytes) return 1;
  const std::vector<Taken> samples = read_samples(bytes->bytes());
  const auto files = open_saved_files(folder);
  ModuleCache cache;
  AddressSpace space(process::parse_all_maps(text_of(folder + "/maps.txt")), cache, *files);
  std::size_t frames = 0;
  std::size_t letters = 0;
  const auto show = [&](const Taken& sample) {
    const Stack stack = unwind_stack(sample.registers, {&sample.stack, 1}, space);
    frames += stack.frames.size();
    for (const Frame& frame : stack.frames) letters += output::display_frame(frame).size();
  };
  const double begin = cpu_seconds();
  if (!samples.empty()) show(samples.front());
  std::printf("first_ms %.3f\n", (cpu_seconds() - begin) * 1e3);
  for (const Taken& sample : samples) show(sample);
  std::size_t stacks = 0;
  frames = 0;
  const double warm = cpu_seconds();
  double now = warm;
  for (; now - warm < seconds; now = cpu_seconds()) {
    for (const Taken& sample : samples) show(sample);
    stacks += samples.size();
    if (samples.empty()) break;
  }
  std::printf("stacks_per_second %.0f\nframes_per_stack %.1f\nletters %zu\n",
              static_cast<double>(stacks) / (now - warm),
              static_cast<double>(frames) / static_cast<double>(stacks), letters);
  const std::string status = text_of("/proc/self/status");
  const std::string_view key = "RssAnon:";
  std::printf("anonymous_kilobytes %ld\n",
              std::atol(status.c_str() + status.find(key) + key.size()));
}
