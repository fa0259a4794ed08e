// SPDX-License-Identifier: Apache-2.0
#include "trace/caller_code.hpp"

#include "process/mapping_kind.hpp"
#include "process/proc.hpp"
#include "resolve/in_process.hpp"
#include "trace/diagnosis.hpp"
#include "util/rooted_path.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

namespace uprobectl::trace {

namespace {

constexpr std::size_t max_seen = 65536;                       // mapped files
constexpr std::uint64_t address_end = std::uint64_t{1} << 56; // of what a boundary can hold

bool has_ended(pid_t pid) { return ::kill(pid, 0) != 0 && errno == ESRCH; }

bool is_file(const process::Mapping& mapping, const FileIdentity& identity, std::string_view path) {
  // The device in maps differs from st_dev on overlayfs and btrfs.
  return mapping.identity.inode == identity.inode &&
         (mapping.identity.device == identity.device || mapping.path == path);
}

// A path that is relative to our folder becomes absolute, also before the "!/" of an archive.
std::string absolute_module(const std::string& module) {
  if (module.find('/') == std::string::npos || module.starts_with('/')) return module;
  std::error_code error;
  const auto path = std::filesystem::weakly_canonical(module, error);
  return error ? module : path.string();
}

// The code of the functions that a name means, with their clones and cold parts: offsets in the
// image.
std::vector<elf::AddressRange> function_code(const resolve::Target& target,
                                             const std::string& name) {
  std::vector<elf::AddressRange> code;
  const auto parsed = resolve::parse_function(name);
  if (!parsed || target.image() == nullptr) return code;
  const auto points = target.resolve(
      *parsed, {.all = true, .clones = resolve::ResolveOptions::Clones::all, .suggest = false});
  if (!points) return code;
  std::vector<elf::Symbol> functions;
  for (const resolve::ProbePoint& point : *points) {
    if (point.symbol_offset != 0 || point.kind == symbols::SymbolKind::plt) continue;
    code.push_back({point.address, point.size.value_or(0)});
    if (point.symbol) functions.push_back({.name = point.function(), .address = point.address});
  }
  for (const elf::Symbol& each : symbols::find_related(*target.image(), functions).clones)
    code.push_back({each.address, each.size});
  binary::Binary& binary = *target.binary().contents;
  for (elf::AddressRange& each : code) {
    if (each.size != 0) continue;
    if (const auto end = binary.label_end(each.address))
      each.size = end->value - each.address.value;
  }
  return code;
}

} // namespace

std::optional<caller_map> make_caller_map(std::span<const CallerMapping> mappings) {
  // An address at which some of the bits begin or end.
  struct Edge {
    std::uint64_t address;
    std::uint8_t bits;
    int step;
  };
  std::vector<Edge> edges;
  const auto add = [&](std::uint64_t begin, std::uint64_t end, std::uint8_t bits) {
    if (begin >= end || end >= address_end) return;
    edges.push_back({begin, bits, 1});
    edges.push_back({end, bits, -1});
  };
  for (const CallerMapping& each : mappings) {
    const std::uint64_t size = each.end - each.start;
    add(each.start, each.end, CALLER_MAPPED);
    for (const CallerRange& range : each.code) {
      const std::uint64_t begin = std::max(range.begin, each.offset) - each.offset;
      const std::uint64_t end = std::max(range.end, each.offset) - each.offset;
      add(each.start + std::min(begin, size), each.start + std::min(end, size), range.bits);
    }
  }
  std::ranges::sort(edges, {}, &Edge::address);
  std::vector<std::uint64_t> boundaries = {0};
  std::array<int, 8> open{}; // by bit
  for (std::size_t i = 0; i < edges.size(); ++i) {
    for (unsigned bit = 0; bit < open.size(); ++bit)
      if ((edges[i].bits >> bit & 1) != 0) open[bit] += edges[i].step;
    if (i + 1 < edges.size() && edges[i + 1].address == edges[i].address) continue;
    std::uint64_t bits = 0;
    for (unsigned bit = 0; bit < open.size(); ++bit)
      if (open[bit] > 0) bits |= std::uint64_t{1} << bit;
    if (bits != (boundaries.back() & 0xff)) boundaries.push_back(edges[i].address << 8 | bits);
  }
  if (boundaries.size() > CALLER_BOUNDARIES) return std::nullopt;
  caller_map made;
  std::ranges::fill(made.boundaries, ~record_u64{0});
  std::ranges::copy(boundaries, made.boundaries);
  return made;
}

Result<std::unique_ptr<CallerCode>>
CallerCode::start(const events::Filter& filter, std::span<const Probe> probes,
                  const resolve::TargetOptions& where, const HitProcesses& processes,
                  bpf::BuiltinProgram& program, output::Output& output) {
  std::unique_ptr<CallerCode> made(new CallerCode(where, program, output));
  made->add_callers(filter);
  made->add_probed_files(probes);
  const std::vector<pid_t> first =
      processes.include_others ? std::vector<pid_t>() : processes.running();
  auto watch = process::MappingWatch::start(first, true);
  if (!watch) return fail(std::move(watch).error().within("--if compares the caller"));
  made->watch_ = std::move(*watch);
  for (const pid_t pid :
       processes.include_others ? process::all_processes() : processes.running()) {
    made->watch_->follow(pid);
    if (pid != ::getpid()) made->describe(pid);
  }
  return made;
}

void CallerCode::add_callers(const events::Filter& filter) {
  for (std::size_t i = 0; i < filter.terms.size(); ++i) {
    if (filter.terms[i].built_in != COMPARE_CALLER) continue;
    const auto bits = static_cast<std::uint8_t>(1U << caller_number(filter, i));
    for (const events::TextPattern& each : filter.terms[i].patterns)
      if (auto name = events::parse_caller_name(each.text)) {
        if (name->module) name->module = absolute_module(*name->module);
        callers_.push_back({.name = std::move(*name), .text = each.text, .bits = bits});
      }
  }
}

void CallerCode::add_probed_files(std::span<const Probe> probes) {
  for (const Probe& probe : probes) {
    File file{.identity = probe.point.binary->file->identity(),
              .path = probed_file(probe.point).real_path};
    const auto same = [&](const File& known) {
      return known.identity == file.identity && known.path == file.path;
    };
    if (std::ranges::none_of(probed_, same)) probed_.push_back(std::move(file));
  }
}

void CallerCode::add_to(std::vector<pollfd>& polled) const {
  polled.push_back({.fd = watch_->fd(), .events = POLLIN, .revents = 0});
}

void CallerCode::update(Time /*now*/) {
  std::set<pid_t> changed;
  watch_->drain([&](const process::MappingEvent& event) {
    switch (event.kind) {
    case process::MappingEvent::Kind::mapped:
      if (described_.contains(event.pid) || is_probed(event.mapping)) changed.insert(event.pid);
      break;
    case process::MappingEvent::Kind::forked:
      if (described_.contains(event.parent) || changed.contains(event.parent))
        changed.insert(event.pid);
      break;
    case process::MappingEvent::Kind::executed:
      forget(event.pid);
      changed.erase(event.pid);
      break;
    case process::MappingEvent::Kind::ended:
      forget(event.pid);
      changed.erase(event.pid);
      break;
    case process::MappingEvent::Kind::renamed:
      break;
    }
  });
  if (watch_->lost() != handled_losses_) {
    handled_losses_ = watch_->lost();
    changed.insert(described_.begin(), described_.end());
  }
  for (const pid_t pid : changed) describe(pid);
}

bool CallerCode::is_probed(const process::Mapping& mapping) const {
  return std::ranges::any_of(
      probed_, [&](const File& each) { return is_file(mapping, each.identity, each.path); });
}

// The program knows only what is mapped, so a hit from code that is not described is undecided.
void CallerCode::describe(pid_t pid) {
  auto read = process::read_all_mappings(pid);
  if (!read) return forget(pid);
  if (std::ranges::none_of(*read, [&](const process::Mapping& each) { return is_probed(each); }))
    return forget(pid);
  restore_replaced_code(*read);
  // A return address in "[uprobes]" is one that a uretprobe has replaced.
  std::erase_if(*read, [](const process::Mapping& each) {
    return !each.executable || each.path == "[uprobes]";
  });
  if (seen_.size() >= max_seen) {
    seen_.clear();
    searched_.clear();
    files_.clear();
  }
  std::vector<std::pair<FileKey, std::uint64_t>> added;
  std::vector<FileVersion> versions;
  for (const process::Mapping& each : *read) {
    versions.push_back(
        read_file_version(map_files_path(pid, each)).value_or(FileVersion())); // for example [vdso]
    if (std::pair key(FileKey(each.identity, each.path, versions.back()), each.offset.value);
        seen_.insert(key).second)
      added.push_back(std::move(key));
  }
  if (!added.empty()) learn_files(pid);
  if (has_ended(pid)) { // its files may not have been read
    for (const auto& key : added) seen_.erase(key);
    return forget(pid);
  }
  std::vector<CallerMapping> mappings;
  for (std::size_t i = 0; i < read->size(); ++i) {
    const process::Mapping& each = (*read)[i];
    mappings.push_back({.start = each.start,
                        .end = each.end,
                        .offset = each.offset.value,
                        .code = code_of(each, versions[i])});
  }
  const auto made = make_caller_map(mappings);
  if (!made) {
    output_.repeated_warning("caller code",
                             fmt::format("process {} has too much executable memory for --if to "
                                         "compare its callers",
                                         pid));
    return forget(pid);
  }
  if (const auto stored = program_.set_callers(static_cast<std::uint32_t>(pid), *made); !stored) {
    output_.repeated_warning("caller code",
                             fmt::format("process {}: {}", pid, stored.error().message));
    return forget(pid);
  }
  described_.insert(pid);
  has_described_ = true;
}

void CallerCode::forget(pid_t pid) {
  if (described_.erase(pid) > 0) program_.forget_callers(static_cast<std::uint32_t>(pid));
}

// A function without a module is one of the program or of the probed files.
void CallerCode::learn_files(pid_t pid) {
  const std::string program = process::live_path(pid, "exe");
  for (Caller& caller : callers_) {
    if (caller.name.module) {
      learn(pid, caller, *caller.name.module);
      continue;
    }
    learn(pid, caller, program);
    for (const File& each : probed_) learn(pid, caller, each.path);
  }
}

void CallerCode::learn(pid_t pid, Caller& caller, std::string_view module) {
  std::vector<resolve::ProcessFile> found;
  if (module.starts_with("/proc/")) {
    const std::string path(module);
    const auto link = read_link(path);
    const auto identity = process::process_executable(pid);
    if (!link || !identity) return;
    found.push_back({.open_path = path,
                     .display_path = {.file = *link},
                     .identity = *identity,
                     .warnings = {}});
  } else if (auto files = resolve::find_in_processes(module, std::array{pid})) {
    found = std::move(*files);
  }
  for (resolve::ProcessFile& each : found) {
    const BinaryPath& shown = each.display_path;
    const FileVersion version = read_file_version(each.open_path).value_or(FileVersion());
    const auto [searched, is_new] =
        searched_.emplace(FileKey(each.identity, to_string(shown), version), &caller);
    if (!is_new) continue;
    const auto target =
        resolve::Target::open({.path = {.file = each.open_path, .entry = shown.entry},
                               .display_path = shown,
                               .opened = nullptr,
                               .warnings = {}},
                              module, {.debug_paths = where_.debug_paths});
    if (!target && has_ended(pid)) searched_.erase(searched);
    if (!target || target->image() == nullptr) continue;
    const auto known = std::ranges::find_if(files_, [&](const File& file) {
      return file.identity == each.identity && file.path == shown.file && file.version == version;
    });
    File& file = known != files_.end()
                     ? *known
                     : files_.emplace_back(
                           File{.identity = each.identity, .path = shown.file, .version = version});
    add_code(caller, file, *target);
  }
}

void CallerCode::add_code(Caller& caller, File& file, const resolve::Target& target) {
  const elf::Image& image = *target.image();
  const auto add = [&](std::uint64_t offset, std::uint64_t size) {
    const std::uint64_t begin = image.entry_data().value + offset;
    caller.has_no_size |= size == 0;
    if (size == 0) return;
    file.code.push_back({.begin = begin, .end = begin + size, .bits = caller.bits});
    caller.was_found = true;
  };
  if (!caller.name.function) return add(0, image.bytes().size());
  for (const elf::AddressRange& each : function_code(target, *caller.name.function))
    if (const auto offset = image.to_image(each.address)) add(offset->value, each.size);
}

std::vector<CallerRange> CallerCode::code_of(const process::Mapping& mapping,
                                             const FileVersion& version) const {
  std::vector<CallerRange> code;
  for (const File& each : files_)
    if (is_file(mapping, each.identity, each.path) &&
        (version == FileVersion() || each.version == version))
      code.insert(code.end(), each.code.begin(), each.code.end());
  return code;
}

void CallerCode::stop() {
  if (!has_described_) return; // no process was examined
  for (const Caller& each : callers_) {
    if (each.was_found) continue;
    const std::string caller = events::in_single_quotes(each.text);
    if (each.has_no_size)
      output_.warn(fmt::format("--if: {} has no size, and is inside another function", caller));
    else if (each.name.module)
      output_.warn(fmt::format("--if: no probed process has mapped {}", caller));
    else
      output_.warn(fmt::format("--if: no probed program has the function {}, nor have the probed "
                               "files",
                               caller));
  }
}

} // namespace uprobectl::trace
