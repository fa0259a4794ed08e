// What list-symbols prints: the symbols of one file or of several, the libraries of an archive.
#pragma once

#include "console.hpp"
#include "list_filter.hpp"

namespace uprobectl::cli {

struct ListRequest {
  std::string target;
  std::vector<std::string> patterns;
  TargetOptions options;
  ListFilter filter = {};
};

// Finds the TARGET and lists it. A PATTERN that matches in none of its files is a failure.
void list(const ListRequest& request, Console& console);

} // namespace uprobectl::cli
