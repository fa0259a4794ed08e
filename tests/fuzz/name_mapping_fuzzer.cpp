// SPDX-License-Identifier: Apache-2.0
// A mapping file, and the names of its classes and methods in both directions.
#include "art/name_mapping.hpp"

#include <algorithm>
#include <cstdlib>

using namespace uprobectl;

namespace {

// The names on both sides of the arrows.
std::vector<std::string_view> words_of(std::string_view text) {
  constexpr std::size_t max_words = 32;
  std::vector<std::string_view> words;
  while (!text.empty() && words.size() < max_words) {
    const auto end = std::min(text.find_first_of(" :().,\n"), text.size());
    if (end != 0) words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

} // namespace

int fuzz_name_mapping(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto mapping = art::NameMapping::parse(text, nullptr);
  if (!mapping) return 0;
  std::vector<std::string> classes = {"a.b", "com.foo.Bar"};
  for (std::string_view rest = text; !rest.empty() && classes.size() < 16;) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const auto arrow = line.find(" -> ");
    if (arrow != std::string_view::npos) classes.emplace_back(line.substr(0, arrow));
  }
  for (const std::string& name : classes) {
    const auto in_file = (*mapping)->class_in_file(name);
    if (in_file && in_file->empty()) std::abort();
    for (const std::string_view method : words_of(text)) {
      for (const auto& renamed : (*mapping)->renamed(name, method))
        if (renamed.source.name != method || (*mapping)->in_source(renamed.in_file).empty())
          std::abort();
      if ((*mapping)->moved_to(name, method).size() > 64) std::abort();
    }
  }
  return 0;
}
