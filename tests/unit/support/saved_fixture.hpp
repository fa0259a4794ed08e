// SPDX-License-Identifier: Apache-2.0
// What tests of saved runs share.
#pragma once

#include "saved/run_writer.hpp"

#include <functional>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace uprobectl::test {

// Returns the bytes that `write` writes to a descriptor.
inline std::string bytes_written(const std::function<void(int)>& write) {
  const UniqueFd file{memfd_create("saved-run-test", MFD_CLOEXEC)};
  write(file.get());
  std::string text(1 << 16, '\0');
  const ssize_t size = pread(file.get(), text.data(), text.size(), 0);
  text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  return text;
}

inline std::string save_run(const std::function<void(saved::RunWriter&)>& use,
                            const output::RunHeader& header = {}) {
  return bytes_written([&](int fd) {
    output::OutputBuffer out(fd);
    saved::RunWriter writer(out, true, header);
    use(writer);
  });
}

// ns::f() of f.so.
inline resolve::ProbePoint saved_point() {
  resolve::ProbePoint point;
  point.binary = std::make_shared<const resolve::ProbedBinary>(
      resolve::ProbedBinary{.target = "f.so",
                            .path = {"f.so", std::nullopt},
                            .file = nullptr,
                            .real_path = "/a/f.so",
                            .entry_data = {},
                            .machine = elf::Machine(62),
                            .build_id = "abcd"});
  point.request = "f";
  point.offset = {0x2010};
  point.image_offset = {0x2010};
  point.address = {0x4010};
  point.symbol = "_Z1fv";
  point.demangled = "ns::f";
  return point;
}

// A chunk of a hand-made file, as docs/saved-runs.md describes it.
inline std::string hand_made_chunk(std::uint8_t kind, std::string_view content) {
  return std::string{static_cast<char>(kind), 0, 0, 0} +
         std::string{static_cast<char>(content.size()), 0, 0, 0} + std::string(content);
}

} // namespace uprobectl::test
