// The output of one run: records and text to stdout or a file, messages for people to stderr.
#pragma once

#include "output/records.hpp"

#include <map>
#include <set>

namespace uprobectl {

struct OutputOptions {
  enum class Level { quiet, normal, verbose };

  bool json = false;
  TextStyle style = {}; // of records as text
  int messages = STDERR_FILENO;
  bool colour = false; // of messages
  Level level = Level::normal;
};

// All that a run says goes through it. Not thread-safe.
class Output {
public:
  using Level = OutputOptions::Level;

  // Records go to a descriptor that stays the caller's, or to a file that is closed at the end.
  Output(int records, const OutputOptions& options);
  Output(UniqueFd file, const OutputOptions& options);
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() { tell_repeated(); }

  void write(const auto& record) { formatter_->write(record); }
  void write_text(std::string_view text) { buffer_.append(text); }
  // Writes rows that are held back to be aligned with later ones.
  void settle() { formatter_->settle(); }
  void flush(); // waits until all is written
  OutputBuffer& buffer() { return buffer_; }

  // Reports a failure: "uprobectl: error: …" with its hints below, and an `error` record.
  void fail(const Error& error, std::optional<std::string> target = std::nullopt,
            std::optional<std::string> request = std::nullopt);
  bool has_failed() const { return failed_; } // writing included, after finish()

  void warn(std::string_view text);   // not when quiet
  void notice(std::string_view text); // a warning that quiet does not hide
  void status(std::string_view text); // start line, summary; not when quiet
  void detail(std::string_view text); // only when verbose
  // On a terminal only: a line that the next message replaces; empty at the end.
  void progress(std::string_view text);
  bool is_verbose() const { return level_ == Level::verbose; }

  // Warns once, however often the text comes.
  void warn_once(std::string_view text);
  void warn_once(const std::vector<std::string>& texts);
  void detail_once(std::string_view text);
  // A warning that may come for each event, stack, process or probe. The first of a kind is told,
  // further ones are counted until tell_repeated(). Verbose tells each.
  void repeated_warning(std::string_view kind, std::string_view text);
  // Likewise, but nothing is told before tell_repeated(), as all of a kind come together: up to
  // three have a line each, more share that of the first.
  void gathered_warning(std::string_view kind, std::string_view text);
  // Gathers the warnings of places, each text once: those of one pattern differ in the name that
  // they begin with.
  void gather_warnings(std::span<const ProbePoint> points);
  void tell_repeated();

  // Writes all that is held back and reports a failure to write. To be called last.
  void finish();

private:
  struct Repeated {
    std::vector<std::string> texts; // the first ones: told already, or to be told
    std::uint64_t count = 0;
    bool is_told = false;
  };
  Repeated& kind_of(std::string_view kind, bool is_told);
  void message(const Error& error);
  std::string begin_line();

  UniqueFd file_;
  OutputBuffer buffer_;
  std::unique_ptr<RecordFormatter> formatter_;
  bool failed_ = false;

  int messages_;
  bool colour_;
  Level level_;
  std::set<std::string, std::less<>> once_;
  std::map<std::string, std::size_t, std::less<>> kinds_; // to their place in repeated_
  std::vector<Repeated> repeated_;
  bool shows_progress_ = false;
};

} // namespace uprobectl
