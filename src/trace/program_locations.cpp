// SPDX-License-Identifier: Apache-2.0
#include "trace/program_locations.hpp"

#include "trace/probes.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <ranges>

namespace uprobectl::trace {

namespace {

Error with_subject(const ProgramOfObject& of, ErrorKind kind, std::string_view problem) {
  return Error{kind, fmt::format("{}: program '{}' ({}) {}", of.path, of.program->name,
                                 of.program->section, problem)};
}

std::string list_choices(std::span<const PlacedProgram* const> placed) {
  std::vector<ProgramOfObject> programs;
  for (const PlacedProgram* each : placed) programs.push_back(each->program);
  return list_programs(programs);
}

class ProgramLocator {
public:
  ProgramLocator(std::span<const ProgramOfObject> programs, const AttachRequest& request)
      : programs_(programs), request_(request), choices_(request.program->choices),
        functions_(request.probes.functions) {}

  Result<ProgramLocations> run() {
    const auto names = choices_ | std::views::transform(&ProgramChoice::name);
    if (auto known = check_program_names(programs_, {names.begin(), names.end()}); !known)
      return fail(std::move(known).error());
    for (const ProgramOfObject& each : programs_)
      if (auto located = locate(each); !located) return fail(std::move(located).error());
    if (auto used = use_functions(); !used) return fail(std::move(used).error());
    if (located_.placed.empty()) return fail(nothing_placed());
    note_crowds();
    return std::move(located_);
  }

private:
  Result<void> locate(const ProgramOfObject& of) {
    const bpf::ObjectProgram& program = *of.program;
    const auto is_choice = [&](const ProgramChoice& choice) { return choice.name == program.name; };
    if (!choices_.empty() && std::ranges::none_of(choices_, is_choice)) return {};
    const bool is_named = !choices_.empty() || of.is_chosen;
    if (const std::string reason = is_named ? program.load_problem : find_skip_reason(program);
        !reason.empty())
      return leave_out(of, is_named, Error{ErrorKind::unsupported, reason});
    PlacedProgram placed{.program = of, .functions = {}, .static_probes = is_static(program)};
    placed.on_entry = !program.on_return;
    placed.on_return = program.on_return;
    bool is_bare = false;
    for (const ProgramChoice& choice : choices_ | std::views::filter(is_choice)) {
      if (choice.function.empty()) {
        is_bare = true;
        continue;
      }
      auto function = read_location(of, choice);
      if (!function) return fail(std::move(function).error());
      placed.functions.push_back(std::move(*function));
    }
    if (placed.is_probe() && !is_bare) return add(std::move(placed), is_named);
    return locate_by_section(std::move(placed), is_named);
  }

  // "[TARGET:]FUNCTION" of --program-name. A TARGET that is not named is that of the command line
  // or of the section.
  Result<resolve::TargetedFunction> read_location(const ProgramOfObject& of,
                                                  const ProgramChoice& choice) const {
    const bpf::ObjectProgram& program = *of.program;
    if (program.kind == bpf::SectionKind::other && !program.is_kprobe)
      return fail(with_subject(of, ErrorKind::usage,
                               "cannot be attached to a function: its section is not one of "
                               "uprobe, kprobe and usdt"));
    const auto split = resolve::split_target(choice.function, is_static(program));
    if (!split) return fail(Error(split.error()).within("--program-name " + choice.name));
    resolve::TargetedFunction location{
        .target = std::string(split->target.empty() ? std::string_view(request_.probes.target)
                                                    : split->target),
        .function = std::string(split->function)};
    if (location.target.empty())
      if (const auto section = parse_section_probe(program)) location.target = section->target;
    if (location.target.empty())
      return fail(Error{ErrorKind::usage, fmt::format("--program-name {}={}: a TARGET is missing",
                                                      choice.name, choice.function)}
                      .hint(fmt::format("use --program-name {}=TARGET:FUNCTION", choice.name)));
    return location;
  }

  Result<void> locate_by_section(PlacedProgram placed, bool is_named) {
    const ProgramOfObject of = placed.program;
    const bpf::ObjectProgram& program = *of.program;
    const bool takes_functions =
        program.kind != bpf::SectionKind::other ||
        (program.is_kprobe && is_named && !functions_.empty()); // else libbpf attaches it
    if (!takes_functions) {
      if (program.is_tail_call && !is_named) return {}; // it is loaded
      if (!program.can_be_attached)
        return leave_out(of, is_named, Error{ErrorKind::unsupported, std::string(not_attached)});
      return add(std::move(placed), is_named);
    }
    const auto section = parse_section_probe(program);
    if (!section) {
      if (!placed.is_probe() && program.is_tail_call && !is_named) return {};
      bare_.push_back({std::move(placed), is_named});
      return {};
    }
    const std::string& target = section->target.empty() ? request_.probes.target : section->target;
    if (target.empty())
      return leave_out(
          of, is_named,
          Error{ErrorKind::not_found,
                fmt::format("its section names the function '{}' but no file, and "
                            "there is no TARGET",
                            section->function)}
              .hint(fmt::format("give the TARGET: attach {} TARGET", programs_option())));
    placed.functions.push_back({.target = target, .function = section->function});
    by_section_.emplace_back(*section, located_.placed.size(), is_named);
    return add(std::move(placed), is_named);
  }

  Result<void> add(PlacedProgram placed, bool is_named) {
    const bpf::ObjectProgram& program = *placed.program.program;
    if (placed.is_probe() && !program.pin.empty() && program.is_kprobe &&
        program.section.contains(".multi"))
      return leave_out(placed.program, is_named,
                       Error{ErrorKind::unsupported, "it was loaded for kprobe_multi links"});
    if (placed.is_probe() && program.overrides_returns)
      return leave_out(
          placed.program, is_named,
          Error{ErrorKind::unsupported,
                "it calls bpf_override_return(), which only works at functions of the kernel"});
    located_.placed.push_back(std::move(placed));
    return {};
  }

  // Leaves the program out, or fails if it was named. The message of `error` is the reason.
  Result<void> leave_out(const ProgramOfObject& of, bool is_named, Error error) {
    const std::string reason = std::move(error.message);
    error.message = fmt::format("{}: program '{}' ({}) cannot be attached: {}", of.path,
                                of.program->name, of.program->section, reason);
    if (is_named) return fail(std::move(error));
    located_.skipped.push_back(describe_skipped(of, reason));
    // An error with a hint is more useful than one that no option avoids.
    if (!problem_ || (problem_->hints.empty() && !error.hints.empty())) problem_ = std::move(error);
    return {};
  }

  // Attaches programs to the FUNCTIONs of the command: the programs whose sections name no
  // function. If every section names one, the programs that name the same FUNCTION, or that were
  // chosen.
  Result<void> use_functions() {
    const bool any_static =
        std::ranges::any_of(bare_, [](const Bare& each) { return each.placed.static_probes; });
    bool is_used = false;
    for (Bare& each : bare_) {
      const ProgramOfObject of = each.placed.program;
      if (functions_.empty() && !each.placed.is_probe()) {
        if (auto left = leave_out_bare(of, each.is_named); !left) return left;
        continue;
      }
      if (!functions_.empty()) {
        if (auto unfit = find_misfit(*of.program, any_static)) {
          if (auto left = leave_out(of, each.is_named, std::move(*unfit)); !left) return left;
          continue;
        }
        put_at_functions(each.placed);
        is_used = true;
      }
      if (auto added = add(std::move(each.placed), each.is_named); !added) return added;
    }
    if (functions_.empty() || is_used) return {};
    return move_to_functions();
  }

  Result<void> leave_out_bare(const ProgramOfObject& of, bool is_named) {
    const bool is_usdt = is_static(*of.program);
    return leave_out(
        of, is_named,
        Error{ErrorKind::not_found, "its section does not name a probe"}
            .hint(fmt::format("give the probe: {} {} TARGET {}", is_usdt ? "usdt attach" : "attach",
                              programs_option(), is_usdt ? "PROVIDER:NAME" : "FUNCTION…"))
            .hint(request_.program->pinned
                      ? fmt::format("or locate each program: --program-name {}=TARGET:{}",
                                    of.program->name, is_usdt ? "PROVIDER:NAME" : "FUNCTION")
                  : is_usdt ? "or name the probes in sections: SEC(\"usdt/FILE:PROVIDER:NAME\")"
                            : "or name the probes in sections: SEC(\"uprobe/libc.so.6:malloc\")"));
  }

  // Why a program cannot be at the FUNCTIONs of the command line; nullopt if it can. `any_static`:
  // other programs are for static probes.
  std::optional<Error> find_misfit(const bpf::ObjectProgram& program, bool any_static) const {
    const bool for_static = request_.probes.static_probes;
    if (is_static(program) && !for_static)
      return Error{ErrorKind::usage, "it is for static probes"}.hint(fmt::format(
          "attach it with: uprobectl usdt attach {} TARGET PROVIDER:NAME", programs_option()));
    if (!for_static || is_static(program)) return std::nullopt;
    // A return probe takes the top of the stack for the return address, which is true only at the
    // start of a function.
    if (program.on_return || is_session(program))
      return Error{ErrorKind::usage, "it is for returns, and a static probe has none"}.hint(
          request_.program->pinned
              ? "load one with the section \"usdt\" or \"uprobe\" for static probes"
              : "give it the section \"usdt\" or \"uprobe\"");
    if (any_static)
      return Error{ErrorKind::usage, "it is for functions"}.hint(
          "name its location: --program-name NAME=TARGET:FUNCTION");
    return std::nullopt;
  }

  void put_at_functions(PlacedProgram& placed) const {
    placed.functions.insert(placed.functions.end(), functions_.begin(), functions_.end());
    placed.static_probes = request_.probes.static_probes;
    if (request_.program->phase_by_section || is_session(*placed.program.program)) return;
    placed.on_entry = request_.capture.on_entry;
    placed.on_return = request_.capture.on_return;
  }

  // Called if each section names a location. The FUNCTIONs of the command line replace it if it is
  // the same in all sections, or if the programs were chosen.
  Result<void> move_to_functions() {
    std::vector<BySection> movable;
    std::optional<Error> misfit;
    for (const BySection& each : by_section_) {
      const bpf::ObjectProgram& program = *located_.placed[each.index].program.program;
      auto unfit = find_misfit(program, false);
      if (!unfit) {
        movable.push_back(each);
        continue;
      }
      misfit = with_subject(located_.placed[each.index].program, unfit->kind,
                            "cannot be attached: " + unfit->message);
      misfit->hints = std::move(unfit->hints);
    }
    const std::string functions =
        joined(functions_ | std::views::transform(&resolve::TargetedFunction::function));
    if (movable.empty()) {
      if (misfit) return fail(std::move(*misfit));
      if (problem_ && located_.placed.empty()) return fail(std::move(*problem_));
      if (!choices_.empty())
        return fail(ErrorKind::usage,
                    fmt::format("no program is left for '{}': --program-name has placed all that "
                                "it chooses",
                                functions));
      const bool has_kprobes = std::ranges::any_of(
          programs_, [](const ProgramOfObject& each) { return each.program->is_kprobe; });
      return fail(
          Error{ErrorKind::not_found, fmt::format("{}: contains no uprobe programs for '{}'",
                                                  programs_.front().path, functions)}
              .hint((has_kprobes
                         ? "kprobe programs are attached there with --program-name NAME: "
                         : "without FUNCTIONs they are attached where their sections say: ") +
                    list_programs(programs_)));
    }
    const bool is_one_location = std::ranges::all_of(
        movable, [&](const BySection& each) { return each.location == movable.front().location; });
    const bool are_named = std::ranges::all_of(movable, &BySection::is_named);
    if (!is_one_location && !are_named) {
      std::vector<const PlacedProgram*> placed;
      for (const BySection& each : movable) placed.push_back(&located_.placed[each.index]);
      return fail(
          Error{ErrorKind::ambiguous,
                fmt::format(
                    "{}: contains several programs, and their sections name several locations",
                    programs_.front().path)}
              .hint("leave out FUNCTION, or choose with --program-name NAME[=[TARGET:]FUNCTION]: " +
                    list_choices(placed)));
    }
    for (const BySection& each : movable) {
      PlacedProgram& placed = located_.placed[each.index];
      placed.functions.clear();
      put_at_functions(placed);
    }
    return {};
  }

  // The option that names the programs, for hints.
  std::string programs_option() const {
    const UserProgramRequest& programs = *request_.program;
    if (!programs.pinned) return "--object FILE";
    std::string options;
    for (const std::string& path : programs.paths)
      options += fmt::format("{}--program {}", options.empty() ? "" : " ", path);
    return options;
  }

  Error nothing_placed() {
    if (problem_) return std::move(*problem_);
    return Error{ErrorKind::not_found, fmt::format("{}: contains no program that can be attached",
                                                   programs_.front().path)}
        .hint("name one or several with --program-name: " + list_programs(programs_));
  }

  // Several programs at one end of the same functions are rarely meant.
  void note_crowds() {
    for (const bool on_return : {false, true}) {
      std::vector<ProgramOfObject> here;
      for (const PlacedProgram& each : located_.placed)
        if (each.functions == functions_ && !functions_.empty() &&
            (on_return ? each.on_return : each.on_entry) && !is_chosen(each))
          here.push_back(each.program);
      if (here.size() < 2) continue;
      located_.notes.push_back(fmt::format(
          "{} programs run at the {} of each FUNCTION: {} (--program-name NAME=FUNCTION attaches "
          "them one by one)",
          here.size(), on_return ? "return" : "entry", list_programs(here)));
    }
  }

  bool is_chosen(const PlacedProgram& placed) const {
    return std::ranges::find(choices_, placed.program.program->name, &ProgramChoice::name) !=
           choices_.end();
  }

  struct Bare {
    PlacedProgram placed;
    bool is_named = false;
  };
  struct BySection {
    bpf::SectionProbe location;
    std::size_t index = 0; // of located_.placed
    bool is_named = false;
  };

  std::span<const ProgramOfObject> programs_;
  const AttachRequest& request_;
  const std::vector<ProgramChoice>& choices_;
  const std::vector<resolve::TargetedFunction>& functions_;
  ProgramLocations located_;
  std::vector<Bare> bare_; // their sections name no location
  std::vector<BySection> by_section_;
  std::optional<Error> problem_; // of a program that was left out
};

} // namespace

bool is_static(const bpf::ObjectProgram& program) { return program.section.starts_with("usdt"); }

bool is_session(const bpf::ObjectProgram& program) {
  return program.kind == bpf::SectionKind::uprobe_session;
}

std::vector<ProgramOfObject> programs_of(const bpf::BpfObject& object, std::string_view path,
                                         std::size_t number) {
  std::vector<ProgramOfObject> programs;
  for (const bpf::ObjectProgram& program : object.programs())
    programs.push_back({.program = &program, .path = path, .object = number});
  return programs;
}

Result<void> check_program_names(std::span<const ProgramOfObject> programs,
                                 const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (std::ranges::none_of(programs,
                             [&](const auto& each) { return each.program->name == name; }))
      return fail(Error{ErrorKind::not_found,
                        fmt::format("{}: no program '{}'", programs.front().path, name)}
                      .hint("use one of: " + list_programs(programs)));
  return {};
}

std::string list_programs(std::span<const ProgramOfObject> programs) {
  constexpr std::size_t most = 10;
  std::string names;
  for (const ProgramOfObject& each : programs.first(std::min(most, programs.size())))
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", each.program->name,
                         each.program->section);
  if (programs.size() > most) names += fmt::format(" and {} more", programs.size() - most);
  return names;
}

std::string find_skip_reason(const bpf::ObjectProgram& program) {
  if (program.is_optional) return "its section begins with '?' (--program-name loads it)";
  return program.load_problem;
}

std::string describe_skipped(const ProgramOfObject& program, std::string_view reason) {
  return fmt::format("{}: program '{}' ({}) is skipped: {}", program.path, program.program->name,
                     program.program->section, reason);
}

Result<ProgramLocations> locate_programs(std::span<const ProgramOfObject> programs,
                                         const AttachRequest& request) {
  return ProgramLocator(programs, request).run();
}

} // namespace uprobectl::trace
