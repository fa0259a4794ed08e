// SPDX-License-Identifier: Apache-2.0
#include "unwind/live_process.hpp"

#include "process/mapping_kind.hpp"
#include "process/proc.hpp"
#include "symbolize/open_files.hpp"
#include "uprobectl/elf.hpp"
#include "uprobectl/path.hpp"
#include "util/clock.hpp"
#include "util/mapped_file.hpp"
#include "util/rooted_path.hpp"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <set>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace uprobectl::unwind {

namespace {

// Bytes; current kernels have two to four pages.
constexpr std::uint64_t max_vdso = 1 << 20;

// Files on hugetlbfs contain data, or code without the rest of its file (libhugetlbfs). Reading one
// may allocate one of few huge pages.
bool is_on_huge_pages(const std::string& path) {
  const auto fd = open_path(path);
  struct statfs status{};
  return fd && ::fstatfs(fd->get(), &status) == 0 && status.f_type == HUGETLBFS_MAGIC;
}

MappedObject make_object(MappedFile file) {
  auto owner = std::make_shared<const MappedFile>(std::move(file));
  return {owner->bytes(), owner, owner};
}

MappedObject make_object(std::vector<std::byte> bytes) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return {*owner, owner};
}

std::optional<MappedObject> read_memory(pid_t pid, std::uint64_t start, std::uint64_t size) {
  const UniqueFd memory{::open(process::live_path(pid, "mem").c_str(), O_RDONLY | O_CLOEXEC)};
  std::vector<std::byte> bytes(size);
  if (!memory || ::pread(memory.get(), bytes.data(), size, static_cast<off_t>(start)) !=
                     static_cast<ssize_t>(size))
    return std::nullopt;
  return make_object(std::move(bytes));
}

// All 64-bit processes, including this one, have the same vDSO.
std::optional<MappedObject> read_own_vdso(std::uint64_t size) {
  const auto own = process::read_all_mappings(::getpid());
  if (!own) return std::nullopt;
  const auto vdso = std::ranges::find(*own, "[vdso]", &process::Mapping::path);
  if (vdso == own->end() || vdso->end - vdso->start != size) return std::nullopt;
  return read_memory(::getpid(), vdso->start, size);
}

Result<MappedObject> open_vdso(pid_t pid, const process::Mapping& mapping) {
  const std::uint64_t size = mapping.end - mapping.start;
  if (size > max_vdso)
    return fail(ErrorKind::corrupt, "the vDSO is larger than that of any kernel");
  auto found = read_memory(pid, mapping.start, size);
  if (!found) found = read_own_vdso(size);
  if (!found) return fail(ErrorKind::not_found, "its process has ended");
  // One vDSO is cached for all processes; that of 32-bit processes differs.
  const auto machine = elf::read_machine(found->bytes);
  if (!machine || !machine->is_64bit)
    return fail(ErrorKind::unsupported, "the vDSO of a 32-bit process is not supported");
  return std::move(*found);
}

constexpr std::uint64_t never = ~std::uint64_t{0};
constexpr std::uint64_t min_wait = 1'000'000;      // ns
constexpr std::uint64_t max_wait = 10'000'000'000; // ns
// Maximum of records kept between two readings; programs that compile at run time map more.
constexpr std::size_t max_recorded = 4096;
constexpr std::uint64_t check_interval = 1'000'000'000; // ns
// How long mappings are kept that a process does not have any more, and how many: stacks arrive
// about 100 ms late.
constexpr std::uint64_t gone_time = 1'000'000'000; // ns
constexpr std::size_t max_gone = 256;

// Keeps the mappings that unwinding needs: code; other mappings of the same files, where an image
// may begin; and the highest, from which code_mask() is derived. An app has thousands of others.
void drop_unneeded(std::vector<process::Mapping>& mappings) {
  std::set<std::pair<FileIdentity, std::string_view>> with_code;
  for (const process::Mapping& mapping : mappings)
    if (mapping.executable && mapping.identity.inode != 0)
      with_code.emplace(mapping.identity, mapping.path);
  std::vector<process::Mapping> kept;
  for (process::Mapping& mapping : mappings)
    if (mapping.executable || with_code.contains({mapping.identity, mapping.path}) ||
        &mapping == &mappings.back())
      kept.push_back(mapping);
  mappings = std::move(kept);
}

bool is_same(const process::Mapping& a, const process::Mapping& b) {
  return a.start == b.start && a.end == b.end && a.offset == b.offset &&
         a.executable == b.executable && a.identity == b.identity && a.path == b.path &&
         a.deleted == b.deleted;
}

} // namespace

LiveFiles::LiveFiles(pid_t pid) : pid_(pid), shares_mounts_(process::shares_mount_namespace(pid)) {}

// Whether an open file is the mapped one, and has not only got its inode after that was deleted. A
// link may lead to a file of another name: the mapped one, renamed, or one that has come since.
// Times of files are those of the kernel's last tick, so that a young one may be either.
bool LiveFiles::is_mapped_file(int fd, const process::Mapping& mapping, bool is_link) const {
  constexpr std::uint64_t young = 10'000'000'000; // ns
  const auto version = read_file_version(fd);
  if (!version || !may_be_mapped(*version, mapping)) return false;
  if (!is_link) return true;
  const auto target = read_descriptor_path(fd);
  if (!target) return false;
  std::string_view path = *target;
  const bool is_deleted = process::take_deleted_mark(path);
  if (file_name_of(path) == file_name_of(mapping.path)) return true;
  return !is_deleted && version->created_ns != 0 &&
         !was_created_after(*version, clock_ns(CLOCK_MONOTONIC) - young);
}

bool LiveFiles::may_be_mapped(const FileVersion& version, const process::Mapping& mapping) const {
  if (!mapped_before_) return true;
  if (was_created_after(version, *mapped_before_)) return false;
  return !was_modified_after(version, *mapped_before_) ||
         match_file_at(map_files_path(pid_, mapping), mapping) != process::FileMatch::none;
}

Result<MappedObject> LiveFiles::open(const process::Mapping& mapping) {
  if (mapping.path == "[vdso]") return open_vdso(pid_, mapping);
  // The file at a path may have been replaced, so each is compared. The mapping itself is preferred
  // over a file that is only similar.
  auto ways = path_candidates(pid_, mapping, shares_mounts_);
  // The path in our mount namespace comes first: it can be opened after the end of the process,
  // with the files beside it.
  const auto here = std::ranges::find(ways, mapping.path, &process::PathCandidate::path);
  std::rotate(ways.begin(), here, here + 1);
  const auto vague =
      std::ranges::find(ways, process::FileMatch::inode, &process::PathCandidate::min_match);
  const std::string link = map_files_path(pid_, mapping);
  ways.insert(vague, {link, process::FileMatch::inode});
  for (const process::PathCandidate& way : ways) {
    if (match_file_at(way.path, mapping) < way.min_match) continue;
    if (is_on_huge_pages(way.path))
      return fail(ErrorKind::not_elf, "files on hugetlbfs are not read");
    auto file = MappedFile::open(way.path);
    if (!file || match_file(file->identity(), mapping) < way.min_match) continue;
    if (!is_mapped_file(file->fd(), mapping, way.path == link)) continue;
    tolerate_shrinking(*file);
    return make_object(std::move(*file));
  }
  if (symbolize::are_descriptors_used_up()) return fail(system_error(EMFILE, mapping.path));
  if (mapping.deleted) return fail(ErrorKind::not_found, "the file has been deleted");
  struct stat status{};
  if (::stat(mapping.path.c_str(), &status) == 0)
    return fail(ErrorKind::not_found, "the file at this path has been replaced");
  return fail(system_error(errno, mapping.path));
}

// Stacks are unwound after they were captured. Meanwhile, or during this call, the process may have
// executed another program, which keeps the start time.
bool LiveProcess::read(std::uint64_t now) {
  if (runs_new_program()) return false;
  const auto started = process::process_start_time(pid_);
  if (!started || (start_time_ != 0 && *started != start_time_)) return false;
  auto mappings = process::read_all_mappings(pid_);
  if (!mappings || mappings->empty() || runs_new_program()) return false;
  std::ranges::sort(*mappings, {}, &process::Mapping::start);
  restore_replaced_code(*mappings);
  drop_unneeded(*mappings);
  start_time_ = *started;
  read_at_ = now;
  next_check_ = now + check_interval;
  const auto later = find_later_ ? find_later_(pid_) : std::vector<process::Mapping>();
  std::vector<process::Mapping> before = std::exchange(mappings_, {});
  keep_past(find_past_mappings(before, std::move(*mappings), later), now);
  const bool has_changed = !std::ranges::equal(before, mappings_, is_same);
  const bool has_more = std::ranges::any_of(mappings_, [&](const process::Mapping& each) {
    const auto known = std::ranges::lower_bound(before, each.start, {}, &process::Mapping::start);
    return known == before.end() || !is_same(each, *known);
  });
  if (has_more) files_.mapped_before(clock_ns(CLOCK_MONOTONIC));
  recorded_.clear();
  space_.reset();
  if (has_changed) mappings_changed();
  for (const process::Mapping& mapping : mappings_) prefetch_file(mapping);
  jit_.read_process(mappings_);
  return true;
}

// Without records, stacks have no time: what replaced another mapping is unclear, and what is gone
// stays, until forget_past().
void LiveProcess::keep_past(PastMappings past, std::uint64_t now) {
  mappings_ = std::move(past.mappings);
  for (const RecordedMapping& each : unclear_)
    cut_range(mappings_, each.mapping.start, each.mapping.end);
  std::vector<RecordedMapping> gone;
  for (const process::Mapping& each : past.gone) {
    const auto known = std::ranges::find_if(
        gone_, [&](const RecordedMapping& other) { return is_same(each, other.mapping); });
    const std::uint64_t since = known == gone_.end() ? now : known->time;
    if (gone.size() < max_gone && (!find_later_ || now - since < gone_time))
      gone.push_back({since, each});
    else
      cut_range(mappings_, each.start, each.end);
  }
  gone_ = std::move(gone);
  for (process::Mapping& each : past.unclear)
    unclear_.push_back({find_later_ ? now : never, std::move(each)});
}

void LiveProcess::advance(std::uint64_t time) {
  if (unclear_.empty()) return;
  std::vector<RecordedMapping> later;
  bool is_changed = false;
  for (RecordedMapping& each : unclear_)
    if (each.time > time) {
      later.push_back(std::move(each));
    } else {
      replace(each.mapping, each.time);
      is_changed = true;
    }
  unclear_ = std::move(later);
  if (is_changed) mappings_changed();
}

void LiveProcess::replace(const process::Mapping& mapping, std::uint64_t time) {
  // Records repeat a mapping if its protection changes, as those of compilers at run time.
  const bool is_same_code = std::ranges::any_of(mappings_, [&](const process::Mapping& known) {
    return known.start <= mapping.start && known.end >= mapping.end && known.executable &&
           known.identity == mapping.identity && known.path == mapping.path &&
           (known.identity.inode == 0 ||
            known.start - known.offset.value == mapping.start - mapping.offset.value);
  });
  insert_mapping(mappings_, mapping);
  if (is_same_code || time == never) return; // never: stacks have no time
  std::erase_if(replaced_, [&](const Replaced& each) {
    return each.start >= mapping.start && each.end <= mapping.end;
  });
  if (replaced_.size() == max_recorded) {
    replaced_before_ns_ = replaced_.front().time;
    replaced_.erase(replaced_.begin());
  }
  replaced_.push_back({mapping.start, mapping.end, time});
}

bool LiveProcess::is_newer(std::uint64_t pc, std::uint64_t time) const {
  if (replaced_.empty() || time >= replaced_.back().time) return false; // most stacks
  const auto last = std::find_if(replaced_.rbegin(), replaced_.rend(), [&](const Replaced& each) {
    return pc >= each.start && pc < each.end;
  });
  return (last == replaced_.rend() ? replaced_before_ns_ : last->time) > time;
}

void LiveProcess::forget_past() {
  advance(never);
  if (gone_.empty()) return;
  for (const RecordedMapping& each : gone_)
    cut_range(mappings_, each.mapping.start, each.mapping.end);
  gone_.clear();
  mappings_changed();
}

void LiveProcess::mappings_changed() {
  space_.reset();
  revision_ = next_revision();
}

std::uint64_t LiveProcess::next_revision() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

bool LiveProcess::read_again(std::uint64_t now) {
  if (now < next_reading_) return false;
  const std::vector<process::Mapping> before = mappings_;
  const bool found = read(now) && !std::ranges::equal(before, mappings_, is_same);
  wait_ = found ? min_wait : std::clamp(2 * wait_, min_wait, max_wait);
  next_reading_ = now + wait_;
  return found;
}

bool LiveProcess::is_check_due(std::uint64_t time) {
  if (time < next_check_) return false;
  next_check_ = time + check_interval;
  return true;
}

void LiveProcess::map(const process::Mapping& mapping, std::uint64_t time) {
  // If mappings are recorded, a record that comes now is newer than the last stack.
  if ((!find_later_ && time <= read_at_) || time < since_) return;
  if (recorded_.size() == max_recorded) recorded_.clear();
  recorded_.push_back({time, mapping});
  advance(time);
  replace(mapping, time);
  files_.mapped_before(std::max(files_.mapped_before().value_or(0), time));
  if (is_anonymous(mapping)) restore_replaced_code(mappings_);
  mappings_changed();
  prefetch_file(mapping);
}

bool LiveProcess::is_mapped_by_record(std::uint64_t pc) const {
  return std::ranges::any_of(recorded_, [&](const RecordedMapping& each) {
    return pc >= each.mapping.start &&
           pc <= each.mapping.end; // inclusive: a call may be the last instruction
  });
}

void LiveProcess::inherit(const LiveProcess& other) {
  mappings_ = other.mappings_;
  files_.mapped_before(other.files_.mapped_before());
  mappings_changed();
}

void LiveProcess::copy_mappings_since(const LiveProcess& other, std::uint64_t time) {
  for (const RecordedMapping& each : other.recorded_)
    if (each.time > time) map(each.mapping, each.time);
}

void LiveProcess::prefetch_file(const process::Mapping& mapping) {
  if (mapping.executable) cache_.preopen(mapping, files_);
}

// The cache may have opened a later file of the same inode number and path for another process.
// Changes the identity of such mappings, so that the cache does not know them.
void LiveProcess::find_replaced_files() {
  bool has_changed = false;
  for (process::Mapping& each : mappings_) {
    const MappedObject* const object =
        each.executable && each.identity.inode != 0 ? cache_.opened(each) : nullptr;
    if (object == nullptr || object->file == nullptr) continue;
    const auto version = read_file_version(object->file->fd());
    if (!version || files_.may_be_mapped(*version, each)) continue;
    each.identity.inode = ~each.identity.inode;
    has_changed = true;
  }
  if (has_changed) revision_ = next_revision();
}

AddressSpace& LiveProcess::space() {
  if (space_) return *space_;
  find_replaced_files();
  space_.emplace(mappings_, cache_, files_);
  return *space_;
}

} // namespace uprobectl::unwind
