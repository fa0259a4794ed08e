// SPDX-License-Identifier: Apache-2.0
// Bytes from a device during a run. No control character of them reaches a terminal, and the data
// that wait for the device are bounded. The first byte selects the sizes of the pieces that arrive.
#include "host/host_session.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

using namespace uprobectl;

namespace {

// Whether the text has a control character besides those that messages may have.
bool has_control_character(std::string text) {
  for (const std::string_view allowed :
       {"\x1b[K", "\x1b[0m", "\x1b[1;31m", "\x1b[1;33m", "\x1b[31m", "\x1b[32m", "\x1b[33m",
        "\x1b[34m", "\x1b[35m", "\x1b[36m", "\r", "\n", "\t"})
    for (auto at = text.find(allowed); at != std::string::npos; at = text.find(allowed, at))
      text.replace(at, allowed.size(), "x");
  return !is_printable_text(text);
}

} // namespace

int fuzz_host_session(const std::uint8_t* data, std::size_t size) {
  using namespace uprobectl::host;
  constexpr std::size_t max_kept = 16 << 20;
  if (size == 0) return 0;
  const std::size_t step = std::size_t{1} << (data[0] & 15U);
  const bool is_json = (data[0] & 16U) != 0;
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::string mark(agent_mark);
  append_hello(mark, "0.9");

  const InputFiles inputs{{"in", {.content = std::string(100'000, 'i')}}};
  RecordFiles record_files({"/dev/null"}, LineMark::device, StreamContent::json);
  Handlers handlers;
  serve<PlanRequest>(handlers, [](const PlanRequest& wanted, const process::IsInterrupted&) {
    return InputFile{.content = wanted.target};
  });
  serve<DebugFileRequest>(handlers, [](const DebugFileRequest&, const process::IsInterrupted&) {
    return InputFile{.errnum = ENOENT};
  });
  serve<RangeRequest>(handlers, [](const RangeRequest& wanted, const process::IsInterrupted&) {
    return InputFile{.content = std::string(std::min(wanted.size, 1000U), 'r')};
  });
  serve<PartsRequest>(
      handlers, [](const PartsRequest&, const process::IsInterrupted&) { return InputFile(); });
  // The folder is there and nothing can be made in it.
  HostFiles files({.inputs = {"in"}, .outputs = {"/dev/null"}, .folders = {"/proc/self/net"}},
                  inputs, record_files, std::move(handlers), "s", true);
  Sink records{Sink::InMemory{max_kept}};
  Sink messages{Sink::InMemory{max_kept}};
  AgentStreams streams{MarkedLines(records, is_json ? LineMark::device : LineMark::none, "s",
                                   is_json ? StreamContent::json : StreamContent::text),
                       MarkedLines(messages, LineMark::prefix, "s", StreamContent::messages)};
  HostSession session("0.9", files, streams);
  if (!session.add(mark)) std::abort();
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, step);
    if (!session.add(part)) break;
    session.add_content();
    // An answer is not larger than the request.
    if (session.outgoing().size() > HostSession::max_content + (64 << 10) + size) std::abort();
    if (session.is_flooded()) session.outgoing().clear();
    rest.remove_prefix(part.size());
  }
  streams.records.finish();
  streams.messages.finish();
  if (has_control_character(records.content()) || has_control_character(messages.content()))
    std::abort();
  return 0;
}
