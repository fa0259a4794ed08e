// What libbpf says while it works, which is where its reasons are.
#pragma once

#include <string>
#include <string_view>

namespace uprobectl {

// Collects libbpf's warnings of this thread while it lives. They go nowhere else.
class LibbpfLog {
public:
  LibbpfLog();
  LibbpfLog(const LibbpfLog&) = delete;
  LibbpfLog& operator=(const LibbpfLog&) = delete;
  ~LibbpfLog();

  // The first warning without libbpf's prefix and line end: the cause, which others follow from.
  std::string cause() const;

private:
  std::string text_;
};

// The kernel's verifier says at the end of its log what it refused.

// The last lines, without the line end.
std::string last_lines(std::string_view log, int count);

} // namespace uprobectl
