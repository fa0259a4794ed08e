// SPDX-License-Identifier: Apache-2.0
// Translates frames of Java stack traces to the source by the mapping file of R8, as its ReTrace
// does ("R8, Retrace and map file versioning", doc/retrace.md of R8, map version 2.2).
#pragma once

#include "art/name_mapping.hpp"

#include <map>
#include <tuple>

namespace uprobectl::art {

struct MappedRow; // a line of a mapping file with its comments

// A frame of a stack trace with the names and lines of the file. Views of the report.
struct FileFrame {
  std::string_view class_name;
  std::string_view method;
  std::string_view source; // "SourceFile", "Unknown Source", or empty
  std::optional<std::uint32_t> line;
};

// A frame in the source.
struct SourceFrame {
  Signature method;
  std::string file;       // "Till.kt"
  std::uint32_t line = 0; // 0: not known
  bool inlined = false;
  bool synthesized = false; // by the compiler: the source does not have the method
};

// Translates the frames of one stack trace after the other. Not thread-safe.
class FrameMapping {
public:
  using Stack = std::vector<SourceFrame>; // the innermost first
  static constexpr std::size_t max_alternatives = 16;
  static constexpr std::size_t max_frames = 64; // of an answer; R8 inlines a few into one method
  struct Answer {
    std::vector<Stack> alternatives; // several if the mapping is ambiguous
    std::size_t left_out = 0;        // alternatives beyond max_alternatives or max_frames
    std::size_t omitted_frames = 0;  // of the alternatives, between the innermost and the outermost
  };

  explicit FrameMapping(std::shared_ptr<const NameMapping> mapping);
  ~FrameMapping();
  FrameMapping(const FrameMapping&) = delete;
  FrameMapping& operator=(const FrameMapping&) = delete;

  const NameMapping& names() const { return *mapping_; }
  // The next frame is directly below a line with this exception; empty: below another line.
  void begin_stack(std::string_view exception);
  // Returns no alternatives if the mapping does not have the class, and once is_exhausted().
  Answer translate(const FileFrame& frame);
  // Whether the mapping has so many lines for the methods of the stack traces that it is no longer
  // read.
  bool is_exhausted() const { return rows_left_ == 0; }
  // Returns the methods of the source that are this one in the file. If its parameters are not
  // known, several may have this name.
  std::vector<Signature> methods(std::string_view class_name, std::string_view method);

private:
  using Rows = std::vector<MappedRow>;
  using Methods = std::map<std::string_view, Rows, std::less<>>; // by the name in the file

  const Methods* methods_of(std::string_view class_name);
  SourceFrame source_frame(const MappedRow& row, const FileFrame& frame) const;
  std::string file_of(const std::string& class_name, std::string_view reported) const;
  void add_stacks(Answer& answer, const Rows& rows, const FileFrame& frame);
  Answer find(const FileFrame& frame, const Methods& known, std::optional<std::uint32_t> outlined);

  // Everything that an answer depends on.
  using Question = std::tuple<std::string, std::string, std::string, std::optional<std::uint32_t>,
                              std::string, std::optional<std::uint32_t>>;
  struct Known {
    Answer answer;
    std::optional<std::uint32_t> outline_line;
  };

  std::shared_ptr<const NameMapping> mapping_;
  std::map<std::string_view, Methods, std::less<>> classes_; // cache, by the name in the file
  std::size_t cached_ = 0;                                   // rows in it
  std::string exception_;                            // descriptor, directly above the next frame
  std::optional<std::uint32_t> outline_line_;        // of the frame below, which is an outline
  std::map<Question, Known> answers_;                // cache: stack traces repeat
  std::uint64_t rows_left_ = std::uint64_t{1} << 30; // to search: some seconds
};

// "com.foo.Bar.baz(Bar.java:42)"
std::string to_string(const SourceFrame& frame);

} // namespace uprobectl::art
