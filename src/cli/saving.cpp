// SPDX-License-Identifier: Apache-2.0
#include "saving.hpp"

#include "capture_options.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace uprobectl::cli {

namespace {

// A pipe could block the run, except that to a workstation, which is always read.
Result<UniqueFd> open_saved(const std::string& path, Workstation& workstation) {
  struct stat status{};
  if (!workstation.has(path) && ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    return fail(Error{ErrorKind::usage, path + ": --save needs a regular file"}.hint(
        "write to a pipe with: --save -"));
  constexpr int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY;
  UniqueFd file = workstation.open(path, flags, 0600);
  if (!file) return fail(system_error(errno, "cannot write " + path));
  return file;
}

} // namespace

Result<SavedOutput> SavedOutput::open(const OptionParser& parser, const CommonOptions& common,
                                      const output::TextStyle& style,
                                      const std::optional<std::string>& save,
                                      output::RunHeader header, std::unique_ptr<live::View> view) {
  SavedOutput made;
  const bool to_stdout = save == "-";
  if (to_stdout && (common.json || common.output))
    return fail(parser.usage_error("--save - cannot be combined with -j or -o: it writes only the "
                                   "saved run"));
  if (to_stdout && ::isatty(STDOUT_FILENO) == 1)
    return fail(parser.usage_error("--save - does not write to a terminal"));
  if (save && !to_stdout && is_output(*save, common.output))
    return fail(parser.usage_error("--save would overwrite the records"));
  if (save && !to_stdout) {
    auto file = open_saved(*save, *common.workstation);
    if (!file) return fail(std::move(file).error());
    made.file_ = std::move(*file);
    made.buffer_ = std::make_unique<output::OutputBuffer>(made.file_.get());
  }
  CommonOptions options = common;
  options.hides_recorded_messages = common.hides_recorded_messages || view;
  const bool is_shown = view && !common.output;
  // A run that does not need the terminal goes on when the terminal is closed.
  if (is_shown) options.output = "/dev/null";
  auto output = open_output(options, style, to_stdout || is_shown);
  if (!output) return fail(std::move(output).error());
  made.output_ = std::move(*output);
  made.view_ = std::move(view);
  if (save) {
    output::OutputBuffer& buffer = to_stdout ? made.output_->buffer() : *made.buffer_;
    header.version = UPROBECTL_VERSION;
    made.writer_ = std::make_unique<saved::RunWriter>(buffer, !to_stdout, header);
    made.output_->add_recorder(*made.writer_);
  }
  // It ends last: a terminal may take no output.
  if (made.view_) made.output_->add_recorder(*made.view_);
  return made;
}

} // namespace uprobectl::cli
