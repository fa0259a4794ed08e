#include "resolve/oatdump.hpp"

#include "process/command.hpp"
#include "util/text.hpp"

#include <fmt/format.h>

namespace uprobectl {

namespace {

// A large file's listing has some 20 MB, and takes a phone seconds.
constexpr std::chrono::minutes oatdump_patience{5};
constexpr std::size_t most_output = std::size_t{512} << 20U; // bytes
constexpr std::size_t most_methods = 1U << 22U;

// Takes the listing line by line, as it comes.
class Listing {
public:
  bool take(std::string_view chunk) {
    while (!chunk.empty()) {
      const auto end = chunk.find('\n');
      line_ += chunk.substr(0, end);
      if (end == std::string_view::npos) return line_.size() <= longest_line;
      chunk.remove_prefix(end + 1);
      if (!finish_line()) return false;
    }
    return true;
  }
  Result<std::vector<art::DumpedMethod>> finish() && {
    if (!error_ && !line_.empty()) finish_line();
    if (error_) return fail(std::move(*error_));
    return std::move(methods_);
  }
  bool is_wrong() const { return error_ || line_.size() > longest_line; }

private:
  static constexpr std::size_t longest_line = 1U << 17U; // twice that of a signature

  bool finish_line() {
    const std::string line = std::exchange(line_, {});
    if (!line.starts_with('{')) return true; // it may say other things besides
    auto method = art::parse_dumped_method(line);
    if (!method) error_ = std::move(method).error();
    if (method) methods_.push_back(std::move(*method));
    return !error_ && methods_.size() <= most_methods;
  }

  std::string line_;
  std::vector<art::DumpedMethod> methods_;
  std::optional<Error> error_;
};

} // namespace

Result<art::OatFile> ask_oatdump(const std::string& program, elf::Image& image,
                                 const art::DexSearch& where) {
  if (image.path().entry)
    return fail(ErrorKind::unsupported, "oatdump reads files, not entries of archives");
  Listing listing;
  const auto ended = stream_command(
      {program, "--oat-file=" + image.path().file, "--dump-method-and-offset-as-json"},
      oatdump_patience, most_output, [&](std::string_view chunk) { return listing.take(chunk); });
  if (!ended && !listing.is_wrong()) return fail(Error(ended.error()).within("--oatdump"));
  auto methods = std::move(listing).finish();
  if (!methods) return fail(Error(std::move(methods).error()).within("--oatdump"));
  if (!ended) return fail(Error(ended.error()).within("--oatdump"));
  if (ended->exit_code != 0)
    return fail(
        ErrorKind::io,
        fmt::format("--oatdump: {} ends with status {}{}", program, ended->exit_code,
                    ended->errors.empty() ? "" : fmt::format(": {}", first_line(ended->errors))));
  auto oat = art::OatFile::from_oatdump(image, std::move(*methods), where);
  if (!oat) return fail(Error(std::move(oat).error()).within("--oatdump"));
  return oat;
}

} // namespace uprobectl
