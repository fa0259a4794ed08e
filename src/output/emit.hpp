// SPDX-License-Identifier: Apache-2.0
// The lines of other tools that make them probe the place of a match. Each tool has its own idea of
// what a number after a path means, and its own characters that a path must not have; where it
// would take another place or none, there is an error instead of a line. All ask for points with
// an offset.
#pragma once

#include "uprobectl/resolve.hpp"

namespace uprobectl {

// Other tools that can probe the place of a match.
enum class EmitTool { bpftrace, tracefs, perf, libbpf };
std::optional<EmitTool> parse_emit_tool(std::string_view name);

struct EmittedLine {
  std::string text;
  std::optional<std::string> needs; // a warning: what the tool has to be called with
};

// Makes the lines with which another tool probes the places of matches.
class Emitter {
public:
  explicit Emitter(EmitTool tool);
  ~Emitter();
  // Without the line's end. unsupported where the tool cannot be told of the place, compressed
  // where no file here has it.
  Result<EmittedLine> line(const ProbePoint& point);

private:
  struct State;
  EmitTool tool_;
  std::unique_ptr<State> state_;
};

namespace emit {

// The way out where a path cannot be written. Symbolic links do not help, they are resolved.
constexpr std::string_view other_name =
    "give the file a hard link with a plain name and name that, or use: uprobectl attach";

// A name that the kernel takes for an event (is_good_name() and MAX_EVENT_NAME_LEN in
// kernel/trace/trace_probe.h, Linux 6.12): a C identifier of less than 64 bytes. Made of the
// point's symbol, so that people recognise it; several points may get the same.
std::string event_name(const ProbePoint& point);

// One that no point before has been given.
class EventNames {
public:
  std::string name(const ProbePoint& point);

private:
  std::vector<std::string> taken_; // sorted
};

// "p:uprobectl/NAME PATH:0xOFFSET", for uprobe_events.
Result<std::string> tracefs_line(const ProbePoint& point, const std::string& name);

// "perf probe -x PATH -a uprobectl:NAME=0xOFFSET". A number that is not relative to a function is
// handed on to uprobe_events as it is (perf's try_to_find_absolute_address()), for any file.
Result<std::string> perf_line(const ProbePoint& point, const std::string& name);

// The C statement; a `prog` must be there.
Result<std::string> libbpf_line(const ProbePoint& point);

// "uprobe:PATH:0xNUMBER { … }". Keeps the symbols of the last file.
class Bpftrace {
public:
  Bpftrace();
  ~Bpftrace();
  Result<EmittedLine> line(const ProbePoint& point);

private:
  class Symbols; // as bpftrace sees them
  const Symbols& symbols_of(const ProbePoint& point);

  std::shared_ptr<const MappedFile> file_;
  std::unique_ptr<Symbols> symbols_;
};

} // namespace emit

} // namespace uprobectl
