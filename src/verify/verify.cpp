#include "uprobectl/verify.hpp"

#include "verify/compare.hpp"

#include <algorithm>
#include <map>

namespace uprobectl {

namespace {

// Where a recorded match is asked again: in the given file, at the entry the record names.
std::string place_of(const RecordedMatch& match, const std::optional<std::string>& given) {
  if (!given) return match.target;
  if (match.entry && match.target.ends_with("!/" + *match.entry))
    return *given + "!/" + *match.entry;
  return *given;
}

// A request that finds nothing any more, as against a file that cannot be asked.
bool means_gone(const Error& error) {
  return error.kind == ErrorKind::not_found || error.kind == ErrorKind::imported ||
         error.kind == ErrorKind::no_code;
}

// How the request was asked, as far as its matches show: --all for several places of a name,
// --clones for names that it does not hold itself.
ResolveOptions options_of(std::span<const RecordedMatch> then, bool unsafe) {
  ResolveOptions options;
  options.unsafe = unsafe;
  options.all = then.size() > 1;
  options.clones = std::ranges::any_of(then, [](const RecordedMatch& match) {
    return match.symbol && is_clone(*match.symbol) && !match.request.starts_with(*match.symbol);
  });
  return options;
}

class Verifier {
public:
  Verifier(Sink& sink, const Reporter& reporter, const VerifyRequest& request)
      : sink_(sink), reporter_(reporter), options_(request.target_options),
        unsafe_(request.unsafe) {}

  void verify(const std::string& place, std::span<const RecordedMatch> then) {
    const std::string& request = then.front().request;
    const Result<Target>& target = open(place);
    if (!target) return; // reported once, when it was opened
    const auto function = parse_function(request);
    auto now =
        function ? target->resolve(*function, options_of(then, unsafe_)) : fail(function.error());
    if (!now && !means_gone(now.error())) {
      report(place, request, now.error());
      return;
    }
    if (!now) now.emplace();
    compare_build_ids(place, then, *now);
    for (DriftRecord& drift : compare_matches(then, *now, place)) tell(drift);
    for (ProbePoint& point : *now) outcome_.points.push_back(std::move(point));
  }

  VerifyOutcome take() { return std::move(outcome_); }

private:
  const Result<Target>& open(const std::string& place) {
    const auto known = targets_.find(place);
    if (known != targets_.end()) return known->second;
    const auto& target = targets_.emplace(place, Target::open(place, options_)).first->second;
    if (!target) report(place, std::nullopt, target.error());
    return target;
  }

  void report(const std::string& place, std::optional<std::string> request, const Error& error) {
    ++outcome_.failures;
    reporter_.error(error);
    sink_.error({.target = place, .request = std::move(request), .error = error});
  }

  // Once for each image, however many of its functions were recorded.
  void compare_build_ids(const std::string& place, std::span<const RecordedMatch> then,
                         std::span<const ProbePoint> now) {
    if (now.empty() || then.front().build_id == now.front().build_id) return;
    if (std::ranges::find(other_builds_, place) != other_builds_.end()) return;
    other_builds_.push_back(place);
    tell({.change = DriftRecord::Change::build_id,
          .target = place,
          .request = std::nullopt,
          .symbol = std::nullopt,
          .recorded = then.front().build_id,
          .found = now.front().build_id});
  }

  void tell(const DriftRecord& drift) {
    sink_.drift(drift);
    outcome_.changes.push_back(drift.change);
  }

  Sink& sink_;
  const Reporter& reporter_;
  const TargetOptions& options_;
  bool unsafe_;
  std::map<std::string, Result<Target>> targets_;
  std::vector<std::string> other_builds_;
  VerifyOutcome outcome_;
};

} // namespace

VerifyOutcome verify_matches(const VerifyRequest& request, Sink& sink, const Reporter& reporter) {
  Verifier verifier(sink, reporter, request);
  // The matches of one request stand together, as resolve has written them.
  const std::vector<RecordedMatch>& all = request.recorded;
  for (std::size_t begin = 0; begin < all.size();) {
    std::size_t end = begin + 1;
    while (end < all.size() && all[end].target == all[begin].target &&
           all[end].request == all[begin].request)
      ++end;
    verifier.verify(place_of(all[begin], request.target),
                    std::span(all).subspan(begin, end - begin));
    begin = end;
  }
  return verifier.take();
}

} // namespace uprobectl
