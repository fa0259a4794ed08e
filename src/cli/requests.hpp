// SPDX-License-Identifier: Apache-2.0
// Reads and replaces files named on the command line. Parses requests `TARGET FUNCTION…` from such
// a file or from the command line.
#pragma once

#include "console.hpp"
#include "debuginfod.hpp"
#include "option_parser.hpp"
#include "output/output.hpp"
#include "target_options.hpp"
#include "uprobectl/resolve.hpp"
#include "util/shell_words.hpp"

#include <functional>

namespace uprobectl::cli {

// The text of a file. A regular file is mapped, so thousands of lines are not copied.
class FileText {
public:
  FileText() = default;
  // Bytes: ten times the match records of all functions of a large library such as libLLVM.
  static constexpr std::size_t max_file_size = std::size_t{512} << 20U;

  // "-" is stdin. unsupported if the file is larger than max_size bytes, a multiple of 1 MiB.
  static Result<FileText> read(const std::string& path, Workstation& workstation,
                               std::size_t max_size = max_file_size);

  const std::string& name() const { return name_; } // for errors
  std::string_view text() const;                    // stays valid when this is moved

  // Calls visit for each line and stops at its first error, to which it adds the file and the
  // number of the line.
  using VisitLine = std::function<Result<void>(std::string_view)>;
  Result<void> for_each_line(const VisitLine& visit) const;

private:
  std::string name_;
  std::unique_ptr<const MappedFile> mapped_;
  std::string read_; // the text, if the file cannot be mapped
};

// Says what the words after TARGET are. Each may have its own TARGET before it (split_target()).
enum class WordKind : std::uint8_t {
  functions,     // at least one, each a valid FUNCTION
  patterns,      // of names; none: all
  static_probes, // PROVIDER[:NAME]; none: all
  lines,         // one FUNCTION or FILE[:A-B]
};

// The requests of the commands that list and resolve. They are views of the file or the command
// line, because there may be thousands.
class Requests {
public:
  struct Line {
    std::string target;
    std::vector<std::string_view> functions; // words of the kind; empty only if all are meant
    std::string command_target;              // the TARGET of the command or the line of a file
  };

  // Parses the command line, which must outlive this. usage if a word is missing or invalid.
  static Result<Requests> typed(const OptionParser& parser, std::span<const std::string_view> words,
                                WordKind kind = WordKind::functions);
  // Reads a file ("-": stdin) with one request per line and joins adjacent requests of one target.
  // Errors name the file and the line.
  static Result<Requests> read(const std::string& path, Workstation& workstation);

  std::span<const Line> lines() const { return lines_; }

  // usage if a TARGET is `*` without processes or an app.
  Result<void> check_targets(const OptionParser& parser, const resolve::TargetOptions& where) const;
  // Reports each TARGET that is not found although no FUNCTION is in it.
  void check_unused(const resolve::TargetOptions& where, output::Output& output) const;

private:
  Result<void> add(std::span<const std::string_view> words, WordKind kind);

  FileText file_;
  WordSplitter splitter_;
  std::vector<Line> lines_;         // views of file_ and splitter_
  std::vector<std::string> unused_; // TARGETs whose FUNCTIONs all have others
};

// Adds to the error of a line, or of one of its words, how its words were read.
Error explain_line(Error error, const Requests::Line& line, std::string_view word,
                   WordKind kind = WordKind::functions);

// Lists what the words of the lines mean. `fetching`: of debug files.
using ListRequests =
    std::function<void(std::span<const Requests::Line>, const resolve::TargetOptions&,
                       DebugFetching&, output::Output&)>;
// Runs a command that lists what words of this kind mean: parses them, checks their TARGETs, and
// opens the output.
ExitCode run_listing(const OptionParser& parser, const CommonOptions& options,
                     const Arguments& words, WordKind kind, TargetArguments&& where,
                     const ListRequests& list);

// Finds the files of the TARGET of a line, or reports why it fails. `word`: the first after
// TARGET; may be empty.
std::optional<resolve::Targets> find_files(const Requests::Line& line, std::string_view word,
                                           WordKind kind, const resolve::TargetOptions& where,
                                           output::Output& output);
// Visits the files as visit_targets() does, and reports what is wrong with each. Returns false if
// none could be opened, which is reported, too.
bool visit_files(const resolve::Targets& targets, const resolve::TargetOptions& where,
                 output::Output& output, const std::function<void(resolve::Target&)>& visit);

// Parses a FUNCTION or PROVIDER:NAME that may have a TARGET before it; without one it is in
// `target`. usage if it is not valid.
Result<resolve::TargetedFunction> read_function(std::string_view word, std::string_view target,
                                                WordKind kind = WordKind::functions);

// The words of `attach`. Owns its strings.
struct RequestWords {
  std::string target;
  std::vector<resolve::TargetedFunction> functions; // each is valid
};
Result<RequestWords> parse_request(const OptionParser& parser,
                                   std::span<const std::string_view> words,
                                   WordKind kind = WordKind::functions);

} // namespace uprobectl::cli
