// SPDX-License-Identifier: Apache-2.0
// Writes probe definitions for other tools (--emit), of functions and of static probes. Tools
// differ in what a number after a path means, in the characters that a path may contain, and in
// whether they increment the semaphore of a static probe. If a tool would probe another location or
// none, an error is returned. All functions require a point with an offset.
#pragma once

#include "uprobectl/resolve.hpp"

namespace uprobectl::emit {

// Tools for which probe definitions can be written.
enum class EmitTool { bpftrace, tracefs, perf, libbpf };
std::optional<EmitTool> parse_emit_tool(std::string_view name);

// One probe definition.
struct EmittedLine {
  std::string text; // empty if an earlier line covers the point
  // The option or version that the tool needs, and arguments that it cannot read.
  std::vector<std::string> warnings = {};
};

// Writes the probe definitions of one tool. Event names are unique within an emitter.
class Emitter {
public:
  // `device_path`: the absolute path that lines have instead of that of the probed file.
  explicit Emitter(EmitTool tool, std::optional<std::string> device_path = {});
  ~Emitter();
  // Returns the line without its newline. Fails with `unsupported` if the tool cannot probe the
  // point, `compressed` if it is in a compressed entry of an archive, `usage` if points of several
  // files would get one path.
  Result<EmittedLine> line(const resolve::ProbePoint& point);

private:
  struct State;
  Result<EmittedLine> line_of_tool(const resolve::ProbePoint& point);

  EmitTool tool_;
  std::optional<std::string> device_path_;
  std::unique_ptr<State> state_;
};

// The hint for a path that a tool rejects. Symbolic links do not help, because they are resolved.
constexpr std::string_view rename_hint =
    "create a hard link with a plain name and use its path, or use: uprobectl attach";

// Derives an event name from the point's symbol: a C identifier of less than 64 bytes
// (is_good_name() and MAX_EVENT_NAME_LEN in kernel/trace/trace_probe.h, Linux 6.12). It may not be
// unique.
std::string event_name(const resolve::ProbePoint& point);

// Assigns unique event names.
class EventNames {
public:
  std::string name(const resolve::ProbePoint& point);

private:
  std::vector<std::string> taken_; // sorted
};

// The arguments of a static probe for uprobe_events: "arg0=%di:s32 arg1=+8(%si):u64". Those that it
// cannot express are left out: vector registers, floating-point numbers, an index register, parts
// of registers, relocated addresses (Documentation/trace/uprobetracer.rst).
struct FetchArguments {
  std::string text;
  std::vector<std::string> left_out; // as in the note: "8f@%xmm0"
};
FetchArguments fetch_arguments(const resolve::ProbePoint& point);

// Returns "p:uprobectl/NAME PATH:0xOFFSET", a line for tracefs' uprobe_events. That of a static
// probe has the offset of its semaphore in parentheses (Linux 4.20) and its arguments.
Result<std::string> tracefs_line(const resolve::ProbePoint& point, const std::string& name);

// Returns "perf probe -x PATH -a uprobectl:NAME=0xOFFSET". perf passes a number without a function
// to uprobe_events unchanged (try_to_find_absolute_address()).
Result<std::string> perf_line(const resolve::ProbePoint& point, const std::string& name);

// Returns a C statement that attaches the variable `prog`.
Result<std::string> libbpf_line(const resolve::ProbePoint& point);

// Returns "usdt:PATH:PROVIDER:NAME { … }". It probes all locations of this name.
Result<std::string> bpftrace_static_line(const resolve::ProbePoint& point);

// Writes "uprobe:PATH:0xNUMBER { … }". Caches the symbols of the last file.
class Bpftrace {
public:
  Bpftrace();
  ~Bpftrace();
  Result<EmittedLine> line(const resolve::ProbePoint& point);

private:
  class Symbols; // the symbols that bpftrace finds
  const Symbols& load_symbols(const resolve::ProbePoint& point);

  std::shared_ptr<const MappedFile> file_;
  std::unique_ptr<Symbols> symbols_;
};

} // namespace uprobectl::emit
