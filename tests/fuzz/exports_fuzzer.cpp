// SPDX-License-Identifier: Apache-2.0
// Timelines of events with untrusted names and texts. A line of the input is an event: its kind and
// its time (a byte each), then the function's name, the thread's name and an argument, with a tab
// after each.
#include "output/exports.hpp"
#include "output/output.hpp"
#include "require.hpp"

#include "util/text.hpp"

#include <cstdlib>
#include <llvm/Support/JSON.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace uprobectl;

namespace {

// Removes the first field from the line and returns it without its tab.
std::string_view take_field(std::string_view& line) {
  const std::size_t end = std::min(line.find('\t'), line.size());
  const std::string_view field = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return field;
}

std::uint64_t take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    require(!bytes.empty());
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return value;
  }
  std::abort();
}

// Fields that are whole, and whose length fits.
void check_message(std::string_view message, std::uint64_t only_field) {
  while (!message.empty()) {
    const std::uint64_t tag = take_varint(message);
    require(only_field == 0 || tag >> 3U == only_field);
    if ((tag & 7U) == 0) {
      take_varint(message);
      continue;
    }
    require((tag & 7U) == 2);
    const std::uint64_t size = take_varint(message);
    require(size <= message.size());
    if (only_field != 0) check_message(message.substr(0, size), 0);
    message.remove_prefix(size);
  }
}

// The content of the file that an export of the input writes.
std::string write_export(std::string_view input, output::ExportFormat format) {
  const UniqueFd file{::memfd_create("export", MFD_CLOEXEC)};
  const output::ExportRequest request{.path = "/proc/self/fd/" + std::to_string(file.get()),
                                      .format = format};
  output::Output output(-1, {});
  const auto exports = output::Exports::open({&request, 1}, output);
  require(exports.has_value());
  (*exports)->begin({.header = {.command = "t", .weighs_time = true}, .start = {}});
  auto binary = std::make_shared<resolve::ProbedBinary>();
  std::vector<std::unique_ptr<resolve::ProbePoint>> points;
  while (!input.empty()) {
    std::string_view line = take_line(input);
    if (line.size() < 2) continue;
    events::Event event;
    event.kind = (line[0] & 1) != 0 ? events::EventKind::on_return : events::EventKind::entry;
    if ((line[0] & 2) != 0) event.latency_ns = static_cast<unsigned char>(line[0]);
    event.time_ns = static_cast<unsigned char>(line[1]) + std::uint64_t{256};
    event.pid = (line[0] & 4) != 0 ? 1 : 0;
    event.tid = event.pid + ((line[0] & 8) != 0 ? 1 : 0);
    line.remove_prefix(2);
    points.push_back(std::make_unique<resolve::ProbePoint>());
    points.back()->binary = binary;
    points.back()->symbol = take_field(line);
    event.point = points.back().get();
    event.comm = take_field(line);
    event.typed_arguments.emplace();
    events::ArgumentValue value;
    value.name = take_field(line);
    value.value = {std::string(line)};
    event.typed_arguments->push_back(value);
    (*exports)->write(event);
  }
  require((*exports)->finish({}).empty());
  std::string content(static_cast<std::size_t>(::lseek(file.get(), 0, SEEK_END)), '\0');
  require(::pread(file.get(), content.data(), content.size(), 0) ==
          static_cast<ssize_t>(content.size()));
  return content;
}

} // namespace

int fuzz_exports(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  check_message(write_export(input, output::ExportFormat::perfetto), 1);
  const std::string json = write_export(input, output::ExportFormat::chrome);
  auto parsed = llvm::json::parse(json);
  require(static_cast<bool>(parsed));
  return 0;
}
