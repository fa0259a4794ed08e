// SPDX-License-Identifier: Apache-2.0
// Bytes from a device and bytes for an agent: frames, requests, and the output of commands.
#include "host/adb.hpp"
#include "host/device.hpp"
#include "host/device_runs.hpp"
#include "host/run_request.hpp"

#include <cstdlib>

using namespace uprobectl;

namespace {

void read_frames(std::string_view bytes) {
  using namespace uprobectl::host;
  FrameReader reader;
  RequestReader request;
  bool is_request = true;
  // In two parts, so that frames are cut.
  for (const std::string_view part :
       {bytes.substr(0, bytes.size() / 2), bytes.substr(bytes.size() / 2)}) {
    reader.append(part);
    for (;;) {
      const auto frame = reader.next();
      if (!frame) return;
      if (!*frame) break;
      const std::string_view payload = (*frame)->payload;
      if (payload.size() > max_payload) std::abort();
      if (const auto wanted = read_request(**frame)) {
        std::string again;
        append_request(again, *wanted);
        constexpr std::size_t head = 5;
        if (again.substr(head) != payload) std::abort();
      }
      if (const auto file = read_numbered(payload))
        if (const auto errnum = read_errno(file->rest); errnum && *errnum < 0) std::abort();
      static_cast<void>(read_byte(payload));
      if (!is_request) continue;
      const auto added = request.add(**frame);
      is_request = added && !*added;
      if (added && *added)
        for (const std::string& folder : (*added)->paths.folders)
          if ((*added)->paths.is_in_folder(folder + "/../x")) std::abort();
    }
  }
}

} // namespace

int fuzz_agent(const std::uint8_t* data, std::size_t size) {
  using namespace uprobectl::host;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read_frames(text);
  for (const ListedDevice& device : parse_devices(text))
    if (device.serial.empty()) std::abort();
  const DeviceFacts facts = parse_facts(text);
  if (!facts.program_sha256.empty() && facts.program_sha256.size() != 64) std::abort();
  static_cast<void>(parse_verdict(text));
  return 0;
}
