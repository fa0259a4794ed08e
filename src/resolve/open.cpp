#include "resolve/in_process.hpp"
#include "resolve/locate.hpp"
#include "resolve/quote.hpp"
#include "resolve/state.hpp"
#include "uprobectl/archive.hpp"
#include "uprobectl/spelling.hpp"

#include <cerrno>
#include <sys/stat.h>

namespace uprobectl {

namespace {

struct Found {
  BinaryPath path;       // as it is to be opened
  BinaryPath shown = {}; // where that differs from what a person knows
  std::vector<std::string> warnings;
};

bool is_bare(std::string_view text) { return text.find('/') == std::string_view::npos; }

bool is_elf(Bytes bytes) {
  const auto magic = slice(bytes, 0, 4);
  return magic && as_text(*magic) == "\x7f"
                                     "ELF";
}

// The first reading whose file is there. A folder does not answer for a bare name: a program of
// that name may be meant.
std::optional<BinaryPath> first_existing(std::string_view text) {
  for (BinaryPath& reading : readings(text)) {
    struct stat status{};
    if (::stat(reading.file.c_str(), &status) != 0) continue;
    if (S_ISDIR(status.st_mode) && is_bare(text)) continue;
    return std::move(reading);
  }
  return std::nullopt;
}

Error ambiguous_target(std::string_view text, const std::vector<Candidate>& candidates) {
  constexpr std::size_t most = 10;
  Error error{ErrorKind::ambiguous, std::string(text) + ": " + std::to_string(candidates.size()) +
                                        " different files have this name"};
  for (std::size_t i = 0; i < candidates.size() && i < most; ++i)
    error = std::move(error).hint("candidate: " + candidates[i].path);
  if (candidates.size() > most)
    error = std::move(error).hint("and " + std::to_string(candidates.size() - most) + " more");
  return error;
}

Error missing_target(std::string_view text) {
  if (text.ends_with("!/"))
    return Error{ErrorKind::usage, std::string(text) + ": the entry's name is missing"}.hint(
        "list its libraries with: uprobectl list-symbols " +
        shell_word(text.substr(0, text.size() - 2)));
  const auto all = readings(text);
  const std::string& file = all.back().file;
  struct stat status{};
  if (is_bare(text)) {
    Error error{ErrorKind::not_found,
                std::string(text) + ": no such file here, nor a program or library of this name"};
    auto near = nearest_files(file);
    if (near.empty()) near = nearest_installed(text, search_places_of_this_machine());
    return near.empty() ? error : std::move(error).hint(did_you_mean(near));
  }
  const int errnum = ::stat(file.c_str(), &status) != 0 ? errno : ENOENT;
  Error error = system_error(errnum, file);
  if (errnum != ENOENT) return error;
  const auto near = nearest_files(file);
  return near.empty() ? error : std::move(error).hint(did_you_mean(near));
}

Error debug_file(const std::string& subject, const elf::Image& image) {
  const auto id = image.build_id();
  return Error{ErrorKind::no_code, subject + ": debug data of another file, the code is not in it"}
      .hint("probe the program or library it belongs to" +
            (id ? ", the one with build id " + *id : std::string()));
}

// A file in the current folder is what its name says; whoever meant the installed one must be told.
void warn_if_hiding(std::string_view text, Found& found) {
  struct stat status{};
  if (::stat(found.path.file.c_str(), &status) != 0) return;
  const FileIdentity identity{status.st_dev, status.st_ino};
  for (const Candidate& hidden : locate(text, search_places_of_this_machine())) {
    if (hidden.identity == identity) continue;
    found.warnings.push_back("the file ./" + found.path.file + " in the current folder hides " +
                             hidden.path);
    return;
  }
}

Result<Found> find(std::string_view text) {
  if (text.empty()) return fail(ErrorKind::usage, "the TARGET is empty");
  if (text.find('\0') != std::string_view::npos)
    return fail(ErrorKind::usage, "the TARGET holds a NUL byte");
  if (text.size() > longest_path)
    return fail(ErrorKind::usage, "the TARGET has " + std::to_string(text.size()) +
                                      " bytes, a path has " + std::to_string(longest_path) +
                                      " at most");
  if (auto path = first_existing(text)) {
    Found found{.path = std::move(*path), .warnings = {}};
    if (is_bare(text)) warn_if_hiding(text, found);
    return found;
  }
  const auto candidates = locate(text, search_places_of_this_machine());
  if (candidates.empty()) return fail(missing_target(text));
  if (candidates.size() > 1) return fail(ambiguous_target(text, candidates));
  return Found{.path = {candidates[0].path, std::nullopt}, .warnings = {}};
}

Result<std::optional<Found>> find_in(std::string_view text, std::span<const pid_t> pids) {
  auto files = find_in_processes(text, pids);
  if (!files) return fail(std::move(files).error());
  if (files->empty()) return std::nullopt;
  if (files->size() > 1) {
    std::vector<Candidate> candidates;
    for (const FileOfProcess& file : *files)
      candidates.push_back({to_string(file.shown), file.identity});
    return fail(ambiguous_target(text, candidates));
  }
  FileOfProcess& file = files->front();
  return Found{.path = {.file = std::move(file.open_path), .entry = file.shown.entry},
               .shown = std::move(file.shown),
               .warnings = std::move(file.warnings)};
}

// What the processes know first; what is found only without them gets a word about it.
Result<Found> find(std::string_view text, std::span<const pid_t> pids) {
  if (pids.empty()) return find(text);
  auto known = find_in(text, pids);
  if (!known) return fail(std::move(known).error());
  if (*known) return std::move(**known);
  auto found = find(text);
  if (found && is_bare(text))
    found->warnings.push_back(std::string(text) +
                              ": no probed process maps it; taken: " + to_string(found->path));
  return found;
}

} // namespace

Target::Target(std::unique_ptr<State> state) : state_(std::move(state)) {}
Target::Target(Target&&) noexcept = default;
Target& Target::operator=(Target&&) noexcept = default;
Target::~Target() = default;

const std::string& Target::text() const { return state_->text; }
const BinaryPath& Target::path() const { return state_->path; }
const elf::Image* Target::image() const { return state_->image ? &*state_->image : nullptr; }
const std::shared_ptr<const MappedFile>& Target::file() const { return state_->file; }
const std::vector<std::string>& Target::warnings() const { return state_->warnings; }

Result<Target> Target::open(std::string_view text, const TargetOptions& options) {
  for (const std::string& place : options.debug_places) {
    struct stat status{};
    if (::stat(place.c_str(), &status) != 0)
      return fail(system_error(errno, place).within("--debug-dir"));
  }
  auto found = find(text, options.pids);
  if (!found) return fail(std::move(found).error());
  auto mapped = MappedFile::open(found->path.file);
  if (!mapped) return fail(std::move(mapped).error());

  auto state = std::make_unique<State>();
  state->debug = DebugSource({.places = options.debug_places});
  state->text = text;
  state->shown = found->shown.file.empty() ? found->path : std::move(found->shown);
  if (!state->shown.entry) state->shown.file = text;
  state->path = std::move(found->path);
  state->warnings = std::move(found->warnings);
  state->file = std::make_shared<const MappedFile>(std::move(*mapped));
  auto real_path = state->file->real_path();
  if (!real_path) return fail(std::move(real_path).error());
  state->real_path = std::move(*real_path);

  const Bytes bytes = state->file->bytes();
  const bool whole_archive =
      !state->path.entry && !is_elf(bytes) && Archive::looks_like_archive(bytes);
  if (!whole_archive) {
    auto image =
        elf::Image::open(state->file, state->path,
                         options.extracted ? elf::Compressed::inflate : elf::Compressed::refuse);
    if (!image) {
      Error error = std::move(image).error();
      if (error.kind == ErrorKind::not_found && state->path.entry)
        error = std::move(error).hint("list its libraries with: uprobectl list-symbols " +
                                      shell_word(state->path.file));
      return fail(std::move(error));
    }
    if (image->is_debug_file()) return fail(debug_file(to_string(state->shown), *image));
    if (image->is_inflated())
      state->warnings.push_back(to_string(state->shown) +
                                ": compressed here, so offsets are those in the library as a "
                                "device installs it, not in the archive");
    state->image.emplace(std::move(*image));
  }
  return Target(std::move(state));
}

} // namespace uprobectl
