// SPDX-License-Identifier: Apache-2.0
// Lists what can be probed in a process or a program, searches it, and runs what was chosen.
#include "capture_options.hpp"
#include "console.hpp"
#include "live/picker.hpp"
#include "live/terminal.hpp"
#include "resolve/needed_files.hpp"
#include "symbol_listing.hpp"
#include "target_options.hpp"
#include "trace/run_loop.hpp"
#include "uprobectl/path.hpp"
#include "util/rooted_path.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <csignal>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <poll.h>
#include <set>
#include <unordered_map>

namespace uprobectl::cli {

namespace {

constexpr std::size_t max_candidates = 300'000;

struct ExploreLine {
  std::vector<std::string> processes; // -p as typed
  std::vector<std::string> command;
  resolve::TargetOptions options;

  std::string subject() const {
    return command.empty() ? "process " + joined(processes) : "the program " + command.front();
  }
};

// A program and the libraries that it needs. Those that are not found are left out: the loader
// reports them.
Result<std::vector<resolve::TargetFile>> find_files_of_program(const std::string& command) {
  auto program = resolve::find_program_file(command);
  if (!program) return fail(std::move(program).error());
  auto targets = resolve::find_targets(*program, {});
  if (!targets) return fail(std::move(targets).error());
  std::vector<resolve::TargetFile> files = std::move(targets->files);
  // A script, for example, needs none.
  const auto libraries =
      resolve::find_needed_libraries(*program).value_or(std::vector<std::string>());
  for (const std::string& library : libraries)
    if (auto found = resolve::find_targets(library, {}))
      files.insert(files.end(), found->files.begin(), found->files.end());
  return files;
}

// Gathers the candidates of one file after the other.
class Candidates {
public:
  explicit Candidates(live::PickerList& list) : list_(list) {}

  void add(const resolve::TargetFile& found, const resolve::Target& target) {
    const std::size_t file = list_.files.size();
    const std::size_t before = list_.candidates.size();
    const std::string path = to_string(found.display_path);
    // At its path is another file by now, or none: the mapped one is opened through the mapping.
    if (is_mapping_link(found.path.file))
      list_.files.push_back({.path = path,
                             .typed = to_string(found.path),
                             .note = "no longer at this path; the mapped file is probed"});
    else
      list_.files.push_back({.path = path, .typed = path});
    if (const auto notes = target.static_notes()) add_static(**notes, file);
    if (const auto symbols = list_symbols(*target.image(), symbols::SymbolFilter()))
      add(*symbols, file);
    if (list_.candidates.size() == before) list_.files.pop_back();
  }

private:
  bool has_room() {
    if (list_.candidates.size() < max_candidates) return true;
    ++list_.omitted;
    return false;
  }

  // All locations of a static probe are probed together.
  void add_static(const usdt::StaticProbes& notes, std::size_t file) {
    std::map<std::string, std::string> probes;
    for (const usdt::StaticProbe& each : notes.probes)
      probes.emplace(each.provider + ":" + each.name, each.raw_arguments);
    for (const auto& [name, arguments] : probes)
      if (has_room())
        list_.candidates.push_back(
            {.name = name, .typed = name, .note = arguments, .file = file, .is_static = true});
  }

  // Several functions of one name are typed by their addresses.
  void add(const symbols::SymbolList& symbols, std::size_t file) {
    std::unordered_map<std::string, std::map<std::uint64_t, bool>> addresses; // and whether sized
    for (const elf::Symbol& symbol : symbols)
      if (addresses.size() < max_candidates)
        addresses[symbols::display_name(symbol)][symbol.address.value] |= symbol.size > 0;
    std::vector<live::Candidate> found;
    for (const auto& [name, at] : addresses)
      for (const auto& [address, has_end] : at)
        found.push_back({.name = at.size() == 1 ? name : fmt::format("{} at {:#x}", name, address),
                         .typed = at.size() == 1 ? name : fmt::format("vaddr:{:#x}", address),
                         .note = {},
                         .file = file,
                         .has_end = has_end});
    std::ranges::sort(found, {}, &live::Candidate::name);
    for (live::Candidate& each : found)
      if (has_room()) list_.candidates.push_back(std::move(each));
  }

  live::PickerList& list_;
};

// Opens each file that has code. Returns warnings of the files that cannot be opened.
Result<std::vector<std::string>> visit_explored(
    const ExploreLine& line,
    const std::function<void(const resolve::TargetFile&, const resolve::Target&)>& visit) {
  Result<std::vector<resolve::TargetFile>> files;
  std::vector<std::string> warnings;
  if (line.command.empty()) {
    auto targets = find_targets("*", line.options);
    if (!targets) return fail(std::move(targets).error());
    files = std::move(targets->files);
    warnings = std::move(targets->warnings);
  } else {
    files = find_files_of_program(line.command.front());
  }
  if (!files) return fail(std::move(files).error());
  for (const resolve::TargetFile& file : *files) {
    auto target = resolve::Target::open(file, "*", line.options);
    if (!target || target->image() == nullptr) continue;
    target->complete_symbols();
    visit(file, *target);
  }
  return warnings;
}

Error without_candidates(const ExploreLine& line) {
  return {ErrorKind::not_found,
          line.subject() + ": nothing can be probed by name: its files have no symbols"};
}

Result<live::PickerList> gather(const ExploreLine& line, output::Output& messages) {
  live::PickerList list;
  Candidates candidates(list);
  const auto skipped =
      visit_explored(line, [&](const resolve::TargetFile& file, const resolve::Target& target) {
        candidates.add(file, target);
      });
  if (!skipped) return fail(skipped.error());
  for (const std::string& warning : *skipped) messages.warn(warning);
  if (list.candidates.empty()) return fail(without_candidates(line));
  const auto probes =
      static_cast<std::size_t>(std::ranges::count_if(list.candidates, &live::Candidate::is_static));
  list.title = fmt::format("{}: {} in {}, {}", line.subject(),
                           counted(list.candidates.size() - probes, "function", "functions"),
                           counted(list.files.size(), "file", "files"),
                           counted(probes, "static probe", "static probes"));
  if (!skipped->empty())
    list.title += fmt::format(", {} skipped", counted(skipped->size(), "file", "files"));
  return list;
}

// Writes the records of `usdt list` and of `list-symbols`, file by file, if there is no terminal.
void list_all(const ExploreLine& line, output::Output& output) {
  bool any = false;
  const auto skipped =
      visit_explored(line, [&](const resolve::TargetFile& found, const resolve::Target& target) {
        output.warn_once(found.warnings);
        const std::string file = to_string(target.display_path());
        if (const auto points = target.static_probes("*:*"))
          for (const resolve::ProbePoint& point : *points)
            output.write(output::StaticProbeRecord{.point = &point, .target = file});
        any = any || (target.static_notes() && !(*target.static_notes())->probes.empty());
        const auto symbols = list_symbols(*target.image(), symbols::SymbolFilter());
        const auto real_path = target.file()->real_path();
        if (!symbols || !real_path) return;
        any = any || !symbols->empty();
        for_each_record(*target.image(), file, *real_path, *symbols, ListFilter(),
                        [&](const output::SymbolRecord& record) { output.write(record); });
      });
  if (skipped) output.warn_once(*skipped);
  if (!skipped)
    output.fail(skipped.error());
  else if (!any)
    output.fail(without_candidates(line));
}

// The words after `uprobectl` of the command that runs the choice.
std::vector<std::string> words_of(const live::PickerList& list, const live::Choice& choice,
                                  const ExploreLine& line) {
  const live::Candidate& first = list.candidates[choice.front()];
  std::vector<std::string> words;
  if (first.is_static) words.emplace_back("usdt");
  words.insert(words.end(), {"attach", "--live"});
  if (line.command.empty()) words.insert(words.end(), {"-d", "forever"});
  // Latencies need the exits of all functions.
  if (!first.is_static &&
      !std::ranges::all_of(choice, [&](std::size_t each) { return list.candidates[each].has_end; }))
    words.emplace_back("--entry");
  for (const std::string& each : line.processes) words.insert(words.end(), {"-p", each});
  const std::string& target = list.files[first.file].typed;
  words.push_back(target);
  for (const std::size_t each : choice) {
    const live::Candidate& candidate = list.candidates[each];
    const bool is_there = candidate.file == first.file;
    words.push_back(is_there ? candidate.typed
                             : list.files[candidate.file].typed + ":" + candidate.typed);
  }
  if (!line.command.empty()) {
    words.emplace_back("--");
    words.insert(words.end(), line.command.begin(), line.command.end());
  }
  return words;
}

std::string text_of(const std::vector<std::string>& words) {
  if (words.empty()) return {};
  const std::vector<std::string_view> rest(words.begin() + 1, words.end());
  return command_line(words.front(), rest);
}

// Ctrl-z while it exists would leave the terminal as it is.
class NoStop {
public:
  NoStop() : before_(std::signal(SIGTSTP, SIG_IGN)) {}
  NoStop(const NoStop&) = delete;
  NoStop& operator=(const NoStop&) = delete;
  ~NoStop() { std::signal(SIGTSTP, before_); }

private:
  void (*before_)(int);
};

// Returns the words of the command; empty if the user has left.
Result<std::vector<std::string>> pick(live::PickerList list, const ExploreLine& line,
                                      bool uses_colour) {
  auto signals = trace::SignalWatch::start();
  if (!signals) return fail(std::move(signals).error());
  const NoStop no_stop;
  auto terminal = live::Terminal::open(uses_colour);
  if (!terminal) return fail(std::move(terminal).error());
  live::Picker picker(std::move(list));
  std::vector<std::string> words;
  using Step = live::Picker::Step;
  while (!signals->arrived() && !(*terminal)->is_gone()) {
    bool redraws = false;
    for (const live::KeyPress& press : (*terminal)->take_keys()) {
      redraws = redraws || press.key == live::Key::redraw;
      picker.press(press);
      if (picker.step() == Step::chosen || picker.step() == Step::left) break;
    }
    if (picker.step() == Step::left) return std::vector<std::string>();
    if (picker.step() != Step::list) words = words_of(picker.list(), picker.choice(), line);
    if (picker.step() == Step::chosen) return words;
    (*terminal)->show(picker.draw((*terminal)->size(), text_of(words)), redraws);
    std::array<pollfd, 2> polled = {{{.fd = (*terminal)->fd(), .events = POLLIN, .revents = 0},
                                     {.fd = signals->fd(), .events = POLLIN, .revents = 0}}};
    constexpr int size_check_ms = 200; // the terminal may have another size by then
    ::poll(polled.data(), polled.size(), size_check_ms);
  }
  return std::vector<std::string>();
}

} // namespace

ExitCode run_explore(std::span<const std::string_view> arguments, Workstation& workstation) {
  OptionParser parser("explore");
  CommonOptions common{.workstation = &workstation};
  bind_common_options(parser, common);
  ExploreLine line;
  parser.bind("--pid", line.processes);
  const auto parsed = parse_or_finish(parser, common, arguments);
  if (!parsed) return parsed.error();
  line.command.assign(parsed->after_dashes.begin(), parsed->after_dashes.end());
  if (!parsed->positionals.empty())
    return finish_with(parser.usage_error("expected -p PID or -- COMMAND, and no other words"),
                       common);
  if (line.processes.empty() == line.command.empty())
    return finish_with(parser.usage_error("expected -p PID or -- COMMAND"), common);
  auto options = make_target_options(parser, {.pid_lists = line.processes}, workstation);
  if (!options) return finish_with(options.error(), common);
  line.options = std::move(*options);
  const bool is_listed =
      workstation.is_remote() || common.json || common.output || !live::Terminal::check();
  if (is_listed) {
    const auto output = open_output(common);
    if (!output) return finish_with(output.error(), common);
    list_all(line, **output);
    return finish(**output);
  }
  output::Output messages(STDOUT_FILENO, output_options(common));
  auto list = gather(line, messages);
  if (!list) return finish_with(list.error(), common);
  const auto words = pick(std::move(*list), line, output_options(common).colour);
  if (!words) return finish_with(words.error(), common);
  if (words->empty()) return ExitCode::interrupted;
  messages.status_even_quiet(text_of(*words));
  const bool is_static = words->front() == "usdt";
  const std::vector<std::string_view> chosen(words->begin() + (is_static ? 2 : 1), words->end());
  return is_static ? run_usdt_attach(chosen, workstation) : run_attach(chosen, workstation);
}

} // namespace uprobectl::cli
