// SPDX-License-Identifier: Apache-2.0
#include "symbolize/report_text.hpp"

#include "uprobectl/path.hpp"
#include "util/numbers.hpp"
#include "util/text.hpp"

#include <algorithm>

namespace uprobectl::symbolize {

namespace {

constexpr std::string_view blanks = " \t";

bool is_blank(char letter) { return letter == ' ' || letter == '\t'; }

void skip_blanks(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

std::optional<std::uint64_t> take_hex(std::string_view& text) {
  return take_number<std::uint64_t>(text, 16);
}

// Removes " (BuildId: ab01)" and what follows from the end of the text. Returns the build id,
// unless it was trimmed.
std::optional<std::string> take_build_id(std::string_view& text) {
  constexpr std::string_view begin = " (BuildId: ";
  const auto at = text.rfind(begin);
  if (at == std::string_view::npos) return std::nullopt;
  std::string id = lower_case(text.substr(at + begin.size()));
  id.resize(std::min(id.find(')'), id.size()));
  text = text.substr(0, at);
  if (id.empty() || id.find_first_not_of("0123456789abcdef") != std::string::npos)
    return std::nullopt;
  return id;
}

// Splits "base.apk!libfoo.so" and "base.apk!/lib/arm64-v8a/libfoo.so".
void set_path(ReportedFrame& frame, std::string_view path) {
  const auto mark = path.rfind('!');
  frame.path = path;
  if (mark == std::string_view::npos || mark == 0 || mark + 1 == path.size()) return;
  std::string_view entry = path.substr(mark + 1);
  while (take_prefix(entry, "/")) {
  }
  if (entry.empty()) return;
  frame.path = path.substr(0, mark);
  frame.entry = entry;
}

// Splits "f(int)+12" and "f+0x1c".
void set_function(ReportedFrame& frame, std::string_view text, int base) {
  frame.function = text;
  const auto plus = text.rfind('+');
  if (plus == std::string_view::npos || plus == 0) return;
  std::string_view number = text.substr(plus + 1);
  if (base == 16 && !take_prefix(number, "0x")) return;
  frame.function_offset = parse_number<std::uint64_t>(number, base);
  if (frame.function_offset) frame.function = text.substr(0, plus);
}

// "PATH[ (deleted)][ (offset 0x28000)][ (FUNCTION)]": the rest of a frame of Android, without the
// build id. In ANR traces the offset has no 0x (ART runtime/native_stack_dump.cc).
void set_android_position(ReportedFrame& frame, std::string_view text) {
  const std::size_t end = text.find(" (");
  set_path(frame, trimmed(text.substr(0, end)));
  std::string_view rest = end == std::string_view::npos ? std::string_view() : text.substr(end);
  // The kernel marks replaced files so, and files without a name: "/memfd:jit-cache (deleted)".
  if (take_prefix(rest, " (deleted)") && !frame.names_file())
    frame.path = text.substr(0, text.size() - rest.size());
  skip_blanks(rest);
  if (std::string_view offset = rest; take_prefix(offset, "(offset ")) {
    take_prefix(offset, "0x");
    if (const auto begin = take_hex(offset); begin && take_prefix(offset, ")")) {
      frame.image_begin = FileOffset{*begin};
      rest = offset;
    }
  }
  rest = trimmed(rest);
  // ANR traces have "(???)" without a name (ART runtime/native_stack_dump.cc).
  if (rest.size() > 2 && rest.front() == '(' && rest.back() == ')' && rest != "(\?\?\?)")
    set_function(frame, rest.substr(1, rest.size() - 2), 10);
}

// `text` follows "#3".
bool read_android(ReportedFrame& frame, std::string_view text) {
  skip_blanks(text);
  if (!take_prefix(text, "pc") || text.empty() || !is_blank(text.front())) return false;
  skip_blanks(text);
  take_prefix(text, "0x");
  const auto number = take_hex(text);
  if (!number || (!text.empty() && !is_blank(text.front()))) return false;
  frame.origin = ReportedFrame::Origin::android;
  frame.number = *number;
  frame.build_id = take_build_id(text);
  set_android_position(frame, trimmed(text));
  return !frame.path.empty();
}

// `text` follows "#3".
bool read_sanitizer(ReportedFrame& frame, std::string_view text) {
  if (text.empty() || !is_blank(text.front())) return false;
  frame.build_id = take_build_id(text);
  text = trimmed(text);
  if (!text.ends_with(')')) return false;
  const auto plus = text.rfind("+0x");
  const auto open = text.substr(0, plus).rfind('(');
  if (plus == std::string_view::npos || open == std::string_view::npos) return false;
  std::string_view digits = text.substr(plus + 3);
  const auto number = take_hex(digits);
  if (!number || digits != ")") return false;
  std::string_view before = trimmed(text.substr(0, open));
  if (take_prefix(before, "0x")) frame.pc = take_hex(before);
  skip_blanks(before);
  if (take_prefix(before, "in ")) frame.function = before;
  frame.origin = ReportedFrame::Origin::sanitizer;
  frame.number = *number;
  set_path(frame, text.substr(open + 1, plus - open - 1));
  return !frame.path.empty();
}

// Splits "libfoo.so!f(int) + 0x1c", or at '`', for a frame that has no other address.
bool set_minidump_location(ReportedFrame& frame, std::string_view text, char mark, int base) {
  const auto plus = text.rfind(" + ");
  if (plus == std::string_view::npos) return false;
  std::string_view digits = text.substr(plus + 3);
  if (base == 16 && !take_prefix(digits, "0x")) return false;
  const auto number = parse_number<std::uint64_t>(digits, base);
  text = text.substr(0, plus);
  const auto end = text.find(mark);
  frame.path = text.substr(0, end);
  if (!number || frame.path.empty() || frame.path.find_first_of(" \t") != std::string_view::npos)
    return false;
  frame.origin = ReportedFrame::Origin::minidump;
  frame.number = *number;
  frame.is_return_address = frame.index > 0;
  if (end == std::string_view::npos) return true;
  frame.function = text.substr(end + 1);
  frame.function_offset = number;
  return !frame.function.empty();
}

// " 1  libfoo.so!f(int) + 0x1c": "%2d  ". Lines that end with "[foo.cc : 12 + 0x4]" have their
// source, but no address.
std::optional<ReportedFrame> read_minidump(std::string_view line) {
  ReportedFrame frame;
  std::string_view rest = line;
  take_prefix(rest, " ");
  frame.column = static_cast<std::size_t>(rest.data() - line.data());
  const auto index = take_number<std::uint64_t>(rest);
  if (!index || !take_prefix(rest, "  ")) return std::nullopt;
  frame.index = *index;
  if (!set_minidump_location(frame, rest, '!', 16)) return std::nullopt;
  return frame;
}

// `text` follows "#3": ": 0x00007f6b8e0 libfoo.so`f(int) + 28".
bool read_lldb(ReportedFrame& frame, std::string_view text) {
  if (!take_prefix(text, ": 0x")) return false;
  frame.pc = take_hex(text);
  return frame.pc && take_prefix(text, " ") && text.contains('`') &&
         set_minidump_location(frame, text, '`', 10);
}

std::optional<ReportedFrame> read_numbered(std::string_view line) {
  constexpr int max_attempts = 16; // each reads the rest of the line
  int attempts = 0;
  for (auto at = line.find('#'); at != std::string_view::npos; at = line.find('#', at + 1)) {
    if (at > 0 && !is_blank(line[at - 1])) continue;
    ReportedFrame frame;
    frame.column = at;
    std::string_view rest = line.substr(at + 1);
    const auto index = take_number<std::uint64_t>(rest);
    if (!index) continue;
    if (++attempts > max_attempts) break;
    frame.index = *index;
    if (read_android(frame, rest) || read_sanitizer(frame, rest) || read_lldb(frame, rest))
      return frame;
  }
  return std::nullopt;
}

// "  1150 f(int)+0x8 (/usr/lib/libfoo.so)". The name may have blanks and parentheses.
std::optional<ReportedFrame> read_perf(std::string_view line) {
  if (line.empty() || !is_blank(line.front()) || !line.ends_with(')')) return std::nullopt;
  std::string_view rest = line;
  skip_blanks(rest);
  const auto number = take_hex(rest);
  constexpr std::ptrdiff_t least = 17; // a tab and "%16" PRIx64
  if (!number || rest.data() - line.data() < least || !take_prefix(rest, " ")) return std::nullopt;
  auto open = std::max(rest.rfind(" (/") + 1, rest.rfind(" ([") + 1);
  if (open == 0) open = rest.rfind(" (inlined)") + 1; // npos + 1 is 0
  if (open == 0) return std::nullopt;
  ReportedFrame frame;
  frame.origin = ReportedFrame::Origin::perf;
  frame.number = *number;
  frame.column = static_cast<std::size_t>(rest.data() - line.data());
  std::string_view path = rest.substr(open + 1, rest.size() - open - 2);
  if (const auto plus = path.rfind("+0x"); plus != std::string_view::npos) {
    frame.in_file = parse_number<std::uint64_t>(path.substr(plus + 3), 16);
    if (frame.in_file) path = path.substr(0, plus);
  }
  frame.path = path;
  if (const auto function = trimmed(rest.substr(0, open - 1)); function != "[unknown]")
    set_function(frame, function, 16);
  return frame;
}

// Returns the version in "Build fingerprint: 'google/walleye/walleye:8.1.0/OPM2/1:user/keys'",
// which is that of Build.FINGERPRINT: BRAND/PRODUCT/DEVICE:VERSION/ID/…. nullopt for previews,
// whose version is a letter.
std::optional<std::uint32_t> read_android_version(std::string_view line) {
  constexpr std::string_view begin = "Build fingerprint:";
  const auto at = line.find(begin);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view fingerprint = line.substr(at + begin.size());
  const auto colon = fingerprint.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  fingerprint.remove_prefix(colon + 1);
  return take_number<std::uint32_t>(fingerprint);
}

// Whether the function returns from a signal handler. The return address of the handler is its
// first byte, and its caller was interrupted, not called.
bool is_signal_return(std::string_view function) {
  return function == "__restore_rt" || function == "__restore" ||
         function == "__kernel_rt_sigreturn";
}

} // namespace

bool ReportedFrame::names_file() const {
  return !path.empty() && path.find_first_of("[<") != 0 && path != "inlined" &&
         !path.starts_with("//anon") && !path.starts_with("/memfd:") &&
         !path.starts_with("anon_inode:");
}

std::string ReportedFrame::module_name() const {
  std::string name(file_name_of(path));
  if (entry) name.append("!/").append(*entry);
  return name;
}

// The kernel's frames come first in a stack. The outermost of them was entered from the innermost
// frame in user space, which is therefore not at a return address.
void ReportReader::follow_perf_stack(ReportedFrame& frame) {
  frame.index = perf_index_;
  constexpr std::uint64_t first_kernel_address = std::uint64_t{1} << 63;
  if (frame.path == "inlined") return;
  ++perf_index_;
  if (frame.path.starts_with("[kernel") || frame.path.starts_with("[guest.kernel") ||
      frame.number >= first_kernel_address)
    return;
  const bool returns_from_signal = is_signal_return(frame.function);
  frame.is_return_address = has_callee_ && !after_signal_ && !returns_from_signal;
  has_callee_ = true;
  after_signal_ = returns_from_signal;
}

void ReportReader::end_perf_stack() {
  perf_index_ = 0;
  has_callee_ = false;
  after_signal_ = false;
}

// "\033[0m": ECMA-48 SGR.
std::string_view without_last_colors(std::string_view line) {
  for (;;) {
    line = line.substr(0, line.find_last_not_of(" \t\r") + 1); // npos + 1 is 0
    const auto escape = line.rfind("\033[");
    if (!line.ends_with('m') || escape == std::string_view::npos) return line;
    const std::string_view codes = line.substr(escape + 2, line.size() - escape - 3);
    if (codes.find_first_not_of("0123456789;") != std::string_view::npos) return line;
    line = line.substr(0, escape);
  }
}

std::optional<ReportedFrame> ReportReader::read(std::string_view line) {
  if (line.size() > max_report_line) return std::nullopt;
  line = without_last_colors(line);
  if (auto frame = read_numbered(line)) {
    if (frame->origin == ReportedFrame::Origin::android) frame->android_version = android_version_;
    return frame;
  }
  if (line.contains("Build fingerprint:")) android_version_ = read_android_version(line);
  if (auto frame = read_minidump(line)) return frame;
  auto frame = read_perf(line);
  if (frame)
    follow_perf_stack(*frame);
  else if (line.empty() || !is_blank(line.front())) // source lines (-F +srcline) begin with blanks
    end_perf_stack();
  return frame;
}

} // namespace uprobectl::symbolize
