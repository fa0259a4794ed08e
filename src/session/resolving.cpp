#include "session/resolving.hpp"

#include <fmt/format.h>
#include <set>
#include <unordered_set>

namespace uprobectl {

namespace {

// Said once, however many places of one library it is true of.
void warn_once(const ProbePoint& point, std::set<std::string>& said, const Reporter& reporter) {
  for (const std::string& warning : point.warnings)
    if (said.insert(warning).second) reporter.warning(warning);
}

// The places of one FUNCTION, if they can be probed as asked.
Result<std::vector<ProbePoint>> places_of(const AttachRequest& request, const Target& target,
                                          const std::string& text) {
  const auto function = parse_function(text);
  // A probe that misses calls is worse than milliseconds of searching; but not for each of many.
  constexpr std::size_t few = 64;
  ResolveOptions options = request.resolve_options;
  options.thorough = request.functions.size() <= few;
  options.to_probe = true;
  auto points = function ? target.resolve(*function, options) : fail(function.error());
  if (!points || !request.on_return) return points;
  for (const ProbePoint& point : *points)
    if (point.symbol && point.symbol_offset != 0)
      return fail(Error{ErrorKind::usage, "'" + text +
                                              "' is inside a function: a return can only be "
                                              "probed from its start"}
                      .hint("leave out --return, or the offset"));
  return points;
}

} // namespace

Resolved resolve_functions(const AttachRequest& request, const Target& target,
                           const Reporter& reporter) {
  Resolved resolved;
  std::set<std::string> said;
  std::unordered_set<std::uint64_t> probed; // offsets: all FUNCTIONs are in one file
  for (const std::string& text : request.functions) {
    auto points = places_of(request, target, text);
    if (!points) {
      resolved.failures.push_back({.function = text, .error = std::move(points).error()});
      continue;
    }
    for (ProbePoint& point : *points) {
      warn_once(point, said, reporter);
      // The kernel would fire twice for a place that two FUNCTIONs name.
      if (probed.insert(point.offset.value).second) resolved.points.push_back(std::move(point));
    }
  }
  return resolved;
}

Result<void> judge_failures(const AttachRequest& request, const Resolved& resolved, Sink& sink,
                            const Reporter& reporter) {
  if (resolved.failures.empty()) return {};
  if (request.functions.size() == 1) return fail(resolved.failures.front().error);
  for (const Failure& failure : resolved.failures) {
    reporter.error(failure.error);
    sink.error({.target = request.target, .request = failure.function, .error = failure.error});
  }
  if (request.keep_going && !resolved.points.empty()) return {};
  Error error{ErrorKind::not_found,
              fmt::format("{} of {} functions cannot be probed, so nothing was attached",
                          resolved.failures.size(), request.functions.size())};
  if (resolved.points.empty()) return fail(std::move(error));
  return fail(std::move(error).hint("attach the others with --keep-going"));
}

} // namespace uprobectl
