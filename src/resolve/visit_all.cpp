#include "uprobectl/resolve.hpp"

#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl {

namespace {

// The first few names, then how many more.
std::string first_few(const std::vector<std::string>& names) {
  constexpr std::size_t most = 10;
  std::string text = joined(std::span(names).first(std::min(most, names.size())));
  if (names.size() > most) text += fmt::format(" and {} more", names.size() - most);
  return text;
}

Error none_usable(const Targets& targets, Error first) {
  if (targets.files.size() > 1)
    first.message = fmt::format("{}: none of its {} files can be probed, the first: {}",
                                targets.text, targets.files.size(), first.message);
  return first;
}

} // namespace

Result<Visited> visit_all(const Targets& targets, const TargetOptions& options,
                          const std::function<void(Target&)>& visit) {
  Visited visited{.files = 0, .warnings = targets.warnings};
  std::optional<Error> first_refusal;
  std::vector<std::string> compressed;
  for (const TargetFile& file : targets.files) {
    auto target = Target::open(file, targets.text, options);
    if (target && targets.several && target->foreign()) target = fail(*target->foreign());
    if (target) {
      ++visited.files;
      visit(*target);
      continue;
    }
    if (!first_refusal) first_refusal = target.error();
    if (target.error().kind == ErrorKind::compressed)
      compressed.push_back(file.shown.entry.value_or(file.shown.file));
    else
      visited.warnings.push_back("left out: " + target.error().message);
  }
  if (visited.files == 0) return fail(none_usable(targets, std::move(*first_refusal)));
  if (!compressed.empty())
    visited.warnings.push_back(
        fmt::format("{}: {} of {} files {} compressed and cannot be probed: {}", targets.text,
                    compressed.size(), targets.files.size(), compressed.size() == 1 ? "is" : "are",
                    first_few(compressed)));
  return visited;
}

} // namespace uprobectl
