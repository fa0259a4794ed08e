// SPDX-License-Identifier: Apache-2.0
#include "console.hpp"
#include "debuginfod.hpp"
#include "emit_options.hpp"
#include "requests.hpp"
#include "target_options.hpp"
#include "verdict_options.hpp"

namespace uprobectl::cli {

namespace {

struct StaticListRequest {
  const Requests::Line& line;
  std::optional<std::string> typed = {}; // PROVIDER[:NAME], with patterns; nullopt: all

  const std::string& target() const { return line.target; }
  std::string probes() const {
    if (!typed) return "*:*";
    return typed->contains(':') ? *typed : *typed + ":*";
  }
};

// Lists the static probes of the files of a TARGET, one file after the other.
class StaticListing {
public:
  // names_files: each probe has its file.
  // listed: receives the points, unless it is null. emitter: writes them, unless it is null.
  StaticListing(const StaticListRequest& request, const resolve::Targets& targets, bool names_files,
                std::vector<resolve::ProbePoint>* listed, emit::Emitter* emitter,
                output::Output& output)
      : request_(request), targets_(targets), names_files_(names_files), points_(listed),
        emitter_(emitter), output_(output) {}

  void add(const resolve::Target& target) {
    const std::string file = names_files_ ? to_string(target.display_path()) : std::string();
    const auto notes = target.static_notes();
    if (!notes) {
      failed_ = true;
      output_.fail(notes.error(), request_.target());
      return;
    }
    report_debug_files(target, output_);
    output_.warn_once((*notes)->warnings);
    if (!request_.typed && (*notes)->probes.empty()) {
      if (!targets_.several)
        output_.warn_once(to_string(target.display_path()) + ": it has no static probes");
      return;
    }
    const auto points = target.static_probes(request_.probes());
    if (!points && targets_.several && points.error().kind == ErrorKind::misaligned) {
      output_.warn_once("skipped: " + points.error().message);
    } else if (!points && points.error().kind != ErrorKind::not_found) {
      failed_ = true;
      output_.fail(points.error(), request_.target(), request_.probes());
    } else if (!points) {
      // A single word may be intended as a probe or a function: report it as typed.
      if (!not_found_)
        not_found_ =
            request_.typed ? target.static_probes(*request_.typed).error() : points.error();
    } else {
      output_.gather_warnings(*points);
      for (const resolve::ProbePoint& point : *points) {
        listed_ = true;
        if (point.effect.kind != insn::ProbeEffect::Kind::safe)
          output_.warn_once(probe_error(point)->message);
        if (emitter_ != nullptr)
          emit_point(*emitter_, point, output_);
        else
          output_.write(output::StaticProbeRecord{.point = &point, .target = file});
        if (points_ != nullptr) points_->push_back(point);
      }
    }
  }

  // Reports a failure if nothing was found in any file.
  void finish() {
    if (listed_ || failed_) return;
    if (!request_.typed) {
      if (targets_.several) output_.warn_once(request_.target() + ": no file has static probes");
      return;
    }
    if (!not_found_) return;
    if (targets_.files.size() > 1)
      not_found_->message =
          request_.target() + ": no file has a static probe '" + *request_.typed + "'";
    output_.fail(explain_line(*not_found_, request_.line, *request_.typed, WordKind::static_probes),
                 request_.target(), request_.typed);
  }

private:
  const StaticListRequest& request_;
  const resolve::Targets& targets_;
  bool names_files_;
  std::vector<resolve::ProbePoint>* points_;
  emit::Emitter* emitter_;
  output::Output& output_;
  std::optional<Error> not_found_; // the first file's error, if it lacks the probes
  bool listed_ = false;
  bool failed_ = false;
};

// `several`: the command has several requests.
void list_static(const StaticListRequest& request, const resolve::TargetOptions& options,
                 bool several, std::vector<resolve::ProbePoint>* listed, emit::Emitter* emitter,
                 output::Output& output) {
  const auto targets = find_files(request.line, request.typed.value_or(""), WordKind::static_probes,
                                  options, output);
  if (!targets) return;
  StaticListing listing(request, *targets, several || targets->several, listed, emitter, output);
  if (visit_files(*targets, options, output,
                  [&](const resolve::Target& target) { listing.add(target); }))
    listing.finish();
}

} // namespace

ExitCode run_usdt_list(std::span<const std::string_view> arguments, Workstation& workstation) {
  OptionParser parser("usdt list");
  CommonOptions options{.workstation = &workstation};
  bind_common_options(parser, options);
  TargetArguments where;
  bind_target_options(parser, where, options);
  std::optional<std::string> record;
  parser.bind("--record", record);
  EmitOptions emit;
  bind_emit_options(parser, emit);
  const auto parsed = parse_or_finish(parser, options, arguments);
  if (!parsed) return parsed.error();
  const auto emitter = make_emitter(parser, std::move(emit));
  if (!emitter) return finish_with(emitter.error(), options);
  std::vector<resolve::ProbePoint> points;
  std::vector<resolve::ProbePoint>* const listed = record ? &points : nullptr;
  return run_listing(
      parser, options, *parsed, WordKind::static_probes, std::move(where),
      [&](std::span<const Requests::Line> lines, const resolve::TargetOptions& found_by,
          const DebugFetching& /*fetching*/, output::Output& output) {
        for (const Requests::Line& line : lines) {
          if (line.functions.empty())
            list_static({.line = line}, found_by, lines.size() > 1, listed, emitter->get(), output);
          for (const std::string_view probes : line.functions)
            list_static({.line = line, .typed = std::string(probes)}, found_by, lines.size() > 1,
                        listed, emitter->get(), output);
        }
        if (record && output.has_failed())
          output.fail({ErrorKind::not_found, *record + ": not written: not everything was found"});
        else if (record)
          if (const auto written = write_record_file(*record, points, workstation); !written)
            output.fail(written.error());
      });
}

} // namespace uprobectl::cli
