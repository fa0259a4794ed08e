// SPDX-License-Identifier: Apache-2.0
// The machine of the user, as a run sees it: it has the files that options name, and serves
// requests. It is this machine, unless `uprobectl --adb` has started the run.
//
// A new request is a struct here; a handler on the workstation (serve(), host/host_files.hpp); and
// the code of the run that sends it.
#pragma once

#include "uprobectl/util.hpp"

#include <sys/types.h>
#include <variant>

namespace uprobectl {

// Each request describes its fields in their order, for both directions: `io` appends them to a
// frame, or reads and checks them.

enum class FileOperation : std::uint8_t { read, write, make_folder, exists, remove_folder };

// open(2), mkdir(2), access(2), or the removal of a folder with its files.
struct FileRequest {
  FileOperation operation = FileOperation::read;
  std::uint32_t flags = 0; // of open(2)
  std::uint32_t mode = 0;
  std::string path = {}; // as the user has typed it, or below that
  static void describe(auto& io, auto& request) {
    io.choice(request.operation, FileOperation::remove_folder);
    io.number(request.flags);
    io.number(request.mode);
    io.text(request.path);
  }
};

// The attach plan of the run's functions in the unstripped file with this build id (--symbols).
struct PlanRequest {
  std::uint16_t machine = 0; // e_machine
  bool is_64bit = false;
  std::string build_id = {}; // hexadecimal digits
  std::string target = {};   // TARGET as typed
  auto operator<=>(const PlanRequest&) const = default;
  static void describe(auto& io, auto& request) {
    io.number(request.machine);
    io.flag(request.is_64bit);
    io.hexadecimal(request.build_id);
    io.text(request.target);
  }
};

// The size of the debug file with this build id (--symbols, --debuginfod): u64, little-endian.
struct DebugFileRequest {
  std::string build_id = {};
  static void describe(auto& io, auto& request) { io.hexadecimal(request.build_id); }
};

// A part of a debug file whose size was requested.
struct RangeRequest {
  static constexpr std::uint32_t max_size = 1U << 20;

  std::string build_id = {};
  std::uint64_t offset = 0;
  std::uint32_t size = 0;
  static void describe(auto& io, auto& request) {
    io.hexadecimal(request.build_id);
    io.number(request.offset);
    io.number(request.size);
  }
};

// A source file of the build (--debuginfod).
struct SourceRequest {
  std::string build_id = {};
  std::string path = {}; // as the debug file has it
  static void describe(auto& io, auto& request) {
    io.hexadecimal(request.build_id);
    io.text(request.path);
  }
};

// Whether the workstation has these parts of a file from an earlier run (unwind::KeptParts). The
// content of the result is empty.
struct PartsRequest {
  std::string sha256 = {};
  static void describe(auto& io, auto& request) { io.hexadecimal(request.sha256); }
};

using WorkstationRequest = std::variant<FileRequest, PlanRequest, PartsRequest, DebugFileRequest,
                                        RangeRequest, SourceRequest>;

template <typename Request, typename... All>
constexpr std::size_t kind_among(std::type_identity<std::variant<All...>> /*all*/) {
  std::size_t kind = 0;
  static_cast<void>(((std::is_same_v<Request, All> || (++kind, false)) || ...));
  return kind;
}
// The index of a type of requests in WorkstationRequest.
template <typename Request>
constexpr std::size_t request_kind = kind_among<Request>(std::type_identity<WorkstationRequest>());

// This class is the machine of a local run: this one. All functions set errno on failure.
class Workstation {
public:
  Workstation() = default;
  Workstation(const Workstation&) = delete;
  Workstation& operator=(const Workstation&) = delete;
  virtual ~Workstation() = default;

  // Whether the run is on a device.
  virtual bool is_remote() const { return false; }
  // Whether this path, as the user has typed it, or a path below it is a file of another machine.
  virtual bool has(const std::string& /*path*/) const { return false; }
  // Opens a path as open(2) does. A file of another machine is a copy in memory, or a pipe for
  // writing.
  virtual UniqueFd open(const std::string& path, int flags, mode_t mode = 0);
  virtual bool make_folder(const std::string& path, mode_t mode);
  virtual bool exists(const std::string& path);
  virtual bool remove_folder(const std::string& path);
  // Whether fd, which is stdout or stderr, ends at a terminal.
  virtual bool is_terminal(int fd) const;
  // The options with which the user runs commands on this machine: "--adb=SERIAL".
  virtual std::string command_options() const { return {}; }
  // Whether it makes what the options ask for from the saved run (--unwind-on host).
  virtual bool takes_saved_run() const { return false; }

  // Whether another machine serves requests of this kind.
  virtual bool serves(std::size_t /*kind*/) const { return false; }
  template <typename Request>
  bool serves() const {
    return serves(request_kind<Request>);
  }
  // Returns the content, at its beginning.
  virtual UniqueFd request(const WorkstationRequest& request);

  // Opens and maps a regular file, as MappedFile::open().
  Result<MappedFile> map(const std::string& path);
};

// The workstation of a local run.
Workstation& this_machine();

} // namespace uprobectl
