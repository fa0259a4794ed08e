// Which file a bare name means: a library as the dynamic loader would find it, a program as the
// shell would. Looks at names and inodes only, opens no candidate except to see that it is ELF.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl {

struct Candidate {
  std::string path;
  FileIdentity identity;
};

// Where names are looked up; a value so that tests can point it at folders of their own.
struct SearchPlaces {
  std::string loader_cache;              // a file; may be missing
  std::vector<std::string> library_dirs; // in the loader's order
  std::vector<std::string> program_dirs; // PATH
};
SearchPlaces search_places_of_this_machine();

// Every file a bare name (no slash) can mean, different inodes only: with ".so" in it a library of
// that name; else a program; else a library lib<NAME>.so*. Empty if there is none.
std::vector<Candidate> locate(std::string_view name, const SearchPlaces& places);

// What a shell would run instead of the located program: a file that is not ELF, mostly a script,
// in an earlier folder.
std::optional<std::string> script_before(const Candidate& program, std::string_view name,
                                         const SearchPlaces& places);

// The installed libraries (for a name with ".so" in it) or programs with the nearest names.
std::vector<std::string> nearest_installed(std::string_view name, const SearchPlaces& places);

// The names of the directory's files that are nearest to that of a missing path, as paths written
// the same way.
std::vector<std::string> nearest_files(const std::string& missing_path);

} // namespace uprobectl
