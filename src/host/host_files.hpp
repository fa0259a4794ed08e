// SPDX-License-Identifier: Apache-2.0
// Files of the workstation that runs on devices read and write.
#pragma once

#include "host/run_request.hpp"
#include "host/sink.hpp"
#include "process/command.hpp"

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <sys/types.h>

namespace uprobectl::host {

// A file that runs read: its content, or the errno value of reading it.
struct InputFile {
  std::string content = {};
  int errnum = 0;
};
using InputFiles = std::map<std::string, InputFile, std::less<>>;

// Reads the inputs completely, "-" from stdin. A file that cannot be read is not an error here: the
// run reports it if it needs the file.
InputFiles read_inputs(const std::vector<std::string>& paths);

// Reads one input, "-" from stdin. At most 256 MiB.
InputFile read_input(const std::string& path);

// Serves requests of one kind other than those for files. Called in several threads.
// is_abandoned() is true once the run that has sent the request has ended.
template <typename Request>
using Handler =
    std::function<InputFile(const Request&, const process::IsInterrupted& is_abandoned)>;
using Handlers = std::map<std::size_t, Handler<WorkstationRequest>>; // by kind

template <typename Request>
void serve(Handlers& handlers, Handler<Request> handle) {
  handlers[request_kind<Request>] =
      [handle = std::move(handle)](const WorkstationRequest& request,
                                   const process::IsInterrupted& is_abandoned) {
        return handle(std::get<Request>(request), is_abandoned);
      };
}

// The files of -o, which all devices of a run share. Thread-safe.
class RecordFiles {
public:
  RecordFiles(std::vector<std::string> paths, LineMark mark,
              StreamContent content = StreamContent::text)
      : paths_(std::move(paths)), mark_(mark), content_(content) {}

  bool has(std::string_view path) const;
  LineMark mark() const { return mark_; }
  StreamContent content() const { return content_; }
  // Opens the file at the first call. Sets errno on failure.
  std::shared_ptr<Sink> open(const std::string& path, int flags);
  // Waits until all files are written. Returns the first error.
  std::optional<Error> finish();

private:
  std::vector<std::string> paths_;
  LineMark mark_;
  StreamContent content_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Sink>, std::less<>> open_;
};

class PartTransfer;

// Serves the requests of one run, which may only use the paths of its command line: a device is not
// trusted with other files.
class HostFiles {
public:
  // The serial number is added to the names of outputs, except that of records, unless is_alone.
  // inputs and records must outlive this.
  HostFiles(UserPaths paths, const InputFiles& inputs, RecordFiles& records, Handlers handlers,
            std::string serial, bool is_alone)
      : paths_(std::move(paths)), inputs_(&inputs), records_(&records),
        handlers_(std::move(handlers)), serial_(std::move(serial)),
        suffix_(is_alone ? "" : serial_) {}

  // The output at this path, as the run names it, is a saved run. `parts` must outlive this.
  void keep_parts(std::string path, PartTransfer& parts) {
    saved_run_ = std::move(path);
    parts_ = &parts;
  }

  HostFiles(const HostFiles&) = delete;
  HostFiles& operator=(const HostFiles&) = delete;
  ~HostFiles() { has_ended_ = true; }

  // Serves a request, and appends the result to `out`. That of a handler, and all content, follow
  // with append_content().
  void serve(const NumberedRequest& request, std::string& out);
  // Appends a part of a file that is being read, if there is one. Returns false if there is none,
  // or if it is not made yet.
  bool append_content(std::string& out);
  Result<void> add_data(std::uint32_t number, std::string_view bytes);
  void end_file(std::uint32_t number);
  bool is_full();
  // Forgets the new content of updated files: the run has not ended as it should.
  void drop_updates();
  // Waits until all files are written, and replaces those that are updated. Returns the first
  // error.
  std::optional<Error> finish();

private:
  int serve_file(std::uint32_t number, const FileRequest& request);
  int open_output(std::uint32_t number, const FileRequest& request);
  int make_folder(const FileRequest& request);
  bool is_in_new_folder(std::string_view local) const;
  int open_updated(std::uint32_t number, const FileRequest& request);
  bool start_handler(const NumberedRequest& request);
  void append_handled(std::string& out);
  std::string local_path(std::string_view path) const;

  struct Reading {
    std::uint32_t number = 0;
    std::string_view rest;
  };
  struct Written {
    std::string path;
    std::shared_ptr<Sink> sink;
    MarkedLines lines;
    bool is_updated = false;       // the sink has the new content in memory
    PartTransfer* parts = nullptr; // of a saved run
  };
  static std::optional<Error> finish_file(Written& file);
  void finish_outputs();

  UserPaths paths_;
  const InputFiles* inputs_;
  RecordFiles* records_;
  Handlers handlers_;
  std::string serial_;
  std::string suffix_;
  std::optional<std::string> saved_run_;
  PartTransfer* parts_ = nullptr;
  std::optional<Reading> reading_;
  InputFile handled_; // the last result of a handler
  std::atomic<bool> has_ended_ = false;
  // A handler runs in a thread, since it can take longer than an agent waits for the next frame.
  // The destructor waits for the thread.
  std::future<InputFile> next_handled_;
  std::uint32_t next_number_ = 0; // of the request for it
  std::map<std::uint32_t, Written> open_;
  std::vector<Written> closed_;
  std::set<std::string, std::less<>> created_folders_;
  std::optional<Error> error_;
};

// "out.svg" and "emulator-5554" -> "out.emulator-5554.svg".
std::string with_suffix(std::string_view path, std::string_view suffix);

} // namespace uprobectl::host
