// SPDX-License-Identifier: Apache-2.0
// Writes probe definitions for other tools (--emit). Tools differ in what a number after a path
// means and in the characters that a path may contain. If a tool would probe another location or
// none, an error is returned. All functions require a point with an offset.
#pragma once

#include "uprobectl/resolve.hpp"

namespace uprobectl {

// Tools for which probe definitions can be written.
enum class EmitTool { bpftrace, tracefs, perf, libbpf };
std::optional<EmitTool> parse_emit_tool(std::string_view name);

// One probe definition.
struct EmittedLine {
  std::string text;
  std::optional<std::string> requirement; // a warning: the option or version that the tool needs
};

// Writes the probe definitions of one tool. Event names are unique within an emitter.
class Emitter {
public:
  explicit Emitter(EmitTool tool);
  ~Emitter();
  // Returns the line without its newline. Fails with `unsupported` if the tool cannot probe the
  // point, `compressed` if it is in a compressed entry of an archive.
  Result<EmittedLine> line(const ProbePoint& point);

private:
  struct State;
  EmitTool tool_;
  std::unique_ptr<State> state_;
};

namespace emit {

// The hint for a path that a tool rejects. Symbolic links do not help, because they are resolved.
constexpr std::string_view rename_hint =
    "create a hard link with a plain name and use its path, or use: uprobectl attach";

// Derives an event name from the point's symbol: a C identifier of less than 64 bytes
// (is_good_name() and MAX_EVENT_NAME_LEN in kernel/trace/trace_probe.h, Linux 6.12). It may not be
// unique.
std::string event_name(const ProbePoint& point);

// Assigns unique event names.
class EventNames {
public:
  std::string name(const ProbePoint& point);

private:
  std::vector<std::string> taken_; // sorted
};

// Returns "p:uprobectl/NAME PATH:0xOFFSET", a line for tracefs' uprobe_events.
Result<std::string> tracefs_line(const ProbePoint& point, const std::string& name);

// Returns "perf probe -x PATH -a uprobectl:NAME=0xOFFSET". perf passes a number without a function
// to uprobe_events unchanged (try_to_find_absolute_address()).
Result<std::string> perf_line(const ProbePoint& point, const std::string& name);

// Returns a C statement that attaches the variable `prog`.
Result<std::string> libbpf_line(const ProbePoint& point);

// Writes "uprobe:PATH:0xNUMBER { … }". Caches the symbols of the last file.
class Bpftrace {
public:
  Bpftrace();
  ~Bpftrace();
  Result<EmittedLine> line(const ProbePoint& point);

private:
  class Symbols; // the symbols that bpftrace finds
  const Symbols& load_symbols(const ProbePoint& point);

  std::shared_ptr<const MappedFile> file_;
  std::unique_ptr<Symbols> symbols_;
};

} // namespace emit

} // namespace uprobectl
