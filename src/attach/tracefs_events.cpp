#include "attach/tracefs_events.hpp"

#include "attach/placement.hpp"
#include "bpf/tracefs.hpp"

#include <cerrno>
#include <charconv>
#include <chrono>
#include <fcntl.h>
#include <fstream>
#include <thread>
#include <unistd.h>

namespace uprobectl {

namespace {

std::string hex(std::uint64_t value) {
  char digits[16];
  const auto [end, error] = std::to_chars(digits, digits + sizeof(digits), value, 16);
  return "0x" + std::string(digits, error == std::errc() ? end : digits);
}

} // namespace

TracefsEvents::TracefsEvents(std::string folder, UniqueFd commands)
    : folder_(std::move(folder)), group_(EventOwner::self().group()),
      commands_(std::move(commands)) {}

Result<TracefsEvents> TracefsEvents::open() {
  const auto folder = find_tracefs();
  if (!folder)
    return fail(Error{ErrorKind::unsupported, "no tracefs with uprobe_events is mounted"}.hint(
        "mount -t tracefs tracefs /sys/kernel/tracing"));
  const std::string path = *folder + "/uprobe_events";
  // Appending: opened with O_TRUNC it takes away the events of everybody.
  UniqueFd commands{::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC)};
  if (!commands)
    return fail(system_error(errno, path).hint("needs root, or the right to write it"));
  TracefsEvents events(*folder, std::move(commands));
  events.remove_leftovers();
  return events;
}

// A command is one write; the kernel's answer is what write(2) returns.
std::expected<void, int> TracefsEvents::command(const std::string& text) const {
  const std::string line = text + "\n";
  for (;;) {
    if (::write(commands_.get(), line.data(), line.size()) >= 0) return {};
    if (errno != EINTR) return std::unexpected(errno);
  }
}

void TracefsEvents::remove_leftovers() const {
  std::vector<std::string> left;
  std::ifstream list(folder_ + "/uprobe_events");
  for (std::string line; std::getline(list, line);) { // "p:GROUP/NAME PATH:0xOFFSET"
    const auto colon = line.find(':');
    const auto slash = line.find('/');
    const auto space = line.find(' ');
    if (colon == std::string::npos || slash == std::string::npos || space == std::string::npos ||
        colon > slash || slash > space)
      continue;
    const auto owner =
        EventOwner::of_group(std::string_view(line).substr(colon + 1, slash - colon - 1));
    if (owner && owner->has_ended()) left.push_back(line.substr(colon + 1, space - colon - 1));
  }
  for (const std::string& event : left) (void)command("-:" + event); // another run may be faster
}

std::size_t TracefsEvents::places_of(const std::string& name) const {
  std::size_t count = 0;
  std::ifstream list(folder_ + "/uprobe_events");
  for (std::string line; std::getline(list, line);)
    if (line.find(":" + name + " ") != std::string::npos) ++count;
  return count;
}

std::expected<std::uint64_t, int> TracefsEvents::add(std::span<const Place> places, bool on_return,
                                                     const std::function<bool()>& interrupted) {
  const std::string name =
      group_ + "/" + (on_return ? "return_" : "entry_") + std::to_string(next_++);
  for (const Place& place : places) {
    if (interrupted()) return std::unexpected(ECANCELED);
    std::string text = (on_return ? "r:" : "p:") + name + " " + descriptor_path(place.file) + ":" +
                       hex(place.offset.value);
    if (place.semaphore) text += "(" + hex(place.semaphore->value) + ")";
    const auto made = command(text);
    if (!made) return std::unexpected(made.error());
    if (names_.empty() || names_.back() != name) names_.push_back(name);
  }
  // Linux commit 41af3cf587f2 ("tracing/uprobe: Add multi-probe per uprobe event support") in v5.4:
  // before it an event of the same name took the place of the first.
  if (places.size() > 1 && places_of(name) != places.size()) return std::unexpected(EOPNOTSUPP);
  std::ifstream id(folder_ + "/events/" + name + "/id");
  std::uint64_t number = 0;
  if (!(id >> number)) return std::unexpected(EIO);
  return number;
}

void TracefsEvents::remove() {
  using namespace std::chrono_literals;
  // A perf event that has just been closed may still be on its way out.
  constexpr int most_tries = 100;
  for (; !names_.empty(); names_.pop_back())
    for (int tries = 0; tries < most_tries; ++tries) {
      const auto gone = command("-:" + names_.back());
      if (gone || gone.error() != EBUSY) break;
      std::this_thread::sleep_for(20ms);
    }
}

} // namespace uprobectl
