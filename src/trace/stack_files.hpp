// The files that all stacks of a run go to: folded lines and a flame graph.
#pragma once

#include "output/drawing.hpp"
#include "trace/trace.hpp"

namespace uprobectl {

// Whether a stack goes to where its thread began, as far as is known.
enum class Wholeness : std::uint8_t { whole, cut_off, not_unwound };
// What stands for the frames that are not known, as their outermost: "[cut off]"; empty of a whole
// stack. Else that would look like one that begins there.
std::string_view rest_of(Wholeness wholeness);

class StackFiles {
public:
  // Opens what the request names, so that a bad path fails before anything is probed. What was in
  // the files stays there until they are written.
  static Result<StackFiles> open(const AttachRequest& request);

  bool wanted() const { return folded_ || flame_graph_; }
  // `weight`: hits, or nanoseconds.
  void add(const stacks::Stack& stack, Wholeness wholeness, std::uint64_t weight);

  // "10s, 4711 stacks, 2 truncated"
  Result<void> write(std::string subtitle);

private:
  struct File {
    std::string path;
    UniqueFd fd;
    Result<void> write(std::string_view text) const;
  };
  static Result<std::optional<File>> open(const std::optional<std::string>& path);

  StackTree tree_;
  std::optional<File> folded_;
  std::optional<File> flame_graph_;
  std::string title_;
  std::string unit_;
};

} // namespace uprobectl
