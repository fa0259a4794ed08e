// SPDX-License-Identifier: Apache-2.0
// The subcommand symbolize: copies crash reports or a profile and adds the names of the frames.
#include "console.hpp"
#include "debuginfod.hpp"
#include "java_names.hpp"
#include "output/format.hpp"
#include "symbolize/report_archive.hpp"
#include "symbolize/report_symbolizer.hpp"
#include "symbolize/tombstone.hpp"
#include "target_options.hpp"
#include "uprobectl/path.hpp"
#include "util/descriptor_io.hpp"
#include "util/mapped_file.hpp"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <set>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

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
  output::append_printable(text, position.file);
  if (position.line == 0) return;
  text += fmt::format(":{}", position.line);
  if (position.column != 0) text += fmt::format(":{}", position.column);
}

class ReportCopier {
public:
  // `mapping` is the path of that in `names`.
  ReportCopier(const symbolize::NameSources& names, std::string mapping, bool json,
               bool to_terminal, output::Output& output)
      : symbolizer_(names), json_(json), to_terminal_(to_terminal), output_(output) {
    if (names.dex.mapping) java_.emplace(names.dex.mapping, std::move(mapping), json, output);
  }

  // Begins the report in an entry of the archive.
  void begin(const std::string& archive, const symbolize::ArchivedReport& report) {
    entry_ = report.entry.name;
    reader_ = {};
    splitter_ = {};
    lines_ = 0;
    sections_.reset();
    if (report.has_sections) sections_.emplace();
    if (json_) return;
    std::string heading = std::exchange(has_heading_, true) ? "\n" : "";
    output::append_printable(heading, to_string(BinaryPath{archive, entry_}));
    output_.write_text(heading + ":\n");
    output_.flush(); // before an error of this report
  }

  void add(std::string_view bytes) {
    is_binary_ = is_binary_ || bytes.contains('\0');
    splitter_.add(
        bytes, [&](std::string_view line) { add_line(line, "\n"); },
        [&](std::string_view piece) { copy(piece); });
    output_.flush();
  }

  // Adds a tombstone in protobuf as its text.
  Result<void> add_tombstone(Bytes tombstone) {
    return symbolize::write_tombstone_text(tombstone,
                                           [&](std::string_view line) { add_line(line, "\n"); });
  }

  // Ends a report: its last line may have no newline. `begins_line`: another one follows.
  void end(bool begins_line) {
    if (!splitter_.rest().empty()) add_line(splitter_.rest(), begins_line ? "\n" : "");
    output_.flush();
  }

  void finish(const std::string& name) {
    if (frames_ == 0)
      output_.warn(name + ": no stack frames found" + (is_binary_ ? ": it is not text" : ""));
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
      output::append_printable(shown, text.substr(0, end));
      if (end == std::string_view::npos) break;
      shown += text[end];
      text.remove_prefix(end + 1);
    }
    output_.write_text(shown);
  }

  void add_line(std::string_view line, std::string_view newline) {
    ++lines_;
    if (sections_ && !sections_->selects(line)) {
      (void)reader_.read(line); // the version of Android stands above the sections
      return;
    }
    copy(line);
    copy(newline);
    const auto frame = reader_.read(line);
    const JavaNames::Line with_number{.text = symbolize::without_last_colors(line),
                                      .report = entry_ ? std::string_view(*entry_) : "",
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
      output::append_printable(text, function ? function->name() : "??");
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
    output::ReportFrameRecord record{.reported = &frame, .report_line = lines_};
    if (entry_) record.report = *entry_;
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
  output::Output& output_;
  std::optional<std::string> entry_; // the report in an archive
  std::optional<symbolize::ReportSections> sections_;
  bool has_heading_ = false;
  std::uint64_t lines_ = 0;                  // of the report
  std::uint64_t frames_ = 0;                 // of all reports
  bool is_binary_ = false;                   // it has a NUL
  std::set<std::string, std::less<>> kinds_; // of warnings
};

// Adds the reports in an archive. What cannot be read of it is an error of its own.
Result<void> symbolize_archive(const std::string& name, Bytes file, ReportCopier& copier,
                               output::Output& output) {
  const auto archive = archive::Archive::parse(file);
  if (!archive) return fail(Error(archive.error()).within(name));
  const auto reports = symbolize::list_reports(*archive);
  if (!reports) return fail(Error(reports.error()).within(name));
  if (reports->empty())
    return fail(Error{ErrorKind::not_found, name + ": no reports in this archive"}.hint(
        "in a bug report these are tombstone_00, tombstone_00.pb, FS/data/anr/…, logcat and "
        "bugreport-….txt"));
  if (reports->size() == symbolize::max_archived_reports)
    output.warn(fmt::format("{}: only its first {} reports are read", name, reports->size()));
  std::uint64_t left = symbolize::max_archived_reports_size;
  for (const symbolize::ArchivedReport& report : *reports) {
    if (output.buffer().closed()) break;
    const std::string subject = to_string(BinaryPath{name, std::string(report.entry.name)});
    const auto content =
        archive->extract(report.entry, std::min(symbolize::max_archived_report, left));
    if (!content) {
      output.fail(Error(content.error()).within(name), name, std::string(report.entry.name));
      continue;
    }
    left -= content->size();
    if (content->size() < report.entry.size)
      output.warn(fmt::format("{}: only its first {} bytes are read", subject, content->size()));
    if (symbolize::starts_like_archive(*content)) {
      output.warn(subject + ": not read: an archive in the archive");
      continue;
    }
    copier.begin(name, report);
    if (symbolize::starts_like_tombstone(*content)) {
      if (const auto added = copier.add_tombstone(*content); !added)
        output.fail(Error(added.error()).within(subject), name, std::string(report.entry.name));
    } else {
      copier.add(as_text(*content));
    }
    copier.end(true);
  }
  copier.finish(name);
  return {};
}

// The bytes of a report that has to be read as a whole.
struct WholeReport {
  std::optional<MappedFile> mapped;
  std::string read;

  Bytes bytes() const { return mapped ? mapped->bytes() : as_bytes(read); }
};

Result<void> symbolize_whole(const std::string& name, const WholeReport& report,
                             ReportCopier& copier, output::Output& output) {
  if (report.mapped) tolerate_shrinking(*report.mapped);
  if (symbolize::starts_like_archive(report.bytes())) {
    if (auto done = symbolize_archive(name, report.bytes(), copier, output); !done) return done;
  } else {
    if (report.bytes().size() > symbolize::max_tombstone)
      return fail(ErrorKind::unsupported,
                  fmt::format("{}: tombstones of more than {} bytes are not supported", name,
                              symbolize::max_tombstone));
    if (auto added = copier.add_tombstone(report.bytes()); !added)
      return fail(std::move(added).error().within(name));
    copier.finish(name);
  }
  return report.mapped ? check_size(*report.mapped) : Result<void>();
}

// Whether further bytes may show that the report is not text.
bool may_be_binary(std::string_view begin) {
  constexpr std::string_view archive = "PK";
  if (begin.size() >= symbolize::tombstone_begin) return false;
  return begin.starts_with('\x08') || begin.starts_with('\x12') ||
         (begin.size() < 4 && (begin.starts_with(archive) || archive.starts_with(begin)));
}

Result<void> symbolize_report(const std::string& typed, ReportCopier& copier,
                              output::Output& output) {
  constexpr std::size_t max_read = std::size_t{512} << 20; // bytes, of what cannot be mapped
  UniqueFd file;
  if (typed != "-") {
    file = UniqueFd(::open(typed.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
    if (!file) return fail(system_error(errno, typed));
  }
  const std::string name = typed == "-" ? "standard input" : typed;
  const int fd = file ? file.get() : STDIN_FILENO;
  std::array<char, std::size_t{64} << 10> bytes;
  std::string begin;     // not passed on: it may not be text
  bool is_whole = false; // it is kept until it is complete
  bool is_text = false;
  while (!output.buffer().closed()) {
    const ssize_t size = ::read(fd, bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return fail(system_error(errno, typed));
    const std::string_view read(bytes.data(), static_cast<std::size_t>(size));
    if (!is_text) {
      begin += read;
      is_whole = is_whole || symbolize::starts_like_archive(as_bytes(begin)) ||
                 symbolize::starts_like_tombstone(as_bytes(begin));
      if (is_whole && file && is_regular_file(fd)) {
        auto mapped = MappedFile::open(typed);
        if (!mapped) return fail(std::move(mapped).error());
        return symbolize_whole(name, {.mapped = std::move(*mapped), .read = {}}, copier, output);
      }
      if (is_whole && begin.size() > max_read)
        return fail(
            ErrorKind::unsupported,
            fmt::format("{}: more than {} bytes are read from a file only", name, max_read));
      is_text = !is_whole && (size == 0 || !may_be_binary(begin));
      if (is_text) copier.add(begin);
    } else {
      copier.add(read);
    }
    if (size == 0) break;
  }
  if (is_whole)
    return symbolize_whole(name, {.mapped = {}, .read = std::move(begin)}, copier, output);
  copier.end(false);
  copier.finish(name);
  return {};
}

} // namespace

ExitCode run_symbolize(std::span<const std::string_view> arguments, Workstation& workstation) {
  OptionParser parser("symbolize");
  CommonOptions common{.workstation = &workstation};
  bind_common_options(parser, common);
  std::vector<std::string> paths;
  bind_debug_options(parser, paths, common);
  DexArguments dex;
  parser.bind("--mapping", dex.mapping);
  const auto parsed = parse_or_finish(parser, common, arguments);
  if (!parsed) return parsed.error();
  const auto words = parsed->words();
  if (words.size() != 1) return finish_with(parser.usage_error("expected one FILE, or -"), common);
  for (const std::string& path : paths) {
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0)
      return finish_with(system_error(errno, path).within("--symbols"), common);
  }
  const std::string mapping = dex.mapping.value_or("");
  auto java = make_dex_search(std::move(dex), workstation);
  if (!java) return finish_with(java.error(), common);
  const auto output = open_output(common);
  if (!output) return finish_with(output.error(), common);
  const DebugFetching fetching(common.debuginfod, **output);
  const bool to_terminal = !common.output && ::isatty(STDOUT_FILENO) == 1;
  ReportCopier copier({.debug = {.paths = std::move(paths)}, .dex = std::move(*java)}, mapping,
                      common.json, to_terminal, **output);
  if (const auto done = symbolize_report(words.front(), copier, **output); !done)
    (*output)->fail(done.error(), words.front());
  return finish(**output);
}

} // namespace uprobectl::cli
