// SPDX-License-Identifier: Apache-2.0
// A saved stack: four sizes of two bytes, little-endian, of regs.txt, maps.txt, a file that is
// gzipped, and an ELF file that is mapped at 0x10000; then these; the rest is the stack, at 0x7000.
#include "uprobectl/unwind/saved.hpp"
#include "util/inflate.hpp"

#include <cstdlib>

using namespace uprobectl;

namespace {

class OneFile final : public unwind::FileSource {
public:
  explicit OneFile(Bytes bytes) : bytes_(bytes) {}
  Result<unwind::MappedObject> open(const process::Mapping&) override {
    return unwind::MappedObject{bytes_};
  }

private:
  Bytes bytes_;
};

} // namespace

int fuzz_saved_stack(const std::uint8_t* data, std::size_t size) {
  using namespace uprobectl::unwind;
  constexpr std::size_t head = 8;
  if (size < head) return 0;
  const Bytes sizes = std::as_bytes(std::span(data, head));
  Bytes rest = std::as_bytes(std::span(data + head, size - head));
  const auto take = [&](std::size_t number) {
    const std::size_t wanted = *read_at<std::uint16_t>(sizes, 2 * number);
    const Bytes part = rest.first(std::min(wanted, rest.size()));
    rest = rest.subspan(part.size());
    return part;
  };
  const auto registers = parse_registers(as_text(take(0)), {});
  std::vector<process::Mapping> mappings = process::parse_all_maps(as_text(take(1)));
  constexpr std::uint64_t most = 1 << 20;
  if (const auto content = gunzip(take(2), most); content && content->size() > most) std::abort();
  OneFile files(take(3));

  process::Mapping mapping;
  mapping.start = 0x10000;
  mapping.end = 0x20000;
  mapping.executable = true;
  mapping.path = "/lib.so";
  mappings.push_back(mapping);
  ModuleCache cache({.paths = {}, .system_folder = "/nonexistent"});
  AddressSpace space(mappings, cache, files);
  const MemoryPiece piece{0x7000, rest};
  for (const Arch arch : {Arch::x86_64, Arch::arm64}) {
    Registers known(arch);
    if (registers && registers->arch() == arch) known = *registers;
    if (!known.pc()) known.set(known.info().pc, 0x10000 + size % 0x1000);
    if (!known.stack_pointer()) known.set(known.info().stack_pointer, 0x7000);
    const Stack stack = unwind_stack(known, std::span(&piece, 1), space, {.max_frames = 64});
    if (stack.frames.size() > 64 || explain_end(stack).empty()) std::abort();
  }
  return 0;
}
