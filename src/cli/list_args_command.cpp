// SPDX-License-Identifier: Apache-2.0
// The subcommand list-args.
#include "console.hpp"
#include "debuginfod.hpp"
#include "dwarf/functions.hpp"
#include "requests.hpp"
#include "target_options.hpp"
#include "trace/prologues.hpp"
#include "trace/typed_probes.hpp"
#include "util/mapped_file.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::cli {

namespace {

// Lists the arguments of functions of one file after the other.
class ArgumentListing {
public:
  ArgumentListing(const Requests::Line& request, output::Output& output)
      : request_(request), output_(output) {}

  void add(const resolve::Target& target) {
    if (target.image() == nullptr)
      return fail_all({ErrorKind::no_code, request_.target + ": name an entry: ARCHIVE!/ENTRY"});
    const elf::Image& image = *target.image();
    binary::Binary& file = *target.binary().contents;
    const auto& info = file.debug_info();
    if (!info) return fail_all(Error(info.error()).within(to_string(target.display_path())));
    if (!info->source().empty())
      output_.detail(to_string(target.display_path()) + ": debug information of " + info->source());
    std::optional<unwind::UnwindData> frames;
    if (image.machine().info().unwind != nullptr)
      frames.emplace(image, image.machine().arch, file.debug_search());
    resolve::CodeIndex code(file);
    for (const std::string_view function : request_.functions) {
      const auto points = resolve(target, function);
      if (!points) {
        output_.fail(explain_line(points.error(), request_, function), request_.target,
                     std::string(function));
        continue;
      }
      output_.gather_warnings(*points);
      for (const resolve::ProbePoint& point : *points)
        show(code, point, *info, frames ? &*frames : nullptr);
    }
    for (const std::string& warning : info->warnings())
      output_.warn_once(to_string(target.display_path()) + ": " + warning);
    report_debug_files(target, output_);
  }

private:
  static Result<std::vector<resolve::ProbePoint>> resolve(const resolve::Target& target,
                                                          std::string_view function) {
    const auto spec = resolve::parse_function(function);
    if (!spec) return fail(spec.error());
    return target.resolve(*spec, {.all = true, .clones = resolve::ResolveOptions::Clones::all});
  }

  void fail_all(const Error& error) {
    for (const std::string_view function : request_.functions)
      output_.fail(error, request_.target, std::string(function));
  }

  // Adds where parameters are that cannot be read at the entry.
  static void add_locations(const trace::PrologueEnd& after, const ArchInfo& arch,
                            dwarf::FunctionInfo& function) {
    for (std::size_t i = 0; i < function.variables.size(); ++i) {
      dwarf::Variable& parameter = function.variables[i];
      const dwarf::Location& location = after.function.variables[i].location;
      if (!trace::lacks_bytes(parameter) || !location.is_readable()) continue;
      const std::string there = fmt::format(" (after the prologue, at +{:#x}: {})", after.size,
                                            dwarf::to_string(location, arch));
      parameter.location.problem += parameter.location.problem.empty() ? "" : there;
      const auto missing =
          std::ranges::find_if(parameter.location.pieces,
                               [](const dwarf::Piece& piece) { return !piece.problem.empty(); });
      if (missing != parameter.location.pieces.end()) missing->problem += there;
    }
  }

  void show(resolve::CodeIndex& code, const resolve::ProbePoint& point,
            const dwarf::DebugInfo& info, unwind::UnwindData* frames) {
    auto function = dwarf::describe_function(info, trace::make_code_point(point, frames));
    if (!function) {
      output_.fail(
          {ErrorKind::not_found, fmt::format("{}: {}", display_name(point),
                                             dwarf::why_not_described(info, point.address))},
          request_.target, point.request);
      return;
    }
    const auto after = trace::find_prologue_end(code, info, frames, point, *function);
    if (!after)
      output_.detail(fmt::format("{}: its parameters are not read after its prologue: {}",
                                 display_name(point), after.error()));
    if (after && *after) add_locations(**after, code.image().machine().info(), *function);
    output_.write(output::ArgumentsRecord{.point = &point, .function = &*function});
  }

  const Requests::Line& request_;
  output::Output& output_;
};

void list_args(const Requests::Line& request, const resolve::TargetOptions& options,
               output::Output& output) {
  const auto targets =
      find_files(request, request.functions.front(), WordKind::functions, options, output);
  if (!targets) return;
  ArgumentListing listing(request, output);
  visit_files(*targets, options, output,
              [&](const resolve::Target& target) { listing.add(target); });
}

} // namespace

ExitCode run_list_args(std::span<const std::string_view> arguments, Workstation& workstation) {
  OptionParser parser("list-args");
  CommonOptions options{.workstation = &workstation};
  bind_common_options(parser, options);
  TargetArguments where;
  bind_target_options(parser, where, options);
  const auto parsed = parse_or_finish(parser, options, arguments);
  if (!parsed) return parsed.error();
  return run_listing(parser, options, *parsed, WordKind::functions, std::move(where),
                     [](std::span<const Requests::Line> lines,
                        const resolve::TargetOptions& found_by, const DebugFetching& /*fetching*/,
                        output::Output& output) {
                       for (const Requests::Line& line : lines) list_args(line, found_by, output);
                     });
}

} // namespace uprobectl::cli
