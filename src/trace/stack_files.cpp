#include "trace/stack_files.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace uprobectl {

namespace {

// The names of one stack's frames, for as long as it takes to add them.
struct NamedFrame {
  std::string name;
  std::string_view module;
};

// What has no name is at least told from other such places.
NamedFrame named(const stacks::Frame& frame) {
  if (!frame.place) return {"[unknown]", {}};
  if (frame.place->module == nullptr) {
    const std::string_view mapping = frame.place->mapping;
    return {mapping.starts_with('[') ? std::string(mapping) : "[" + std::string(mapping) + "]", {}};
  }
  const stacks::Module& module = *frame.place->module;
  const std::string_view file = file_name_of(module.entry() ? *module.entry() : module.path());
  const auto symbolized = frame.symbolized();
  if (symbolized->function) return {symbolized->function->name_with_others(), file};
  return {"[" + std::string(file) + "]", file};
}

// Of frames with the innermost first.
void add_to(StackTree& tree, std::span<const stacks::Frame> frames, Wholeness wholeness,
            std::uint64_t weight) {
  std::vector<NamedFrame> names;
  names.reserve(frames.size());
  for (std::size_t i = frames.size(); i-- > 0;) names.push_back(named(frames[i]));
  std::vector<DrawnFrame> drawn;
  drawn.reserve(names.size() + 1);
  const std::string_view rest = rest_of(wholeness);
  if (!rest.empty()) drawn.push_back({.name = rest, .module = {}});
  for (const NamedFrame& each : names) drawn.push_back({.name = each.name, .module = each.module});
  tree.add(drawn, weight);
}

} // namespace

std::string_view rest_of(Wholeness wholeness) {
  switch (wholeness) {
  case Wholeness::whole:
    return {};
  case Wholeness::cut_off:
    return "[cut off]";
  case Wholeness::not_unwound:
    return "[not unwound]";
  }
  return {};
}

Result<std::optional<StackFiles::File>> StackFiles::open(const std::optional<std::string>& path) {
  if (!path) return std::nullopt;
  File file{*path, UniqueFd{::open(path->c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)}};
  if (!file.fd) return fail(system_error(errno, *path));
  return file;
}

Result<StackFiles> StackFiles::open(const AttachRequest& request) {
  StackFiles files;
  auto folded = open(request.stacks.folded);
  if (!folded) return fail(std::move(folded).error());
  auto flame_graph = open(request.stacks.flame_graph);
  if (!flame_graph) return fail(std::move(flame_graph).error());
  if (*folded && *flame_graph) {
    struct stat one{};
    struct stat other{};
    if (::fstat((*folded)->fd.get(), &one) == 0 && ::fstat((*flame_graph)->fd.get(), &other) == 0 &&
        S_ISREG(one.st_mode) && one.st_dev == other.st_dev && one.st_ino == other.st_ino)
      return fail(ErrorKind::usage,
                  (*folded)->path + " and " + (*flame_graph)->path +
                      " are the same file, --folded and --flamegraph need one each");
  }
  files.folded_ = std::move(*folded);
  files.flame_graph_ = std::move(*flame_graph);
  files.title_ = request.stacks.title;
  // What the kernel counts comes as a number of hits, whatever their latency.
  const bool timed = request.capture.pair_calls && !request.capture.count_stacks;
  files.unit_ = timed ? "ns" : "hit";
  return files;
}

void StackFiles::add(const stacks::Stack& stack, Wholeness wholeness, std::uint64_t weight) {
  if (wanted()) add_to(tree_, stack.frames, wholeness, weight);
}

// A pipe or a device has no length to be set.
Result<void> StackFiles::File::write(std::string_view text) const {
  if (::ftruncate(fd.get(), 0) != 0 && errno != EINVAL) return fail(system_error(errno, path));
  while (!text.empty()) {
    const ssize_t written = ::write(fd.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail(system_error(errno, path));
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Result<void> StackFiles::write(std::string subtitle) {
  if (folded_)
    if (auto written = folded_->write(tree_.folded()); !written) return written;
  if (!flame_graph_) return {};
  return flame_graph_->write(
      flame_graph(tree_, {.title = title_, .subtitle = std::move(subtitle), .unit = unit_}));
}

} // namespace uprobectl
