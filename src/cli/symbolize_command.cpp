// SPDX-License-Identifier: Apache-2.0
// The subcommand symbolize: copies a crash report or profile and adds the names of its frames.
#include "console.hpp"
#include "debuginfod.hpp"
#include "java_names.hpp"
#include "output/format.hpp"
#include "symbolize/report_symbolizer.hpp"
#include "target_options.hpp"
#include "uprobectl/path.hpp"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

namespace uprobectl::cli {

namespace {

using symbolize::NamedFrame;
using symbolize::ReportedFrame;

// Splits a stream into lines. A line that is too long to be a frame is passed on in pieces.
class LineSplitter {
public:
  // Calls line(text) for each complete line without its newline, piece(bytes) for other bytes.
  template <typename OnLine, typename OnPiece>
  void add(std::string_view bytes, const OnLine& line, const OnPiece& piece) {
    while (!bytes.empty()) {
      const auto end = bytes.find('\n');
      const std::string_view part = bytes.substr(0, end);
      bytes.remove_prefix(part.size() + (end != std::string_view::npos ? 1 : 0));
      if (in_long_line_ || pending_.size() + part.size() > symbolize::max_report_line) {
        piece(pending_);
        piece(part);
        pending_.clear();
        in_long_line_ = end == std::string_view::npos;
        if (!in_long_line_) piece("\n");
        continue;
      }
      if (end == std::string_view::npos) {
        pending_ += part;
      } else if (pending_.empty()) {
        line(part);
      } else {
        pending_ += part;
        line(std::string_view(pending_));
        pending_.clear();
      }
    }
  }
  // The last line, if it has no newline.
  const std::string& rest() const { return pending_; }

private:
  std::string pending_;
  bool in_long_line_ = false;
};

void append_position(std::string& text, const symbolize::SourcePosition& position) {
  if (position.file.empty()) return;
  text += " at ";
  append_printable(text, position.file);
  if (position.line == 0) return;
  text += fmt::format(":{}", position.line);
  if (position.column != 0) text += fmt::format(":{}", position.column);
}

class ReportCopier {
public:
  // `mapping` is the path of that in `names`.
  ReportCopier(const symbolize::NameSources& names, std::string mapping, bool json,
               bool to_terminal, Output& output)
      : symbolizer_(names), json_(json), to_terminal_(to_terminal), output_(output) {
    if (names.dex.mapping) java_.emplace(names.dex.mapping, std::move(mapping), json, output);
  }

  void add(std::string_view bytes) {
    is_binary_ = is_binary_ || bytes.contains('\0');
    splitter_.add(
        bytes, [&](std::string_view line) { add_line(line, "\n"); },
        [&](std::string_view piece) { copy(piece); });
    output_.flush();
  }

  void finish(const std::string& name) {
    if (!splitter_.rest().empty()) add_line(splitter_.rest(), "");
    if (frames_ == 0)
      output_.warn(
          name + ": no stack frames found" +
          (is_binary_ ? ": it is not text (of a tombstone_00.pb that is tombstone_00)" : ""));
    output_.warn_once(symbolizer_.warnings());
  }

private:
  // A terminal must not interpret control characters of a report.
  void copy(std::string_view text) {
    if (json_) return;
    if (!to_terminal_) return output_.write_text(text);
    std::string shown;
    for (;;) {
      const auto end = text.find_first_of("\t\n");
      append_printable(shown, text.substr(0, end));
      if (end == std::string_view::npos) break;
      shown += text[end];
      text.remove_prefix(end + 1);
    }
    output_.write_text(shown);
  }

  void add_line(std::string_view line, std::string_view newline) {
    ++lines_;
    copy(line);
    copy(newline);
    const auto frame = reader_.read(line);
    const JavaNames::Line with_number{.text = symbolize::without_last_colors(line),
                                      .number = lines_,
                                      .begin = newline.empty() ? "\n" : ""};
    if (!frame && java_ && java_->add(with_number)) ++frames_;
    if (!frame) return;
    ++frames_;
    if (frame->origin == ReportedFrame::Origin::perf && frame->path == "inlined") return;
    std::optional<Error> error;
    const auto named = name(*frame, error);
    if (!named && java_ && java_->add_native(with_number, *frame)) return;
    if (error) report_unnamed(*frame, *error);
    if (json_)
      write_records(*frame, named ? &*named : nullptr);
    else if (named)
      write_names(line, *frame, *named, newline.empty());
  }

  std::optional<NamedFrame> name(const ReportedFrame& frame, std::optional<Error>& error) {
    if (!frame.names_file()) return std::nullopt;
    if (!symbolizer_.is_known(frame)) output_.flush();
    auto named = symbolizer_.name(frame);
    if (!named) {
      error = std::move(named).error();
      return std::nullopt;
    }
    if (named->warning) output_.gathered_warning("unproved", *named->warning);
    if (named->contradiction)
      output_.repeated_warning("name of " + frame.module_name(), *named->contradiction);
    return std::move(*named);
  }

  // Frames that the report names already are mostly of the system: their missing files are
  // gathered.
  void report_unnamed(const ReportedFrame& frame, const Error& error) {
    constexpr std::size_t max_kinds = 200;
    if (error.kind == ErrorKind::not_found && !frame.function.empty() && !is_other_build(error))
      return output_.gathered_warning("named", error.message);
    if (kinds_.size() < max_kinds) kinds_.insert(error.message);
    output_.repeated_warning(kinds_.contains(error.message) ? error.message : "others",
                             error.message);
  }

  static bool is_other_build(const Error& error) {
    return error.message.find("is of another build") != std::string::npos;
  }

  void write_names(std::string_view line, const ReportedFrame& frame, const NamedFrame& named,
                   bool begins_line) {
    const std::string blanks = indentation(line, frame.column);
    std::string text;
    if (begins_line) text += '\n';
    const auto& positions = named.frame->positions;
    const auto begin_name = [&](const std::optional<symbolize::Function>& function) {
      text += blanks;
      text += "    ";
      append_printable(text, function ? function->name() : "??");
    };
    const auto append_offset = [&] {
      if (named.frame->function && named.frame->function->offset != 0)
        text += fmt::format("+{:#x}", named.frame->function->offset);
    };
    for (std::size_t i = positions.size(); i-- > 0;) {
      const symbolize::SourcePosition& position = positions[i];
      begin_name(position.inlined ? position.inlined : named.frame->function);
      if (position.inlined)
        text += " [inlined]";
      else
        append_offset();
      append_position(text, position);
      text += '\n';
    }
    if (positions.empty()) {
      begin_name(named.frame->function);
      append_offset();
      text += '\n';
    }
    output_.write_text(text);
  }

  void write_records(const ReportedFrame& frame, const NamedFrame* named) {
    ReportFrameRecord record{.reported = &frame, .report_line = lines_};
    if (named != nullptr) record.frame = named->frame.get();
    if (record.frame == nullptr || record.frame->positions.empty()) return output_.write(record);
    for (std::size_t i = record.frame->positions.size(); i-- > 0;) {
      record.position = &record.frame->positions[i];
      output_.write(record);
    }
  }

  symbolize::ReportSymbolizer symbolizer_;
  std::optional<JavaNames> java_; // with --mapping
  symbolize::ReportReader reader_;
  LineSplitter splitter_;
  bool json_;
  bool to_terminal_;
  Output& output_;
  std::uint64_t lines_ = 0;
  std::uint64_t frames_ = 0;
  bool is_binary_ = false;                   // it has a NUL
  std::set<std::string, std::less<>> kinds_; // of warnings
};

Result<void> symbolize_report(const std::string& name, ReportCopier& copier, Output& output) {
  UniqueFd file;
  if (name != "-") {
    file = UniqueFd(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
    if (!file) return fail(system_error(errno, name));
  }
  const int fd = file ? file.get() : STDIN_FILENO;
  std::array<char, std::size_t{64} << 10> bytes;
  while (!output.buffer().closed()) {
    const ssize_t size = ::read(fd, bytes.data(), bytes.size());
    if (size == 0) break;
    if (size > 0)
      copier.add({bytes.data(), static_cast<std::size_t>(size)});
    else if (errno != EINTR)
      return fail(system_error(errno, name));
  }
  copier.finish(name == "-" ? "standard input" : name);
  return {};
}

} // namespace

ExitCode run_symbolize(std::span<const std::string_view> arguments, Workstation& workstation) {
  OptionParser parser("symbolize");
  CommonOptions common{.workstation = &workstation};
  bind_common_options(parser, common);
  std::vector<std::string> places;
  bind_debug_options(parser, places, common);
  DexArguments dex;
  parser.bind("--mapping", dex.mapping);
  const auto parsed = parse_or_finish(parser, common, arguments);
  if (!parsed) return parsed.error();
  const auto words = parsed->words();
  if (words.size() != 1) return finish_with(parser.usage_error("expected one FILE, or -"), common);
  for (const std::string& place : places) {
    struct stat status{};
    if (::stat(place.c_str(), &status) != 0)
      return finish_with(system_error(errno, place).within("--symbols"), common);
  }
  const std::string mapping = dex.mapping.value_or("");
  auto java = make_dex_search(std::move(dex), workstation);
  if (!java) return finish_with(java.error(), common);
  const auto output = open_output(common);
  if (!output) return finish_with(output.error(), common);
  const DebugFetching fetching(common.debuginfod, **output);
  const bool to_terminal = !common.output && ::isatty(STDOUT_FILENO) == 1;
  ReportCopier copier({.debug = {.places = std::move(places)}, .dex = std::move(*java)}, mapping,
                      common.json, to_terminal, **output);
  if (const auto done = symbolize_report(words.front(), copier, **output); !done)
    (*output)->fail(done.error(), words.front());
  return finish(**output);
}

} // namespace uprobectl::cli
