#include "session/resolving.hpp"

#include <fmt/format.h>
#include <set>

namespace uprobectl {

namespace {

// Nothing asks `attach` to inflate, so this is to be read only if somebody changes that.
Error not_in_a_file(const ProbePoint& point) {
  return Error{ErrorKind::compressed, to_string(point.binary->path) +
                                          ": compressed in its archive, there "
                                          "is no file to probe"}
      .hint("probe the library where the device has installed it, in the app's lib folder");
}

// Whether the places of one FUNCTION can be probed as asked.
Result<void> check_places(const AttachRequest& request, std::span<const ProbePoint> points) {
  for (const ProbePoint& point : points)
    if (!point.offset) return fail(not_in_a_file(point));
  if (!request.on_return) return {};
  for (const ProbePoint& point : points)
    if (point.symbol && point.symbol_offset != 0)
      return fail(Error{ErrorKind::usage, "'" + point.request +
                                              "' is inside a function: a return can only be "
                                              "probed from its start"}
                      .hint("leave out --return, or the offset"));
  return {};
}

class Resolving {
public:
  Resolving(const AttachRequest& request, const TargetOptions& options, const Reporter& reporter)
      : request_(request), options_(options), how_(request.resolve_options), reporter_(reporter) {
    // A probe that misses calls is worse than milliseconds of searching; but not for each of many.
    constexpr std::size_t few = 64;
    how_.thorough = request.functions.size() <= few;
    how_.to_probe = true;
  }

  Result<Resolved> resolve() {
    const auto targets = find_targets(request_.target, options_);
    if (!targets) return fail(targets.error());
    auto asked = targets->several ? ask_several(*targets) : ask_one(*targets);
    if (!asked) return fail(std::move(asked).error());
    return std::move(resolved_);
  }

private:
  Result<void> ask_one(const Targets& targets) {
    warn(targets.warnings);
    const auto target = Target::open(targets.files.front(), targets.text, options_);
    if (!target) return fail(target.error());
    if (target->foreign())
      return fail(Error(*target->foreign())
                      .hint("what is mapped there is found with: uprobectl resolve -p PID '*' "
                            "FUNCTION"));
    warn(target->warnings());
    for (const std::string& text : request_.functions) {
      const auto function = parse_function(text);
      auto points = function ? target->resolve(*function, how_) : fail(function.error());
      if (points)
        take(text, std::move(*points));
      else
        resolved_.failures.push_back({.function = text, .error = std::move(points).error()});
    }
    for (const std::string& source : target->debug_notes().used)
      reporter_.detail(request_.target + ": symbols from " + source);
    for (const std::string& warning : target->debug_notes().warnings)
      warn({request_.target + ": " + warning});
    return {};
  }

  Result<void> ask_several(const Targets& targets) {
    auto answers = ask_all(targets, request_.functions, options_, how_);
    if (!answers) return fail(std::move(answers).error());
    warn(answers->warnings);
    for (const std::string& detail : answers->details) reporter_.detail(detail);
    for (SharedAnswer& answer : answers->functions) {
      for (Error& error : answer.errors)
        resolved_.failures.push_back({.function = answer.request, .error = std::move(error)});
      take(answer.request, std::move(answer.points));
    }
    return {};
  }

  void take(const std::string& function, std::vector<ProbePoint> points) {
    if (auto checked = check_places(request_, points); !checked) {
      resolved_.failures.push_back({.function = function, .error = std::move(checked).error()});
      return;
    }
    for (ProbePoint& point : points) {
      warn(point.warnings);
      // The kernel would fire twice for a place that two FUNCTIONs name.
      if (probed_.emplace(point.binary->file->identity(), point.offset->value).second)
        resolved_.points.push_back(std::move(point));
    }
  }

  // Said once, however many places it is true of.
  void warn(const std::vector<std::string>& warnings) {
    for (const std::string& warning : warnings)
      if (said_.insert(warning).second) reporter_.warning(warning);
  }

  const AttachRequest& request_;
  const TargetOptions& options_;
  ResolveOptions how_;
  const Reporter& reporter_;
  Resolved resolved_;
  std::set<std::string> said_;
  std::set<std::pair<FileIdentity, std::uint64_t>> probed_; // offsets
};

} // namespace

Result<Resolved> resolve_functions(const AttachRequest& request, const TargetOptions& options,
                                   const Reporter& reporter) {
  return Resolving(request, options, reporter).resolve();
}

Result<void> judge_failures(const AttachRequest& request, const Resolved& resolved, Sink& sink,
                            const Reporter& reporter) {
  if (resolved.failures.empty()) return {};
  const bool goes_on = request.keep_going && !resolved.points.empty();
  if (request.functions.size() == 1 && resolved.failures.size() == 1 && !goes_on)
    return fail(resolved.failures.front().error);
  std::set<std::string_view> failed; // several files of one TARGET can each have a reason
  for (const Failure& failure : resolved.failures) {
    failed.insert(failure.function);
    reporter.error(failure.error);
    sink.error({.target = request.target, .request = failure.function, .error = failure.error});
  }
  if (goes_on) return {};
  Error error{ErrorKind::not_found,
              fmt::format("{} of {} functions cannot be probed, so nothing was attached",
                          failed.size(), request.functions.size())};
  if (resolved.points.empty()) return fail(std::move(error));
  return fail(std::move(error).hint("attach the others with --keep-going"));
}

} // namespace uprobectl
