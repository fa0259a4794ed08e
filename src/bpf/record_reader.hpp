// Reads what the built-in program sends, out of whichever buffer it was compiled for.
#pragma once

#include "uprobectl/base.hpp"

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
// `bytes` for all CPUs together, as far as this user may lock memory.
Result<std::unique_ptr<RecordReader>> open_perf_reader(int map, std::size_t bytes);

} // namespace uprobectl
