#include "unwind/live_process.hpp"

#include <algorithm>
#include <set>

namespace uprobectl::stacks {

namespace {

constexpr std::uint64_t shortest_wait = 1'000'000;     // ns
constexpr std::uint64_t longest_wait = 10'000'000'000; // ns
// Records between two readings. Programs that compile at run time map more; what is on top counts.
constexpr std::size_t most_told = 4096;
constexpr std::uint64_t between_checks = 1'000'000'000; // ns

// What stacks ask for: code, the mappings of the same files, where an image may begin, and the
// highest of all, which tells how many bits an address has. An app has thousands of others.
void keep_needed(std::vector<Mapping>& mappings) {
  std::set<std::pair<FileIdentity, std::string_view>> with_code;
  for (const Mapping& mapping : mappings)
    if (mapping.executable && mapping.identity.inode != 0)
      with_code.emplace(mapping.identity, mapping.path);
  std::vector<Mapping> kept;
  for (Mapping& mapping : mappings)
    if (mapping.executable || with_code.contains({mapping.identity, mapping.path}) ||
        &mapping == &mappings.back())
      kept.push_back(mapping);
  mappings = std::move(kept);
}

bool is_same(const Mapping& a, const Mapping& b) {
  return a.start == b.start && a.end == b.end && a.offset == b.offset &&
         a.executable == b.executable && a.identity == b.identity && a.path == b.path &&
         a.deleted == b.deleted;
}

} // namespace

// Stacks are unwound later than they were taken: meanwhile /proc may have become that of the
// program that the process runs now, which begins at the same start time. It may do so while it is
// read, too.
bool LiveProcess::read(std::uint64_t now) {
  if (runs_another()) return false;
  const auto started = start_time_of(pid_);
  if (!started || (start_time_ != 0 && *started != start_time_)) return false;
  auto mappings = all_mappings_of(pid_);
  if (!mappings || mappings->empty() || runs_another()) return false;
  std::ranges::sort(*mappings, {}, &Mapping::start);
  keep_needed(*mappings);
  start_time_ = *started;
  read_at_ = now;
  next_check_ = now + between_checks;
  mappings_ = std::move(*mappings);
  told_.clear();
  space_.reset();
  for (const Mapping& mapping : mappings_) open_what_will_be_gone(mapping);
  return true;
}

bool LiveProcess::read_again(std::uint64_t now) {
  if (now < next_reading_) return false;
  const std::vector<Mapping> before = mappings_;
  const bool found = read(now) && !std::ranges::equal(before, mappings_, is_same);
  wait_ = found ? shortest_wait : std::clamp(2 * wait_, shortest_wait, longest_wait);
  next_reading_ = now + wait_;
  return found;
}

bool LiveProcess::is_check_due(std::uint64_t time) {
  if (time < next_check_) return false;
  next_check_ = time + between_checks;
  return true;
}

void LiveProcess::map(const Mapping& mapping, std::uint64_t time) {
  if (time <= read_at_ || time < since_) return;
  if (told_.size() == most_told) told_.clear();
  told_.push_back({time, mapping});
  put(mapping);
  space_.reset();
  open_what_will_be_gone(mapping);
}

bool LiveProcess::was_told_of(std::uint64_t pc) const {
  return std::ranges::any_of(told_, [&](const Told& told) {
    return pc >= told.mapping.start && pc <= told.mapping.end; // the end: a call is the last there
  });
}

void LiveProcess::inherit(const LiveProcess& other) {
  mappings_ = other.mappings_;
  space_.reset();
}

void LiveProcess::take_later(const LiveProcess& other, std::uint64_t time) {
  for (const Told& told : other.told_)
    if (told.time > time) map(told.mapping, told.time);
}

// Over those that are there, of which what sticks out stays.
void LiveProcess::put(const Mapping& mapping) {
  std::vector<Mapping> pieces;
  const auto first = std::ranges::upper_bound(mappings_, mapping.start, {}, &Mapping::end);
  auto last = first;
  for (; last != mappings_.end() && last->start < mapping.end; ++last) {
    if (last->start < mapping.start) {
      pieces.push_back(*last);
      pieces.back().end = mapping.start;
    }
    if (last->end > mapping.end) {
      pieces.push_back(*last);
      pieces.back().start = mapping.end;
      pieces.back().offset.value += mapping.end - last->start;
    }
  }
  pieces.push_back(mapping);
  std::ranges::sort(pieces, {}, &Mapping::start);
  const auto at = mappings_.erase(first, last);
  mappings_.insert(at, pieces.begin(), pieces.end());
}

void LiveProcess::open_what_will_be_gone(const Mapping& mapping) {
  if (mapping.executable) cache_.expect(mapping, files_);
}

AddressSpace& LiveProcess::space() {
  if (!space_) space_.emplace(mappings_, cache_, files_);
  return *space_;
}

} // namespace uprobectl::stacks
