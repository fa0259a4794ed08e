// SPDX-License-Identifier: Apache-2.0
// The option --save: where a run is saved, besides its output or instead of it.
#pragma once

#include "console.hpp"
#include "live/view.hpp"
#include "saved/run_writer.hpp"

namespace uprobectl::cli {

// The output of a run, and the file that saves it.
class SavedOutput {
public:
  // Opens the output, and the file of --save if there is one, which begins with the header and the
  // version of this program.
  // `save`: "-" is stdout, which then has nothing else. `view`: shows the run instead of records on
  // stdout, and its messages; may be null.
  static Result<SavedOutput> open(const OptionParser& parser, const CommonOptions& common,
                                  const output::TextStyle& style,
                                  const std::optional<std::string>& save, output::RunHeader header,
                                  std::unique_ptr<live::View> view = {});

  output::Output& output() { return *output_; }

private:
  SavedOutput() = default;

  UniqueFd file_;
  std::unique_ptr<output::OutputBuffer> buffer_; // of file_
  std::unique_ptr<saved::RunWriter> writer_;
  std::unique_ptr<live::View> view_;
  std::unique_ptr<output::Output> output_;
};

} // namespace uprobectl::cli
