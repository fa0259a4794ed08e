// SPDX-License-Identifier: Apache-2.0
#include "host/run_request.hpp"

#include <algorithm>

namespace uprobectl::host {

namespace {

// Limits all arguments and paths together. Most systems have a smaller limit for one execve(2).
constexpr std::size_t max_request = 8 << 20;
constexpr std::size_t overhead = 32; // counted for each text, which bounds their number

constexpr std::uint8_t stdout_bit = 1;
constexpr std::uint8_t stderr_bit = 2;
constexpr std::uint8_t saved_run_bit = 4;
static_assert(std::variant_size_v<WorkstationRequest> <= 32); // RunRequest::served

bool has_parent_step(std::string_view path) {
  while (!path.empty()) {
    const auto slash = std::min(path.find('/'), path.size());
    if (path.substr(0, slash) == "..") return true;
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return false;
}

} // namespace

bool UserPaths::is_input(std::string_view path) const {
  return std::ranges::find(inputs, path) != inputs.end();
}

bool UserPaths::is_output(std::string_view path) const {
  return std::ranges::find(outputs, path) != outputs.end();
}

bool UserPaths::is_updated(std::string_view path) const {
  return std::ranges::find(updated, path) != updated.end();
}

bool UserPaths::is_in_folder(std::string_view path) const {
  return std::ranges::any_of(folders, [&](const std::string& folder) {
    if (!path.starts_with(folder)) return false;
    const std::string_view below = path.substr(folder.size());
    if (below.empty()) return true;
    return (below.starts_with('/') || folder.ends_with('/')) && !has_parent_step(below);
  });
}

Result<void> append_request(std::string& out, std::string_view program_version,
                            const RunRequest& request) {
  append_hello(out, program_version);
  std::size_t size = 0;
  const auto append_all = [&](FrameType type, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      size += text.size() + overhead;
      if (text.size() > max_payload || size > max_request) return false;
      append_frame(out, type, text);
    }
    return true;
  };
  if (!append_all(FrameType::argument, request.arguments) ||
      !append_all(FrameType::input, request.paths.inputs) ||
      !append_all(FrameType::output, request.paths.outputs) ||
      !append_all(FrameType::output_folder, request.paths.folders))
    return fail(ErrorKind::usage, "the arguments are too long for --adb");
  append_start(out,
               static_cast<std::uint8_t>((request.stdout_is_terminal ? stdout_bit : 0) |
                                         (request.stderr_is_terminal ? stderr_bit : 0) |
                                         (request.takes_saved_run ? saved_run_bit : 0)),
               request.served);
  return {};
}

Result<void> RequestReader::add_text(std::vector<std::string>& texts, std::string_view text) {
  size_ += text.size() + overhead;
  if (size_ > max_request) return fail(ErrorKind::corrupt, "the request is too large");
  if (text.contains('\0')) return fail(ErrorKind::corrupt, "a NUL byte in the request");
  texts.emplace_back(text);
  return {};
}

std::vector<std::string>* RequestReader::texts_of(FrameType type) {
  if (type == FrameType::argument) return &request_.arguments;
  if (type == FrameType::input) return &request_.paths.inputs;
  if (type == FrameType::output) return &request_.paths.outputs;
  if (type == FrameType::output_folder) return &request_.paths.folders;
  return nullptr;
}

Result<std::optional<RunRequest>> RequestReader::add(const Frame& frame) {
  if (frame.type == FrameType::heartbeat) return std::nullopt;
  if (frame.type == FrameType::hello) {
    if (auto hello = read_hello(frame.payload); !hello) return fail(std::move(hello).error());
    has_hello_ = true;
    return std::nullopt;
  }
  if (!has_hello_) return fail(ErrorKind::corrupt, "expected a hello frame first");
  if (auto* const texts = texts_of(frame.type)) {
    if (auto added = add_text(*texts, frame.payload); !added) return fail(std::move(added).error());
    return std::nullopt;
  }
  const Bytes start = as_bytes(frame.payload);
  const auto bits = read_at<std::uint8_t>(start, 0);
  const auto served = read_at<std::uint32_t>(start, 1);
  if (frame.type != FrameType::start || !bits || !served || start.size() != 5)
    return fail(ErrorKind::corrupt, "unexpected frame in a request");
  request_.stdout_is_terminal = (*bits & stdout_bit) != 0;
  request_.stderr_is_terminal = (*bits & stderr_bit) != 0;
  request_.takes_saved_run = (*bits & saved_run_bit) != 0;
  request_.served = *served;
  return std::move(request_);
}

} // namespace uprobectl::host
