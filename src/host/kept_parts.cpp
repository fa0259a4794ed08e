// SPDX-License-Identifier: Apache-2.0
#include "host/kept_parts.hpp"

#include "saved/descriptions.hpp"
#include "util/sha256.hpp"

#include <algorithm>
#include <cerrno>

namespace uprobectl::host {

namespace {

// StackParts::max_image: what a device announces may be wrong.
constexpr std::uint64_t max_length = std::uint64_t{128} << 20;
constexpr std::uint64_t max_storing = std::uint64_t{256} << 20; // more is not kept
// Limits the parts that the run has asked for and does not refer to yet.
constexpr std::uint64_t max_found = std::uint64_t{256} << 20;
// A piece of the content: its offset in the image, its size, its bytes (unwind::KeptParts).
constexpr std::size_t piece_head = 16;

std::string entry_name(std::string_view sha256) { return "parts-" + std::string(sha256); }

void append_number(std::string& out, std::uint64_t value, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) out += static_cast<char>(value >> (8 * i));
}

} // namespace

InputFile PartTransfer::find(const std::string& sha256) {
  if (!is_sha256(sha256)) return {.errnum = EINVAL};
  auto entry = cache_.read(entry_name(sha256));
  if (!entry || entry->sha256 != sha256) return {.errnum = ENOENT};
  const std::scoped_lock lock(mutex_);
  if (const auto known = found_.find(sha256); known != found_.end()) {
    ++known->second.references; // another file of the run with the same content
    return {};
  }
  // The run sends the parts itself then.
  if (entry->content.size() > max_found - std::min(found_bytes_, max_found))
    return {.errnum = ENOENT};
  found_bytes_ += entry->content.size();
  found_.emplace(sha256, Found{.content = std::move(entry->content)});
  return {};
}

Result<void> PartTransfer::add(std::string_view bytes, std::string& out) {
  pending_ += bytes;
  std::string_view rest = pending_;
  if (!has_head_ && rest.size() >= saved::head_bytes) {
    has_head_ = true;
    is_other_ = !rest.starts_with(saved::magic);
    out += rest.substr(0, saved::head_bytes);
    rest.remove_prefix(saved::head_bytes);
  }
  while (has_head_ && !is_other_) {
    const auto size = read_at<std::uint32_t>(as_bytes(rest), 4);
    is_other_ = size && *size > saved::max_chunk_bytes; // report says what is wrong
    if (!size || is_other_ || rest.size() < saved::chunk_head_bytes + *size) break;
    const std::size_t whole = saved::chunk_head_bytes + *size;
    if (auto handled = handle(rest.substr(0, whole), out); !handled) return handled;
    rest.remove_prefix(whole);
  }
  if (is_other_) out += std::exchange(rest, {});
  pending_.erase(0, pending_.size() - rest.size());
  return {};
}

void PartTransfer::finish(std::string& out) { out += std::exchange(pending_, {}); }

Result<void> PartTransfer::handle(std::string_view chunk, std::string& out) {
  const auto kind = static_cast<saved::ChunkKind>(*read_at<std::uint32_t>(as_bytes(chunk), 0));
  const std::string_view content = chunk.substr(saved::chunk_head_bytes);
  if (kind == saved::ChunkKind::kept_parts) return expand(content, out);
  if (kind == saved::ChunkKind::file_parts && arriving_) collect(content);
  out += chunk;
  return {};
}

Result<void> PartTransfer::expand(std::string_view content, std::string& out) {
  saved::OfFile<unwind::KeptParts> announced;
  if (!saved::FieldReader(as_bytes(content)).read_all(announced))
    return fail(ErrorKind::corrupt, "invalid data from the run");
  unwind::KeptParts& kept = announced.record;
  arriving_.reset();
  if (!kept.is_kept) {
    if (kept.length <= max_length && is_sha256(kept.sha256) && !cache_.has(entry_name(kept.sha256)))
      arriving_ = Arriving{std::move(kept.sha256), announced.file, kept.begin, kept.length};
    return {};
  }
  std::string found;
  {
    const std::scoped_lock lock(mutex_);
    const auto known = found_.find(kept.sha256);
    if (known == found_.end())
      return fail(ErrorKind::corrupt, "the run refers to unknown parts of a file");
    if (--known->second.references > 0) {
      found = known->second.content;
    } else {
      found = std::move(known->second.content);
      found_bytes_ -= found.size();
      found_.erase(known);
    }
  }
  std::string_view rest = found;
  while (!rest.empty()) {
    const auto offset = read_at<std::uint64_t>(as_bytes(rest), 0);
    const auto bytes = read_at<std::uint64_t>(as_bytes(rest), sizeof(*offset));
    if (!offset || !bytes || *bytes > rest.size() - piece_head)
      return fail(ErrorKind::corrupt, "invalid parts of a file in the cache");
    const std::size_t head = out.size();
    append_number(out, static_cast<std::uint32_t>(saved::ChunkKind::file_parts), 4);
    append_number(out, 0, 4);
    const unwind::Part part{kept.begin + *offset, as_bytes(rest.substr(piece_head, *bytes))};
    const saved::OfFile<unwind::FileParts> parts{announced.file,
                                                 {.size = kept.size, .parts = {part}}};
    saved::FieldWriter fields(out);
    describe(fields, parts);
    std::string length_field;
    append_number(length_field, out.size() - head - saved::chunk_head_bytes, 4);
    out.replace(head + 4, 4, length_field);
    rest.remove_prefix(piece_head + *bytes);
  }
  return {};
}

// Parts that do not fit the expected file are not kept. `report` reads them in any case.
void PartTransfer::collect(std::string_view content) {
  saved::OfFile<unwind::FileParts> collected;
  const unwind::FileParts& read = collected.record;
  if (!saved::FieldReader(as_bytes(content)).read_all(collected) ||
      collected.file != arriving_->file || read.error || read.parts.size() != 1)
    return arriving_.reset();
  const auto& [offset, bytes] = read.parts.front();
  if (offset < arriving_->begin || bytes.size() > arriving_->missing) return arriving_.reset();
  append_number(arriving_->content, offset - arriving_->begin, sizeof(std::uint64_t));
  append_number(arriving_->content, bytes.size(), sizeof(std::uint64_t));
  arriving_->content += as_text(bytes);
  arriving_->missing -= bytes.size();
  if (arriving_->missing == 0) store(*std::exchange(arriving_, std::nullopt));
}

void PartTransfer::store(Arriving parts) {
  const std::uint64_t size = parts.content.size();
  if (storing_bytes_ + size > max_storing) return;
  storing_bytes_ += size;
  storing_.push_back(std::async(std::launch::async, [this, size, parts = std::move(parts)] mutable {
    Cache::Entry entry{.content = std::move(parts.content), .sha256 = std::move(parts.sha256)};
    if (sha256_of(as_bytes(entry.content)) == entry.sha256)
      cache_.write(entry_name(entry.sha256), entry);
    storing_bytes_ -= size;
  }));
}

} // namespace uprobectl::host
