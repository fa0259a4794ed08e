// SPDX-License-Identifier: Apache-2.0
#include "console.hpp"
#include "debuginfod.hpp"
#include "target_options.hpp"
#include "util/mapped_file.hpp"

namespace uprobectl::cli {

namespace {

struct StaticListRequest {
  std::string target;
  std::string probes = "*:*";       // PROVIDER:NAME, with patterns
  std::optional<std::string> typed; // nullopt: all
  TargetOptions options;
};

Result<StaticListRequest> make_static_list_request(const OptionParser& parser,
                                                   const Arguments& arguments) {
  auto words = arguments.words();
  if (words.empty()) return fail(parser.usage_error("a TARGET is missing"));
  if (words.size() > 2)
    return fail(parser.usage_error("unexpected argument '" + words[2] +
                                   "' (expected one PROVIDER[:NAME])"));
  StaticListRequest request{.target = std::move(words[0]), .options = {}};
  if (words.size() < 2) return request;
  request.typed = words[1];
  request.probes = std::move(words[1]);
  if (!request.probes.contains(':')) request.probes += ":*";
  return request;
}

// Lists the static probes of the files of a TARGET, one file after the other.
class StaticListing {
public:
  StaticListing(const StaticListRequest& request, const Targets& targets, Output& output)
      : request_(request), targets_(targets), output_(output) {}

  void add(const Target& target) {
    const std::string file = targets_.several ? to_string(target.display_path()) : std::string();
    const auto notes = target.static_notes();
    if (!notes) {
      failed_ = true;
      output_.fail(notes.error(), request_.target);
      return;
    }
    report_debug_files(target, output_);
    output_.warn_once((*notes)->warnings);
    if (!request_.typed && (*notes)->probes.empty()) {
      if (!targets_.several)
        output_.warn_once(to_string(target.display_path()) + ": it has no static probes");
      return;
    }
    const auto points = target.static_probes(request_.probes);
    if (!points && targets_.several && points.error().kind == ErrorKind::misaligned) {
      output_.warn_once("skipped: " + points.error().message);
    } else if (!points && points.error().kind != ErrorKind::not_found) {
      failed_ = true;
      output_.fail(points.error(), request_.target, request_.probes);
    } else if (!points) {
      // A single word may be intended as a probe or a function: report it as typed.
      if (!not_found_)
        not_found_ =
            request_.typed ? target.static_probes(*request_.typed).error() : points.error();
    } else {
      output_.gather_warnings(*points);
      for (const ProbePoint& point : *points) {
        listed_ = true;
        if (point.effect.kind != ProbeEffect::Kind::safe)
          output_.warn_once(probe_error(point)->message);
        output_.write(StaticProbeRecord{.point = &point, .target = file});
      }
    }
  }

  // Reports a failure if nothing was found in any file.
  void finish() {
    if (listed_ || failed_) return;
    if (!request_.typed) {
      if (targets_.several) output_.warn_once(request_.target + ": no file has static probes");
      return;
    }
    if (!not_found_) return;
    if (targets_.files.size() > 1)
      not_found_->message =
          request_.target + ": no file has a static probe '" + *request_.typed + "'";
    output_.fail(*not_found_, request_.target, request_.typed);
  }

private:
  const StaticListRequest& request_;
  const Targets& targets_;
  Output& output_;
  std::optional<Error> not_found_; // the first file's error, if it lacks the probes
  bool listed_ = false;
  bool failed_ = false;
};

void list_static(const StaticListRequest& request, Output& output) {
  const auto targets = find_targets(request.target, request.options);
  if (!targets) {
    output.fail(targets.error(), request.target);
    return;
  }
  StaticListing listing(request, *targets, output);
  const auto visited = visit_targets(*targets, request.options, [&](const Target& target) {
    output.warn_once(target.warnings());
    if (target.architecture_mismatch()) output.warn_once(target.architecture_mismatch()->message);
    listing.add(target);
    if (const auto whole = check_size(*target.file()); !whole)
      output.fail(whole.error(), request.target);
  });
  if (!visited) {
    output.fail(visited.error(), request.target);
    return;
  }
  output.warn_once(visited->warnings);
  listing.finish();
}

} // namespace

ExitCode run_usdt_list(std::span<const std::string_view> arguments, Workstation& workstation) {
  OptionParser parser("usdt list");
  CommonOptions options{.workstation = &workstation};
  bind_common_options(parser, options);
  TargetArguments where;
  bind_target_options(parser, where, options);
  const auto parsed = parse_or_finish(parser, options, arguments);
  if (!parsed) return parsed.error();
  auto request = make_static_list_request(parser, *parsed);
  if (!request) return finish_with(request.error(), options);
  auto target_options = make_target_options(parser, std::move(where), workstation);
  if (!target_options) return finish_with(target_options.error(), options);
  if (const auto checked = check_target(parser, request->target, *target_options); !checked)
    return finish_with(checked.error(), options);
  request->options = std::move(*target_options);
  const auto output = open_output(options);
  if (!output) return finish_with(output.error(), options);
  const DebugFetching fetching(options.debuginfod, **output);
  list_static(*request, **output);
  return finish(**output);
}

} // namespace uprobectl::cli
