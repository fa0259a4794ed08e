// SPDX-License-Identifier: Apache-2.0
// The event source for a user's programs: loads them, reads their records, and hands these to the
// parts that the request asks for.
#include "events/user_record.hpp"
#include "trace/counted_events.hpp"
#include "trace/hit_stacks.hpp"
#include "trace/printk_reader.hpp"
#include "trace/program_runs.hpp"
#include "trace/program_source.hpp"
#include "trace/record_selection.hpp"
#include "trace/triggers.hpp"
#include "trace/user_map_choice.hpp"
#include "trace/user_maps.hpp"
#include "trace/user_programs.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <ranges>
#include <set>

namespace uprobectl::trace {

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

class UserSource final : public ProgramSource {
public:
  UserSource(UserPrograms programs, const AttachRequest& request, output::Output& output)
      : ProgramSource(describe_programs(programs)), programs_(std::move(programs)),
        attach_request_(request), request_(*request.program), output_(output) {}

  Result<void> prepare(const bpf::KernelFeatures& features) override {
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
    runs_.emplace(programs_, resolved.probes);
    programs_.load_copies(runs_->probe_counts(), output_);
    runs_->begin(); // records are shown from then on, too
    for (Probe& probe : resolved.probes)
      for (PlannedSite& site : probe.sites) {
        site.loaded =
            programs_.program(site.program, runs_->probe_index(site.program, probe.number));
        site.cookie = request_.cookie;
        if (site.exit && programs_.reads_function_address(site.program))
          output_.warn_once(
              fmt::format("program '{}' runs at exits, where bpf_get_func_ip() returns the address "
                          "of the exit, not of the function",
                          programs_.program_name(site.program)));
      }
    return static_probes_.load(spec_tables_, resolved.probes, request_.cookie,
                               supports_cookies(request.mechanism, features_));
  }
  void report_cautions() const override { static_probes_.report_cautions(output_); }

  Result<void> start(const HitProcesses& processes) override {
    make_parts(processes);
    // A saved run is filtered and counted by the types.
    if (output_.has_recorders()) output_.record(output::RecordTypesRecord{decoder_->list_types()});
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
    parts_.each(&RunPart::add_to, polled);
  }
  bool drain(const Visit& visit) override {
    parts_.each(&RunPart::update, RunPart::Time::clock::now());
    const bool more = streams_->drain(
        [&](std::size_t map, Bytes sent) { return visit_record(map, sent, visit); });
    parts_.warn();
    return more;
  }
  SourceState state() const override {
    return {.has_unfinished_record = streams_->waits(), .unsubmitted = streams_->unsubmitted()};
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

  void count_hits(std::span<Probe> probes) const override { runs_->count_hits(probes, info_); }
  void report_aggregates(RunPart::Time now) override {
    parts_.each(&RunPart::report_aggregates, now);
  }
  ProgramResults finish() override;

private:
  // Returns false if no more records are wanted.
  bool visit_record(std::size_t map, Bytes sent, const Visit& visit);
  Result<void> open_streams();
  std::uint64_t program_lost_count() const {
    std::uint64_t sum = 0;
    for (const bpf::UserMap& map : loss_counters_) sum += read_lost_count(map);
    return sum;
  }
  // The kernel counts records that perf buffers lose; the program counts those it could not send.
  // Without a ring buffer both count the same records.
  std::uint64_t lost_in_buffers() const {
    const std::uint64_t by_program = program_lost_count() - lost_count_before_;
    const bool has_ring =
        std::ranges::find(maps_, bpf::MapUse::ring_buffer, &bpf::UserMap::use) != maps_.end();
    return has_ring ? streams_->lost() + by_program : std::max(streams_->lost(), by_program);
  }
  Result<void> open_maps();
  Result<void> check_record_options(std::span<const std::string> buffers);
  // Returns the option that needs records; empty if there is none.
  std::string_view option_for_records() const {
    const events::CaptureSpec& capture = attach_request_.capture;
    if (!capture.groups.by.empty()) return "--by";
    if (attach_request_.aggregates.histograms) return "--histogram";
    if (attach_request_.keep) return "--keep";
    return capture.filter.terms.empty() ? "" : "--if";
  }
  // Whether an output was requested that is empty without stacks.
  bool needs_stacks() const {
    return attach_request_.stacks.save_dir ||
           std::ranges::any_of(attach_request_.exports, output::has_only_stacks,
                               &output::ExportRequest::format);
  }
  bool needs_records() const { return !option_for_records().empty(); }
  void add_stack(events::Event& event, const bpf::SenderContext& from);
  void make_parts(const HitProcesses& processes);

  UserPrograms programs_;
  const AttachRequest& attach_request_;
  const UserProgramRequest& request_;
  output::Output& output_;
  bpf::KernelFeatures features_;
  std::vector<bpf::UserMap> spec_tables_; // specification maps of usdt.bpf.h: one, or none
  UserStaticProbes static_probes_;
  std::vector<bpf::UserMap> maps_;          // selected maps
  std::vector<bpf::UserMap> loss_counters_; // of the programs: records that they could not send
  std::uint64_t lost_count_before_ = 0;     // a pinned program may have counted before
  std::optional<UserValues> values_;
  std::shared_ptr<const values::BtfTypes> types_; // of the programs; null without types
  bool needs_symbols_ = false;                    // values_ does
  std::optional<events::UserRecordDecoder> decoder_;
  std::optional<RecordSelection> selection_;     // nullopt: all records
  std::optional<RecordTriggers> triggers_;       // if records wait for one
  std::optional<std::uint64_t> counted_records_; // instead of showing them
  bool finds_stacks_ = true;                     // what is shown or counted has them
  std::optional<bpf::RecordStreams> streams_;
  std::unique_ptr<PrintkReader> printk_; // until start()
  std::optional<ProgramRuns> runs_;      // set by load()
  std::vector<bpf::ObjectLink> other_links_;
  std::uint64_t corrupt_ = 0;
  bool has_stacks_ = false;     // records carry stacks
  HitStacks* stacks_ = nullptr; // set by start() if has_stacks_ or needs_symbols_; a part
  RunParts parts_;
};

bool is_buffer(const bpf::UserMap& map) { return bpf::is_buffer(map.use); }

Result<void> UserSource::open_streams() {
  const auto stacks = choose_map_stacks(maps_, attach_request_.capture, output_);
  if (!stacks) return fail(Error(stacks.error()).within(programs_.name()));
  auto streams = bpf::RecordStreams::open(maps_, *stacks);
  if (!streams) return fail(std::move(streams).error());
  streams_ = std::move(*streams);
  has_stacks_ = std::ranges::any_of(*stacks, &bpf::StackRequest::is_enabled);
  const bool size_is_given = attach_request_.capture.stack_bytes != events::default_stack_bytes;
  if (!has_stacks_ && (needs_stacks() || size_is_given))
    return fail(Error{ErrorKind::unsupported, programs_.name() + ": no map carries stacks"}.hint(
        "use a perf event array with --stack, or with a name that ends in _with_stack"));
  return {};
}

bool UserSource::visit_record(std::size_t map, Bytes sent, const Visit& visit) {
  const auto record = streams_->decode(map, sent);
  if (!record) {
    ++corrupt_;
    return true;
  }
  const pid_t sender = record->from ? static_cast<pid_t>(record->from->pid) : 0;
  events::Event event = decoder_->decode(map, record->record);
  if (const auto reason = decoder_->explain(map)) output_.warn(*reason);
  if (record->from) set_sender(event, *record->from);
  if (selection_ && !selection_->selects(event)) return true;
  if (triggers_) triggers_->mark(event);
  decoder_->finish(map, event, output_.has_recorders(),
                   [&](events::UserRecord& decoded, std::span<const values::ShownAsRule> tags) {
                     return values_->show_record(decoded, tags, sender, event.time_ns);
                   });
  if (record->from && finds_stacks_) add_stack(event, *record->from);
  parts_.take(record->record, event);
  if (!counted_records_) return visit(event);
  ++*counted_records_;
  return true;
}

void UserSource::add_stack(events::Event& event, const bpf::SenderContext& from) {
  if (const auto captured = make_captured_stack(from)) {
    event.stack = stacks_->unwind_hit(event, *captured);
    event.has_raw_stack = event.stack == nullptr;
    event.sample = stacks_->sample();
  } else if (is_32bit_process(from)) {
    output_.repeated_warning("32-bit", "stacks of 32-bit processes are not unwound");
  }
}

Result<void> UserSource::open_maps() {
  auto types = programs_.read_types(output_);
  if (auto checked = check_unusable_maps(programs_, request_.maps, output_); !checked)
    return checked;
  auto known = programs_.maps();
  if (known) loss_counters_ = find_lost_maps(*known);
  if (known) {
    auto tables = *known | std::views::filter(bpf::UsdtSpecs::is_table);
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
                  known ? std::span<const bpf::UserMap>(*known) : std::span<const bpf::UserMap>(),
                  output_);
  needs_symbols_ = values_->needs_symbols(types.get());
  types_ = types;
  if (known && request_.maps.empty())
    if (const auto names = list_collecting(*known); !names.empty())
      output_.status("the program sends no records: print its maps with --map: " + joined(names));
  std::vector<std::string> buffers;
  if (known)
    for (const bpf::UserMap& map : *known | std::views::filter(is_buffer))
      buffers.push_back(map.name);
  auto selected =
      select_maps(request_.maps, known ? std::move(*known) : std::vector<bpf::UserMap>(), types,
                  programs_.paths());
  if (!selected) return fail(std::move(selected).error());
  maps_ = std::move(*selected);
  if (!buffers.empty() && std::ranges::none_of(maps_, is_buffer) && !needs_records())
    output_.status("records of the program are not read: request them with --map: " +
                   joined(buffers));
  auto decoder = events::UserRecordDecoder::make(std::move(types), maps_, request_.record_types);
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
  const events::CaptureSpec& capture = attach_request_.capture;
  if (needs_records() && std::ranges::none_of(maps_, is_buffer)) {
    Error error{ErrorKind::usage,
                fmt::format("{} needs records, {}", option_for_records(),
                            buffers.empty() ? "and the program sends none"
                                            : "and --map selects no map that has them")};
    if (!buffers.empty())
      error = std::move(error).hint("add --map with one of: " + joined(buffers));
    return fail(std::move(error));
  }
  const std::vector<values::ValueType> types = decoder_->list_types();
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

// Makes what the request asks for.
void UserSource::make_parts(const HitProcesses& processes) {
  const AggregateSpec& aggregates = attach_request_.aggregates;
  if (printk_) parts_.add(std::move(printk_));
  if (has_stacks_ || needs_symbols_) {
    stacks_ = &parts_.add<HitStacks>(attach_request_.capture, attach_request_.stacks,
                                     attach_request_.probes.target_options, processes, output_);
    if (!has_stacks_) stacks_->only_symbolize();
    if (attach_request_.keep) stacks_->hold_samples();
  }
  if (needs_symbols_) values_->start(*stacks_, processes);
  if (aggregates.counts || aggregates.histograms) {
    TotalsSpec counted = record_totals(attach_request_);
    counted_records_ = 0;
    finds_stacks_ = counted.groups.has(BY_STACK) || needs_stacks();
    parts_.add<CountedEvents>(std::move(counted), std::span<const Probe>(), stacks_,
                              processes.find_name, output_);
  }
  if (!request_.maps.empty())
    parts_.add<UserMapReport>(
        UserMapPrinter(types_, *values_, output_), maps_, loss_counters_,
        UserMapReport::How{.clears = request_.clears_maps,
                           .is_interval_run = aggregates.interval.has_value()},
        output_);
}

ProgramResults UserSource::finish() {
  // Records that cannot be decoded are shown raw.
  ProgramResults results{.counted_records = counted_records_,
                         .uncounted_losses = explain_uncounted_losses(maps_, loss_counters_),
                         .unknown_layouts = decoder_->unknown_layouts()};
  parts_.each(&RunPart::finish, results);
  values_->report_unused();
  if (selection_) selection_->report_unknown();
  return results;
}

} // namespace

Result<std::unique_ptr<ProgramSource>> make_user_source(const AttachRequest& request,
                                                        output::Output& output) {
  auto programs = UserPrograms::open(request, output.workstation());
  if (!programs) return fail(std::move(programs).error());
  programs->report_locations(request.dry_run, output);
  return std::make_unique<UserSource>(std::move(*programs), request, output);
}

} // namespace uprobectl::trace
