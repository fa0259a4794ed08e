// Reads what the built-in program sends, out of whichever buffer it was compiled for.
#pragma once

#include "uprobectl/util.hpp"

#include <functional>
#include <memory>

namespace uprobectl {

class RecordReader {
public:
  using Visit = std::function<bool(Bytes)>;

  RecordReader() = default;
  RecordReader(const RecordReader&) = delete;
  RecordReader& operator=(const RecordReader&) = delete;
  virtual ~RecordReader() = default;

  virtual int poll_fd() const = 0;
  virtual bool drain(const Visit& visit) = 0; // as BuiltinProgram::drain
};

// The map is borrowed.
Result<std::unique_ptr<RecordReader>> open_ring_reader(int map);
// `bytes` for all CPUs together, as far as this user may lock memory. `stack_bytes`: most that are
// copied of the user stack; to records of `kept_size`, which end with a stack_head, they are added
// as a ring buffer's have them.
struct PerfReading {
  std::size_t bytes = 0;
  std::uint32_t stack_bytes = 0;
  std::uint32_t kept_size = 0;
};
Result<std::unique_ptr<RecordReader>> open_perf_reader(int map, const PerfReading& reading);

} // namespace uprobectl
