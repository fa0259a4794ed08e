#include "output/escape.hpp"
#include "uprobectl/output.hpp"

#include <unistd.h>

namespace uprobectl {

namespace {

struct Colour {
  std::string_view start;
  std::string_view stop = "\x1b[0m";
};
constexpr Colour red{"\x1b[1;31m"};
constexpr Colour yellow{"\x1b[1;33m"};
constexpr Colour cyan{"\x1b[36m"};

std::string coloured(std::string_view text, const Colour& colour, bool on) {
  if (!on) return std::string(text);
  return std::string(colour.start) + std::string(text) + std::string(colour.stop);
}

// Messages may have lines of their own (a verifier's log); those are indented so that no text out
// of a file can pass for a line of ours.
void append_message(std::string& out, std::string_view text) {
  while (true) {
    const auto end = text.find('\n');
    append_printable(out, text.substr(0, end));
    out += '\n';
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
    out += "    ";
  }
}

// One write a message, so that messages of several processes do not mix within a line.
void put(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written <= 0) return; // stderr is gone: nowhere left to say so
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

} // namespace

void Reporter::error(const Error& error) const {
  std::string text = "uprobectl: " + coloured("error:", red, colour_) + " ";
  append_message(text, error.message);
  for (const std::string& hint : error.hints) {
    text += "  " + coloured("hint:", cyan, colour_) + " ";
    append_message(text, hint);
  }
  put(fd_, text);
}

void Reporter::warning(std::string_view text) const {
  if (level_ != Level::quiet) notice(text);
}

void Reporter::notice(std::string_view text) const {
  std::string line = "uprobectl: " + coloured("warning:", yellow, colour_) + " ";
  append_message(line, text);
  put(fd_, line);
}

void Reporter::status(std::string_view text) const {
  if (level_ == Level::quiet) return;
  std::string line;
  append_message(line, text);
  put(fd_, line);
}

void Reporter::detail(std::string_view text) const {
  if (level_ == Level::verbose) status(text);
}

void Reporter::progress(std::string_view text) const {
  if (level_ == Level::quiet || ::isatty(fd_) == 0) return;
  std::string line = "\r"; // back to the start of the line, the rest of which is cleared
  append_printable(line, text);
  put(fd_, line + "\x1b[K");
}

} // namespace uprobectl
