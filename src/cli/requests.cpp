// SPDX-License-Identifier: Apache-2.0
#include "requests.hpp"

#include "resolve/locate.hpp"
#include "util/descriptor_io.hpp"
#include "util/mapped_file.hpp"
#include "util/rooted_path.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace uprobectl::cli {

namespace {

Error too_large(const std::string& path, std::size_t max_size) {
  return {ErrorKind::unsupported,
          path + ": larger than " + std::to_string(max_size >> 20U) + " MiB"};
}

Result<std::string> read_whole(int fd, const std::string& path, std::size_t max_size) {
  auto text = read_up_to(fd, max_size + 1);
  if (!text) return fail(system_error(text.error(), path));
  if (text->size() > max_size) return fail(too_large(path, max_size));
  return std::move(*text);
}

} // namespace

Result<FileText> FileText::read(const std::string& path, Workstation& workstation,
                                std::size_t max_size) {
  FileText file;
  const bool is_stdin = path == "-";
  file.name_ = is_stdin ? "stdin" : path;
  if (workstation.has(path) || (!is_stdin && is_regular_file(path))) {
    auto mapped = workstation.map(path);
    if (!mapped) return fail(std::move(mapped).error());
    if (mapped->bytes().size() > max_size) return fail(too_large(path, max_size));
    file.mapped_ = std::make_unique<const MappedFile>(std::move(*mapped));
    return file;
  }
  const UniqueFd fd{is_stdin ? -1 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY)};
  if (!is_stdin && !fd) return fail(system_error(errno, path));
  auto text = read_whole(is_stdin ? STDIN_FILENO : fd.get(), path, max_size);
  if (!text) return fail(std::move(text).error());
  file.read_ = std::move(*text);
  return file;
}

std::string_view FileText::text() const {
  return mapped_ ? as_text(mapped_->bytes()) : std::string_view(read_);
}

Result<void> FileText::for_each_line(const VisitLine& visit) const {
  std::string_view rest = text();
  for (std::size_t number = 1; !rest.empty(); ++number)
    if (Result<void> done = visit(take_line(rest)); !done)
      return fail(std::move(done).error().within(name_ + ", line " + std::to_string(number)));
  return {};
}

namespace {

// Returns a hint if the word has the syntax of bpftrace or tracefs, "[uprobe:]FILE:FUNCTION" or
// "p:FILE:FUNCTION", else an empty string.
std::string two_words_hint(const OptionParser& parser, std::string_view word) {
  constexpr std::string_view usdt = "usdt:"; // of bpftrace: usdt:TARGET:PROVIDER:NAME
  if (word.starts_with(usdt)) {
    const std::string_view rest = word.substr(usdt.size());
    const auto end = rest.find(':');
    if (end == 0 || end == std::string_view::npos || end + 1 == rest.size()) return {};
    return fmt::format("static probes are probed with: uprobectl usdt attach {} {}",
                       shell_word(rest.substr(0, end)), shell_word(rest.substr(end + 1)));
  }
  bool returns = false;
  for (const std::string_view prefix : {"uprobe:", "uretprobe:", "ur:", "u:", "p:", "r:"})
    if (word.starts_with(prefix)) {
      returns = prefix.find('r') != std::string_view::npos && prefix != "uprobe:";
      word.remove_prefix(prefix.size());
      break;
    }
  const auto colon = word.find(':');
  if (colon == 0 || colon == std::string_view::npos || colon + 1 == word.size() ||
      word[colon + 1] == ':')
    return {};
  return fmt::format("TARGET and FUNCTION are two words: {}{} {} {}", parser.full_name(),
                     returns && parser.full_name().ends_with("attach") ? " --return" : "",
                     shell_word(word.substr(0, colon)), shell_word(word.substr(colon + 1)));
}

bool names_library(std::string_view word) {
  return resolve::is_library_name(word) || word.contains("!/");
}

Result<resolve::FunctionWord> parse_word(std::string_view word, WordKind kind) {
  auto split = resolve::split_target(word, kind == WordKind::static_probes);
  if (!split || kind != WordKind::functions) return split;
  if (auto parsed = resolve::parse_function(split->function); !parsed)
    return fail(std::move(parsed).error());
  return split;
}

// Whether FUNCTION was typed before TARGET.
bool are_swapped(std::span<const std::string_view> words) {
  return words.size() == 2 && names_library(words.back()) && !names_library(words.front()) &&
         words.front() != "*" && !resolve::find_targets(words.front(), {});
}

} // namespace

// Fails without adding functions if one of them is invalid.
Result<void> Requests::add(std::span<const std::string_view> words, WordKind kind) {
  const std::string_view own = words.front();
  std::vector<resolve::FunctionWord> functions;
  for (const std::string_view word : words.subspan(1)) {
    auto split = parse_word(word, kind);
    if (!split) return fail(std::move(split).error());
    functions.push_back(*split);
  }
  bool is_used = functions.empty();
  if (is_used)
    lines_.push_back(
        {.target = std::string(own), .functions = {}, .command_target = std::string(own)});
  for (const resolve::FunctionWord& each : functions) {
    const std::string_view target = each.target.empty() ? own : each.target;
    is_used = is_used || target == own;
    // Adjacent lines usually have the same target.
    if (lines_.empty() || lines_.back().target != target || lines_.back().command_target != own)
      lines_.push_back(
          {.target = std::string(target), .functions = {}, .command_target = std::string(own)});
    lines_.back().functions.push_back(each.function);
  }
  if (!is_used) unused_.emplace_back(own);
  return {};
}

Result<void> Requests::check_targets(const OptionParser& parser,
                                     const resolve::TargetOptions& where) const {
  for (const Line& line : lines_)
    if (auto checked = check_target(parser, line.target, where); !checked) return checked;
  for (const std::string& target : unused_)
    if (auto checked = check_target(parser, target, where); !checked) return checked;
  return {};
}

void Requests::check_unused(const resolve::TargetOptions& where, output::Output& output) const {
  for (const std::string& target : unused_)
    if (const auto found = find_targets(target, where); !found) output.fail(found.error(), target);
}

Error explain_line(Error error, const Requests::Line& line, std::string_view word, WordKind kind) {
  return resolve::explain_target(std::move(error), {line.target, std::string(word)},
                                 line.command_target, kind == WordKind::static_probes);
}

namespace {

Result<void> check_words(const OptionParser& parser, std::span<const std::string_view> words,
                         WordKind kind) {
  const bool may_be_all = kind == WordKind::patterns || kind == WordKind::static_probes;
  if (words.empty())
    return fail(parser.usage_error(may_be_all ? "a TARGET is missing"
                                              : "a TARGET and a FUNCTION are missing"));
  if (kind == WordKind::lines && words.size() > 2)
    return fail(parser.usage_error(fmt::format(
        "unexpected argument '{}' (expected TARGET and one FUNCTION or FILE)", words[2])));
  if (may_be_all) return {};
  if (words.size() == 1) {
    Error error = parser.usage_error("a FUNCTION is missing");
    if (auto hint = two_words_hint(parser, words.front()); !hint.empty())
      error.hints.insert(error.hints.begin(), std::move(hint));
    return fail(std::move(error));
  }
  if (are_swapped(words)) {
    Error error = parser.usage_error("TARGET comes before FUNCTION");
    error.hints.insert(error.hints.begin(),
                       fmt::format("try: {} {} {}", parser.full_name(), shell_word(words.back()),
                                   shell_word(words.front())));
    return fail(std::move(error));
  }
  return {};
}

} // namespace

ExitCode run_listing(const OptionParser& parser, const CommonOptions& options,
                     const Arguments& words, WordKind kind, TargetArguments&& where,
                     const ListRequests& list) {
  const std::vector<std::string_view> typed = words.views();
  const auto requests = Requests::typed(parser, typed, kind);
  if (!requests) return finish_with(requests.error(), options);
  const auto found_by = make_target_options(parser, std::move(where), *options.workstation);
  if (!found_by) return finish_with(found_by.error(), options);
  if (const auto checked = requests->check_targets(parser, *found_by); !checked)
    return finish_with(checked.error(), options);
  const auto output = open_output(options);
  if (!output) return finish_with(output.error(), options);
  DebugFetching fetching(options.debuginfod, **output);
  const output::Progress progress(**output, "reading");
  list(requests->lines(), *found_by, fetching, **output);
  requests->check_unused(*found_by, **output);
  return finish(**output);
}

std::optional<resolve::Targets> find_files(const Requests::Line& line, std::string_view word,
                                           WordKind kind, const resolve::TargetOptions& where,
                                           output::Output& output) {
  auto targets = find_targets(line.target, where);
  if (targets) return std::move(*targets);
  output.fail(explain_line(std::move(targets).error(), line, word, kind), line.target);
  return std::nullopt;
}

bool visit_files(const resolve::Targets& targets, const resolve::TargetOptions& where,
                 output::Output& output, const std::function<void(resolve::Target&)>& visit) {
  const auto visited = visit_targets(targets, where, [&](resolve::Target& target) {
    output.warn_once(target.warnings());
    if (target.architecture_mismatch()) output.warn_once(target.architecture_mismatch()->message);
    visit(target);
    if (const auto whole = check_size(*target.file()); !whole)
      output.fail(whole.error(), targets.text);
  });
  if (visited)
    output.warn_once(visited->warnings);
  else
    output.fail(visited.error(), targets.text);
  return visited.has_value();
}

Result<Requests> Requests::typed(const OptionParser& parser,
                                 std::span<const std::string_view> words, WordKind kind) {
  if (auto checked = check_words(parser, words, kind); !checked)
    return fail(std::move(checked).error());
  Requests requests;
  if (auto added = requests.add(words, kind); !added) return fail(std::move(added).error());
  return requests;
}

Result<Requests> Requests::read(const std::string& path, Workstation& workstation) {
  auto file = FileText::read(path, workstation);
  if (!file) return fail(std::move(file).error());
  Requests requests;
  requests.file_ = std::move(*file);
  auto done = requests.file_.for_each_line([&](std::string_view line) -> Result<void> {
    const auto words = requests.splitter_.split(line);
    if (!words) return fail(words.error());
    if (words->empty()) return {};
    if (words->size() == 1) return fail(ErrorKind::usage, "a FUNCTION is missing");
    return requests.add(*words, WordKind::functions);
  });
  if (!done) return fail(std::move(done).error());
  return requests;
}

Result<resolve::TargetedFunction> read_function(std::string_view word, std::string_view target,
                                                WordKind kind) {
  const auto split = parse_word(word, kind);
  if (!split) return fail(split.error());
  return resolve::TargetedFunction{.target =
                                       std::string(split->target.empty() ? target : split->target),
                                   .function = std::string(split->function)};
}

Result<RequestWords> parse_request(const OptionParser& parser,
                                   std::span<const std::string_view> words, WordKind kind) {
  if (auto checked = check_words(parser, words, WordKind::functions); !checked)
    return fail(std::move(checked).error());
  RequestWords request{.target = std::string(words.front()), .functions = {}};
  for (const std::string_view word : words.subspan(1)) {
    auto named = read_function(word, request.target, kind);
    if (!named) return fail(std::move(named).error());
    request.functions.push_back(std::move(*named));
  }
  return request;
}

} // namespace uprobectl::cli
