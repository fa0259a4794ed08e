// SPDX-License-Identifier: Apache-2.0
#include "debuginfod.hpp"

#include "elf/debug_file.hpp"
#include "host/adb.hpp"
#include "util/descriptor_io.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

namespace uprobectl::cli {

namespace {

// All downloads of a command together may take this long.
constexpr std::chrono::minutes download_timeout{5};
constexpr std::uint64_t max_debug_file = std::uint64_t{16} << 30; // bytes
constexpr std::size_t max_builds = 4096; // that a device may want; more than a process maps

std::string describe_failure(const Error& error) {
  std::string message = "--debuginfod: " + error.message;
  for (const std::string& hint : error.hints) message += "; " + hint;
  return message;
}

// Reads a debug file of the workstation.
class WorkstationReader final : public RangeReader {
public:
  WorkstationReader(Workstation& workstation, std::string build_id)
      : workstation_(workstation), build_id_(std::move(build_id)) {}

  bool read(std::uint64_t offset, std::uint64_t size, int file) override {
    static_assert(max_range <= RangeRequest::max_size);
    const UniqueFd content = workstation_.request(RangeRequest{
        .build_id = build_id_, .offset = offset, .size = static_cast<std::uint32_t>(size)});
    const auto bytes = content ? read_up_to(content.get(), size + 1) : std::unexpected(errno);
    return bytes && bytes->size() == size &&
           ::pwrite(file, bytes->data(), size, static_cast<off_t>(offset)) ==
               static_cast<ssize_t>(size);
  }

private:
  Workstation& workstation_;
  std::string build_id_;
};

} // namespace

DebugFetching::DebugFetching(bool uses_debuginfod, output::Output& output)
    : uses_debuginfod_(uses_debuginfod), output_(output), client_(download_timeout) {
  if (uses_debuginfod || output.workstation().serves<DebugFileRequest>())
    elf::set_debug_fetcher(
        [this](const std::string& build_id) { return find_debug_file(build_id); });
}

DebugFetching::~DebugFetching() {
  elf::set_debug_fetcher(nullptr);
  for (const auto& [build_id, file] : debug_files_)
    if (file != nullptr && has_shrunk(*file))
      output_.warn_once(file->path() +
                        ": parts of it could not be read: names, types and lines may be missing");
}

std::shared_ptr<const MappedFile>
DebugFetching::find_source(const std::optional<std::string>& build_id, const std::string& path) {
  if (!uses_debuginfod_ || !build_id) return nullptr;
  const output::Progress progress(output_, "downloading " + path);
  Workstation& workstation = output_.workstation();
  if (!workstation.serves<SourceRequest>()) return open(client_.find_source(*build_id, path));
  UniqueFd content = workstation.request(SourceRequest{.build_id = *build_id, .path = path});
  if (!content) return nullptr; // the workstation has reported why
  auto copy = MappedFile::of_copy(std::move(content), path);
  return copy ? std::make_shared<const MappedFile>(std::move(*copy)) : nullptr;
}

std::shared_ptr<const MappedFile> DebugFetching::find_debug_file(const std::string& build_id) {
  const std::scoped_lock lock(mutex_);
  const auto [known, is_new] = debug_files_.try_emplace(build_id);
  if (!is_new) return known->second;
  const output::Progress progress(output_,
                                  "downloading the debug information of build id " + build_id);
  if (!output_.workstation().serves<DebugFileRequest>())
    return known->second = open(client_.find_debug_file(build_id));
  auto file = request_debug_file(build_id);
  if (file)
    known->second = std::make_shared<const MappedFile>(std::move(*file));
  else if (file.error().kind != ErrorKind::not_found) // otherwise the workstation has said why
    output_.warn_once(file.error().message);
  return known->second;
}

Result<MappedFile> DebugFetching::request_debug_file(const std::string& build_id) {
  Workstation& workstation = output_.workstation();
  const std::string name = "the debug file " + build_id + " of the workstation";
  const UniqueFd content = workstation.request(DebugFileRequest{.build_id = build_id});
  const auto bytes =
      content ? read_up_to(content.get(), sizeof(std::uint64_t) + 1) : std::unexpected(errno);
  if (!bytes) return fail(system_error(bytes.error(), name));
  const auto size = read_at<std::uint64_t>(as_bytes(*bytes), 0);
  if (!size || *size > max_debug_file) return fail(ErrorKind::corrupt, name + ": invalid size");
  return map_on_demand(*size, name, std::make_unique<WorkstationReader>(workstation, build_id));
}

std::shared_ptr<const MappedFile> DebugFetching::open(const Result<std::string>& path) {
  auto file = path ? MappedFile::open(*path) : Result<MappedFile>(fail(path.error()));
  if (!file) {
    output_.warn_once(describe_failure(file.error()));
    return nullptr;
  }
  output_.detail("--debuginfod: found " + *path);
  return std::make_shared<const MappedFile>(std::move(*file));
}

DeviceDebugFiles::DeviceDebugFiles(std::vector<std::string> symbols, bool uses_debuginfod,
                                   bool warns_if_missing, const output::OutputOptions& output)
    : symbol_paths_(std::move(symbols)), uses_debuginfod_(uses_debuginfod),
      warns_if_missing_(warns_if_missing), client_(download_timeout), output_(-1, output),
      symbols_({.paths = symbol_paths_, .system_folder = {}}) {
  tolerate_all_shrinking(); // a build may replace a file while runs go on
}

std::optional<symbolize::MappedObject>
DeviceDebugFiles::search(const std::string& build_id, const process::IsInterrupted& is_abandoned) {
  {
    const std::scoped_lock lock(mutex_);
    auto image = symbols_.find({.build_id = build_id});
    for (const std::string& warning : symbols_.warnings()) output_.warn_once(warning);
    if (image) return std::move(image->object);
    if (!uses_debuginfod_ && warns_if_missing_)
      output_.warn_once(fmt::format("no file with build id {} in {}: names are looked up on the "
                                    "device",
                                    build_id, fmt::join(symbol_paths_, ", ")));
  }
  if (!uses_debuginfod_) return std::nullopt;
  const auto path = download(
      [&](const process::IsInterrupted& is_interrupted) {
        return client_.find_debug_file(build_id, is_interrupted);
      },
      is_abandoned);
  if (!path) return std::nullopt;
  auto file = MappedFile::open(*path);
  if (!file) return std::nullopt;
  const auto owner = std::make_shared<const MappedFile>(std::move(*file));
  return symbolize::MappedObject{owner->bytes(), owner, owner};
}

host::InputFile DeviceDebugFiles::find(const DebugFileRequest& wanted,
                                       const process::IsInterrupted& is_abandoned) {
  const auto size_of = [](const std::optional<symbolize::MappedObject>& object) -> host::InputFile {
    if (!object) return {.errnum = ENOENT};
    host::InputFile size;
    for (unsigned shift = 0; shift < 64; shift += 8)
      size.content += static_cast<char>(std::uint64_t{object->bytes.size()} >> shift);
    return size;
  };
  {
    const std::scoped_lock lock(mutex_);
    if (const auto known = found_.find(wanted.build_id); known != found_.end())
      return size_of(known->second);
    if (found_.size() >= max_builds) return {.errnum = EMFILE};
  }
  auto object = search(wanted.build_id, is_abandoned);
  if (is_abandoned()) return {.errnum = ENOENT}; // the download may have been cut off
  const std::scoped_lock lock(mutex_);
  return size_of(found_.emplace(wanted.build_id, std::move(object)).first->second);
}

host::InputFile DeviceDebugFiles::read(const RangeRequest& wanted) {
  const std::scoped_lock lock(mutex_);
  const auto known = found_.find(wanted.build_id);
  if (known == found_.end() || !known->second || wanted.size > RangeRequest::max_size)
    return {.errnum = EINVAL};
  const auto part = slice(known->second->bytes, wanted.offset, wanted.size);
  if (!part) return {.errnum = EINVAL};
  host::InputFile content{.content = std::string(as_text(*part))};
  if (has_shrunk(*part)) return {.errnum = EIO};
  return content;
}

host::InputFile DeviceDebugFiles::find_source(const SourceRequest& wanted,
                                              const process::IsInterrupted& is_abandoned) {
  const auto path = download(
      [&](const process::IsInterrupted& is_interrupted) {
        return client_.find_source(wanted.build_id, wanted.path, is_interrupted);
      },
      is_abandoned);
  return path ? host::read_input(*path) : host::InputFile{.errnum = ENOENT};
}

std::optional<std::string> DeviceDebugFiles::download(const Download& run,
                                                      const process::IsInterrupted& is_abandoned) {
  // An earlier Ctrl-C has ended the capture, whose stacks are named now.
  const auto is_interrupted = [&, before = host::Interrupts::count()] {
    if (host::Interrupts::count() > before) is_interrupted_ = true;
    return is_interrupted_ || is_abandoned();
  };
  const auto path = run(is_interrupted);
  if (is_abandoned()) return std::nullopt;
  const std::scoped_lock lock(mutex_);
  // Nothing is read from other kinds of files, such as a FIFO.
  const auto file = path ? MappedFile::open(*path) : Result<MappedFile>(fail(path.error()));
  if (!file) {
    output_.warn_once(describe_failure(file.error()));
    return std::nullopt;
  }
  output_.detail("--debuginfod: found " + *path);
  return *path;
}

} // namespace uprobectl::cli
