// SPDX-License-Identifier: Apache-2.0
#include "host/host_files.hpp"

#include "host/kept_parts.hpp"
#include "output/export_file.hpp"
#include "output/output.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace uprobectl::host {

namespace {

constexpr std::size_t max_input = 256 << 20;
constexpr std::size_t max_closed = 64; // files whose readers are waited for at the end only
constexpr std::size_t max_open = 64;   // outputs of a run; it has one of each option
constexpr std::size_t max_folders = 256;
// Outputs have data of probed processes, whatever mode the device asks for.
constexpr mode_t file_mode = 0600;
constexpr mode_t folder_mode = 0700;

// Opens an output without waiting for the reader of a FIFO: the agent would not be heard meanwhile.
UniqueFd open_for_writing(const std::string& path, int flags) {
  UniqueFd file(
      ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags, file_mode));
  if (file) ::fcntl(file.get(), F_SETFL, ::fcntl(file.get(), F_GETFL) & ~O_NONBLOCK);
  return file;
}

std::string_view parent_of(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

} // namespace

InputFile read_input(const std::string& path) {
  InputFile file;
  UniqueFd opened;
  int fd = STDIN_FILENO;
  if (path != "-") {
    opened = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
    fd = opened.get();
  }
  std::array<char, 64 << 10> chunk{};
  while (fd >= 0) {
    const ssize_t got = ::read(fd, chunk.data(), chunk.size());
    if (got == 0) return file;
    if (got < 0) break;
    file.content.append(chunk.data(), static_cast<std::size_t>(got));
    if (file.content.size() <= max_input) continue;
    errno = EFBIG;
    break;
  }
  file.errnum = errno;
  return file;
}

InputFiles read_inputs(const std::vector<std::string>& paths) {
  InputFiles files;
  for (const std::string& path : paths)
    if (!files.contains(path)) files.emplace(path, read_input(path));
  return files;
}

std::string with_suffix(std::string_view path, std::string_view suffix) {
  if (suffix.empty()) return std::string(path);
  std::string clean(suffix);
  std::ranges::replace(clean, '/', '_');
  std::ranges::replace(clean, ':', '_');
  const auto slash = path.rfind('/');
  const std::size_t name = slash == std::string_view::npos ? 0 : slash + 1;
  const auto dot = path.find('.', name + 1); // not that of a hidden file
  const std::size_t at = std::min(dot, path.size());
  return std::string(path.substr(0, at)) + "." + clean + std::string(path.substr(at));
}

bool RecordFiles::has(std::string_view path) const {
  return std::ranges::find(paths_, path) != paths_.end();
}

std::shared_ptr<Sink> RecordFiles::open(const std::string& path, int flags) {
  const std::scoped_lock lock(mutex_);
  const auto before = open_.find(path);
  if (before != open_.end()) return before->second;
  UniqueFd file = open_for_writing(path, flags);
  if (!file) return nullptr;
  return open_.emplace(path, std::make_shared<Sink>(std::move(file), false)).first->second;
}

std::optional<Error> RecordFiles::finish() {
  const std::scoped_lock lock(mutex_);
  for (const auto& [path, sink] : open_)
    if (auto error = sink->finish()) return std::move(*error).within(path);
  return std::nullopt;
}

// A file below a folder of outputs is in the folder of its device.
std::string HostFiles::local_path(std::string_view path) const {
  if (paths_.is_output(path)) return with_suffix(path, suffix_);
  for (const std::string& folder : paths_.folders)
    if (path.starts_with(folder))
      return with_suffix(folder, suffix_) + std::string(path.substr(folder.size()));
  return std::string(path);
}

// One at a time: a run waits for the result of its request.
bool HostFiles::start_handler(const NumberedRequest& request) {
  const auto handler = handlers_.find(request.request.index());
  if (handler == handlers_.end() || next_handled_.valid()) return false;
  next_number_ = request.number;
  next_handled_ = std::async(std::launch::async, handler->second, request.request,
                             [this] { return has_ended_.load(); });
  // Most handlers need less time than the wait for the next frame, before which the result is sent.
  next_handled_.wait_for(std::chrono::milliseconds(2));
  return true;
}

void HostFiles::serve(const NumberedRequest& request, std::string& out) {
  if (start_handler(request)) return;
  const auto* const file = std::get_if<FileRequest>(&request.request);
  append_result(out, request.number, file == nullptr ? EACCES : serve_file(request.number, *file));
}

int HostFiles::serve_file(std::uint32_t number, const FileRequest& request) {
  const bool writable = paths_.is_output(request.path) || paths_.is_in_folder(request.path);
  const std::string local = local_path(request.path);
  switch (request.operation) {
  case FileOperation::read: {
    const auto input = inputs_->find(request.path);
    if (input == inputs_->end()) return EACCES;
    if (input->second.errnum == 0) reading_ = Reading{number, input->second.content};
    return input->second.errnum;
  }
  case FileOperation::write:
    if (paths_.is_updated(request.path)) return open_updated(number, request);
    return writable ? open_output(number, request) : EACCES;
  case FileOperation::make_folder:
    return paths_.is_in_folder(request.path) ? make_folder(request) : EACCES;
  case FileOperation::exists:
    if (!writable) return EACCES;
    return ::access(local.c_str(), F_OK) == 0 ? 0 : errno;
  case FileOperation::remove_folder:
    if (!created_folders_.contains(local)) return EACCES;
    std::error_code error;
    std::filesystem::remove_all(local, error);
    return error.value();
  }
  return EACCES;
}

// A folder of the command line, or one in it or in a folder of this run: an older one may be a link
// that leads elsewhere.
int HostFiles::make_folder(const FileRequest& request) {
  const std::string local = local_path(request.path);
  const bool is_named = std::ranges::find(paths_.folders, request.path) != paths_.folders.end();
  const bool is_below = std::ranges::any_of(paths_.folders, [&](const std::string& folder) {
    std::string named = with_suffix(folder, suffix_);
    while (named.ends_with('/')) named.pop_back();
    return parent_of(local) == named;
  });
  if (!is_named && !is_below && !is_in_new_folder(local)) return EACCES;
  if (created_folders_.size() >= max_folders) return EMFILE;
  if (::mkdir(local.c_str(), folder_mode) != 0) return errno;
  created_folders_.insert(local);
  return 0;
}

bool HostFiles::is_in_new_folder(std::string_view local) const {
  return created_folders_.contains(parent_of(local));
}

int HostFiles::open_output(std::uint32_t number, const FileRequest& request) {
  if (open_.size() >= max_open) return EMFILE;
  constexpr std::uint32_t passed_on = O_TRUNC | O_APPEND | O_EXCL | O_NOFOLLOW;
  int flags = O_CREAT | static_cast<int>(request.flags & passed_on);
  std::string local(request.path);
  std::shared_ptr<Sink> sink;
  LineMark mark = LineMark::none;
  StreamContent content = StreamContent::bytes;
  if (records_->has(local)) {
    sink = records_->open(local, flags);
    mark = records_->mark();
    content = records_->content();
  } else {
    local = local_path(request.path);
    // Below a folder there are only new files: what else is there may be a link or a FIFO.
    if (!paths_.is_output(request.path)) {
      if (!is_in_new_folder(local)) return EACCES;
      flags |= O_EXCL | O_NOFOLLOW;
    }
    UniqueFd file = open_for_writing(local, flags);
    if (file && ::isatty(file.get()) == 1) content = StreamContent::text;
    if (file)
      sink = std::make_shared<Sink>(std::move(file), (request.flags & (O_TRUNC | O_APPEND)) == 0);
  }
  if (!sink) return errno;
  MarkedLines lines(*sink, mark, serial_, content);
  Written file{std::move(local), std::move(sink), std::move(lines)};
  if (request.path == saved_run_) file.parts = parts_;
  open_.insert_or_assign(number, std::move(file));
  return 0;
}

// The file is replaced at the end of the run: it must not be lost if the connection is.
int HostFiles::open_updated(std::uint32_t number, const FileRequest& request) {
  const auto is_same = [&](const Written& file) { return file.path == request.path; };
  if (std::ranges::any_of(open_, [&](const auto& each) { return is_same(each.second); }))
    return EBUSY;
  std::erase_if(closed_, is_same);
  auto sink = std::make_shared<Sink>(Sink::InMemory{max_input});
  MarkedLines lines(*sink, LineMark::device, serial_, StreamContent::json);
  open_.insert_or_assign(
      number, Written{std::string(request.path), std::move(sink), std::move(lines), true});
  return 0;
}

void HostFiles::append_handled(std::string& out) {
  handled_ = next_handled_.get();
  append_result(out, next_number_, handled_.errnum);
  if (handled_.errnum == 0) reading_ = Reading{next_number_, handled_.content};
}

bool HostFiles::append_content(std::string& out) {
  constexpr std::size_t step = 32 << 10;
  if (!reading_ && next_handled_.valid() &&
      next_handled_.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
    append_handled(out);
  if (!reading_) return false;
  const std::string_view part = reading_->rest.substr(0, step);
  append_file_data(out, reading_->number, part);
  reading_->rest.remove_prefix(part.size());
  if (!reading_->rest.empty()) return true;
  append_numbered(out, FrameType::file_end, reading_->number);
  reading_.reset();
  handled_ = {};
  return true;
}

Result<void> HostFiles::add_data(std::uint32_t number, std::string_view bytes) {
  const auto found = open_.find(number);
  if (found == open_.end()) return {};
  Written& file = found->second;
  if (file.parts == nullptr) return file.lines.add(bytes);
  std::string whole;
  if (auto added = file.parts->add(bytes, whole); !added) return added;
  return file.lines.add(whole);
}

void HostFiles::end_file(std::uint32_t number) {
  auto ended = open_.extract(number);
  if (ended.empty()) return;
  Written& file = ended.mapped();
  if (file.parts != nullptr) {
    std::string rest;
    file.parts->finish(rest);
    static_cast<void>(file.lines.add(rest));
  }
  file.lines.finish();
  closed_.push_back(std::move(ended.mapped()));
  if (closed_.size() >= max_closed) finish_outputs();
}

bool HostFiles::is_full() {
  return std::ranges::any_of(open_, [](auto& each) { return each.second.sink->is_full(); });
}

void HostFiles::drop_updates() { std::erase_if(closed_, &Written::is_updated); }

std::optional<Error> HostFiles::finish_file(Written& file) {
  if (auto error = file.sink->finish()) return std::move(*error).within(file.path);
  if (!file.is_updated) return std::nullopt;
  auto replaced = output::replace_file(
      file.path, [&](output::OutputBuffer& out) { out.append(file.sink->content()); },
      this_machine());
  if (!replaced) return std::move(replaced).error();
  return std::nullopt;
}

// Updated files wait for the end of the run, which may still fail.
void HostFiles::finish_outputs() {
  for (Written& file : closed_)
    if (!file.is_updated)
      if (auto error = finish_file(file); error && !error_) error_ = std::move(error);
  std::erase_if(closed_, [](const Written& file) { return !file.is_updated; });
}

std::optional<Error> HostFiles::finish() {
  finish_outputs();
  for (Written& file : closed_)
    if (auto error = finish_file(file); error && !error_) error_ = std::move(error);
  closed_.clear();
  return error_;
}

} // namespace uprobectl::host
