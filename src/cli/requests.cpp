#include "requests.hpp"

#include "util/shell_words.hpp"

#include <fmt/format.h>

namespace uprobectl::cli {

namespace {

// Returns what to type for a word that names TARGET and FUNCTION as bpftrace and tracefs do:
// "[uprobe:]FILE:FUNCTION", "p:FILE:FUNCTION". Empty for other words.
std::string two_words_hint(const OptionParser& parser, std::string_view word) {
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
  return word.ends_with(".so") || word.find(".so.") != std::string_view::npos ||
         word.find("!/") != std::string_view::npos;
}

// Whether FUNCTION was typed before TARGET.
bool are_swapped(std::span<const std::string_view> words) {
  return words.size() == 2 && names_library(words.back()) && !names_library(words.front()) &&
         words.front() != "*" && !find_targets(words.front(), {});
}

} // namespace

// Fails as a whole if one FUNCTION is malformed.
Result<void> Requests::add(std::span<const std::string_view> words) {
  // Files of thousands of lines mostly repeat the target of the line before.
  if (lines_.empty() || lines_.back().target != words.front())
    lines_.push_back({.target = std::string(words.front()), .functions = {}});
  const auto functions = words.subspan(1);
  for (const std::string_view function : functions)
    if (auto parsed = parse_function(function); !parsed) return fail(std::move(parsed).error());
  auto& all = lines_.back().functions;
  all.insert(all.end(), functions.begin(), functions.end());
  return {};
}

Result<Requests> Requests::typed(const OptionParser& parser,
                                 std::span<const std::string_view> words) {
  if (words.empty()) return fail(parser.usage_error("a TARGET and a FUNCTION are missing"));
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
  Requests requests;
  if (auto added = requests.add(words); !added) return fail(std::move(added).error());
  return requests;
}

Result<Requests> Requests::read(const std::string& path) {
  auto file = FileText::read(path);
  if (!file) return fail(std::move(file).error());
  Requests requests;
  requests.file_ = std::move(*file);
  auto done = requests.file_.for_each_line([&](std::string_view line) -> Result<void> {
    const auto words = requests.splitter_.split(line);
    if (!words) return fail(words.error());
    if (words->empty()) return {};
    if (words->size() == 1) return fail(ErrorKind::usage, "a FUNCTION is missing");
    return requests.add(*words);
  });
  if (!done) return fail(std::move(done).error());
  return requests;
}

Result<RequestLine> request_of(const OptionParser& parser,
                               std::span<const std::string_view> words) {
  const auto requests = Requests::typed(parser, words);
  if (!requests) return fail(requests.error());
  const Requests::Line& line = requests->lines().front();
  return RequestLine{line.target, {line.functions.begin(), line.functions.end()}};
}

} // namespace uprobectl::cli
