// SPDX-License-Identifier: Apache-2.0
#include "trace/known_functions.hpp"

#include <algorithm>
#include <array>
#include <set>

namespace uprobectl::trace {

namespace {

// The names by which a table may mean the library: that of the file, and the requested one.
std::array<std::string_view, 2> file_names(const resolve::ProbedBinary& binary) {
  const auto name = [](std::string_view path) { return path.substr(path.rfind('/') + 1); };
  return {name(binary.path.entry ? *binary.path.entry : binary.real_path), name(binary.target)};
}

// Whether the arguments of the function are where the calling convention has them.
bool is_plain_function(const events::CapturePoint& probed) {
  return probed.code.kind == events::CodeKind::native &&
         probed.point->binary->machine.arch == host_arch;
}

// The distance of the thread pointer from what thread_layout has. The layout of struct pthread,
// which it may point past, is described to debuggers by glibc 2.34 and later
// (nptl_db/structs.def).
std::optional<std::int64_t> thread_pointer_offset(const elf::Image& libc) {
  if (!host_arch_info().thread_pointer_after_thread) return 0;
  const auto size = libc.exported_words("_thread_db_sizeof_pthread");
  const auto tid = libc.exported_words("_thread_db_pthread_tid"); // bits, count, offset
  if (size.size() != 1 || tid.size() != 3 || tid[0] != 32 || tid[1] != 1 || tid[2] >= size[0])
    return std::nullopt;
  return std::int64_t{size[0]} - tid[2];
}

// Whether prototypes are used. --args none turns them off.
bool uses_prototypes(const events::CaptureSpec& capture) {
  return capture.typed || !capture.arguments.empty();
}

} // namespace

Result<void> add_embedded_prototypes(events::CaptureSpec& capture, std::span<const Probe> probes) {
  const bool only_names = !capture.typed && !capture.names_values();
  if (!capture.uses_values() || !uses_prototypes(capture) || only_names) return {};
  std::set<std::string_view> files;
  for (const Probe& each : probes)
    for (const std::string_view name : file_names(*each.point.binary)) files.insert(name);
  for (const events::EmbeddedPrototypes& each : events::embedded_prototypes()) {
    // Parsing all of them takes some milliseconds.
    if (std::ranges::none_of(files,
                             [&](auto file) { return events::may_describe(each.text, file); }))
      continue;
    if (auto added = capture.prototypes.add(each.text); !added)
      return fail(std::move(added).error().within(std::string(each.name)));
  }
  return {};
}

const events::Prototype* find_prototype(const events::PrototypeTable& table,
                                        const resolve::ProbePoint& point) {
  if (!point.symbol || point.symbol_offset != 0 || point.inlined_into != nullptr ||
      point.static_probe || point.java != nullptr || point.kind == symbols::SymbolKind::plt ||
      point.kind == symbols::SymbolKind::ifunc)
    return nullptr;
  for (const std::string_view file : file_names(*point.binary))
    if (const auto* const found = table.find(file, *point.symbol)) return found;
  return nullptr;
}

const events::Prototype* KnownFunctions::find(const events::CapturePoint& probed) const {
  if (!capture_.uses_values() || !uses_prototypes(capture_) || !is_plain_function(probed))
    return nullptr;
  return find_prototype(capture_.prototypes, *probed.point);
}

// Whether the prototype decides what is shown, not a list of the user.
bool KnownFunctions::decides(const events::CapturePoint& probed) const {
  return capture_.typed && lists_.find(*probed.point) == capture_.arguments.size();
}

bool KnownFunctions::reads_errno(const events::CapturePoint& probed) const {
  return decides(probed) || capture_.asks_for_errno();
}

bool KnownFunctions::can_pair(std::span<const events::CapturePoint> points) const {
  // A debug file has names of internal functions, which a pattern also matches.
  std::size_t internal = 0;
  std::size_t known = 0;
  bool has_result = false;
  bool knows_exported = false;
  for (const events::CapturePoint& each : points) {
    const bool is_exported = each.point->table == elf::Table::dynsym;
    const events::Prototype* const prototype = decides(each) ? find(each) : nullptr;
    if (prototype == nullptr) {
      internal += is_exported ? 0 : 1;
      continue;
    }
    if (prototype->is_entry_only) return false;
    ++known;
    has_result |= prototype->result.has_value();
    knows_exported |= is_exported;
  }
  const std::size_t counted = points.size() - (knows_exported ? internal : 0);
  return has_result && 2 * known >= counted;
}

bool KnownFunctions::needs_thread_pointer(std::span<const events::CapturePoint> points) const {
  return std::ranges::any_of(points, [&](const events::CapturePoint& each) {
    const events::Prototype* const prototype = reads_errno(each) ? find(each) : nullptr;
    return prototype != nullptr && prototype->sets_errno;
  });
}

std::optional<KnownFunctions::LibraryErrno>
KnownFunctions::find_errno_of_library(const resolve::ProbePoint& point) {
  const auto image = binaries_.of(point).image();
  if (!image) return std::nullopt;
  const auto slot = (*image)->thread_offset_slot("errno");
  const auto offset = slot ? thread_pointer_offset(**image) : std::nullopt;
  if (!offset) return std::nullopt;
  return LibraryErrno{.slot = *slot, .thread_pointer_offset = *offset};
}

std::optional<events::ErrnoLocation> KnownFunctions::find_errno(const resolve::ProbePoint& point) {
  const auto [known, is_new] = errno_of_.try_emplace(point.binary.get());
  if (is_new) known->second = find_errno_of_library(point);
  if (!known->second) return std::nullopt;
  return events::ErrnoLocation{
      .slot = static_cast<std::int64_t>(known->second->slot.value - uprobe_address(point).value),
      .thread_pointer_offset = known->second->thread_pointer_offset};
}

void KnownFunctions::add_to(std::span<events::CapturePoint> points, bool finds_errno) {
  for (events::CapturePoint& each : points) {
    const events::Prototype* const prototype = find(each);
    if (prototype == nullptr) continue;
    const bool has_errno = prototype->sets_errno && finds_errno && reads_errno(each);
    each.known = std::make_shared<const events::KnownCall>(
        make_known_call(*prototype, *each.point->symbol, capture_, phases_of(capture_, each),
                        scalars_only_, has_errno ? find_errno(*each.point) : std::nullopt));
  }
}

} // namespace uprobectl::trace
