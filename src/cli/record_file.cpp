#include "record_file.hpp"

#include "replaced_file.hpp"

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
  return replace_file(path, [&](OutputBuffer& out) {
    const auto sink = make_json_sink(out);
    for (const ProbePoint& point : points) {
      if (point.static_probe)
        sink->static_probe({.point = &point, .target = {}});
      else
        sink->match(point);
    }
  });
}

} // namespace uprobectl::cli
