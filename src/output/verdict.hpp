// SPDX-License-Identifier: Apache-2.0
// What a comparison of two builds has found: the findings, by library.
#pragma once

#include "uprobectl/resolve.hpp"

#include <array>
#include <map>
#include <tuple>

namespace uprobectl::output {

enum class Change : std::uint8_t {
  gone,
  library_gone, // the archive no longer has the library
  library_new,
  not_probeable, // the library cannot be probed any more
  page_size,     // the library can no longer be mapped with some page size
  added,
  function_moved,
  archive_moved,
  semaphore_moved, // of a static probe; the value "none" stands for no semaphore
  arguments,       // of a static probe; of an attach plan: the location of a parameter or variable
  member_moved,    // a member that a parameter or the result leads to
  type_changed,    // of a parameter, the result or such a member
  exits_changed,   // other exits of the function
  code_changed,    // other instructions at the same offset
  not_checked,     // the file or the symbols of the recorded matches are missing
  build_id,
};
inline constexpr std::array all_changes = {
    Change::gone,           Change::library_gone,  Change::added,           Change::library_new,
    Change::function_moved, Change::archive_moved, Change::semaphore_moved, Change::arguments,
    Change::member_moved,   Change::type_changed,  Change::exits_changed,   Change::code_changed,
    Change::not_probeable,  Change::page_size,     Change::not_checked,     Change::build_id};
// Whether it is about a library as a whole.
bool is_of_library(Change change);
std::string_view to_string(Change change); // "new" for `added`
// Findings of a lower rank are shown first, if not all may be shown.
unsigned rank_of(Change change);

// A difference between a recorded match or static probe and the present file (`drift`). Values are
// numbers ("0x…"), build ids or arguments, depending on the change.
struct Finding {
  Change change = Change::gone;
  std::string target;
  // nullopt for build_id, library_gone and not_checked, which apply to the whole library
  std::optional<std::string> request = {};
  std::optional<std::string> symbol = {};
  std::optional<std::string> version = {};  // of the symbol
  std::optional<std::string> recorded = {}; // nullopt for `added`
  std::optional<std::string> found = {};    // nullopt for `gone`
  // The absolute path, and the entry as in TARGET, of the match that was found, or else of the
  // recorded one.
  std::optional<std::string> file = {};
  std::optional<std::string> entry = {};
  std::optional<std::string> abi = {}; // of the library, as Android names it: "arm64-v8a"
  // "shop::Item.size", a parameter, or "return" (member_moved, type_changed).
  std::optional<std::string> member = {};
  std::optional<std::string> reason = {};  // why the library is gone or was not checked
  std::optional<std::size_t> matches = {}; // number of recorded matches it is about, if several
  // TARGET in text, if it is not `target`: with the entry instead of a pattern.
  std::optional<std::string> image = {};
  std::uint64_t symbol_offset = 0;       // of `symbol`, for its name in text
  bool is_old_version = false;           // the name in text needs the version
  std::optional<std::size_t> match = {}; // index of the recorded match
  std::size_t record_line = 0;           // of the match in its file, from 1; 0: none

  const std::string& library() const { return image ? *image : target; }
  // Whether it is about a member of a structure, which several functions may have.
  bool is_of_structure() const { return member && member->contains('.'); }
};
// Returns "ns::f(int)+0x10", the request without a symbol, or the reason.
std::string name_of(const Finding& finding);
// Recorded matches by what became of them.
struct VerdictCounts {
  std::size_t unchanged = 0;
  std::size_t moved = 0;
  std::size_t gone = 0;
  std::size_t changed = 0;     // in another way
  std::size_t not_checked = 0; // not part of checked()
  std::size_t added = 0;       // matches that were not recorded

  std::size_t checked() const { return unchanged + moved + gone + changed; }
  std::size_t recorded() const { return checked() + not_checked; }
};

// A library of a verdict, or a program.
struct LibraryVerdict {
  std::string image; // as TARGET
  std::optional<std::string> file = {};
  std::optional<std::string> entry = {};
  std::optional<std::string> abi = {};
  std::optional<std::string> reason = {}; // as in Finding
  VerdictCounts counts = {};
  std::vector<std::string> unchanged = {}; // names
  std::vector<std::size_t> findings = {};  // indexes of Verdict::findings
};

// The findings of a comparison, and what was compared (`verify_summary`).
class Verdict {
public:
  // Adds a finding to those of its library. Counts its match if it is the first one about it.
  void add(Finding finding);
  // Adds a recorded match to the finding that its library is gone or not checked.
  void add_to_library(Finding finding);
  // Adds a match that is as it was recorded. A Finding describes it.
  void add_unchanged(const Finding& match);

  const std::vector<Finding>& findings() const { return findings_; }
  // Returns the libraries in the order of their first matches.
  const std::vector<LibraryVerdict>& libraries() const { return libraries_; }
  // The sums of all libraries.
  VerdictCounts counts() const;

private:
  LibraryVerdict& library_of(const Finding& finding);
  // Adds a finding about the whole library, or counts its match in the same one.
  void add_library_finding(LibraryVerdict& library, Finding finding);

  std::vector<Finding> findings_;
  std::vector<LibraryVerdict> libraries_;
  std::map<std::string, std::size_t, std::less<>> known_; // indexes of libraries_, by image
  // Indexes of findings_ about members of structures, by library and text.
  std::map<std::tuple<std::string, Change, std::string, std::string>, std::size_t> members_;
  std::optional<std::size_t> last_match_; // of the last finding
};

} // namespace uprobectl::output
