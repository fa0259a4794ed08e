// SPDX-License-Identifier: Apache-2.0
// A list of what can be probed, which is searched while the user types (explore).
#pragma once

#include "live/layout.hpp"

#include <set>

namespace uprobectl::live {

// A function or a static probe.
struct Candidate {
  std::string name;     // as shown, and searched
  std::string typed;    // as attach takes it
  std::string note;     // the arguments of a static probe
  std::size_t file = 0; // index of PickerList::files
  bool is_static = false;
  bool has_end = true; // where it returns is known: it has a size
};

struct ListedFile {
  std::string path;      // as shown, and searched
  std::string typed;     // as attach takes it
  std::string note = {}; // what is special about it
};

struct PickerList {
  std::string title;
  std::vector<ListedFile> files;
  // The candidates are sorted by file, and the static probes of a file come first.
  std::vector<Candidate> candidates;
  std::size_t omitted = 0; // candidates that are not in the list
};

// The candidates that the user has chosen, by their indexes. All are of one kind.
using Choice = std::vector<std::size_t>;

class Picker {
public:
  enum class Step : std::uint8_t { list, confirm, chosen, left };

  explicit Picker(PickerList list);

  // Returns what comes then.
  Step press(const KeyPress& press);
  Step step() const { return step_; }
  // Returns the choice in the order of the list; valid in the steps `confirm` and `chosen`.
  const Choice& choice() const { return choice_; }
  const PickerList& list() const { return list_; }
  // `command`: the line that the choice means, in the step `confirm`.
  Screen draw(const Size& size, std::string_view command);

private:
  void search();
  void mark();
  void choose();
  Line row_of(std::size_t match, std::size_t columns) const;

  PickerList list_;
  std::vector<std::string> lower_; // names of the candidates for the search
  std::string query_;
  std::vector<std::size_t> matches_; // indexes of candidates
  std::size_t cursor_ = 0;           // index of matches_
  std::size_t top_ = 0;
  std::size_t page_rows_ = 1;
  std::set<std::size_t> marked_;
  Choice choice_;
  Step step_ = Step::list;
};

} // namespace uprobectl::live
