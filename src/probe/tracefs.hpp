// Uprobe events of tracefs, made for one attachment. Source of the text format: Linux
// Documentation/trace/uprobetracer.rst.
#pragma once

#include "uprobectl/util.hpp"

#include <functional>
#include <sys/types.h>

namespace uprobectl {

// The kernel does not take events away by itself: this does, when it is destroyed, once nothing
// uses them any more. Those of a killed process stay until the next one opens this.
class TracefsEvents {
public:
  // Takes away what processes that have ended left behind. unsupported, not_permitted.
  static Result<TracefsEvents> open();

  TracefsEvents(TracefsEvents&&) noexcept = default;
  TracefsEvents& operator=(TracefsEvents&&) noexcept = default;
  ~TracefsEvents() { remove(); }

  struct Place {
    int file = -1; // given to the kernel as a descriptor: it looks it up while this runs, so
                   // neither a rename nor an odd name matters
    FileOffset offset;
    std::optional<FileOffset> semaphore = {};
  };
  // Makes one event of all the places, which are different ones, and tells its id for
  // perf_event_open(2). An errno; EOPNOTSUPP where the kernel wants an event for each place, and
  // ECANCELED after `interrupted`, which is asked before each place.
  std::expected<std::uint64_t, int> add(std::span<const Place> places, bool on_return,
                                        const std::function<bool()>& interrupted);
  // The last first. What is still used after some tries is left for the next run.
  void remove();

private:
  TracefsEvents(std::string folder, UniqueFd commands);
  std::expected<void, int> command(const std::string& text) const;
  void remove_leftovers() const;
  std::size_t places_of(const std::string& name) const;

  std::string folder_;
  std::string group_;
  UniqueFd commands_; // uprobe_events
  std::vector<std::string> names_;
  std::size_t next_ = 0; // number for the next name
};

} // namespace uprobectl
