// SPDX-License-Identifier: Apache-2.0
// The protocol between `uprobectl --adb` on a workstation (the host) and `uprobectl --agent` on a
// device: frames on the agent's stdin and stdout.
//
//   offset  size
//   0       4     size of the payload in bytes, little-endian, at most max_payload
//   4       1     FrameType
//   5             the payload
//
// Integers in payloads are little-endian, texts have neither length nor NUL. The first frame in
// each direction is `hello`. The agent writes agent_mark before it, because a device may print text
// before the agent runs. Both sides send `heartbeat` every second, and give up after some seconds
// without a frame of the other.
#pragma once

#include "util/workstation.hpp"

namespace uprobectl::host {

inline constexpr std::uint16_t protocol_version = 2;
inline constexpr std::string_view agent_mark{"\0uprobectl agent\0", 17};
inline constexpr std::size_t max_payload = 64 << 10;

enum class FrameType : std::uint8_t {
  // Both sides send these.
  hello = 1,     // u16 protocol version, then the version of the program as text
  heartbeat = 2, // no payload
  file_data = 3, // u32 number, bytes of that file
  file_end = 4,  // u32 number: the end of that file
  // From the host.
  argument = 16,      // one argument of the command line
  input = 17,         // a path of the workstation that may be read
  output = 18,        // a path of the workstation that may be written
  output_folder = 19, // a folder of the workstation in which files may be created
  start = 20,         // u8 and u32: terminals and served requests (run_request.cpp)
  signal = 21,        // u8: the number of a signal for the run
  stdout_closed = 22, // nothing reads the records
  result = 23,        // u32 number of a request, u32 errno; 0: done, the content may follow
  // From the agent.
  records = 32,  // bytes of the run's stdout
  messages = 33, // bytes of its stderr
  exit = 35,     // u8: the exit status; the last frame
  failure = 36,  // the run cannot start: text
  // first_request + N: u32 number, then the fields of the type N of WorkstationRequest, whose
  // describe() gives their order. Texts have their size before them, u16.
  first_request = 64,
};

struct Frame {
  FrameType type = FrameType::heartbeat;
  std::string_view payload; // valid until the reader's next call
};

struct NumberedRequest {
  std::uint32_t number = 0; // chosen by the agent
  WorkstationRequest request;
};

// The beginning of a payload: the number of a file and what follows.
struct Numbered {
  std::uint32_t number = 0;
  std::string_view rest;
};

// Append a frame. The payload must not exceed max_payload.
void append_frame(std::string& out, FrameType type, std::string_view payload = {});
void append_byte_frame(std::string& out, FrameType type, std::uint8_t value);
void append_numbered(std::string& out, FrameType type, std::uint32_t number,
                     std::string_view rest = {});
// bits, served: see run_request.cpp.
void append_start(std::string& out, std::uint8_t bits, std::uint32_t served);
void append_hello(std::string& out, std::string_view program_version);
// The texts of the request must not be longer than 65535 bytes.
void append_request(std::string& out, const NumberedRequest& request);
void append_result(std::string& out, std::uint32_t number, int errnum);
// Appends as many frames as the bytes need.
void append_split(std::string& out, FrameType type, std::string_view bytes);
void append_file_data(std::string& out, std::uint32_t number, std::string_view bytes);

// Return nullopt if the payload is malformed.
std::optional<std::uint8_t> read_byte(std::string_view payload);
std::optional<Numbered> read_numbered(std::string_view payload);
std::optional<int> read_errno(std::string_view rest);
// Returns nullopt also for a frame that is not a request.
std::optional<NumberedRequest> read_request(const Frame& frame);
// The program's version of a hello frame. unsupported if the protocol's version is another one.
Result<std::string> read_hello(std::string_view payload);

// Splits a byte stream into frames.
class FrameReader {
public:
  void append(std::string_view bytes);
  // Returns the next frame, or nullopt if it is incomplete. Fails with corrupt for an unknown type
  // or a payload beyond max_payload; then the stream cannot be continued.
  Result<std::optional<Frame>> next();

private:
  std::string buffer_;
  std::size_t at_ = 0; // of the next frame
};

} // namespace uprobectl::host
