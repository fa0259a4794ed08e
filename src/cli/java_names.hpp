// SPDX-License-Identifier: Apache-2.0
// Adds the names of the source to what a report has of Java (symbolize --mapping).
#pragma once

#include "art/frame_mapping.hpp"
#include "output/output.hpp"
#include "symbolize/report_text.hpp"

#include <memory>

namespace uprobectl::cli {

class JavaNames {
public:
  // `path` is that of the mapping.
  JavaNames(std::shared_ptr<const art::NameMapping> mapping, std::string path, bool json,
            output::Output& output)
      : frames_(std::move(mapping)), path_(std::move(path)), json_(json), output_(output) {}

  // A line of the report. `begin` is a newline if the line has none at its end.
  struct Line {
    std::string_view text;
    std::string_view report;  // in an archive: the entry, else empty
    std::uint64_t number = 0; // from 1
    std::string_view begin;
  };
  // Adds the names of a frame of a stack trace, or of classes. Returns whether it is a frame.
  bool add(const Line& line);
  // Adds the names of a native frame whose function is a Java method in a file without symbols:
  // "#05 pc … base.odex (a.b.c+64)". Returns false if the mapping does not have it.
  bool add_native(const Line& line, const symbolize::ReportedFrame& frame);

private:
  void add_classes(const Line& line);
  void check_build(std::string_view source);
  void write(const symbolize::ReportedFrame& frame, const Line& line,
             const art::FrameMapping::Answer& answer);

  art::FrameMapping frames_;
  std::string path_;
  bool json_;
  output::Output& output_;
  std::uint64_t index_ = 0; // of the next frame in its stack
};

// Blanks up to the column, with the tabs of the line, so that names are below the frame.
std::string indentation(std::string_view line, std::size_t column);

} // namespace uprobectl::cli
