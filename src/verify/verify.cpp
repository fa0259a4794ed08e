// SPDX-License-Identifier: Apache-2.0
#include "verify/verify.hpp"

#include "util/text.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <iterator>
#include <map>
#include <set>

namespace uprobectl {

namespace {

using Change = DriftRecord::Change;

// The code of a source line moves inside its function.
bool same_name(const RecordedMatch& recorded, const ProbePoint& current) {
  return recorded.symbol == current.symbol && recorded.version == current.version &&
         (current.source || recorded.symbol_offset == current.symbol_offset) &&
         recorded.is_inlined == (current.inlined_into != nullptr);
}

// Returns Android's name of the ABI of an entry: "lib/arm64-v8a/libfoo.so".
std::optional<std::string> abi_of(const std::optional<std::string>& entry) {
  if (!entry) return std::nullopt;
  for (std::string& abi : known_abis())
    if (entry->contains("lib/" + abi + "/")) return std::move(abi);
  return std::nullopt;
}

// Returns the file of a recorded match that is printed: that of the target, with the entry instead
// of the pattern that matched it.
std::string image_of(const RecordedMatch& match, const std::string& target, Pairing pairing) {
  if (pairing == Pairing::in_one_file) return target;
  if (!match.entry) return match.file.value_or(target);
  for (const BinaryPath& reading : parse_candidates(target))
    if (reading.entry && matches_pattern(*reading.entry, *match.entry))
      return to_string(BinaryPath{reading.file, match.entry});
  return to_string(BinaryPath{match.file.value_or(target), match.entry});
}

void set_file(DriftRecord& drift, const ProbePoint& point, Pairing pairing) {
  const ProbedBinary& binary = *point.binary;
  drift.file = point.offset ? std::optional(binary.real_path) : std::nullopt;
  drift.entry = binary.path.entry;
  drift.abi = abi_of(drift.entry);
  if (pairing == Pairing::in_each_file) drift.image = to_string(binary.path);
}

bool is_in_full_table(const RecordedMatch& match) {
  return match.table == "symtab" || match.table == "debug_file" || match.table == "gnu_debugdata";
}

std::string hex_text(std::uint64_t value) { return fmt::format("{:#x}", value); }

// Returns for each recorded match the index of its current match, or current.size() without one. If
// a name has several places, pairs them in order of offset. The places of a static probe are first
// paired by equal offset, so that the others stay paired if one was removed.
std::vector<std::size_t> pair_matches(std::span<const RecordedMatch> recorded,
                                      std::span<const ProbePoint> current, Pairing pairing) {
  std::vector<std::size_t> pairs(recorded.size(), current.size());
  std::vector<bool> paired(current.size(), false);
  const auto pair = [&](std::size_t old, bool same_place) {
    for (std::size_t i = 0; i < current.size() && pairs[old] == current.size(); ++i) {
      if (paired[i] || !same_name(recorded[old], current[i]) ||
          !are_paired(recorded[old], current[i], pairing))
        continue;
      if (same_place && recorded[old].image_offset != current[i].image_offset.value) continue;
      pairs[old] = i;
      paired[i] = true;
    }
  };
  for (std::size_t old = 0; old < recorded.size(); ++old)
    if (recorded[old].static_probe) pair(old, true);
  for (std::size_t old = 0; old < recorded.size(); ++old) pair(old, false);
  return pairs;
}

// Returns the differences in offset and in a static probe's semaphore and arguments. Compares the
// semaphore's address, not its offset: if the archive entry moved, the probe's offset already
// shows.
std::vector<DriftRecord> find_differences(const RecordedMatch& old, const ProbePoint& point,
                                          const DriftRecord& about) {
  std::vector<DriftRecord> drifts;
  const auto add = [&](Change change, std::string recorded, std::string found) {
    DriftRecord drift = about;
    drift.change = change;
    drift.recorded = std::move(recorded);
    drift.found = std::move(found);
    drift.continues_previous = !drifts.empty();
    drifts.push_back(std::move(drift));
  };
  const bool same_image_place = point.image_offset.value == old.image_offset;
  const bool same_place = point.offset ? old.offset == point.offset->value : !old.offset;
  if (!same_image_place || !same_place)
    add(same_image_place ? Change::archive_moved : Change::function_moved,
        hex_text(old.offset.value_or(old.image_offset)), hex_text(display_offset(point)));
  if (!old.static_probe || !point.static_probe) return drifts;
  const StaticProbe& probe = *point.static_probe;
  const auto semaphore = probe.semaphore ? std::optional(probe.semaphore->value) : std::nullopt;
  const auto shown = [](const std::optional<std::uint64_t>& address) {
    return address ? hex_text(*address) : "none";
  };
  if (old.static_probe->semaphore_address != semaphore)
    add(Change::semaphore_moved, shown(old.static_probe->semaphore_address), shown(semaphore));
  if (old.static_probe->raw_arguments != probe.raw_arguments)
    add(Change::arguments, old.static_probe->raw_arguments, probe.raw_arguments);
  return drifts;
}

// The file of a recorded target, and the recorded entry or the pattern that matched it.
BinaryPath split_recorded(const RecordedMatch& match) {
  if (!match.entry) return {.file = match.target, .entry = std::nullopt};
  const std::string suffix = "!/" + *match.entry;
  if (match.target.ends_with(suffix))
    return {.file = match.target.substr(0, match.target.size() - suffix.size()),
            .entry = match.entry};
  for (BinaryPath& reading : parse_candidates(match.target))
    if (reading.entry && matches_pattern(*reading.entry, *match.entry)) return std::move(reading);
  return {.file = match.target, .entry = std::nullopt};
}

// Returns one path for all spellings of it: "./app" and "app" are one file.
std::string normalized(const std::string& path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  return (error ? std::filesystem::path(path) : absolute).lexically_normal().string();
}

// Returns the target to resolve a recorded match in.
std::string current_target(const RecordedMatch& match, const TargetReplacements& targets) {
  BinaryPath path = split_recorded(match);
  auto found = targets.find(normalized(path.file));
  if (found == targets.end()) found = targets.find("");
  if (found == targets.end()) return match.target;
  path.file = found->second;
  return to_string(path);
}

// Whether the request has no match, in contrast to a file that cannot be read.
bool means_gone(const Error& error) {
  return error.kind == ErrorKind::not_found || error.kind == ErrorKind::imported ||
         error.kind == ErrorKind::no_code;
}

bool is_line(const std::string& request) {
  const auto function = parse_function(request);
  return function && (function->form == FunctionSpec::Form::source_line ||
                      function->form == FunctionSpec::Form::function_line);
}

// Returns the choice of clones of a record that does not say it. Versions that wrote such records
// included clones of patterns, and of names with --clones; then also parts and jumps to other
// bodies.
ResolveOptions::Clones infer_clones(std::span<const RecordedMatch> recorded) {
  const std::string& request = recorded.front().request;
  const auto function = parse_function(request);
  const bool is_clone_of_name = std::ranges::any_of(recorded, [&](const RecordedMatch& match) {
    return match.symbol && is_clone(*match.symbol) && !request.starts_with(*match.symbol);
  });
  const bool all = is_clone_of_name || (function && is_name_pattern(function->name));
  return all ? ResolveOptions::Clones::all : ResolveOptions::Clones::none;
}

// Infers the options of the recorded request from its matches: --all if a name has several places,
// --inlined if an inlined instance was recorded. A line may have several places without --all.
ResolveOptions infer_options(std::span<const RecordedMatch> recorded, bool unsafe) {
  ResolveOptions options;
  options.unsafe = unsafe;
  const auto clones =
      recorded.front().clones ? parse_clones(*recorded.front().clones) : std::nullopt;
  options.thunks = !clones;
  options.clones = clones.value_or(infer_clones(recorded));
  // --all is needed for several places in one file only.
  std::set<std::pair<std::optional<std::string>, std::optional<std::string>>> files;
  for (const RecordedMatch& match : recorded)
    options.all = options.all || !files.emplace(match.file, match.entry).second;
  if (is_line(recorded.front().request)) options.all = false;
  options.inlined = std::ranges::any_of(recorded, &RecordedMatch::is_inlined);
  return options;
}

// Resolves requests again. Opens each target once.
class Verifier {
public:
  Verifier(Output& output, const VerifyRequest& request)
      : output_(output), options_(request.target_options), unsafe_(request.unsafe) {}

  void verify(const std::string& target, std::span<const RecordedMatch> recorded) {
    const std::string& request = recorded.front().request;
    const Result<Targets>& targets = find(target);
    if (!targets) return skip(recorded, target, Pairing::in_one_file);
    // Matches in a compressed library have no offset; they were recorded with --extracted.
    TargetOptions where = options_;
    where.extracted =
        where.extracted || std::ranges::any_of(recorded, [](const RecordedMatch& match) {
          return !match.offset.has_value();
        });
    const ResolveOptions how = infer_options(recorded, unsafe_);
    const Result<Target>* one = targets->several ? nullptr : &open(target, *targets, where);
    if (one != nullptr && !*one) return skip(recorded, target, Pairing::in_one_file);
    auto current = recorded.front().static_probe
                       ? (one == nullptr ? resolve_static_in_several(*targets, request, where)
                                         : (*one)->static_probes(request))
                   : one == nullptr ? resolve_in_several(*targets, request, where, how)
                                    : resolve_in_one(**one, request, how);
    if (current && one != nullptr && is_line(request) && recorded.size() > current->size()) {
      ResolveOptions with_all = how; // it may have been recorded with --all
      with_all.all = true;
      current = resolve_in_one(**one, request, with_all);
    }
    const Pairing pairing = targets->several ? Pairing::in_each_file : Pairing::in_one_file;
    if (!current && !means_gone(current.error())) {
      if (failures_.emplace(target, current.error().message).second)
        output_.fail(current.error(), target, request);
      return skip(recorded, target, pairing);
    }
    const bool is_resolved = current.has_value();
    if (!is_resolved) current.emplace();
    const std::vector<RecordedMatch> readable =
        skip_unreadable(recorded, *current, target, *targets, where);
    recorded = readable;
    if (recorded.empty() && current->empty()) return;
    if (!is_resolved) ++outcome_.unresolved;
    compare_build_ids(target, recorded, *current, pairing);
    for (DriftRecord& drift : compare_matches(recorded, *current, target, pairing)) report(drift);
    for (ProbePoint& point : *current) outcome_.points.push_back(std::move(point));
  }

  VerifyOutcome take() { return std::move(outcome_); }

private:
  const Result<Targets>& find(const std::string& target) {
    const auto known = found_.find(target);
    if (known != found_.end()) return known->second;
    const auto& targets = found_.emplace(target, find_targets(target, options_)).first->second;
    if (!targets) output_.fail(targets.error(), target);
    return targets;
  }

  const Result<Target>& open(const std::string& target, const Targets& targets,
                             const TargetOptions& where) {
    const std::pair key(target, where.extracted);
    const auto known = opened_.find(key);
    if (known != opened_.end()) return known->second;
    const auto& opened =
        opened_.emplace(key, Target::open(targets.files.front(), target, where)).first->second;
    if (!opened) output_.fail(opened.error(), target);
    return opened;
  }

  // Counts matches that cannot be checked, and reports each of their files once.
  void skip(std::span<const RecordedMatch> recorded, const std::string& target, Pairing pairing) {
    outcome_.not_checked += recorded.size();
    for (const RecordedMatch& match : recorded) {
      DriftRecord drift{.change = Change::not_checked,
                        .target = target,
                        .request = std::nullopt,
                        .symbol = std::nullopt,
                        .recorded = std::nullopt,
                        .found = std::nullopt,
                        .file = match.file,
                        .entry = match.entry,
                        .abi = abi_of(match.entry),
                        .image = image_of(match, target, pairing)};
      if (skipped_images_.insert(*drift.image).second) report(drift);
    }
  }

  // Skips the recorded matches of files that cannot be read or lack the symbols that they had, and
  // returns the others. Without the symbols of a debug file nothing is known of a function.
  std::vector<RecordedMatch> skip_unreadable(std::span<const RecordedMatch> recorded,
                                             std::span<const ProbePoint> current,
                                             const std::string& target, const Targets& targets,
                                             const TargetOptions& where) {
    const Pairing pairing = targets.several ? Pairing::in_each_file : Pairing::in_one_file;
    std::vector<RecordedMatch> readable;
    for (const RecordedMatch& match : recorded) {
      const bool is_found = std::ranges::any_of(current, [&](const ProbePoint& point) {
        return same_name(match, point) && are_paired(match, point, pairing);
      });
      const FileState* const state = is_found ? nullptr : state_of(match, target, targets, where);
      if (state == nullptr ||
          (state->is_readable && !(state->is_stripped && is_in_full_table(match))))
        readable.push_back(match);
      else
        skip({&match, 1}, target, pairing);
      if (state != nullptr && state->is_readable && state->is_stripped && is_in_full_table(match))
        report_stripped(image_of(match, target, pairing), target);
    }
    return readable;
  }

  void report_stripped(const std::string& image, const std::string& target) {
    if (!stripped_images_.insert(image).second) return;
    output_.fail(
        Error{ErrorKind::not_found,
              image + ": the recorded names are of .symtab or a symbol file, which is missing"}
            .hint("give the symbol file or folder with --symbols"),
        target);
  }

  struct FileState {
    bool is_readable = true;
    bool is_stripped = false; // has no other function symbols than exported ones
  };
  // Returns the state of the file of a recorded match; null if the target has no such file.
  const FileState* state_of(const RecordedMatch& match, const std::string& target,
                            const Targets& targets, const TargetOptions& where) {
    for (const TargetFile& file : targets.files) {
      if (targets.several && (match.entry ? file.path.entry != match.entry
                                          : file.path.entry || file.path.file != match.file))
        continue;
      const auto [known, is_new] = states_.try_emplace(to_string(file.path));
      if (is_new) known->second = examine(file, target, where);
      return &known->second;
    }
    return nullptr;
  }

  static FileState examine(const TargetFile& file, const std::string& target,
                           const TargetOptions& where) {
    const auto opened = Target::open(file, target, where);
    if (!opened) return {.is_readable = false};
    const elf::Image* const image = opened->image();
    if (image == nullptr) return {};
    // Nobody has this name: every table is searched, that of a debug file too.
    (void)opened->resolve(*parse_function("a function that no file has"), {.suggest = false});
    const auto full = image->full_symbols();
    return {.is_stripped = full && full->size() == 0 && opened->debug_notes().used.empty()};
  }

  static Result<std::vector<ProbePoint>>
  resolve_in_one(const Target& target, const std::string& request, const ResolveOptions& how) {
    const auto function = parse_function(request);
    return function ? target.resolve(*function, how) : fail(function.error());
  }

  Result<std::vector<ProbePoint>> resolve_in_several(const Targets& targets,
                                                     const std::string& request,
                                                     const TargetOptions& where,
                                                     const ResolveOptions& how) {
    auto answers = resolve_all(targets, {&request, 1}, where, how);
    if (!answers) return fail(std::move(answers).error());
    output_.warn_once(answers->warnings);
    FunctionResult& answer = answers->functions.front();
    if (answer.points.empty() && !answer.errors.empty())
      return fail(std::move(answer.errors.front()));
    for (const Error& error : answer.errors) output_.fail(error, targets.text, request);
    return std::move(answer.points);
  }

  // Fails only if no file has the probe.
  Result<std::vector<ProbePoint>> resolve_static_in_several(const Targets& targets,
                                                            const std::string& request,
                                                            const TargetOptions& where) {
    std::vector<ProbePoint> points;
    std::optional<Error> first_error;
    auto visited = visit_targets(targets, where, [&](const Target& target) {
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
                         std::span<const ProbePoint> current, Pairing pairing) {
    for (const ProbePoint& point : current) {
      const auto old = std::ranges::find_if(
          recorded, [&](const RecordedMatch& match) { return are_paired(match, point, pairing); });
      if (old == recorded.end() || old->build_id == point.binary->build_id) continue;
      const std::string image =
          pairing == Pairing::in_one_file ? target : to_string(point.binary->path);
      if (!other_builds_.insert(image).second) continue;
      DriftRecord drift{.change = DriftRecord::Change::build_id,
                        .target = image,
                        .request = std::nullopt,
                        .symbol = std::nullopt,
                        .recorded = old->build_id,
                        .found = point.binary->build_id};
      set_file(drift, point, pairing);
      report(drift);
    }
  }

  void report(const DriftRecord& drift) {
    output_.write(drift);
    outcome_.changes.push_back(drift.change);
    const bool concerns_match = drift.change != Change::build_id && drift.change != Change::added &&
                                drift.change != Change::not_checked;
    if (concerns_match && !drift.continues_previous) ++outcome_.changed;
  }

  Output& output_;
  const TargetOptions& options_;
  bool unsafe_;
  std::map<std::string, Result<Targets>> found_;
  // Targets that are one file, by target and --extracted.
  std::map<std::pair<std::string, bool>, Result<Target>> opened_;
  std::set<std::string> other_builds_;
  std::map<std::string, FileState> states_;                // by path
  std::set<std::pair<std::string, std::string>> failures_; // reported: target and message
  std::set<std::string> skipped_images_;                   // reported
  std::set<std::string> stripped_images_;                  // reported
  VerifyOutcome outcome_;
};

} // namespace

bool are_paired(const RecordedMatch& recorded, const ProbePoint& current, Pairing pairing) {
  if (pairing == Pairing::in_one_file) return true;
  return recorded.entry == current.binary->path.entry &&
         (recorded.entry || recorded.file == current.binary->real_path);
}

std::vector<DriftRecord> compare_matches(std::span<const RecordedMatch> recorded,
                                         std::span<const ProbePoint> current,
                                         const std::string& target, Pairing pairing) {
  std::vector<DriftRecord> drifts;
  const std::vector<std::size_t> pairs = pair_matches(recorded, current, pairing);
  std::vector<bool> paired(current.size(), false);
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    const RecordedMatch& old = recorded[i];
    DriftRecord drift{.change = Change::gone,
                      .target = target,
                      .request = old.request,
                      .symbol = old.symbol,
                      .recorded = hex_text(old.offset.value_or(old.image_offset)),
                      .found = std::nullopt,
                      .file = old.file,
                      .entry = old.entry,
                      .abi = abi_of(old.entry)};
    if (pairing == Pairing::in_each_file) drift.image = image_of(old, target, pairing);
    if (pairs[i] == current.size()) {
      drifts.push_back(std::move(drift));
      continue;
    }
    paired[pairs[i]] = true;
    const ProbePoint& point = current[pairs[i]];
    set_file(drift, point, pairing);
    std::ranges::move(find_differences(old, point, drift), std::back_inserter(drifts));
  }
  for (std::size_t i = 0; i < current.size(); ++i) {
    if (paired[i]) continue;
    drifts.push_back({.change = Change::added,
                      .target = target,
                      .request = current[i].request,
                      .symbol = current[i].symbol,
                      .recorded = std::nullopt,
                      .found = hex_text(display_offset(current[i]))});
    set_file(drifts.back(), current[i], pairing);
  }
  return drifts;
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
  Error error{ErrorKind::usage, "--verify with several TARGETs: each needs a recorded file of its "
                                "file name, and each recorded file a TARGET"};
  if (!files.empty()) error = std::move(error).hint("recorded, without a TARGET: " + joined(files));
  if (!left.empty()) error = std::move(error).hint("not recorded: " + joined(left));
  return fail(std::move(error));
}

VerifyOutcome verify_matches(const VerifyRequest& request, Output& output) {
  Verifier verifier(output, request);
  // `resolve` writes the matches of one request one after another.
  const std::vector<RecordedMatch>& all = request.recorded;
  for (std::size_t begin = 0; begin < all.size();) {
    std::size_t end = begin + 1;
    while (end < all.size() && all[end].target == all[begin].target &&
           all[end].request == all[begin].request &&
           all[end].static_probe.has_value() == all[begin].static_probe.has_value())
      ++end;
    verifier.verify(current_target(all[begin], request.targets),
                    std::span(all).subspan(begin, end - begin));
    begin = end;
  }
  return verifier.take();
}

} // namespace uprobectl
