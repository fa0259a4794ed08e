// The options of attach that ask for user stacks, and where they go.
#pragma once

#include "console.hpp"
#include "uprobectl/session.hpp"

namespace uprobectl::cli {

struct StackOptions {
  std::optional<std::string> how;
  bool by_frame_data = false; // -g
  std::optional<std::string> call_graph;
  std::optional<std::uint64_t> size;
  std::optional<std::string> kept;
  std::optional<std::string> folded;
  std::optional<std::string> flame_graph;
};

void bind_stack_options(OptionParser& parser, StackOptions& options);

// Into a request of which is known whether its hits are counted, and whose program. `common`: where
// the records go, and how.
Result<void> apply(const OptionParser& parser, const StackOptions& options,
                   const CommonOptions& common, AttachRequest& request);

// "uprobectl attach -d 5s libc.so.6 'mem*'", as a shell would take it.
std::string command_line(std::string_view command, std::span<const std::string_view> arguments);

} // namespace uprobectl::cli
