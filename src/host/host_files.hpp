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

// Makes an input whose path begins with a prefix (util/made_inputs.hpp) from the rest of the path.
// Called in several threads. is_abandoned() is true once the run that reads it has ended.
using InputMaker =
    std::function<InputFile(const std::string& rest, const IsInterrupted& is_abandoned)>;
using InputMakers = std::map<std::string, InputMaker, std::less<>>; // by prefix

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
  HostFiles(UserPaths paths, const InputFiles& inputs, RecordFiles& records, InputMakers makers,
            std::string serial, bool is_alone)
      : paths_(std::move(paths)), inputs_(&inputs), records_(&records), makers_(std::move(makers)),
        serial_(std::move(serial)), suffix_(is_alone ? "" : serial_) {}

  // The output at this path, as the run names it, is a saved run. `parts` must outlive this.
  void keep_parts(std::string path, PartTransfer& parts) {
    saved_run_ = std::move(path);
    parts_ = &parts;
  }

  HostFiles(const HostFiles&) = delete;
  HostFiles& operator=(const HostFiles&) = delete;
  ~HostFiles() { has_ended_ = true; }

  // Appends the answer to `out`; that for an input that is made follows with append_content(), as
  // the content of a file that is read.
  void answer(const FileRequest& request, std::string& out);
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
  int open_output(const FileRequest& request);
  int make_folder(const FileRequest& request);
  bool is_in_new_folder(std::string_view place) const;
  int open_updated(const FileRequest& request);
  bool start_making(const FileRequest& request);
  void answer_with_made(std::string& out);
  std::string place_of(std::string_view path) const;

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
  InputMakers makers_;
  std::string serial_;
  std::string suffix_;
  std::optional<std::string> saved_run_;
  PartTransfer* parts_ = nullptr;
  std::optional<Reading> reading_;
  InputFile made_; // the last one
  std::atomic<bool> has_ended_ = false;
  // Made in a thread, since it can take longer than an agent waits for the next frame. Its
  // destructor waits for the thread.
  std::future<InputFile> next_made_;
  std::uint32_t next_number_ = 0; // of the request for it
  std::map<std::uint32_t, Written> open_;
  std::vector<Written> closed_;
  std::set<std::string, std::less<>> created_folders_;
  std::optional<Error> error_;
};

// "out.svg" and "emulator-5554" -> "out.emulator-5554.svg".
std::string with_suffix(std::string_view path, std::string_view suffix);

} // namespace uprobectl::host
