// SPDX-License-Identifier: Apache-2.0
// The event source for a user's programs: loads them, reads their records, and hands these to the
// parts that the request asks for.
#include "events/user_record.hpp"
#include "trace/counted_records.hpp"
#include "trace/hit_stacks.hpp"
#include "trace/printk_reader.hpp"
#include "trace/probe_program.hpp"
#include "trace/record_selection.hpp"
#include "trace/triggers.hpp"
#include "trace/user_maps.hpp"
#include "trace/user_programs.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <ranges>
#include <set>

namespace uprobectl {

namespace {

ProgramInfo describe_programs(const UserPrograms& programs) {
  ProgramInfo info{.name = programs.name(),
                   .probe_requests = programs.probe_requests(),
                   .other_programs = programs.other_programs()};
  for (std::size_t i = 0; i < programs.count(); ++i)
    info.programs.push_back(
        {.name = std::string(programs.program_name(i)), .is_session = programs.is_session(i)});
  return info;
}

constexpr std::size_t max_discard_rounds = 1024; // of 65,536 records

class UserSource final : public ProbeProgram {
public:
  UserSource(UserPrograms programs, const AttachRequest& request, Exports& exports, Output& output)
      : ProbeProgram(describe_programs(programs)), programs_(std::move(programs)),
        attach_request_(request), request_(*request.program), exports_(exports), output_(output) {}

  Result<void> prepare(const KernelFeatures& features) override {
    features_ = features;
    auto prepared = programs_.prepare(features);
    info_.kind = programs_.kind();
    return prepared;
  }

  Result<void> load(const LoadRequest& request, ResolvedProbes& resolved) override {
    programs_.set_pids(request.pids);
    if (auto loaded = programs_.load(request.mechanism, output_); !loaded)
      return fail(std::move(loaded).error());
    if (!streams_)
      if (auto opened = open_maps(); !opened) return opened;
    find_probes(resolved.probes);
    programs_.load_copies(probe_counts(), output_);
    start_counting();
    for (Probe& probe : resolved.probes)
      for (PlannedSite& site : probe.sites) {
        site.loaded = programs_.program(site.program, probe_index(site.program, probe.number));
        site.cookie = request_.cookie;
      }
    return static_probes_.load(spec_tables_, resolved.probes, request_.cookie,
                               supports_cookies(request.mechanism, features_));
  }
  void report_cautions() const override { static_probes_.report_cautions(output_); }

  Result<void> start(const HitProcesses& who) override {
    make_parts(who);
    // A saved run filters and counts by them.
    if (output_.is_copied()) output_.write_copy(RecordTypesRecord{decoder_->list_types()});
    auto links = programs_.attach_other_programs(output_);
    info_.other_programs = programs_.other_programs();
    if (!links) return fail(std::move(links).error());
    other_links_ = std::move(*links);
    return {};
  }
  Result<void> stop() override {
    other_links_.clear();
    parts_.stop();
    return {};
  }

  void add_to(std::vector<pollfd>& polled) const override {
    for (const int fd : streams_->poll_fds())
      polled.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    parts_.add_to(polled);
  }
  bool drain(const Visit& visit) override {
    parts_.update(RunPart::Time::clock::now());
    const auto one = [&](std::size_t map, Bytes sent) { return take(map, sent, visit); };
    const bool more = streams_->drain(one);
    parts_.warn();
    return more;
  }
  SourceState state() const override {
    return {.waits = streams_->waits(), .unsubmitted = streams_->unsubmitted()};
  }
  std::vector<Loss> losses() const override {
    return {{loss_reasons::buffer_full, lost_in_buffers()}, {loss_reasons::corrupt, corrupt_}};
  }
  std::uint64_t discard() override {
    std::uint64_t events = 0;
    const auto count = [&](std::size_t /*map*/, Bytes /*sent*/) {
      ++events;
      return true;
    };
    // A pinned program may have other links, too, and never stop sending.
    for (std::size_t rounds = 0; rounds < max_discard_rounds; ++rounds)
      if (!streams_->drain(count)) break;
    return events;
  }

  void count_hits(std::span<Probe> probes) const override;
  void report_aggregates(RunPart::Time now) override { parts_.report(now); }
  ProgramResults finish() override;

private:
  // Before the programs are attached: their records are shown from then on, too.
  void start_counting() {
    counting_ = ProgramRunCounter::start();
    for (std::size_t i = 0; i < programs_.count(); ++i)
      for (std::size_t index = 0; index < programs_.copies(i); ++index)
        runs_before_[{i, index}] = runs(i, index);
  }

  std::optional<std::uint64_t> runs(std::size_t program, std::size_t index) const {
    return counting_.runs(programs_.program(program, index).fd);
  }
  // Valid after detaching, too.
  std::optional<std::uint64_t> runs_since_attaching(std::size_t program, std::size_t index) const {
    const auto now = runs(program, index);
    const auto before = runs_before_.find({program, index});
    if (!now || before == runs_before_.end() || !before->second) return std::nullopt;
    return *now - *before->second;
  }
  // Finds the probes of each program.
  void find_probes(std::span<const Probe> probes) {
    probes_of_.assign(programs_.count(), {});
    for (const Probe& probe : probes)
      for (const PlannedSite& site : probe.sites) probes_of_[site.program].insert(probe.number);
  }
  std::vector<std::size_t> probe_counts() const {
    std::vector<std::size_t> counts;
    for (const std::set<std::size_t>& probes : probes_of_) counts.push_back(probes.size());
    return counts;
  }
  // Which of the program's probes this is.
  std::size_t probe_index(std::size_t program, std::size_t probe) const {
    const std::set<std::size_t>& probes = probes_of_[program];
    return static_cast<std::size_t>(std::distance(probes.begin(), probes.find(probe)));
  }
  bool take(std::size_t map, Bytes sent, const Visit& visit);
  Result<void> open_streams();
  std::uint64_t program_lost_count() const {
    std::uint64_t sum = 0;
    for (const UserMap& map : lost_) sum += read_lost_count(map);
    return sum;
  }
  // The kernel counts records that perf buffers lose; the program counts those it could not send.
  // Without a ring buffer both count the same records.
  std::uint64_t lost_in_buffers() const {
    const std::uint64_t by_program = program_lost_count() - lost_count_before_;
    const bool has_ring =
        std::ranges::find(maps_, MapUse::ring_buffer, &UserMap::use) != maps_.end();
    return has_ring ? streams_->lost() + by_program : std::max(streams_->lost(), by_program);
  }
  Result<void> open_maps();
  Result<void> check_unusable_maps() const;
  Result<void> check_record_options(std::span<const std::string> buffers);
  // Returns the option that needs records; empty if there is none.
  std::string_view option_for_records() const {
    const CaptureSpec& capture = attach_request_.capture;
    if (!capture.groups.by.empty()) return "--by";
    if (attach_request_.aggregates.histograms) return "--histogram";
    if (attach_request_.keep) return "--keep";
    return capture.filter.terms.empty() ? "" : "--if";
  }
  bool needs_records() const { return !option_for_records().empty(); }
  void add_stack(Event& event, const SenderContext& from);
  Result<void> select_maps(std::vector<UserMap> known,
                           const std::shared_ptr<const DataTypes>& types);
  void make_parts(const HitProcesses& who);
  std::string_view phase_at(const Probe& probe, std::size_t program) const;

  UserPrograms programs_;
  const AttachRequest& attach_request_;
  const UserProgramRequest& request_;
  Exports& exports_;
  Output& output_;
  KernelFeatures features_;
  std::vector<UserMap> spec_tables_; // specification maps of usdt.bpf.h: one, or none
  UserStaticProbes static_probes_;
  std::vector<UserMap> maps_;           // selected maps
  std::vector<UserMap> lost_;           // the program's counts of records that it could not send
  std::uint64_t lost_count_before_ = 0; // a pinned program may have counted before
  std::optional<UserValues> values_;
  std::shared_ptr<const DataTypes> types_; // of the programs; null: there are none
  bool needs_symbols_ = false;             // values_ does
  std::optional<UserRecordDecoder> decoder_;
  std::optional<RecordSelection> selection_; // nullopt: all records
  std::optional<RecordTriggers> triggers_;   // if records wait for one
  bool counts_records_ = false;              // instead of showing them
  bool finds_stacks_ = true;                 // what is shown or counted has them
  std::optional<RecordStreams> streams_;
  std::unique_ptr<PrintkReader> printk_; // until start()
  ProgramRunCounter counting_;
  // By the program and the index of its probe.
  std::map<std::pair<std::size_t, std::size_t>, std::optional<std::uint64_t>> runs_before_;
  std::vector<std::set<std::size_t>> probes_of_; // by program: the numbers of its probes
  std::vector<ObjectLink> other_links_;
  std::uint64_t corrupt_ = 0;
  bool has_stacks_ = false;     // records carry stacks
  HitStacks* stacks_ = nullptr; // set by start() if has_stacks_ or needs_symbols_; a part
  RunParts parts_;
};

// A map has these names: its whole name, the first 15 bytes that the kernel keeps, and for global
// variables ".bss", with or without the name of the object. libbpf keeps eight bytes of that.
bool has_name(std::string_view map, std::string_view name) {
  constexpr std::size_t kept = 15;
  if (map == name || (name.size() == kept && map.starts_with(name))) return true;
  const auto section = map.find('.');
  const auto dot = name.find('.');
  return section != std::string_view::npos && dot != std::string_view::npos &&
         map.substr(section) == name.substr(dot) &&
         (dot == 0 || name.starts_with(map.substr(0, section)));
}

// An error for a map that is named, or whose records are read because none is named; a warning for
// another one that a program uses.
Result<void> UserSource::check_unusable_maps() const {
  const auto unusable = programs_.unusable_maps();
  if (!unusable) return fail(unusable.error());
  for (const UserPrograms::UnusableMap& map : *unusable) {
    const bool is_named = std::ranges::any_of(
        request_.maps, [&](const std::string& name) { return has_name(map.name, name); });
    Error error = map.problem;
    error.message = fmt::format("map '{}' cannot be read: {}", map.name, error.message);
    if (is_named || (request_.maps.empty() && map.is_buffer && map.is_used)) {
      if (!is_named) error.hints.emplace_back("or name the maps that are wanted: --map NAME");
      return fail(std::move(error));
    }
    if (map.is_used)
      output_.warn(error.hints.empty()
                       ? error.message
                       : fmt::format("{} ({})", error.message, joined(error.hints)));
  }
  return {};
}

// Selects the named maps, or all.
Result<void> UserSource::select_maps(std::vector<UserMap> known,
                                     const std::shared_ptr<const DataTypes>& types) {
  if (request_.maps.empty()) {
    maps_ = std::move(known);
    return {};
  }
  // `variable`: the only one that is shown; empty: all of the map.
  const auto add = [&](UserMap map, std::string variable) {
    if (std::ranges::any_of(maps_, [&](const UserMap& each) {
          return each.id == map.id && each.variable == variable;
        }))
      return; // it was named twice
    map.variable = std::move(variable);
    maps_.push_back(std::move(map));
  };
  for (const std::string& name : request_.maps) {
    if (name.find('/') != std::string::npos) {
      auto map = open_pinned_map(name);
      if (!map) return fail(std::move(map).error());
      // What is known of the program's own maps is more than the kernel keeps.
      const auto own = std::ranges::find(known, map->id, &UserMap::id);
      add(own == known.end() ? std::move(*map) : *own, {});
      continue;
    }
    std::string variable;
    auto found = std::ranges::find(known, name, &UserMap::name);
    if (found == known.end())
      found =
          std::ranges::find_if(known, [&](const UserMap& map) { return has_name(map.name, name); });
    if (found == known.end()) {
      found = std::ranges::find_if(known, [&](const UserMap& map) {
        const std::vector<std::string> globals = list_globals(map, types);
        return std::ranges::find(globals, name) != globals.end();
      });
      variable = name;
    }
    if (found == known.end()) {
      const std::string names = joined(known | std::views::transform(&UserMap::name));
      return fail(Error{ErrorKind::not_found, "the program has no map '" + name + "'"}.hint(
          names.empty() ? "the program has no maps that can be shown" : "use one of: " + names));
    }
    add(*found, std::move(variable));
  }
  return {};
}

bool is_buffer(const UserMap& map) { return uprobectl::is_buffer(map.use); }

// Returns the names of maps that have what a program without buffers has collected.
std::vector<std::string> list_collecting(std::span<const UserMap> maps) {
  std::vector<std::string> names;
  for (const UserMap& map : maps) {
    if (is_buffer(map)) return {};
    const bool is_constant =
        map.name.ends_with(".kconfig") || map.name.find(".rodata") != std::string::npos;
    const bool is_internal = map.name.starts_with("__bpf_usdt_");
    const bool is_listed = map.use != MapUse::other && map.use != MapUse::bloom;
    if (is_listed && !is_constant && !is_internal) names.push_back(map.name);
  }
  return names;
}

Result<void> UserSource::open_streams() {
  const auto stacks = choose_stream_stacks(maps_, attach_request_.capture, output_);
  if (!stacks) return fail(Error(stacks.error()).within(programs_.name()));
  auto streams = RecordStreams::open(maps_, *stacks);
  if (!streams) return fail(std::move(streams).error());
  streams_ = std::move(*streams);
  has_stacks_ = std::ranges::any_of(*stacks, &StackRequest::is_enabled);
  const bool size_is_given = attach_request_.capture.stack_bytes != default_stack_bytes;
  if (!has_stacks_ && (exports_.need_stacks() || attach_request_.stacks.save_dir || size_is_given))
    return fail(Error{ErrorKind::unsupported, programs_.name() + ": no map carries stacks"}.hint(
        "use a perf event array with --stack, or with a name that ends in _with_stack"));
  return {};
}

bool UserSource::take(std::size_t map, Bytes sent, const Visit& visit) {
  const auto record = streams_->decode(map, sent);
  if (!record) {
    ++corrupt_;
    return true;
  }
  const pid_t sender = record->from ? static_cast<pid_t>(record->from->pid) : 0;
  Event event = decoder_->decode(map, record->record);
  if (const auto reason = decoder_->explain_raw(map)) output_.warn(*reason);
  if (record->from) set_sender(event, *record->from);
  if (selection_ && !selection_->selects(event)) return true;
  if (triggers_) triggers_->mark(event);
  decoder_->finish(map, event, output_.is_copied(),
                   [&](UserRecord& decoded, std::span<const ShownAsRule> tags) {
                     return values_->show_record(decoded, tags, sender);
                   });
  if (record->from && finds_stacks_) add_stack(event, *record->from);
  parts_.take(record->record, event);
  return counts_records_ || visit(event);
}

void UserSource::add_stack(Event& event, const SenderContext& from) {
  if (const auto captured = make_captured_stack(from)) {
    event.stack = stacks_->find(event, *captured);
    event.has_raw_stack = event.stack == nullptr;
    event.sample = stacks_->sample();
  } else if (is_32bit_process(from)) {
    output_.repeated_warning("32-bit", "stacks of 32-bit processes are not unwound");
  }
}

Result<void> UserSource::open_maps() {
  auto types = programs_.read_types(output_);
  if (auto checked = check_unusable_maps(); !checked) return checked;
  auto known = programs_.maps();
  if (known) lost_ = find_lost_maps(*known);
  if (known) {
    auto tables = *known | std::views::filter(UsdtSpecs::is_table);
    spec_tables_.assign(tables.begin(), tables.end());
  }
  // A probe has one cookie, which is an index into the table.
  if (spec_tables_.size() > 1)
    return fail(
        Error{ErrorKind::unsupported,
              "several objects have programs for static probes, each with its own arguments"}
            .hint("add --share-maps, or attach them in several runs"));
  if (!known && std::ranges::any_of(request_.maps, [](const std::string& name) {
        return name.find('/') == std::string::npos;
      }))
    return fail(std::move(known).error());
  if (!known && request_.maps.empty())
    output_.warn("the records of the program cannot be shown: " + known.error().message);
  values_.emplace(request_.shown_as,
                  known ? std::span<const UserMap>(*known) : std::span<const UserMap>(), output_);
  needs_symbols_ = values_->needs_symbols(types.get());
  types_ = types;
  if (known && request_.maps.empty())
    if (const auto names = list_collecting(*known); !names.empty())
      output_.status("the program sends no records: print its maps with --map: " + joined(names));
  std::vector<std::string> buffers;
  if (known)
    for (const UserMap& map : *known | std::views::filter(is_buffer)) buffers.push_back(map.name);
  if (auto selected = select_maps(known ? std::move(*known) : std::vector<UserMap>(), types);
      !selected)
    return fail(std::move(selected).error());
  if (!buffers.empty() && std::ranges::none_of(maps_, is_buffer) && !needs_records())
    output_.status("records of the program are not read: request them with --map: " +
                   joined(buffers));
  auto decoder = UserRecordDecoder::make(std::move(types), maps_, request_.record_types);
  if (!decoder) return fail(std::move(decoder).error().within(programs_.name()));
  decoder_ = std::move(*decoder);
  if (auto opened = open_streams(); !opened) return opened;
  if (!known && needs_records() && std::ranges::none_of(maps_, is_buffer))
    return fail(std::move(known).error());
  if (auto checked = check_record_options(buffers); !checked) return checked;
  lost_count_before_ = program_lost_count();
  if (!request_.printk) return {};
  auto printk = PrintkReader::open(output_);
  if (!printk) return fail(std::move(printk).error());
  printk_ = std::make_unique<PrintkReader>(std::move(*printk));
  return {};
}

// Makes the filter. `buffers`: those of the program. Fails if no record can fulfil it or have what
// records are counted by.
Result<void> UserSource::check_record_options(std::span<const std::string> buffers) {
  const CaptureSpec& capture = attach_request_.capture;
  if (needs_records() && std::ranges::none_of(maps_, is_buffer)) {
    Error error{ErrorKind::usage,
                fmt::format("{} needs records, {}", option_for_records(),
                            buffers.empty() ? "and the program sends none"
                                            : "and --map selects no map that has them")};
    if (!buffers.empty())
      error = std::move(error).hint("add --map with one of: " + joined(buffers));
    return fail(std::move(error));
  }
  const std::vector<ValueType> types = decoder_->list_types();
  if (auto checked = check_record_totals(record_totals(attach_request_), types); !checked)
    return checked;
  if (const auto& weight = attach_request_.stacks.weight)
    if (auto checked = check_record_sum("--weight", *weight, types); !checked) return checked;
  if (attach_request_.keep) {
    auto made = RecordTriggers::make(*attach_request_.keep, types);
    if (!made) return fail(std::move(made).error());
    triggers_ = std::move(*made);
  }
  if (capture.filter.terms.empty()) return {};
  auto made = RecordSelection::make(capture.filter, types, output_);
  if (!made) return fail(std::move(made).error());
  selection_ = std::move(*made);
  return {};
}

// The kernel counts runs for each program. The count is that of a probe if the program, or its copy
// for the probe, has no other probe, or never ran.
void UserSource::count_hits(std::span<Probe> probes) const {
  std::vector<std::set<std::size_t>> left(programs_.count()); // probes, by program
  for (const Probe& probe : probes)
    for (const PlannedSite& site : probe.sites) left[site.program].insert(probe.number);
  for (Probe& probe : probes) {
    probe.hits = 0;
    probe.programs.clear();
    std::set<std::size_t> seen;
    for (const PlannedSite& site : probe.sites) {
      if (!seen.insert(site.program).second) continue;
      const bool is_alone = programs_.copies(site.program) > 1 || left[site.program].size() == 1;
      const std::size_t index = probe_index(site.program, probe.number);
      auto hits =
          runs_since_attaching(site.program, programs_.copies(site.program) > 1 ? index : 0);
      if (!is_alone && hits != 0) hits.reset();
      if (!hits || !probe.hits)
        probe.hits.reset();
      else
        *probe.hits += *hits;
      probe.programs.push_back({.program = info_.programs[site.program].name,
                                .phase = std::string(phase_at(probe, site.program)),
                                .hits = hits});
    }
  }
}

// A program with sites at both ends runs at both.
std::string_view UserSource::phase_at(const Probe& probe, std::size_t program) const {
  std::set<std::string_view> phases;
  for (const PlannedSite& site : probe.sites)
    if (site.program == program) phases.insert(info_.phase_of(site));
  return phases.size() == 1 ? *phases.begin() : "entry and return";
}

// Makes what the request asks for.
void UserSource::make_parts(const HitProcesses& who) {
  const AggregateSpec& aggregates = attach_request_.aggregates;
  if (printk_) parts_.add(std::move(printk_));
  if (has_stacks_ || needs_symbols_) {
    stacks_ = &parts_.add<HitStacks>(attach_request_.capture, attach_request_.stacks,
                                     attach_request_.probes.target_options, who, exports_, output_);
    if (!has_stacks_) stacks_->only_symbolize();
    if (attach_request_.keep) stacks_->hold_samples();
  }
  if (needs_symbols_) values_->start(*stacks_, who);
  if (aggregates.counts || aggregates.histograms) {
    TotalsSpec counted = record_totals(attach_request_);
    counts_records_ = true;
    finds_stacks_ = counted.groups.has(BY_STACK) || exports_.need_stacks() ||
                    attach_request_.stacks.save_dir.has_value();
    parts_.add<CountedRecords>(std::move(counted), stacks_, output_);
  }
  if (!request_.maps.empty())
    parts_.add<UserMapReport>(
        UserMapPrinter(types_, *values_, output_), maps_, lost_,
        UserMapReport::How{.clears = request_.clears_maps,
                           .is_interval_run = aggregates.interval.has_value()},
        output_);
}

ProgramResults UserSource::finish() {
  // Records that cannot be decoded are shown raw.
  ProgramResults results{.uncounted_losses = explain_uncounted_losses(maps_, lost_),
                         .corrupt = decoder_->unknown_layouts()};
  parts_.finish(results);
  values_->report_unused();
  if (selection_) selection_->report_unknown();
  return results;
}

} // namespace

Result<std::unique_ptr<ProbeProgram>> make_user_source(const AttachRequest& request,
                                                       Exports& exports, Output& output) {
  auto programs = UserPrograms::open(request, output.workstation());
  if (!programs) return fail(std::move(programs).error());
  programs->report_locations(request.dry_run, output);
  return std::make_unique<UserSource>(std::move(*programs), request, exports, output);
}

} // namespace uprobectl
