// SPDX-License-Identifier: Apache-2.0
#include "trace/known_functions.hpp"

#include <algorithm>

namespace uprobectl {

namespace {

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Whether the arguments of the function are where the calling convention has them.
bool is_plain_function(const CapturePoint& probed) {
  const ProbePoint& point = *probed.point;
  return probed.code.kind == CodeKind::native && point.symbol && point.symbol_offset == 0 &&
         point.inlined_into == nullptr && !point.static_probe && point.java == nullptr &&
         point.kind != SymbolKind::plt && point.binary->machine.arch == host_arch;
}

} // namespace

Result<KnownFunctions> KnownFunctions::make(const CaptureSpec& capture, std::size_t functions) {
  KnownFunctions made(capture, functions);
  if (!capture.send_events || !capture.typed) return made;
  made.table_ = capture.prototypes;
  for (const EmbeddedPrototypes& each : embedded_prototypes())
    if (auto added = made.table_.add(each.text); !added)
      return fail(std::move(added).error().within(std::string(each.name)));
  return made;
}

const Prototype* KnownFunctions::find(const CapturePoint& probed) const {
  if (table_.libraries().empty() || !is_plain_function(probed)) return nullptr;
  if (probed.prepared && probed.prepared->replaces_arguments) return nullptr;
  const ProbePoint& point = *probed.point;
  if (lists_.find(point) < list_count_) return nullptr;
  const ProbedBinary& binary = *point.binary;
  for (const std::string_view path :
       {std::string_view(binary.path.entry ? *binary.path.entry : binary.real_path),
        std::string_view(binary.target)})
    if (const Prototype* const found = table_.find(file_name(path), *point.symbol)) return found;
  return nullptr;
}

bool KnownFunctions::needs_thread_pointer(std::span<const CapturePoint> points) const {
  return std::ranges::any_of(points, [&](const CapturePoint& each) {
    const Prototype* const prototype = find(each);
    return prototype != nullptr && prototype->sets_errno;
  });
}

std::optional<std::int64_t> KnownFunctions::find_errno_slot(const ProbePoint& point) {
  const auto [known, is_new] = errno_slots_.try_emplace(point.binary.get());
  if (is_new)
    if (const auto image = elf::Image::open(point.binary->file, point.binary->path))
      known->second = image->thread_offset_slot("errno");
  if (!known->second) return std::nullopt;
  return static_cast<std::int64_t>(known->second->value - point.address.value);
}

void KnownFunctions::add_to(std::span<CapturePoint> points, const CaptureSpec& capture) {
  for (CapturePoint& each : points) {
    const Prototype* const prototype = find(each);
    if (prototype == nullptr) continue;
    const bool reads_errno = prototype->sets_errno && capture.thread_pointer != 0;
    each.known = std::make_shared<const KnownCall>(
        make_known_call(*prototype, *each.point->symbol, capture, scalars_only_,
                        reads_errno ? find_errno_slot(*each.point) : std::nullopt));
  }
}

} // namespace uprobectl
