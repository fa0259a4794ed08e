// SPDX-License-Identifier: Apache-2.0
#include "host/device_runs.hpp"

#include "host/agent_run.hpp"
#include "host/local_report.hpp"
#include "output/json_reader.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <thread>
#include <unistd.h>

namespace uprobectl::host {

namespace {

// A thread, a client and some buffers each.
constexpr std::size_t max_devices = 128;
constexpr std::size_t max_held_messages = 1 << 20; // bytes, of a device whose run has a live view
constexpr int signal_status = 128; // plus the signal's number: the run was ended by it

std::string own_machine() {
  utsname name{};
  return ::uname(&name) == 0 ? name.machine : "";
}

UniqueFd make_memory_file() { return UniqueFd(::memfd_create("uprobectl", MFD_CLOEXEC)); }

std::string read_memory_file(const UniqueFd& file) {
  std::string text;
  const off_t size = ::lseek(file.get(), 0, SEEK_END);
  text.resize(static_cast<std::size_t>(std::max<off_t>(size, 0)));
  const ssize_t got = ::pread(file.get(), text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

// The text that Output::fail() or Output::status() writes to stderr.
std::string message_text(output::OutputOptions options,
                         const std::function<void(output::Output&)>& write) {
  const UniqueFd file = make_memory_file();
  options.messages_fd = file.get();
  options.json = false;
  {
    output::Output output(-1, options);
    write(output);
  }
  return read_memory_file(file);
}

std::string json_text(const std::function<void(output::Recorder&)>& write) {
  output::OutputBuffer buffer(-1);
  buffer.disable_auto_flush();
  write(*make_json_formatter(buffer));
  std::string text = buffer.draft();
  buffer.abandon();
  return text;
}

Error unusable(const ListedDevice& device) {
  Error error{ErrorKind::io, fmt::format("the device cannot be used: {}", device.state)};
  if (device.state == "unauthorized")
    error.hints.emplace_back("confirm this workstation on the screen of the device");
  if (device.state == "offline") error.hints.emplace_back("reconnect it: adb reconnect offline");
  return error;
}

struct Client {
  std::string adb;
  std::vector<ListedDevice> devices;
};

Result<Client> find_devices(const DeviceSelection& selection) {
  auto adb = find_adb();
  if (!adb) return fail(std::move(adb).error());
  auto listed = list_devices(*adb);
  if (!listed) return fail(std::move(listed).error());
  const char* const serial = std::getenv("ANDROID_SERIAL");
  auto selected = select_devices(selection, std::move(*listed), serial == nullptr ? "" : serial);
  if (!selected) return fail(std::move(selected).error());
  if (selected->size() > max_devices)
    return fail(ErrorKind::unsupported,
                fmt::format("{} devices, expected at most {}", selected->size(), max_devices));
  return Client{std::move(*adb), std::move(*selected)};
}

// All runs of one command.
class Runs {
public:
  Runs(const DeviceOptions& options, const DeviceRun& run, const output::OutputOptions& output,
       Client client)
      : options_(options), run_(run), output_options_(output), client_(std::move(client)),
        programs_(options.program), cache_(options.clean ? std::nullopt : options.cache),
        is_alone_(client_.devices.size() == 1), record_mark_(run.json    ? LineMark::device
                                                             : is_alone_ ? LineMark::none
                                                                         : LineMark::column),
        content_(run.json ? StreamContent::json : StreamContent::text),
        inputs_(read_inputs(run.request.paths.inputs)),
        record_files_(run.record_files, record_mark_, content_), records_(STDOUT_FILENO),
        messages_(STDERR_FILENO) {}

  int run();

private:
  struct Outcome {
    int status = 1;
    std::optional<Error> error = {};
    MarkedLines::Totals totals = {};
  };

  void run_one(const ListedDevice& listed, Outcome& outcome);
  Result<int> run_prepared(Device& device, Outcome& outcome);
  Result<std::unique_ptr<LocalReport>> start_report(const std::string& serial);
  Result<void> prepare(Device& device, const ListedDevice& listed);
  Result<void> prepare_unknown(Device& device);
  void report(const std::string& serial, const Error& error);
  void write_summary(const std::vector<Outcome>& outcomes);
  int finish(const std::vector<Outcome>& outcomes);

  const DeviceOptions& options_;
  const DeviceRun& run_;
  const output::OutputOptions& output_options_;
  Client client_;
  DevicePrograms programs_;
  std::optional<Cache> cache_; // for the runs
  bool is_alone_;
  LineMark record_mark_;
  StreamContent content_; // of the records
  InputFiles inputs_;
  RecordFiles record_files_;
  Sink records_;
  Sink messages_;
};

int Runs::run() {
  std::vector<Outcome> outcomes(client_.devices.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < outcomes.size(); ++i)
    threads.emplace_back([this, i, &outcomes] { run_one(client_.devices[i], outcomes[i]); });
  for (std::thread& thread : threads) thread.join();
  if (options_.clean && options_.cache) options_.cache->clear();
  if (!is_alone_) write_summary(outcomes);
  return finish(outcomes);
}

Result<void> Runs::prepare(Device& device, const ListedDevice& listed) {
  if (listed.state != "device") return fail(unusable(listed));
  const bool runs = !run_.request.arguments.empty();
  if (runs && cache_ && device.recall(*cache_, programs_, run_.root)) return {};
  return prepare_unknown(device);
}

Result<void> Runs::prepare_unknown(Device& device) {
  // Reads this program while the device is asked what it is.
  const auto read = std::async(std::launch::async, [this] { programs_.find(own_machine()); });
  output::Output output(-1, output_options_);
  std::optional<output::Progress> progress; // messages of several devices come at any time
  if (is_alone_) progress.emplace(output, "preparing " + device.serial());
  if (auto surveyed = device.survey(); !surveyed) return surveyed;
  if (run_.request.arguments.empty()) return {};
  if (auto gained = device.gain_root(run_.root, options_.restart_adbd); !gained) return gained;
  if (auto installed = device.install(programs_); !installed)
    return fail(std::move(installed).error());
  if (cache_) device.remember(*cache_, programs_);
  return {};
}

Result<int> Runs::run_prepared(Device& device, Outcome& outcome) {
  if (run_.request.arguments.empty()) return 0;
  const LineMark mark = is_alone_ ? LineMark::none : LineMark::prefix;
  std::unique_ptr<LocalReport> report;
  if (run_.report) {
    auto started = start_report(device.serial());
    if (!started) return fail(std::move(started).error());
    report = std::move(*started);
  }
  const std::string& serial = device.serial();
  // The device refuses to write a saved run to a terminal; but what runs there may be something
  // else.
  const bool is_shown = run_.is_text || ::isatty(STDOUT_FILENO) == 1;
  const StreamContent content = is_shown ? content_ : StreamContent::bytes;
  // They would tear a picture, and are few: messages of the run itself are in the saved run.
  const bool is_live = report && run_.report->is_live;
  std::optional<Sink> held_messages;
  if (is_live) held_messages.emplace(Sink::InMemory{max_held_messages});
  AgentStreams streams{
      report ? MarkedLines(report->input(), LineMark::none, serial, StreamContent::bytes)
             : MarkedLines(records_, record_mark_, serial, content),
      MarkedLines(held_messages ? *held_messages : messages_, mark, serial,
                  StreamContent::messages)};
  RunRequest request = run_.request;
  Handlers handlers = run_.handlers;
  std::optional<PartTransfer> parts;
  if (run_.saved_run && cache_) {
    parts.emplace(*cache_);
    serve<PartsRequest>(handlers, [&](const PartsRequest& wanted, const process::IsInterrupted&) {
      return parts->find(wanted.sha256);
    });
  }
  for (const auto& [kind, handler] : handlers) request.served |= 1U << kind;
  HostFiles files(request.paths, inputs_, record_files_, std::move(handlers), device.serial(),
                  is_alone_);
  if (parts && run_.saved_run->file)
    files.keep_parts(*run_.saved_run->file, *parts);
  else if (parts)
    streams.kept_parts = &*parts;
  const auto start = [&] {
    return run_on_agent(device.agent_words(), run_.program_version, request, files, streams);
  };
  auto status = start();
  const bool was_known = device.is_recalled();
  if (!status && was_known && !streams.has_begun && status.error().kind != ErrorKind::interrupted &&
      Interrupts::count() == 0) {
    // It is not as it was: the program, root, or the connection.
    device.forget();
    auto prepared = prepare_unknown(device);
    status = prepared ? start() : Result<int>(fail(std::move(prepared).error()));
  }
  outcome.totals = streams.records.totals();
  if (report) {
    const int reported = report->finish();
    if (held_messages) messages_.write(held_messages->content());
    outcome.totals = report->totals();
    if (status == 0) status = reported;
  }
  if (!status || *status >= signal_status) files.drop_updates();
  if (auto error = files.finish()) return fail(std::move(*error));
  return status;
}

Result<std::unique_ptr<LocalReport>> Runs::start_report(const std::string& serial) {
  std::vector<std::string> arguments = run_.report->arguments;
  for (const auto& [option, path] : run_.report->exports)
    arguments.insert(arguments.end(), {option, with_suffix(path, is_alone_ ? "" : serial)});
  std::optional<MarkedLines> records;
  if (!run_.record_files.empty()) {
    const std::string& path = run_.record_files.front();
    const auto file =
        record_files_.open(path, O_CREAT | (run_.report->appends ? O_APPEND : O_TRUNC));
    if (!file) return fail(system_error(errno, path));
    records.emplace(*file, record_mark_, serial, StreamContent::bytes);
  } else if (record_mark_ != LineMark::none) {
    records.emplace(records_, record_mark_, serial, StreamContent::bytes);
  }
  std::optional<MarkedLines> messages;
  if (!is_alone_) messages.emplace(messages_, LineMark::prefix, serial, StreamContent::bytes);
  return LocalReport::start(arguments, std::move(records), std::move(messages),
                            run_.report->is_live);
}

void Runs::run_one(const ListedDevice& listed, Outcome& outcome) {
  Device device(client_.adb, listed.serial, options_.folder);
  auto prepared = prepare(device, listed);
  Result<int> status =
      prepared ? run_prepared(device, outcome) : Result<int>(fail(std::move(prepared).error()));
  if (options_.clean && !device.facts().machine.empty())
    if (auto removed = device.remove_program(); !removed && status)
      status = fail(std::move(removed).error());
  if (status) {
    outcome.status = *status;
    return;
  }
  constexpr int status_when_interrupted = 130;
  if (status.error().kind == ErrorKind::interrupted) outcome.status = status_when_interrupted;
  outcome.error = std::move(status).error();
  report(listed.serial, *outcome.error);
}

void Runs::report(const std::string& serial, const Error& error) {
  messages_.write(message_text(
      output_options_, [&](output::Output& out) { out.fail(Error(error).within(serial)); }));
  if (!run_.json || !run_.record_files.empty()) return;
  MarkedLines lines(records_, LineMark::device, serial, StreamContent::json);
  static_cast<void>(lines.add(json_text(
      [&](output::Recorder& formatter) { formatter.write(output::ErrorRecord{{}, {}, error}); })));
}

void Runs::write_summary(const std::vector<Outcome>& outcomes) {
  output::DevicesSummaryRecord summary{.devices = outcomes.size()};
  bool is_lost_known = true;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i].status != 0) summary.failed.push_back(client_.devices[i].serial);
    if (!outcomes[i].totals.any) continue;
    summary.events = summary.events.value_or(0) + outcomes[i].totals.events;
    summary.lost = summary.lost.value_or(0) + outcomes[i].totals.lost;
    is_lost_known &= outcomes[i].totals.is_lost_known;
  }
  if (!is_lost_known) summary.lost.reset();
  std::string text = fmt::format("{} devices", summary.devices);
  if (summary.events)
    text += fmt::format(", {} events, {}", *summary.events,
                        summary.lost ? fmt::format("{} lost", *summary.lost) : "lost: not known");
  if (!summary.failed.empty())
    text +=
        fmt::format("; failed on {}: {}", summary.failed.size(), fmt::join(summary.failed, ", "));
  messages_.write(message_text(output_options_, [&](output::Output& out) { out.status(text); }));
  if (run_.json && run_.record_files.empty())
    records_.write(json_text([&](output::Recorder& formatter) { formatter.write(summary); }));
}

int Runs::finish(const std::vector<Outcome>& outcomes) {
  std::optional<Error> error = records_.finish();
  if (auto failed = record_files_.finish(); failed && !error) error = std::move(failed);
  if (error)
    messages_.write(message_text(output_options_, [&](output::Output& out) { out.fail(*error); }));
  static_cast<void>(messages_.finish());
  if (error) return 1;
  const int first = outcomes.front().status;
  const bool equal = std::ranges::all_of(
      outcomes, [&](const Outcome& outcome) { return outcome.status == first; });
  return equal ? first : 1;
}

std::string root_text(const Device& device) {
  switch (device.root_method()) {
  case RootMethod::none:
    return "no";
  case RootMethod::adbd:
    return "adbd";
  case RootMethod::su_user:
  case RootMethod::su_command:
    return "su";
  }
  return {};
}

std::optional<std::string> known(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

Result<doctor::Check> ask_doctor(Device& device, DevicePrograms& programs,
                                 std::string_view program_version) {
  if (auto installed = device.install(programs); !installed)
    return fail(std::move(installed).error());
  constexpr Sink::InMemory limit{1 << 20};
  Sink records(limit);
  Sink messages(limit);
  AgentStreams streams{MarkedLines(records, LineMark::none, {}, StreamContent::bytes),
                       MarkedLines(messages, LineMark::none, {}, StreamContent::bytes)};
  const InputFiles no_inputs;
  RecordFiles no_records({}, LineMark::none);
  HostFiles files({}, no_inputs, no_records, {}, device.serial(), true);
  const auto status = run_on_agent(device.agent_words(), program_version,
                                   {.arguments = {"doctor", "--json"}}, files, streams);
  if (!status) return fail(Error(status.error()).within("doctor"));
  if (auto verdict = parse_verdict(records.content())) return std::move(*verdict);
  return fail(ErrorKind::io, fmt::format("doctor ended with status {}", *status));
}

output::DeviceRecord describe_device(const std::string& adb, const ListedDevice& listed,
                                     const DeviceOptions& options, DevicePrograms& programs,
                                     std::string_view program_version) {
  output::DeviceRecord record{.serial = listed.serial, .state = listed.state};
  if (listed.state != "device") {
    record.reason = unusable(listed).message;
    return record;
  }
  Device device(adb, listed.serial, options.folder);
  auto done = device.survey();
  const DeviceFacts& facts = device.facts();
  record.model = known(facts.model);
  record.android = known(facts.android);
  record.kernel = known(facts.kernel);
  record.abi = known(facts.abi.empty() ? facts.machine : facts.abi);
  if (done) done = device.gain_root(RootNeed::wanted, options.restart_adbd);
  if (done) {
    record.root = root_text(device);
    if (auto verdict = ask_doctor(device, programs, program_version)) {
      record.attach = verdict->ok;
      record.reason = std::move(verdict->reason);
    } else {
      done = fail(std::move(verdict).error());
    }
  }
  if (!done) record.reason = std::move(done).error().message;
  if (options.clean && !facts.machine.empty()) static_cast<void>(device.remove_program());
  return record;
}

} // namespace

Result<int> run_on_devices(const DeviceOptions& options, const DeviceRun& run,
                           const output::OutputOptions& output) {
  const Interrupts interrupts;
  auto client = find_devices(options.selection);
  if (!client) return fail(std::move(client).error());
  if (run.report && run.report->is_live && client->devices.size() > 1)
    return fail(Error{ErrorKind::usage, fmt::format("--live shows the run of one device, not of {}",
                                                    client->devices.size())}
                    .hint(fmt::format("choose one: --adb={}", client->devices.front().serial)));
  const auto& updated = run.request.paths.updated;
  if (!updated.empty() && client->devices.size() > 1)
    return fail(
        Error{ErrorKind::usage, fmt::format("{}: cannot be updated with the results of {} devices",
                                            updated.front(), client->devices.size())}
            .hint(fmt::format("choose one: --adb={}", client->devices.front().serial)));
  return Runs(options, run, output, std::move(*client)).run();
}

Result<std::vector<output::DeviceRecord>> describe_devices(const DeviceOptions& options,
                                                           std::string_view program_version) {
  const Interrupts interrupts;
  const auto client = find_devices(options.selection);
  if (!client) return fail(client.error());
  DevicePrograms programs(options.program);
  std::vector<output::DeviceRecord> records(client->devices.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < records.size(); ++i)
    threads.emplace_back([&, i] {
      records[i] =
          describe_device(client->adb, client->devices[i], options, programs, program_version);
    });
  for (std::thread& thread : threads) thread.join();
  return records;
}

std::optional<doctor::Check> parse_verdict(std::string_view records) {
  while (!records.empty()) {
    auto check = output::read_record<doctor::Check>(take_line(records));
    if (check && check->name == doctor::attach_check) return check;
  }
  return std::nullopt;
}

} // namespace uprobectl::host
