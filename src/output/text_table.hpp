// SPDX-License-Identifier: Apache-2.0
// Rows of text: columns of records, and static probes in groups.
#pragma once

#include "output/output.hpp"

#include <array>
#include <initializer_list>
#include <map>
#include <span>

namespace uprobectl::output {

// Returns the terminal columns of printable UTF-8 text, counting one for each character.
std::size_t display_width(std::string_view text);

// A row whose columns depend on options.
template <std::size_t max_columns>
class Columns {
public:
  // Borrows `cell` until the row is written.
  void add(std::string_view name, std::string_view cell) {
    names_[count_] = name;
    cells_[count_] = cell;
    ++count_;
  }
  std::span<const std::string_view> names() const { return std::span(names_).first(count_); }
  std::span<const std::string_view> cells() const { return std::span(cells_).first(count_); }

private:
  std::size_t count_ = 0;
  std::array<std::string_view, max_columns> names_ = {};
  std::array<std::string_view, max_columns> cells_ = {};
};

// Writes rows of columns: tab-separated at once, or held back and padded for a terminal.
class TextTable {
public:
  TextTable(OutputBuffer& out, bool aligned) : out_(out), aligned_(aligned) {}
  TextTable(const TextTable&) = delete;
  TextTable& operator=(const TextTable&) = delete;
  ~TextTable() { flush(); }

  // Escapes the cells. Empty cells at the end are omitted.
  void add_row(std::span<const std::string_view> cells);
  void add_row(std::initializer_list<std::string_view> cells) {
    add_row({cells.begin(), cells.size()});
  }
  // Writes rows that were held back.
  void flush();

private:
  OutputBuffer& out_;
  bool aligned_;
  std::vector<std::vector<std::string>> held_;
};

// Writes static probes for a terminal: a line for each probe, followed by its locations.
class StaticProbeGroups {
public:
  explicit StaticProbeGroups(OutputBuffer& out) : out_(out) {}
  StaticProbeGroups(const StaticProbeGroups&) = delete;
  StaticProbeGroups& operator=(const StaticProbeGroups&) = delete;
  ~StaticProbeGroups() { write(); }

  void add(const StaticProbeRecord& record, bool verbose);
  void write(); // all added probes

private:
  struct Point {
    std::string offset;
    std::string semaphore;
    std::string arguments;
    std::string parsed; // empty unless verbose
  };
  struct Group {
    std::string heading; // "shop:open  base.apk!/lib/x.so"
    std::vector<Point> points;
  };

  OutputBuffer& out_;
  std::vector<Group> groups_; // in the order of their first locations
  std::map<std::pair<std::string, std::string>, std::size_t>
      known_; // indexes of groups_ by probe and file
};

} // namespace uprobectl::output
