#include "record_file.hpp"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <unistd.h>

namespace uprobectl::cli {

Result<std::vector<RecordedMatch>> read_matches(const std::string& path) {
  std::vector<RecordedMatch> matches;
  const auto file = FileText::read(path);
  if (!file) return fail(file.error());
  auto done = file->for_each_line([&](std::string_view line) -> Result<void> {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return {};
    auto match = read_match_record(line);
    if (!match) return fail(std::move(match).error());
    if (*match) matches.push_back(std::move(**match));
    return {};
  });
  if (!done) return fail(std::move(done).error());
  if (matches.empty())
    return fail(Error{ErrorKind::not_found, path + ": holds no match or usdt records"}.hint(
        "record some with: uprobectl resolve --json TARGET FUNCTION… > " + path));
  return matches;
}

Result<void> write_matches(const std::string& path, std::span<const ProbePoint> points) {
  const std::string draft = path + ".uprobectl-new";
  const UniqueFd file{
      ::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666)};
  if (!file) return fail(system_error(errno, "cannot write " + draft));
  OutputBuffer out(file.get());
  const auto sink = make_json_sink(out);
  for (const ProbePoint& point : points) {
    if (point.static_probe)
      sink->static_probe({.point = &point, .target = {}});
    else
      sink->match(point);
  }
  out.flush();
  std::optional<Error> failure = out.error();
  if (!failure && ::rename(draft.c_str(), path.c_str()) != 0)
    failure = system_error(errno, "cannot replace " + path);
  if (!failure) return {};
  ::unlink(draft.c_str());
  return fail(std::move(*failure));
}

} // namespace uprobectl::cli
