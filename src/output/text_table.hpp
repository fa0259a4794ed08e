// Rows of columns: tab-separated as they come, or held back and padded for a terminal.
#pragma once

#include "output/records.hpp"

#include <initializer_list>
#include <map>
#include <span>

namespace uprobectl {

class TextTable {
public:
  TextTable(OutputBuffer& out, bool aligned) : out_(out), aligned_(aligned) {}
  TextTable(const TextTable&) = delete;
  TextTable& operator=(const TextTable&) = delete;
  ~TextTable() { flush(); }

  // Cells are made printable here; empty ones at the end are left out.
  void row(std::span<const std::string_view> cells);
  void row(std::initializer_list<std::string_view> cells) { row({cells.begin(), cells.size()}); }
  // Writes what is held back.
  void flush();

private:
  OutputBuffer& out_;
  bool aligned_;
  std::vector<std::vector<std::string>> held_;
};

// The number of terminal columns that printable UTF-8 text takes, one a character.
std::size_t display_width(std::string_view text);

// Static probes for a terminal: a line for each probe, and below it its places.

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
