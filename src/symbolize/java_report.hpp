// SPDX-License-Identifier: Apache-2.0
// Reads what crash reports have of Java: frames of stack traces, and names of classes.
//
// Throwable.printStackTrace, logcat, ANR traces (ART runtime/thread.cc, DumpJavaStack):
//   	at com.foo.Bar.baz(Bar.java:42)
//   	at com.foo.Bar.baz (Bar.java:42)                       in the Play Console
//   	at app//com.foo.Bar.baz(Bar.java:42) ~[app.jar:1.0]
//   Caused by: com.foo.Bar$Failure: message
//     - locked <0x0a1b2c3d> (a com.foo.Bar)
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace uprobectl::symbolize {

// Views of the line.
struct JavaFrame {
  std::string_view function; // "com.foo.Bar.baz"
  std::string_view source;   // "Bar.java", "SourceFile", "Unknown Source", or empty
  std::optional<std::uint32_t> line;
  std::size_t column = 0; // where "at" begins in the line, bytes

  std::string_view class_name() const;
  std::string_view method() const;
};

std::optional<JavaFrame> read_java_frame(std::string_view line);

struct JavaClassName {
  std::string_view name;
  std::size_t column = 0; // bytes
  bool is_thrown = false; // it stands where an exception does
};

// Returns at most 16 names of classes in a line that is not a frame. A name without a dot is left
// out if it may be any word.
std::vector<JavaClassName> read_java_classes(std::string_view line);

} // namespace uprobectl::symbolize
