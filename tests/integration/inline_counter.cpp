// SPDX-License-Identifier: Apache-2.0
// inline_counter ELF-FILE DEBUG-FOLDER NAME…
// Writes a line `NAME COUNT`, or `NAME unknown`, for each name; or the error alone. With
// --instances before the file: a line `NAME ENTRY CALLER FILE:LINE` for each inlined instance, with
// `approximate` at the end if the entry is not known or outside of the instance's code.
// inlined_agreement.py knows what it must say.
#include "dwarf/inlined.hpp"

#include <algorithm>
#include <cstdio>

using namespace uprobectl;

namespace {

int fail_with(const Error& error) {
  std::printf("%s\n", error.message.c_str());
  return 1;
}

int print_counts(const dwarf::DebugInfo& debug, std::span<const std::string_view> names) {
  std::vector<dwarf::CountedFunction> functions;
  for (const std::string_view name : names) functions.push_back({.name = name});
  const auto counts = dwarf::count_inlined(debug, functions);
  if (!counts) return fail_with(counts.error());
  for (std::size_t i = 0; i < names.size(); ++i)
    if (const auto count = (*counts)[i])
      std::printf("%s %llu\n", names[i].data(), static_cast<unsigned long long>(*count));
    else
      std::printf("%s unknown\n", names[i].data());
  return 0;
}

bool is_known(const dwarf::InlinedInstance& instance) {
  return instance.is_entry_known &&
         std::ranges::any_of(instance.code, [&](const elf::AddressRange& piece) {
           return instance.entry.value - piece.address.value < piece.size;
         });
}

int print_instances(const dwarf::DebugInfo& debug, std::span<const std::string_view> names) {
  const auto functions = dwarf::find_inlined(
      debug, [&](std::string_view raw) { return std::ranges::find(names, raw) != names.end(); });
  if (!functions) return fail_with(functions.error());
  for (const dwarf::InlinedFunction& function : *functions)
    for (const dwarf::InlinedInstance& each : function.instances)
      std::printf("%s 0x%llx %s %s:%u%s\n", function.name.c_str(),
                  static_cast<unsigned long long>(each.entry.value), each.caller.c_str(),
                  each.call_file.c_str(), each.call_line, is_known(each) ? "" : " approximate");
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  std::vector<std::string_view> words(argv + 1, argv + argc);
  const bool wants_instances = !words.empty() && words.front() == "--instances";
  if (wants_instances) words.erase(words.begin());
  if (words.size() < 2) return 2;
  const auto image = elf::Image::open({.file = std::string(words[0]), .entry = std::nullopt});
  if (!image) return fail_with(image.error());
  const auto debug =
      dwarf::DebugInfo::open(*image, {.paths = {}, .system_folder = std::string(words[1])});
  if (!debug) return fail_with(debug.error());
  const auto names = std::span(words).subspan(2);
  return wants_instances ? print_instances(*debug, names) : print_counts(*debug, names);
}
