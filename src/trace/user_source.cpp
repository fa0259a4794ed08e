// SPDX-License-Identifier: Apache-2.0
// The event source for a user's programs.
#include "bpf/load_error.hpp"
#include "bpf/tracefs.hpp"
#include "events/user_record.hpp"
#include "trace/event_totals.hpp"
#include "trace/hit_stacks.hpp"
#include "trace/record_selection.hpp"
#include "trace/triggers.hpp"
#include "trace/user_maps.hpp"
#include "trace/user_programs.hpp"
#include "uprobectl/util.hpp"
#include "util/clock.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <map>
#include <ranges>
#include <set>
#include <unistd.h>

namespace uprobectl {

namespace {

// Reads the output of bpf_printk from tracefs' trace_pipe. There is one for the whole machine, and
// each line can be read once (Linux Documentation/trace/ftrace.rst).
class PrintkReader {
public:
  // Discards earlier output. Fails with not_permitted or not_found, with hints.
  static Result<PrintkReader> open();

  int fd() const { return fd_.get(); }
  // Why there are no lines, with a command that changes it; nullopt if nothing is known.
  std::optional<std::string> explain_silence() const;
  // Returns the waiting lines of bpf_printk: "cat-4711 [000] …: bpf_trace_printk: hi".
  std::vector<std::string> take_lines();

private:
  UniqueFd fd_;
  std::string folder_; // with tracefs
  std::string unfinished_;
};

// Limits the reads of one call, so that much output does not delay events.
constexpr int max_reads = 64;
constexpr std::size_t max_line_length = 8192;

Result<PrintkReader> PrintkReader::open() {
  PrintkReader reader;
  int reason = ENOENT;
  for (const char* const folder : {"/sys/kernel/tracing/", "/sys/kernel/debug/tracing/"}) {
    reader.folder_ = folder;
    const std::string path = reader.folder_ + "trace_pipe";
    reader.fd_ = UniqueFd{::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
    if (!reader.fd_ && errno != ENOENT) reason = errno;
    if (reader.fd_) break;
  }
  if (!reader.fd_ && reason == ENOENT)
    return fail(
        with_lockdown_hint(Error{ErrorKind::not_found, "--printk: trace_pipe does not exist"}.hint(
            "mount -t tracefs tracefs /sys/kernel/tracing")));
  if (!reader.fd_ && (reason == EPERM || reason == EACCES))
    return fail(with_refusal_hints(
        Error{ErrorKind::not_permitted, "--printk: this user may not read trace_pipe"}.hint(
            "needs root, or read permission for the file")));
  if (!reader.fd_) return fail(system_error(reason, "--printk: cannot read trace_pipe"));
  while (!reader.take_lines().empty()) {
  }
  return reader;
}

// The event exists since Linux 5.9, and loading a program that calls bpf_printk enables it (Linux
// kernel/trace/bpf_trace.c). Tools that reset tracing disable all events.
std::optional<std::string> PrintkReader::explain_silence() const {
  for (const auto& [file, reason] : {std::pair("tracing_on", ", as after a kernel oops"),
                                     std::pair("events/bpf_trace/bpf_trace_printk/enable", "")})
    if (is_switched_off(folder_ + file))
      return fmt::format("--printk: bpf_printk prints nothing: {0}{1} is 0{2} (echo 1 >{0}{1})",
                         folder_, file, reason);
  return std::nullopt;
}

std::vector<std::string> PrintkReader::take_lines() {
  std::array<char, 4096> buffer{};
  for (int i = 0; i < max_reads; ++i) {
    const ssize_t size = ::read(fd_.get(), buffer.data(), buffer.size());
    if (size <= 0) break;
    unfinished_.append(buffer.data(), static_cast<std::size_t>(size));
  }
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (auto end = unfinished_.find('\n'); end != std::string::npos;
       begin = end + 1, end = unfinished_.find('\n', begin)) {
    const std::string_view line = std::string_view(unfinished_).substr(begin, end - begin);
    const auto text = line.find_first_not_of(' ');
    if (line.find("bpf_trace_printk: ") != std::string_view::npos)
      lines.emplace_back(line.substr(text));
  }
  unfinished_.erase(0, begin);
  if (unfinished_.size() > max_line_length) unfinished_.clear();
  return lines;
}

constexpr std::size_t max_discard_rounds = 1024; // of 65,536 records

class UserSource final : public ProbeProgram {
public:
  UserSource(UserPrograms programs, const AttachRequest& request, Exports& exports, Output& output)
      : programs_(std::move(programs)), attach_request_(request), request_(*request.program),
        exports_(exports), output_(output) {}

  std::string name() const override { return programs_.name(); }
  std::vector<ProbeRequest> probe_requests() const override { return programs_.probe_requests(); }
  std::size_t other_programs() const override { return programs_.other_programs(); }
  Result<void> prepare(const KernelFeatures& features) override {
    features_ = features;
    return programs_.prepare(features);
  }
  std::optional<ProgramKind> kind() const override { return programs_.kind(); }

  void set_pids(std::span<const pid_t> pids) override { programs_.set_pids(pids); }

  bool checks_exits() const override { return false; }

  Result<void> load(Mechanism mechanism, ResolvedProbes& resolved) override {
    if (auto loaded = programs_.load(mechanism, output_); !loaded)
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
                               supports_cookies(mechanism, features_));
  }
  std::string_view program_name(std::size_t program) const override {
    return programs_.program_name(program);
  }
  std::string_view program_phase(const PlannedSite& site) const override {
    if (programs_.is_session(site.program)) return "entry and return";
    return ProbeProgram::program_phase(site);
  }
  void report_cautions() const override { static_probes_.report_cautions(output_); }

  Result<void> start(const HitProcesses& who) override {
    if (has_stacks_ || needs_symbols_)
      stacks_.emplace(attach_request_.capture, attach_request_.stacks,
                      attach_request_.probes.target_options, who, exports_, output_);
    if (stacks_ && attach_request_.keep) stacks_->hold_samples();
    if (needs_symbols_) values_->start(*stacks_, who);
    count_records(clock_ns(CLOCK_MONOTONIC));
    // A saved run filters and counts by them.
    if (output_.is_copied()) output_.write_copy(RecordTypesRecord{decoder_->list_types()});
    auto links = programs_.attach_other_programs(output_);
    if (!links) return fail(std::move(links).error());
    other_links_ = std::move(*links);
    return {};
  }
  Result<void> stop() override {
    other_links_.clear();
    has_ended_ = true;
    report_silence();
    return {};
  }

  void add_to(std::vector<pollfd>& polled) const override {
    for (const int fd : streams_->poll_fds())
      polled.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    if (stacks_) stacks_->add_to(polled);
    if (printk_) polled.push_back({.fd = printk_->fd(), .events = POLLIN, .revents = 0});
  }
  bool drain(const Visit& visit) override {
    if (printk_)
      for (const std::string& line : printk_->take_lines()) output_.requested_status(line);
    if (stacks_) stacks_->read_mapping_events();
    const auto one = [&](std::size_t map, Bytes sent) { return take(map, sent, visit); };
    return streams_->drain(one);
  }
  bool waits() const override { return streams_->waits(); }
  std::uint64_t unsubmitted() const override { return streams_->unsubmitted(); }
  // Records that cannot be decoded are shown raw.
  std::uint64_t corrupt() const override { return decoder_ ? decoder_->unknown_layouts() : 0; }
  std::vector<Loss> losses() const override {
    return {{loss_reasons::buffer_full, lost_in_buffers()}, {loss_reasons::corrupt, corrupt_}};
  }
  std::string uncounted_losses() const override { return explain_uncounted_losses(maps_, lost_); }
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
  const StackTotals* stacks() override { return has_stacks_ ? &stacks_->totals() : nullptr; }
  std::optional<std::uint64_t> counted_records() const override {
    return totals_ ? std::optional(counted_records_) : std::nullopt;
  }
  void report_aggregates(std::chrono::steady_clock::time_point now) override;
  void show_maps() override;

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
  // Both when the run begins and when it ends: the kernel may have had an oops meanwhile.
  void report_silence() {
    if (is_silent_ || !printk_) return;
    const auto reason = printk_->explain_silence();
    is_silent_ = reason.has_value();
    if (reason) output_.notice(*reason);
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
  void print_maps(bool is_interval);
  void count_records(std::uint64_t now_ns);
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
  std::optional<UserMapPrinter> printer_;
  bool needs_symbols_ = false; // values_ does
  std::optional<UserRecordDecoder> decoder_;
  std::optional<RecordSelection> selection_; // nullopt: all records
  std::optional<RecordTriggers> triggers_;   // if records wait for one
  TotalsSpec counted_;
  EventValues members_;               // of records
  std::optional<EventTotals> totals_; // set if records are counted or measured
  bool finds_stacks_ = true;          // what is shown or counted has them
  std::uint64_t counted_records_ = 0;
  bool has_ended_ = false; // the run, by stop()
  std::optional<RecordStreams> streams_;
  std::optional<PrintkReader> printk_;
  bool is_silent_ = false; // reported
  ProgramRunCounter counting_;
  // By the program and the index of its probe.
  std::map<std::pair<std::size_t, std::size_t>, std::optional<std::uint64_t>> runs_before_;
  std::vector<std::set<std::size_t>> probes_of_; // by program: the numbers of its probes
  std::vector<ObjectLink> other_links_;
  std::uint64_t corrupt_ = 0;
  bool has_stacks_ = false;         // records carry stacks
  std::optional<HitStacks> stacks_; // set by start() if has_stacks_ or needs_symbols_
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

// What is counted and measured of records. --count --stack counts them by their stacks.
TotalsSpec record_totals(const AttachRequest& request) {
  const CaptureSpec& capture = request.capture;
  TotalsSpec totals{.aggregates = request.aggregates, .groups = capture.groups, .by_arrival = true};
  if ((capture.stack != StackWalk::none || capture.count_stacks) && totals.groups.by.empty())
    totals.groups.by.push_back({.text = "stack", .built_in = BY_STACK});
  totals.measured = capture.measured;
  return totals;
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
  if (totals_) {
    ++counted_records_;
    totals_->add(event, stacks_ ? stacks_->completeness() : StackCompleteness::complete);
    return true;
  }
  return visit(event);
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
  printer_.emplace(types, *values_, output_);
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
  auto printk = PrintkReader::open();
  if (!printk) return fail(std::move(printk).error());
  printk_ = std::move(*printk);
  report_silence();
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
      probe.programs.push_back({.program = std::string(program_name(site.program)),
                                .phase = std::string(phase_at(probe, site.program)),
                                .hits = hits});
    }
  }
}

// A program with sites at both ends runs at both.
std::string_view UserSource::phase_at(const Probe& probe, std::size_t program) const {
  std::set<std::string_view> phases;
  for (const PlannedSite& site : probe.sites)
    if (site.program == program) phases.insert(program_phase(site));
  return phases.size() == 1 ? *phases.begin() : "entry and return";
}

void UserSource::print_maps(bool is_interval) {
  if (request_.maps.empty() || !printer_) return;
  MapPrinting how{.is_interval = is_interval,
                  .is_interval_run = attach_request_.aggregates.interval.has_value(),
                  .time_ns = clock_ns(CLOCK_MONOTONIC)};
  for (const UserMap& map : maps_) {
    const bool counts_losses = std::ranges::find(lost_, map.id, &UserMap::id) != lost_.end();
    if (request_.clears_maps && counts_losses)
      output_.warn_once(
          fmt::format("map '{}' is not emptied: it has the count of lost records", map.name));
    how.clears = request_.clears_maps && !counts_losses;
    printer_->print(map, how);
  }
  output_.flush_rows();
}

void UserSource::report_aggregates(std::chrono::steady_clock::time_point now) {
  const std::uint64_t now_ns = to_monotonic_ns(now);
  if (totals_)
    if (auto reported = totals_->end_interval(now_ns, output_); !reported)
      output_.warn(reported.error().message);
  if (!has_ended_) print_maps(true);
}

// Begins to count.
void UserSource::count_records(std::uint64_t now_ns) {
  if (!attach_request_.aggregates.counts && !attach_request_.aggregates.histograms) return;
  counted_ = record_totals(attach_request_);
  finds_stacks_ = counted_.groups.has(BY_STACK) || exports_.need_stacks() ||
                  attach_request_.stacks.save_dir.has_value();
  totals_.emplace(counted_, members_, nullptr).begin(now_ns);
}

void UserSource::show_maps() {
  print_maps(false);
  if (values_) values_->report_unused();
  if (selection_) selection_->report_unknown();
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
