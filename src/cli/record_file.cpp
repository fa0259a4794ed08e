#include "record_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <iterator>
#include <unistd.h>

namespace uprobectl::cli {

namespace {

// Ten times what a record of every function of the largest library takes.
constexpr std::size_t largest_file = 512U << 20;

Result<std::string> read_whole(const std::string& path) {
  const bool is_stdin = path == "-";
  const UniqueFd file{is_stdin ? -1 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY)};
  if (!is_stdin && !file) return fail(system_error(errno, path));
  std::string text;
  std::string chunk(64 << 10, '\0');
  for (;;) {
    const ssize_t size = ::read(is_stdin ? STDIN_FILENO : file.get(), chunk.data(), chunk.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return fail(system_error(errno, path));
    if (size == 0) return text;
    text.append(chunk, 0, static_cast<std::size_t>(size));
    if (text.size() > largest_file) return fail(ErrorKind::unsupported, path + ": over 512 MiB");
  }
}

// Calls visit(line) for each line, and says where it failed.
template <typename Visit>
Result<void> for_each_line(const std::string& path, const Visit& visit) {
  const auto text = read_whole(path);
  if (!text) return fail(text.error());
  std::string_view rest = *text;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const auto end = std::min(rest.find('\n'), rest.size());
    if (Result<void> done = visit(rest.substr(0, end)); !done)
      return fail(std::move(done).error().within((path == "-" ? "stdin" : path) + ", line " +
                                                 std::to_string(number)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {};
}

// What has no prefix, no offset and no version cannot be malformed: most of ten thousand names.
bool is_plain_name(std::string_view function) {
  return !function.empty() && !function.contains(':') && !function.contains('+') &&
         !function.contains('@') && !function.contains('\0');
}

Result<RequestLine> request_from_words(std::vector<std::string> words) {
  RequestLine request{.target = std::move(words.front()), .functions = {}};
  request.functions.assign(std::make_move_iterator(words.begin() + 1),
                           std::make_move_iterator(words.end()));
  // Malformed is the request itself, so nothing of it is done; an address that cannot be is one
  // FUNCTION's failure, when its turn comes.
  for (const std::string& function : request.functions) {
    if (is_plain_name(function)) continue;
    if (auto parsed = parse_function(function); !parsed && parsed.error().kind == ErrorKind::usage)
      return fail(std::move(parsed).error());
  }
  return request;
}

} // namespace

Result<RequestLine> request_of(const OptionParser& parser, std::vector<std::string> words) {
  if (words.empty()) return fail(parser.usage_error("a TARGET and a FUNCTION are missing"));
  if (words.size() == 1) return fail(parser.usage_error("a FUNCTION is missing"));
  return request_from_words(std::move(words));
}

Result<std::vector<RequestLine>> read_requests(const std::string& path) {
  std::vector<RequestLine> requests;
  auto done = for_each_line(path, [&](std::string_view line) -> Result<void> {
    auto words = split_words(line);
    if (!words) return fail(std::move(words).error());
    if (words->empty()) return {};
    if (words->size() == 1) return fail(ErrorKind::usage, "a FUNCTION is missing");
    auto request = request_from_words(std::move(*words));
    if (!request) return fail(std::move(request).error());
    // Thousands of lines mostly ask the same target one after another.
    if (!requests.empty() && requests.back().target == request->target)
      std::ranges::move(request->functions, std::back_inserter(requests.back().functions));
    else
      requests.push_back(std::move(*request));
    return {};
  });
  if (!done) return fail(std::move(done).error());
  return requests;
}

Result<std::vector<RecordedMatch>> read_matches(const std::string& path) {
  std::vector<RecordedMatch> matches;
  auto done = for_each_line(path, [&](std::string_view line) -> Result<void> {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return {};
    auto match = read_match_record(line);
    if (!match) return fail(std::move(match).error());
    if (*match) matches.push_back(std::move(**match));
    return {};
  });
  if (!done) return fail(std::move(done).error());
  if (matches.empty())
    return fail(Error{ErrorKind::not_found, path + ": holds no match records"}.hint(
        "record some with: uprobectl resolve --json TARGET FUNCTION… > " + path));
  return matches;
}

Result<void> write_matches(const std::string& path, std::span<const ProbePoint> points) {
  const std::string draft = path + ".uprobectl-new";
  const UniqueFd file{
      ::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666)};
  if (!file) return fail(system_error(errno, "cannot write " + draft));
  OutputBuffer out(file.get());
  const auto sink = make_json_sink(out);
  for (const ProbePoint& point : points) sink->match(point);
  out.flush();
  std::optional<Error> failure = out.error();
  if (!failure && ::rename(draft.c_str(), path.c_str()) != 0)
    failure = system_error(errno, "cannot replace " + path);
  if (!failure) return {};
  ::unlink(draft.c_str());
  return fail(std::move(*failure));
}

} // namespace uprobectl::cli
