// Which of the known layouts an OAT file has, found by trying.
#include "art/oat_state.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <tuple>

namespace uprobectl::art {

namespace {

constexpr std::uint32_t counts_methods_since = 194;

// Reads where the methods of the DEX files are. False where the file contradicts the layout: each
// class has a word of its own in it, and so has each compiled method.
bool collect(OatFile::State& state, bool counts_methods) {
  state.counts_methods = counts_methods;
  state.compiled.clear();
  const std::uint64_t most = state.header.data.size() / sizeof(std::uint32_t);
  std::uint64_t classes = 0;
  for (std::size_t i = 0; i < state.dex.size(); ++i) {
    if (!state.dex[i]) continue;
    classes += state.dex[i]->class_count();
    if (classes > most || !add_compiled(state.classes(i), most, state.compiled)) return false;
  }
  return true;
}

bool collect_either_way(OatFile::State& state) {
  const bool likely = state.header.version >= counts_methods_since;
  return collect(state, likely) || collect(state, !likely);
}

using StatePointer = std::unique_ptr<OatFile::State>;

bool are_same(const OatRecord& a, const OatRecord& b) {
  return a.location.data() == b.location.data() && a.location.size() == b.location.size() &&
         std::tie(a.checksum, a.dex_offset, a.class_offsets) ==
             std::tie(b.checksum, b.dex_offset, b.class_offsets);
}

// The layout by which most DEX files are found: their checksums are the proof. Null where the file
// contradicts that one, or all.
StatePointer read_as_laid_out(const OatFile::State& base, DexFinder& finder) {
  StatePointer best;
  std::size_t most_refused = 0; // DEX files found
  std::vector<std::vector<OatRecord>> seen;
  for (const RecordLayout& layout : record_layouts(base.header.version)) {
    auto records = read_records(base.header, layout);
    if (!records) continue;
    if (std::ranges::any_of(seen, [&](const std::vector<OatRecord>& other) {
          return std::ranges::equal(other, *records, are_same);
        }))
      continue;
    seen.push_back(*records);
    auto state = std::make_unique<OatFile::State>(base);
    state->records = std::move(*records);
    find_dex_files(*state, finder);
    if (!collect_either_way(*state)) {
      most_refused = std::max(most_refused, state->found());
      continue;
    }
    if (!best || state->found() > best->found()) best = std::move(state);
    if (best->found() == best->records.size()) break;
  }
  if (best && best->found() < most_refused) best.reset();
  return best;
}

void sort_by_address(std::vector<Method>& methods) {
  std::ranges::sort(methods, [](const Method& a, const Method& b) {
    return std::tie(a.code, a.dex, a.index) < std::tie(b.code, b.dex, b.index);
  });
}

Error unknown_version(std::uint32_t version) {
  return Error{ErrorKind::unsupported,
               fmt::format("OAT version {} is not known ({} to {} are), and the file's own symbols "
                           "do not confirm that it is laid out like those",
                           version, oldest_version, newest_version)};
}

// Of an unknown version whose DEX files are not there to try it with.
Error unchecked_version(std::uint32_t version, const OatDex& missing) {
  Error error{
      ErrorKind::unsupported,
      fmt::format("OAT version {} is not known ({} to {} are), and the DEX file of {}, which "
                  "would show whether it is laid out like those, is not found",
                  version, oldest_version, newest_version, missing.location)};
  return with_dex_places(std::move(error), missing);
}

// Enough to have a VDEX and its neighbours: an image inside an archive has none.
std::string path_of(const elf::Image& image) {
  return image.path().entry ? std::string() : image.path().file;
}

} // namespace

std::size_t OatFile::State::found() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(dex, [](const auto& file) { return file.has_value(); }));
}

bool OatFile::is_oat(const elf::Image& image) { return has_oat_header(image); }

Result<OatFile> OatFile::read(elf::Image& image, const DexSearch& where) {
  auto header = read_oat_header(image);
  if (!header) return fail(std::move(header).error());
  const std::uint32_t version = header->version;
  if (header->dex_count > std::numeric_limits<std::uint16_t>::max())
    return fail(ErrorKind::corrupt,
                fmt::format("OAT version {}: it has {} DEX files", version, header->dex_count));
  State base;
  base.image = &image;
  base.header = *header;
  base.code = code_range(image, *header);
  DexFinder finder(path_of(image), where);
  auto state = read_as_laid_out(base, finder);
  const bool is_known = version >= oldest_version && version <= newest_version;
  if (!state && !is_known) return fail(unknown_version(version));
  if (!state)
    return fail(ErrorKind::corrupt,
                fmt::format("OAT version {}: its classes and methods are laid out in no known way",
                            version));
  sort_by_address(state->compiled);
  state->code_size_form = choose_code_size_form(*state);
  OatFile oat(std::move(state));
  if (is_known) return oat;
  const auto is_missing = [](const OatDex& dex) { return !dex.source; };
  if (image.debug_symbols().empty()) (void)image.add_embedded_symbols();
  const auto missing = std::ranges::find_if(oat.dex_files(), is_missing);
  if (missing != oat.dex_files().end()) return fail(unchecked_version(version, *missing));
  if (!names_agree(oat, image.debug_symbols())) return fail(unknown_version(version));
  return oat;
}

} // namespace uprobectl::art
