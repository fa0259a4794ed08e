// SPDX-License-Identifier: Apache-2.0
#include "archive/nested.hpp"

#include "util/mapped_file.hpp"

#include <fmt/format.h>
#include <mutex>

namespace uprobectl::archive {

namespace {

// The last inner archive: a command that reads many of its entries opens it for each. It lives as
// long as one of its owners or a KeptInnerArchive, not in a run of days whose lookups are over.
class LastInflated {
public:
  using Content = std::shared_ptr<const std::vector<std::byte>>;

  Result<Content> inflate(const Archive& outer, const ArchiveEntry& container) {
    const auto mapping = mapping_number(as_bytes(container.name));
    const std::scoped_lock lock(mutex_);
    if (auto last = last_.lock();
        last && mapping && mapping_ == mapping && name_ == container.name.data()) {
      if (keepers_ > 0) kept_ = last;
      return last;
    }
    kept_ = nullptr; // not two at a time
    auto content = outer.extract(container, max_inner_archive);
    if (!content) return fail(std::move(content).error());
    mapping_ = mapping;
    name_ = container.name.data();
    auto inflated = std::make_shared<const std::vector<std::byte>>(std::move(*content));
    last_ = inflated;
    if (keepers_ > 0) kept_ = inflated;
    return inflated;
  }

  void add_keeper() {
    const std::scoped_lock lock(mutex_);
    ++keepers_;
  }

  void remove_keeper() {
    const std::scoped_lock lock(mutex_);
    if (--keepers_ == 0) kept_ = nullptr;
  }

private:
  std::mutex mutex_;
  std::optional<std::uint64_t> mapping_; // mapping_number() of the outer archive
  const char* name_ = nullptr;           // in its directory
  std::weak_ptr<const std::vector<std::byte>> last_;
  Content kept_; // null without keepers
  std::size_t keepers_ = 0;
};

LastInflated& last_inflated() {
  static LastInflated last;
  return last;
}

} // namespace

KeptInnerArchive::KeptInnerArchive() { last_inflated().add_keeper(); }

KeptInnerArchive::~KeptInnerArchive() { last_inflated().remove_keeper(); }

std::optional<NestedName> split_nested(const Archive& outer, std::string_view name) {
  constexpr std::string_view entry_separator = "!/";
  constexpr int max_splits = 8; // each is a search of the directory
  auto at = name.find(entry_separator);
  if (at == std::string_view::npos || outer.has(name)) return std::nullopt;
  for (int i = 0; i < max_splits && at != std::string_view::npos; ++i) {
    const NestedName nested{name.substr(0, at), name.substr(at + entry_separator.size())};
    if (!nested.container.empty() && !nested.entry.empty() && outer.has(nested.container))
      return nested;
    at = name.find(entry_separator, at + 1);
  }
  return std::nullopt;
}

std::optional<NestedName> split_nested(Bytes file, std::string_view name) {
  if (name.find("!/") == std::string_view::npos) return std::nullopt;
  const auto outer = Archive::parse(file);
  return outer ? split_nested(*outer, name) : std::nullopt;
}

Result<InnerArchive> open_inner(const Archive& outer, const ArchiveEntry& container) {
  InnerArchive inner;
  if (container.probeable()) {
    const auto bytes = outer.stored_bytes(container);
    if (!bytes) return fail(bytes.error());
    inner.bytes = *bytes;
  } else {
    if (container.size > max_inner_archive)
      return fail(ErrorKind::unsupported,
                  fmt::format("'{}' is compressed and has {} bytes uncompressed, at most {} (512 "
                              "MiB) are inflated",
                              container.name, container.size, max_inner_archive));
    auto content = last_inflated().inflate(outer, container);
    if (!content) return fail(std::move(content).error());
    inner.bytes = **content;
    inner.owner = std::move(*content);
  }
  if (!Archive::looks_like_archive(inner.bytes))
    return fail(ErrorKind::not_archive, fmt::format("'{}' is not an archive", container.name));
  return inner;
}

} // namespace uprobectl::archive
