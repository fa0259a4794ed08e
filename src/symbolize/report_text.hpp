// SPDX-License-Identifier: Apache-2.0
// Reads stack frames from the text of crash reports and profiles, line by line.
//
// Android (AOSP debuggerd libdebuggerd/tombstone_proto_to_text.cpp, libunwindstack
// Unwinder::FormatFrame; also in logcat, ANR traces and Play Console):
//   #03 pc 0000000000001234  /data/app/…/base.apk!libfoo.so (offset 0x28000) (f+12) (BuildId: ab01)
// Sanitizers (LLVM compiler-rt sanitizer_stacktrace_printer.cpp, also those of GCC):
//   #1 0x55dc9288cf15 in f (/usr/lib/libfoo.so+0xcf15) (BuildId: ab01)
// perf script (Linux tools/perf/util/evsel_fprintf.c, sample__fprintf_callchain):
//       7f6b8e0 f+0x1c (/usr/lib/libfoo.so)
// Minidumps (Breakpad src/processor/stackwalk_common.cc, PrintStack; lldb's default frame-format):
//  1  libfoo.so!f + 0x1c
//  2  libfoo.so + 0x1234
//   frame #1: 0x00007f6b8e0 libfoo.so`f(int) + 28
//
// Addresses of callers. libunwindstack has moved them back into the call instruction (Unwinder.cpp,
// `frame->rel_pc = rel_pc - pc_adjustment`), sanitizers too (StackTrace::GetPreviousInstructionPc,
// which for frame 0 undoes GetNextInstructionPc). perf prints what the kernel recorded, so return
// addresses, but addresses less 1 if it unwound the stack itself (tools/perf/util/unwind-libdw.c).
// Breakpad (StackFrame::ReturnAddress) and lldb print return addresses.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl::symbolize {

// A frame as the report has it. Views of the line.
struct ReportedFrame {
  enum class Origin { android, sanitizer, perf, java, minidump };

  Origin origin = Origin::android;
  std::uint64_t index = 0; // 0 is the innermost frame
  // android: the ELF virtual address, before Android 11 often an offset in the file; see
  // address_of_old_android(). sanitizer: the ELF virtual address. perf: an offset in the file (5.12
  // to 6.3), or a run-time address. minidump: an offset from where the library is mapped, unless
  // function_offset is set.
  std::uint64_t number = 0;
  bool is_return_address = false;        // perf, minidump: number may be after the call
  std::optional<std::uint64_t> pc;       // run-time address, if the report has it
  std::optional<std::uint64_t> in_file;  // perf -F +dsoff: offset in the file
  std::string_view path;                 // of the file or archive; "[vdso]", "<anonymous:7f00>"
  std::optional<std::string_view> entry; // "libfoo.so" or "lib/arm64-v8a/libfoo.so"
  std::optional<FileOffset> image_begin; // android: where the ELF image begins in the file
  std::string_view function;             // empty if the report has none
  std::optional<std::uint64_t> function_offset;
  std::optional<std::string> build_id = {}; // lower-case hex
  std::size_t column = 0;                   // where the frame begins in the line, bytes
  std::string_view source = {};             // java: "Bar.java", as in the report
  std::optional<std::uint32_t> line = {};   // java
  // android: the version of the last build fingerprint above the frame, such as 10.
  std::optional<std::uint32_t> android_version = {};

  // Whether the path is that of a file: not memory without a name or of the kernel.
  bool names_file() const;
  // "base.apk!/lib/arm64-v8a/libfoo.so": the file or entry without the folders.
  std::string module_name() const;
};

// The longest line that can be a frame, bytes. Demangled names can have thousands of letters.
constexpr std::size_t max_report_line = std::size_t{64} << 10;

// Returns the line without the escape sequences for colors at its end, which logcat -v color
// writes.
std::string_view without_last_colors(std::string_view line);

// Recognizes frames in the lines of a text. Has the state of the stack that perf prints, and the
// version of Android that crash reports begin with.
class ReportReader {
public:
  // Returns the frame of a line, without its newline; nullopt if the line has none, or is longer
  // than max_report_line.
  std::optional<ReportedFrame> read(std::string_view line);

private:
  void follow_perf_stack(ReportedFrame& frame);
  void end_perf_stack();

  std::optional<std::uint32_t> android_version_;
  std::uint64_t perf_index_ = 0;
  bool has_callee_ = false; // a frame of the stack in user space was seen
  bool after_signal_ = false;
};

} // namespace uprobectl::symbolize
