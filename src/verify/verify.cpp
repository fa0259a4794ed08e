// SPDX-License-Identifier: Apache-2.0
#include "verify/verify.hpp"

#include "resolve/archive_listing.hpp"
#include "resolve/explain.hpp"
#include "resolve/source_file.hpp"
#include "uprobectl/archive.hpp"
#include "util/mapped_file.hpp"
#include "util/text.hpp"
#include "verify/details.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <unordered_map>

namespace uprobectl::verify {

namespace {

// Whether both may be of one function: local functions of several files may have one name. The file
// of a record or of a symbol may be unknown.
bool may_be_same_source(const RecordedMatch& recorded, const resolve::ProbePoint& current) {
  return !recorded.source_file || !current.source_file ||
         recorded.source_file == current.source_file;
}

// Whether both are the same point of a symbol. The code of a source line moves inside its function.
bool is_same_point(const RecordedMatch& recorded, const resolve::ProbePoint& current) {
  return recorded.version == current.version &&
         (current.source || recorded.symbol_offset.value == current.symbol_offset) &&
         recorded.is_inlined == (current.inlined_into != nullptr);
}

// Returns the file of a recorded match that is printed: that of the target, with the entry instead
// of the pattern that matched it.
std::string image_of(const RecordedMatch& match, const std::string& target, Pairing pairing) {
  if (pairing == Pairing::in_one_file) return target;
  if (!match.entry) return match.file.value_or(target);
  for (const BinaryPath& reading : parse_candidates(target))
    if (reading.entry && symbols::matches_pattern(*reading.entry, *match.entry))
      return to_string(BinaryPath{reading.file, match.entry});
  return to_string(BinaryPath{match.file.value_or(target), match.entry});
}

// Returns a finding about a recorded match, without its change.
output::Finding finding_about(const RecordedMatch& match, const std::string& target,
                              Pairing pairing) {
  output::Finding finding{.target = target,
                          .request = match.request,
                          .symbol = match.symbol,
                          .version = match.version,
                          .file = match.file,
                          .entry = match.entry,
                          .abi = abi_of(match.entry),
                          .symbol_offset = match.symbol_offset.value,
                          .is_old_version = match.default_version == false,
                          .record_line = match.line};
  if (pairing == Pairing::in_each_file) finding.image = image_of(match, target, pairing);
  return finding;
}

bool is_in_full_table(const RecordedMatch& match) {
  return match.table == "symtab" || match.table == "debug_file" || match.table == "gnu_debugdata";
}

std::string hex_text(std::uint64_t value) { return fmt::format("{:#x}", value); }
std::string position_of(const RecordedMatch& match) {
  if (match.address) return hex_text(match.address->value);
  return hex_text(match.offset ? match.offset->value : match.image_offset.value);
}

// Finds the current matches that may be those of a recorded one.
class MatchIndex {
public:
  MatchIndex(std::span<const resolve::ProbePoint> current, Pairing pairing)
      : current_(current), pairing_(pairing) {
    for (std::size_t i = 0; i < current.size(); ++i) {
      const resolve::ProbePoint& point = current[i];
      const auto& entry = point.binary->path.entry;
      by_symbol_[key_of(point.symbol, entry)].push_back(i);
    }
  }

  using Visit = std::function<bool(std::size_t)>;
  // Calls visit for the index of each in order, until it returns true. Returns whether it did.
  bool visit(const RecordedMatch& match, const Visit& visit) const {
    const auto found = by_symbol_.find(key_of(match.symbol, match.entry));
    return found != by_symbol_.end() && std::ranges::any_of(found->second, [&](std::size_t i) {
             return is_same_point(match, current_[i]) && may_be_same_source(match, current_[i]) &&
                    are_paired(match, current_[i], pairing_) && visit(i);
           });
  }
  bool has(const RecordedMatch& match) const {
    return visit(match, [](std::size_t) { return true; });
  }

private:
  std::string key_of(const std::optional<std::string>& symbol,
                     const std::optional<std::string>& entry) const {
    std::string key = symbol.value_or("");
    if (pairing_ == Pairing::in_each_file)
      key.append(1, '\0').append(library_key(entry.value_or("")));
    return key;
  }

  std::span<const resolve::ProbePoint> current_;
  Pairing pairing_;
  std::unordered_map<std::string, std::vector<std::size_t>> by_symbol_;
};

// Returns for each recorded match the index of its current match, or current.size() without one. If
// a name has several points, pairs them in order of offset. The points of a static probe are first
// paired by equal offset, so that the others stay paired if one was removed; local functions first
// with those of the same source file.
std::vector<std::size_t> pair_matches(std::span<const RecordedMatch> recorded,
                                      std::span<const resolve::ProbePoint> current,
                                      Pairing pairing) {
  const MatchIndex index(current, pairing);
  std::vector<std::size_t> pairs(recorded.size(), current.size());
  std::vector<bool> paired(current.size(), false);
  const auto pair = [&](std::size_t old, const auto& is_meant) {
    if (pairs[old] != current.size()) return;
    index.visit(recorded[old], [&](std::size_t i) {
      if (paired[i] || !is_meant(recorded[old], current[i])) return false;
      pairs[old] = i;
      paired[i] = true;
      return true;
    });
  };
  using Match = const RecordedMatch&;
  using Point = const resolve::ProbePoint&;
  for (std::size_t old = 0; old < recorded.size(); ++old) {
    if (recorded[old].is_static_probe())
      pair(old, [](Match match, Point point) { return match.image_offset == point.image_offset; });
    if (recorded[old].source_file)
      pair(old, [](Match match, Point point) { return match.source_file == point.source_file; });
  }
  for (std::size_t old = 0; old < recorded.size(); ++old)
    pair(old, [](Match, Point) { return true; });
  return pairs;
}

// Returns the differences in offset and in a static probe's semaphore and arguments. Compares the
// semaphore's address, not its offset: if the archive entry moved, the probe's offset already
// shows.
std::vector<output::Finding> find_differences(const RecordedMatch& old,
                                              const resolve::ProbePoint& point,
                                              const output::Finding& about) {
  std::vector<output::Finding> findings;
  const auto add = [&](output::Change change, std::string recorded, std::string found) {
    output::Finding finding = about;
    finding.change = change;
    finding.recorded = std::move(recorded);
    finding.found = std::move(found);
    findings.push_back(std::move(finding));
  };
  const bool same_image_offset =
      old.address ? point.address == *old.address : point.image_offset == old.image_offset;
  const bool same_point = old.address || point.offset == old.offset;
  if (!same_image_offset || !same_point)
    add(same_image_offset ? output::Change::archive_moved : output::Change::function_moved,
        position_of(old), hex_text(old.address ? point.address.value : display_offset(point)));
  if (old.details && point.details)
    for (DetailChange& change : compare_details(*old.details, *point.details,
                                                point.binary->machine.arch, !same_image_offset)) {
      output::Finding finding = about;
      finding.change = change.change;
      if (!change.member.empty()) finding.member = std::move(change.member);
      finding.recorded = std::move(change.recorded);
      finding.found = std::move(change.found);
      finding.reason = std::move(change.reason);
      findings.push_back(std::move(finding));
    }
  if (!old.is_static_probe() || !point.static_probe) return findings;
  const usdt::StaticProbe& probe = *point.static_probe;
  const auto shown = [](const std::optional<VirtualAddress>& address) {
    return address ? hex_text(address->value) : "none";
  };
  if (old.semaphore != probe.semaphore)
    add(output::Change::semaphore_moved, shown(old.semaphore), shown(probe.semaphore));
  if (*old.raw_arguments != probe.raw_arguments)
    add(output::Change::arguments, *old.raw_arguments, probe.raw_arguments);
  return findings;
}

// The file of a recorded target, and the recorded entry or the pattern that matched it.
BinaryPath split_recorded(const RecordedMatch& match) {
  if (!match.entry) return {.file = match.target, .entry = std::nullopt};
  const std::string suffix = "!/" + *match.entry;
  if (match.target.ends_with(suffix))
    return {.file = match.target.substr(0, match.target.size() - suffix.size()),
            .entry = match.entry};
  for (BinaryPath& reading : parse_candidates(match.target))
    if (reading.entry && symbols::matches_pattern(*reading.entry, *match.entry))
      return std::move(reading);
  for (BinaryPath& reading : parse_library_names(match.target))
    if (("/" + *match.entry).ends_with("/" + *reading.entry))
      return {.file = std::move(reading.file), .entry = match.entry};
  return {.file = match.target, .entry = std::nullopt};
}

// Returns one path for all spellings of it: "./app" and "app" are one file.
std::string normalized(const std::string& path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  return (error ? std::filesystem::path(path) : absolute).lexically_normal().string();
}

// Finds entries of archives that have another layout: in an app bundle, the libraries of an APK are
// in "base/lib/", and the other way round.
class EntryFinder {
public:
  // Returns the entry, or the pattern, for the same libraries in the archive.
  std::string find(const std::string& archive, const std::string& entry) {
    const auto [known, is_new] = archives_.try_emplace(archive);
    if (is_new) known->second = read(archive);
    const Libraries& libraries = known->second;
    if (libraries.names.contains(entry)) return entry;
    if (const auto same = libraries.by_key.find(library_key(entry)); same != libraries.by_key.end())
      return same->second;
    // A plan has the name of a library as typed: "libfoo.so".
    if (!symbols::is_name_pattern(entry) && entry.contains('/')) return entry;
    for (const std::string& pattern : {entry, "*/" + entry, library_key(entry)})
      if (std::ranges::any_of(libraries.names, [&](const std::string& name) {
            return symbols::matches_pattern(pattern, name);
          }))
        return pattern;
    return entry;
  }

private:
  struct Libraries {
    std::set<std::string> names = {};
    std::map<std::string, std::string> by_key = {};
  };
  static Libraries read(const std::string& path) {
    Libraries libraries;
    const auto file = MappedFile::open(path);
    if (!file) return libraries; // reported when the target is opened
    const auto archive = archive::Archive::parse(file->bytes());
    if (!archive) return libraries;
    auto names = resolve::library_names(*archive);
    for (std::string& name : names ? *names : std::vector<std::string>()) {
      libraries.by_key.emplace(library_key(name), name);
      libraries.names.insert(std::move(name));
    }
    return libraries;
  }

  std::map<std::string, Libraries> archives_; // by path
};

// Returns the target to resolve a recorded match in.
std::string current_target(const RecordedMatch& match, const TargetReplacements& targets,
                           EntryFinder& entries) {
  BinaryPath path = split_recorded(match);
  auto found = targets.find(normalized(path.file));
  if (found == targets.end()) found = targets.find("");
  // A record of "app.apk!libfoo.so" says which of several libraries it was.
  if (found == targets.end())
    return path.entry && path.entry->contains('/') ? to_string(path) : match.target;
  path.file = found->second;
  // It may name the library, too: "new.apk!/lib/x86_64/libfoo.so", "new.apk!libfoo.so".
  if (path.file.contains('!') && path.file.ends_with(".so")) return path.file;
  if (path.entry) path.entry = entries.find(path.file, *path.entry);
  return to_string(path);
}

bool is_line(const std::string& request) {
  const auto function = resolve::parse_function(request);
  return function && (function->form == resolve::FunctionSpec::Form::source_line ||
                      function->form == resolve::FunctionSpec::Form::function_line);
}

// Returns the choice of clones of a record that does not say it. Versions that wrote such records
// included clones of patterns, and of names with --clones; then also parts and jumps to other
// bodies.
resolve::ResolveOptions::Clones infer_clones(std::span<const RecordedMatch> recorded) {
  const std::string& request = recorded.front().request;
  const auto function = resolve::parse_function(request);
  const bool is_clone_of_name = std::ranges::any_of(recorded, [&](const RecordedMatch& match) {
    return match.symbol && symbols::is_clone(*match.symbol) && !request.starts_with(*match.symbol);
  });
  const bool all = is_clone_of_name || (function && symbols::is_name_pattern(function->name));
  return all ? resolve::ResolveOptions::Clones::all : resolve::ResolveOptions::Clones::none;
}

// Infers the options of the recorded request from its matches: --all if a name has several points,
// --inlined if an inlined instance was recorded. A line may have several points without --all.
resolve::ResolveOptions infer_options(std::span<const RecordedMatch> recorded, bool unsafe) {
  resolve::ResolveOptions options;
  options.unsafe = unsafe;
  const auto clones =
      recorded.front().clones ? resolve::parse_clones(*recorded.front().clones) : std::nullopt;
  options.thunks = !clones;
  options.clones = clones.value_or(infer_clones(recorded));
  // --all is needed for several points in one file only.
  std::set<std::pair<std::optional<std::string>, std::optional<std::string>>> files;
  for (const RecordedMatch& match : recorded)
    options.all = options.all || !files.emplace(match.file, match.entry).second;
  if (is_line(recorded.front().request)) options.all = false;
  const auto function = resolve::parse_function(recorded.front().request);
  options.every_name = function && symbols::is_name_pattern(function->name);
  options.inlined = std::ranges::any_of(recorded, &RecordedMatch::is_inlined);
  return options;
}

// Resolves requests again. Opens each target once.
class Verifier {
public:
  Verifier(output::Output& output, const VerifyRequest& request)
      : output_(output), request_(request), options_(request.target_options),
        details_(request.target_options.debug_paths) {}

  // `first`: index of the first match in the record.
  void verify(const std::string& target, std::span<const RecordedMatch> recorded,
              std::size_t first) {
    const std::string& request = recorded.front().request;
    const Result<resolve::Targets>& targets = find(target);
    if (!targets) return skip(recorded, target, Pairing::in_one_file, targets.error());
    // Matches in a compressed library have no offset; they were recorded with --extracted.
    resolve::TargetOptions where = options_;
    where.extracted =
        where.extracted || std::ranges::any_of(recorded, [](const RecordedMatch& match) {
          return !match.offset.has_value();
        });
    const resolve::ResolveOptions how = infer_options(recorded, request_.unsafe);
    const Result<resolve::Target>* one =
        targets->several ? nullptr : &open(target, *targets, where);
    if (one != nullptr && !*one) return skip(recorded, target, Pairing::in_one_file, one->error());
    auto current = recorded.front().is_static_probe()
                       ? (one == nullptr ? resolve_static_in_several(*targets, request, where)
                                         : (*one)->static_probes(request))
                   : one == nullptr ? resolve_in_several(*targets, request, where, how)
                                    : resolve_in_one(**one, request, how);
    if (current && one != nullptr && is_line(request) && recorded.size() > current->size()) {
      resolve::ResolveOptions with_all = how; // it may have been recorded with --all
      with_all.all = true;
      current = resolve_in_one(**one, request, with_all);
    }
    const Pairing pairing = targets->several ? Pairing::in_each_file : Pairing::in_one_file;
    if (!current && !resolve::means_no_match(current.error()))
      return skip(recorded, target, pairing, current.error(), request);
    const bool is_resolved = current.has_value();
    if (!is_resolved) current.emplace();
    std::set<std::string> names; // that were recorded with their files
    for (const RecordedMatch& match : recorded)
      if (match.source_file) names.insert(match.symbol.value_or(""));
    resolve::set_source_files(*current, names);
    if (how.every_name) drop_other_names(recorded, *current, pairing);
    if (std::ranges::any_of(recorded,
                            [](const RecordedMatch& match) { return match.details != nullptr; }))
      for (resolve::ProbePoint& point : *current)
        request_.read_details ? request_.read_details(point) : details_.read(point);
    std::vector<RecordedMatch> readable;
    const MatchIndex index(*current, pairing);
    for (const RecordedMatch& match : recorded)
      if (index.has(match) || is_readable(match, target, *targets, where))
        readable.push_back(match);
    if (!is_resolved) ++outcome_.unresolved;
    if (readable.empty() && current->empty()) return;
    compare_build_ids(target, readable, *current, pairing);
    add_comparison(readable, *current, target, pairing, first, outcome_.verdict,
                   request_.with_added);
    std::ranges::move(*current, std::back_inserter(outcome_.points));
  }

  VerifyOutcome take() { return std::move(outcome_); }

private:
  const Result<resolve::Targets>& find(const std::string& target) {
    const auto known = found_.find(target);
    if (known != found_.end()) return known->second;
    return found_.emplace(target, find_targets(target, options_)).first->second;
  }

  const Result<resolve::Target>& open(const std::string& target, const resolve::Targets& targets,
                                      const resolve::TargetOptions& where) {
    const std::pair key(target, where.extracted);
    const auto known = opened_.find(key);
    if (known != opened_.end()) return known->second;
    return opened_.emplace(key, resolve::Target::open(targets.files.front(), target, where))
        .first->second;
  }

  // Adds matches that cannot be checked, and reports each reason once: the target, or the request
  // in it, fails with this error. If an archive has no such entry, they are gone.
  void skip(std::span<const RecordedMatch> recorded, const std::string& target, Pairing pairing,
            const Error& error, const std::optional<std::string>& request = std::nullopt) {
    const bool is_gone =
        !request && error.kind == ErrorKind::not_found && is_entry_of_archive(target);
    if (!is_gone && failures_.emplace(target, error.message).second)
      output_.fail(error, target, request);
    if (is_gone) ++outcome_.unresolved;
    for (const RecordedMatch& match : recorded)
      skip(match, target, pairing,
           is_gone ? output::Change::library_gone : output::Change::not_checked,
           is_gone ? not_in_archive : error.message);
  }

  void skip(const RecordedMatch& match, const std::string& target, Pairing pairing,
            output::Change change, std::string_view reason) {
    output::Finding finding = finding_about(match, target, pairing);
    finding.image = image_of(match, target, pairing);
    for (const std::string& subject :
         {*finding.image, target, split_recorded(match).file, target.substr(0, target.find("!/"))})
      if (reason.starts_with(subject + ": ")) reason.remove_prefix(subject.size() + 2);
    finding.change = change;
    finding.reason = reason;
    outcome_.verdict.add_to_library(std::move(finding));
  }

  static constexpr std::string_view not_in_archive = "the archive has no such entry";

  // Whether the target is an entry of an archive that can be read.
  static bool is_entry_of_archive(const std::string& target) {
    auto paths = parse_candidates(target);
    std::ranges::move(parse_library_names(target), std::back_inserter(paths));
    for (const BinaryPath& path : paths) {
      if (!path.entry) continue;
      const auto file = MappedFile::open(path.file);
      if (file) return archive::Archive::looks_like_archive(file->bytes());
    }
    return false;
  }

  // Returns whether a recorded match that was not found can be compared: its file can be read and
  // has the symbols that it had. Without the symbols of a debug file nothing is known of a
  // function.
  bool is_readable(const RecordedMatch& match, const std::string& target,
                   const resolve::Targets& targets, const resolve::TargetOptions& where) {
    const Pairing pairing = targets.several ? Pairing::in_each_file : Pairing::in_one_file;
    const FileState* const state = state_of(match, target, targets, where);
    if (state == nullptr && match.entry) {
      skip(match, target, pairing, output::Change::library_gone, not_in_archive);
      return false;
    }
    if (state == nullptr) return true;
    if (state->failure) {
      skip(match, target, pairing, output::Change::not_checked, *state->failure);
      return false;
    }
    if (!state->is_stripped || !is_in_full_table(match)) return true;
    constexpr std::string_view names_missing =
        "the recorded names are of .symtab or a symbol file, which is missing";
    skip(match, target, pairing, output::Change::not_checked, names_missing);
    const std::string image = image_of(match, target, pairing);
    if (failures_.emplace(image, names_missing).second)
      output_.fail(Error{ErrorKind::not_found, image + ": " + std::string(names_missing)}.hint(
                       "give the symbol file or folder with --symbols"),
                   target);
    return false;
  }

  struct FileState {
    std::optional<std::string> failure = {}; // why it cannot be read
    bool is_stripped = false;                // has no other function symbols than exported ones
  };
  // Returns the state of the file of a recorded match; null if the target has no such file.
  const FileState* state_of(const RecordedMatch& match, const std::string& target,
                            const resolve::Targets& targets, const resolve::TargetOptions& where) {
    for (const resolve::TargetFile& file : targets.files) {
      const auto& entry = file.path.entry;
      if (targets.several &&
          (match.entry && entry ? library_key(*entry) != library_key(*match.entry)
                                : match.entry || entry || file.path.file != match.file))
        continue;
      const auto [known, is_new] = states_.try_emplace(to_string(file.path));
      if (is_new) known->second = examine(file, target, where);
      return &known->second;
    }
    return nullptr;
  }

  static FileState examine(const resolve::TargetFile& file, const std::string& target,
                           const resolve::TargetOptions& where) {
    const auto opened = resolve::Target::open(file, target, where);
    if (!opened) return {.failure = opened.error().message};
    const elf::Image* const image = opened->image();
    if (image == nullptr) return {};
    // Nobody has this name: every table is searched, that of a debug file too.
    (void)opened->resolve(*resolve::parse_function("a function that no file has"),
                          {.suggest = false});
    const auto full = image->full_symbols();
    return {.is_stripped = full && full->size() == 0 && opened->symbol_sources().used.empty()};
  }

  static Result<std::vector<resolve::ProbePoint>>
  resolve_in_one(const resolve::Target& target, const std::string& request,
                 const resolve::ResolveOptions& how) {
    const auto function = resolve::parse_function(request);
    return function ? target.resolve(*function, how) : fail(function.error());
  }

  Result<std::vector<resolve::ProbePoint>> resolve_in_several(const resolve::Targets& targets,
                                                              const std::string& request,
                                                              const resolve::TargetOptions& where,
                                                              const resolve::ResolveOptions& how) {
    auto answers = resolve_all(targets, {&request, 1}, where, how);
    if (!answers) return fail(std::move(answers).error());
    output_.warn_once(answers->warnings);
    resolve::FunctionResult& answer = answers->functions.front();
    if (answer.points.empty() && !answer.errors.empty())
      return fail(std::move(answer.errors.front()));
    for (const Error& error : answer.errors) output_.fail(error, targets.text, request);
    return std::move(answer.points);
  }

  // Fails only if no file has the probe.
  Result<std::vector<resolve::ProbePoint>>
  resolve_static_in_several(const resolve::Targets& targets, const std::string& request,
                            const resolve::TargetOptions& where) {
    std::vector<resolve::ProbePoint> points;
    std::optional<Error> first_error;
    auto visited = visit_targets(targets, where, [&](const resolve::Target& target) {
      auto found = target.static_probes(request);
      if (found)
        std::ranges::move(*found, std::back_inserter(points));
      else if (!first_error)
        first_error = std::move(found).error();
    });
    if (!visited) return fail(std::move(visited).error());
    output_.warn_once(visited->warnings);
    if (points.empty() && first_error) return fail(std::move(*first_error));
    return points;
  }

  // Reports a changed build id once for each image.
  void compare_build_ids(const std::string& target, std::span<const RecordedMatch> recorded,
                         std::span<const resolve::ProbePoint> current, Pairing pairing) {
    const auto key_of = [&](const std::optional<std::string>& entry, const std::string& file) {
      return pairing == Pairing::in_one_file ? std::string() : entry ? library_key(*entry) : file;
    };
    std::unordered_map<std::string, const RecordedMatch*> first; // of each library
    for (const RecordedMatch& match : recorded)
      first.try_emplace(key_of(match.entry, match.file.value_or("")), &match);
    for (const resolve::ProbePoint& point : current) {
      const std::string image =
          pairing == Pairing::in_one_file ? target : to_string(point.binary->path);
      if (known_builds_.contains(image)) continue;
      const auto found = first.find(key_of(point.binary->path.entry, point.binary->real_path));
      if (found == first.end()) continue;
      const RecordedMatch* const old = found->second;
      known_builds_.insert(image);
      if (old->build_id == point.binary->build_id) continue;
      output::Finding finding{.change = output::Change::build_id,
                              .target = image,
                              .recorded = old->build_id,
                              .found = point.binary->build_id,
                              .record_line = old->line};
      set_file(finding, point, pairing);
      outcome_.verdict.add(std::move(finding));
    }
  }

  output::Output& output_;
  const VerifyRequest& request_;
  const resolve::TargetOptions& options_;
  DetailReader details_;
  std::map<std::string, Result<resolve::Targets>> found_;
  // Targets that are one file, by target and --extracted.
  std::map<std::pair<std::string, bool>, Result<resolve::Target>> opened_;
  std::set<std::string> known_builds_;                     // images
  std::map<std::string, FileState> states_;                // by path
  std::set<std::pair<std::string, std::string>> failures_; // reported: target and message
  VerifyOutcome outcome_;
};

} // namespace

std::optional<std::string> abi_of(const std::optional<std::string>& entry) {
  if (!entry) return std::nullopt;
  for (std::string& abi : resolve::known_abis())
    if (entry->contains("lib/" + abi + "/")) return std::move(abi);
  return std::nullopt;
}

std::string library_key(std::string_view entry) {
  const auto archive = entry.rfind("!/");
  const std::size_t begin = archive == std::string_view::npos ? 0 : archive + 2;
  const std::string_view name = entry.substr(begin);
  const auto folder = name.find("/lib/");
  if (name.starts_with("lib/") || folder == std::string_view::npos) return std::string(entry);
  return std::string(entry.substr(0, begin)).append(name.substr(folder + 1));
}

void set_file(output::Finding& finding, const resolve::ProbePoint& point, Pairing pairing) {
  const resolve::ProbedBinary& binary = *point.binary;
  finding.file = point.offset ? std::optional(binary.real_path) : std::nullopt;
  finding.entry = binary.path.entry;
  finding.abi = abi_of(finding.entry);
  if (pairing == Pairing::in_each_file) finding.image = to_string(binary.path);
}

bool are_paired(const RecordedMatch& recorded, const resolve::ProbePoint& current,
                Pairing pairing) {
  if (pairing == Pairing::in_one_file) return true;
  const auto& entry = current.binary->path.entry;
  if (!recorded.entry || !entry)
    return recorded.entry == entry && recorded.file == current.binary->real_path;
  return library_key(*recorded.entry) == library_key(*entry);
}

void drop_other_names(std::span<const RecordedMatch> recorded,
                      std::vector<resolve::ProbePoint>& current, Pairing pairing) {
  using Location = std::pair<const resolve::ProbedBinary*, ImageOffset>;
  std::set<std::size_t> paired;
  std::set<Location> known;
  for (const std::size_t i : pair_matches(recorded, current, pairing))
    if (i != current.size() && paired.insert(i).second && !current[i].static_probe)
      known.emplace(current[i].binary.get(), current[i].image_offset);
  std::size_t index = 0;
  std::erase_if(current, [&](const resolve::ProbePoint& point) {
    return !paired.contains(index++) && !point.static_probe &&
           known.contains({point.binary.get(), point.image_offset});
  });
}

std::vector<output::Finding> compare_matches(std::span<const RecordedMatch> recorded,
                                             std::span<const resolve::ProbePoint> current,
                                             const std::string& target, Pairing pairing) {
  std::vector<output::Finding> findings;
  const std::vector<std::size_t> pairs = pair_matches(recorded, current, pairing);
  std::vector<bool> paired(current.size(), false);
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    const RecordedMatch& old = recorded[i];
    output::Finding finding = finding_about(old, target, pairing);
    finding.match = i;
    if (pairs[i] == current.size()) {
      finding.recorded = position_of(old);
      findings.push_back(std::move(finding));
      continue;
    }
    paired[pairs[i]] = true;
    const resolve::ProbePoint& point = current[pairs[i]];
    set_file(finding, point, pairing);
    finding.is_old_version = point.default_version == false;
    std::ranges::move(find_differences(old, point, finding), std::back_inserter(findings));
  }
  for (std::size_t i = 0; i < current.size(); ++i) {
    if (paired[i]) continue;
    findings.push_back({.change = output::Change::added,
                        .target = target,
                        .request = current[i].request,
                        .symbol = current[i].symbol,
                        .version = current[i].version,
                        .found = hex_text(display_offset(current[i])),
                        .symbol_offset = current[i].symbol_offset,
                        .is_old_version = current[i].default_version == false});
    set_file(findings.back(), current[i], pairing);
  }
  return findings;
}

void add_comparison(std::span<const RecordedMatch> recorded,
                    std::span<const resolve::ProbePoint> current, const std::string& target,
                    Pairing pairing, std::size_t first, output::Verdict& verdict, bool with_added) {
  std::vector<bool> differs(recorded.size(), false);
  for (output::Finding& finding : compare_matches(recorded, current, target, pairing)) {
    if (finding.change == output::Change::added && !with_added) continue;
    if (finding.match) {
      differs[*finding.match] = true;
      *finding.match += first;
    }
    verdict.add(std::move(finding));
  }
  for (std::size_t i = 0; i < recorded.size(); ++i)
    if (!differs[i]) verdict.add_unchanged(finding_about(recorded[i], target, pairing));
}

void retarget(std::span<RecordedMatch> matches, const TargetReplacements& targets) {
  EntryFinder entries;
  for (RecordedMatch& match : matches) match.target = current_target(match, targets, entries);
}

Result<TargetReplacements> replace_targets(std::span<const RecordedMatch> recorded,
                                           std::span<const std::string> targets) {
  if (targets.size() == 1) return TargetReplacements{{"", targets.front()}};
  TargetReplacements replacements;
  if (targets.empty()) return replacements;
  std::vector<std::string> files;
  for (const RecordedMatch& match : recorded)
    if (std::string file = split_recorded(match).file;
        std::ranges::find(files, normalized(file), normalized) == files.end())
      files.push_back(std::move(file));
  const std::vector<std::string> all = files;
  std::vector<std::string> left(targets.begin(), targets.end());
  std::erase_if(left, [&](const std::string& target) {
    const auto has_its_name = [&](const std::string& file) {
      return file_name_of(file) == file_name_of(target);
    };
    // If two have one name, either could be meant.
    if (std::ranges::count_if(all, has_its_name) != 1 ||
        std::ranges::count_if(targets, has_its_name) != 1)
      return false;
    const auto file = std::ranges::find_if(files, has_its_name);
    replacements.emplace(normalized(*file), target);
    files.erase(file);
    return true;
  });
  if (files.size() == 1 && left.size() == 1) {
    replacements.emplace(normalized(files.front()), left.front());
    return replacements;
  }
  if (files.empty() && left.empty()) return replacements;
  Error error{ErrorKind::usage, "with several TARGETs, each needs a recorded file of its "
                                "file name, and each recorded file a TARGET"};
  if (!files.empty()) error = std::move(error).hint("recorded, without a TARGET: " + joined(files));
  if (!left.empty()) error = std::move(error).hint("not recorded: " + joined(left));
  return fail(std::move(error));
}

VerifyOutcome verify_matches(const VerifyRequest& request, output::Output& output) {
  Verifier verifier(output, request);
  EntryFinder entries;
  // `resolve` writes the matches of one request one after another.
  const std::vector<RecordedMatch>& all = request.recorded;
  for (std::size_t begin = 0; begin < all.size();) {
    std::size_t end = begin + 1;
    while (end < all.size() && all[end].target == all[begin].target &&
           all[end].request == all[begin].request &&
           all[end].is_static_probe() == all[begin].is_static_probe())
      ++end;
    verifier.verify(current_target(all[begin], request.targets, entries),
                    std::span(all).subspan(begin, end - begin), begin);
    begin = end;
  }
  return verifier.take();
}

} // namespace uprobectl::verify
