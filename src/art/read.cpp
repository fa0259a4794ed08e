// Which of the known layouts an OAT file has, found by trying.
#include "art/oat_state.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <tuple>

namespace uprobectl::art {

namespace {

constexpr std::uint32_t counts_methods_since = 194;

// Reads where the methods of the DEX files are. False where the file contradicts the layout.
bool collect(OatFile::State& state, bool counts_methods) {
  state.counts_methods = counts_methods;
  state.compiled.clear();
  for (std::size_t i = 0; i < state.dex.size(); ++i)
    if (state.dex[i] && !add_compiled(state.classes(i), state.compiled)) return false;
  return true;
}

bool collect_either_way(OatFile::State& state) {
  const bool likely = state.header.version >= counts_methods_since;
  return collect(state, likely) || collect(state, !likely);
}

void find_dex_files(OatFile::State& state, DexFinder& finder) {
  for (const OatRecord& record : state.records) {
    OatDex shown{.location = std::string(record.location), .source = {}, .tried = {}};
    std::optional<DexFile> dex;
    auto found = finder.find(record, shown.tried);
    if (found) {
      auto parsed = DexFile::parse(found->bytes);
      if (parsed) {
        dex = *parsed;
        shown.source = found->source;
      } else {
        shown.tried.push_back(found->source + " (" + parsed.error().message + ")");
      }
    }
    state.dex.push_back(dex);
    state.owners.push_back(found ? std::move(found->owner) : nullptr);
    state.shown.push_back(std::move(shown));
  }
}

using StatePointer = std::unique_ptr<OatFile::State>;

bool are_same(const OatRecord& a, const OatRecord& b) {
  return a.location.data() == b.location.data() && a.location.size() == b.location.size() &&
         std::tie(a.checksum, a.dex_offset, a.class_offsets) ==
             std::tie(b.checksum, b.dex_offset, b.class_offsets);
}

// Of the layouts that the file does not contradict the one by which most DEX files are found: their
// checksums are the proof.
StatePointer read_as_laid_out(const OatFile::State& base, DexFinder& finder) {
  StatePointer best;
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
    if (!collect_either_way(*state)) continue;
    if (!best || state->found() > best->found()) best = std::move(state);
    if (best->found() == best->records.size()) break;
  }
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
  if (image.debug_symbols().empty()) (void)image.add_embedded_symbols();
  if (!oat.has_all_dex_files() || !names_agree(oat, image.debug_symbols()))
    return fail(unknown_version(version));
  return oat;
}

} // namespace uprobectl::art
