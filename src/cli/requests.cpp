#include "requests.hpp"

namespace uprobectl::cli {

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
  if (words.size() == 1) return fail(parser.usage_error("a FUNCTION is missing"));
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
