#include "session/stack_places.hpp"

#include "process/maps.hpp"
#include "stacks/mapping_kind.hpp"
#include "uprobectl/base/shrinking.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl {

namespace {

// While the process lives the kernel itself leads to the file, whatever has become of its name.
std::shared_ptr<const MappedFile> open_mapped(pid_t pid, const Mapping& mapping) {
  auto ways = ways_by_path(pid, mapping, shares_mounts(pid));
  ways.insert(ways.begin(), {path_of_mapping(pid, mapping), Likeness::inode});
  for (const WayToFile& way : ways) {
    if (likeness_at(way.path, mapping) < way.least) continue;
    auto file = MappedFile::open(way.path);
    // Another file may have the path by now.
    if (file && likeness(file->identity(), mapping) >= way.least)
      return std::make_shared<const MappedFile>(std::move(*file));
  }
  return nullptr;
}

// Also the kernel's own code, [vdso], of which no file is looked for here.
bool is_in_no_file(const Mapping& mapping) {
  return stacks::is_of_no_file(mapping) || mapping.path.starts_with('[');
}

} // namespace

void ProcessMaps::look_at(pid_t pid) {
  auto mappings = all_mappings_of(pid);
  if (!mappings) return;
  std::erase_if(*mappings, [](const Mapping& mapping) { return !mapping.executable; });
  if (mappings->empty()) return; // on its way out
  std::ranges::sort(*mappings, {}, &Mapping::start);
  executable_[pid] = std::move(*mappings);
}

const Mapping* ProcessMaps::find(pid_t pid, std::uint64_t address) const {
  const auto known = executable_.find(pid);
  if (known == executable_.end()) return nullptr;
  const auto after = std::ranges::upper_bound(known->second, address, {}, &Mapping::start);
  if (after == known->second.begin()) return nullptr;
  const Mapping& mapping = *std::prev(after);
  return address < mapping.end ? &mapping : nullptr;
}

StackPlaces::File& StackPlaces::file_of(const FileIdentity& identity, const std::string& path,
                                        const Opener& open) {
  const auto [known, is_new] = files_.try_emplace({identity, path});
  if (!is_new) return known->second;
  auto opened = open();
  if (!opened) return known->second;
  tolerate_shrinking(*opened);
  auto target = Target::open({.path = {.file = opened->path(), .entry = {}},
                              .shown = {.file = path, .entry = {}},
                              .opened = opened,
                              .warnings = {}},
                             path, {.debug_places = debug_places_});
  if (target && !has_shrunk(*opened)) known->second.target = std::move(*target);
  return known->second;
}

StackPlaces::Place StackPlaces::find(File& file, std::uint64_t offset) {
  const auto [known, is_new] = file.places.try_emplace(offset);
  if (!is_new || !file.target) return known->second;
  const std::string text = fmt::format("file-offset:{:#x}", offset);
  const auto spec = parse_function(text);
  if (!spec) return std::nullopt;
  // Inside of the call instruction is no place for a probe.
  auto points = file.target->resolve(*spec, {.unsafe = true});
  if (has_shrunk(*file.target->file())) file.target.reset();
  if (file.target && points && !points->empty()) known->second = std::move(points->front());
  return known->second;
}

// What lies so far from the point, modulo 2^64, in the same mapped image.
StackPlaces::Place StackPlaces::beside(const ProbePoint& point, std::uint64_t distance) {
  const auto [known, is_new] = images_.try_emplace(point.binary);
  if (is_new)
    if (auto image = elf::Image::open(point.binary->file, point.binary->path))
      known->second = std::move(*image);
  if (!known->second) return std::nullopt;
  const elf::Image& image = *known->second;
  const VirtualAddress address{point.address.value + distance};
  const elf::Segment* const segment = image.segment_of(address);
  const auto offset = image.to_image(address);
  if (segment == nullptr || !segment->executable || !offset) return std::nullopt;
  const auto in_file = image.to_file(*offset);
  if (!in_file) return std::nullopt;
  const auto& file = point.binary->file;
  return find(file_of(file->identity(), point.binary->real_path, [&] { return file; }),
              in_file->value);
}

std::vector<StackFrame> StackPlaces::frames(const ProcessMaps& maps, pid_t pid,
                                            std::span<const std::uint64_t> addresses,
                                            const ProbePoint& point) {
  std::vector<StackFrame> frames;
  for (const std::uint64_t address : addresses) {
    StackFrame& frame = frames.emplace_back();
    frame.pc = address;
    const std::uint64_t inside =
        frames.size() == 1 ? address : address - host_arch_info().unwind->back_to_call;
    const Mapping* const mapping = maps.find(pid, inside);
    if (mapping == nullptr) {
      frame.place = beside(point, inside - addresses.front());
      continue;
    }
    if (is_in_no_file(*mapping)) {
      frame.module = stacks::name_of_memory(*mapping);
      continue;
    }
    const bool is_memory = stacks::is_like_memory(*mapping); // with the name of a file
    frame.module = is_memory ? mapping->path : file_name_of(mapping->path);
    const std::uint64_t offset = inside - mapping->start + mapping->offset.value;
    const auto open = [&] { return open_mapped(pid, *mapping); };
    frame.place = find(file_of(mapping->identity, mapping->path, open), offset);
  }
  return frames;
}

} // namespace uprobectl
