// Static probes for a terminal: a line for each probe, and below it its places.
#pragma once

#include "uprobectl/output.hpp"

#include <map>

namespace uprobectl {

class StaticProbeGroups {
public:
  explicit StaticProbeGroups(OutputBuffer& out) : out_(out) {}
  StaticProbeGroups(const StaticProbeGroups&) = delete;
  StaticProbeGroups& operator=(const StaticProbeGroups&) = delete;
  ~StaticProbeGroups() { write(); }

  void add(const StaticProbeRecord& record, bool verbose);
  void write(); // what was added

private:
  struct Place {
    std::string offset;
    std::string semaphore;
    std::string arguments;
    std::string parsed; // empty unless verbose
  };
  struct Group {
    std::string heading; // "shop:open  base.apk!/lib/x.so"
    std::vector<Place> places;
  };

  OutputBuffer& out_;
  std::vector<Group> groups_; // in the order of their first places
  std::map<std::pair<std::string, std::string>, std::size_t> known_; // by probe and file
};

} // namespace uprobectl
