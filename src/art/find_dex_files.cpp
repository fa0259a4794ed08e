#include "art/oat_state.hpp"

#include <fmt/format.h>
#include <map>

namespace uprobectl::art {

namespace {

// Where the DEX files lie in memory. None overlaps another, so all of them together are no larger
// than the files that they are from, however many records lead to them.
class DexPlaces {
public:
  // False where there is one already.
  bool add(Bytes dex) {
    const std::byte* const begin = dex.data();
    const auto next = begins_.upper_bound(begin); // by its end
    if (next != begins_.end() && std::less<>()(next->second, begin + dex.size())) return false;
    begins_.emplace(begin + dex.size(), begin);
    return true;
  }

private:
  std::map<const std::byte*, const std::byte*, std::less<>> begins_; // by the ends
};

std::optional<DexFile> parse_found(const FoundDex& found, DexPlaces& places, OatDex& shown) {
  auto parsed = DexFile::parse(found.bytes);
  if (parsed && places.add(parsed->bytes())) {
    shown.source = found.source;
    return *parsed;
  }
  shown.tried.push_back(
      fmt::format("{} ({})", found.source,
                  parsed ? "it has been taken for another one" : parsed.error().message));
  return std::nullopt;
}

} // namespace

void find_dex_files(OatFile::State& state, DexFinder& finder) {
  DexPlaces places;
  for (const OatRecord& record : state.records) {
    OatDex shown{.location = std::string(record.location), .source = {}, .tried = {}};
    auto found = finder.find(record, shown.tried);
    auto dex = found ? parse_found(*found, places, shown) : std::nullopt;
    state.owners.push_back(dex ? std::move(found->owner) : nullptr);
    state.dex.push_back(dex);
    state.shown.push_back(std::move(shown));
  }
}

Error with_dex_places(Error error, const OatDex& missing) {
  if (!missing.tried.empty()) {
    std::string places;
    for (const std::string& place : missing.tried) places += (places.empty() ? "" : ", ") + place;
    error = std::move(error).hint("looked for it at: " + places);
  }
  return std::move(error).hint("name it with --dex FILE, or with --root DIR the folder that the "
                               "system image was unpacked into");
}

} // namespace uprobectl::art
