#include "inspection_options.hpp"

#include "duration.hpp"
#include "numbers.hpp"

namespace uprobectl::cli {

namespace {

// Static probes are places without a way back.
void bind_return_options(OptionParser& parser, InspectionOptions& options) {
  parser.bind("--entry", options.entry);
  parser.bind("--return", options.on_return);
  parser.bind("--return-at", options.return_at);
  parser.bind("--latency", options.latency);
  parser.bind("--min-latency", options.min_latency, DurationReader{"--min-latency"});
}

} // namespace

void bind_inspection_options(OptionParser& parser, InspectionOptions& options, ProbeWords words) {
  if (words == ProbeWords::functions) bind_return_options(parser, options);
  parser.bind("--args", options.arguments);
  parser.bind("--if", options.conditions);
  parser.bind("--max-string", options.longest_text,
              CountReader{.mistake = "--max-string: '{}' is no number of bytes, 1 to " +
                                     std::to_string(most_bytes),
                          .most = most_bytes});
  parser.bind("--regs", options.registers);
  parser.bind("--count", options.count);
  parser.bind("--per-process", options.per_process);
  parser.bind("--histogram", options.histogram);
  parser.bind("--measure", options.measured);
  parser.bind("--interval", options.interval, DurationReader{"--interval"});
  parser.bind("--top", options.top,
              CountReader{.mistake = "--top: '{}' is no number of functions"});
  parser.bind("--exclude", options.excluded);
  parser.bind("--expect", options.expected,
              CountReader{.mistake = "--expect: '{}' is no number of hits"});
}

namespace {

class Application {
public:
  Application(const OptionParser& parser, const InspectionOptions& options, AttachRequest& request)
      : parser_(parser), options_(options), request_(request), inspection_(request.inspection) {}

  Result<void> apply() {
    set_moments();
    return read_values();
  }

private:
  std::unexpected<Error> wrong(const std::string& what) const {
    return fail(parser_.usage_error(what));
  }

  void set_moments() {
    request_.counts = options_.count;
    request_.histograms = options_.histogram;
    request_.excluded = options_.excluded;
    inspection_.on_return = options_.on_return;
    inspection_.on_entry = options_.entry || !options_.on_return;
    inspection_.send_events = !options_.count && !options_.histogram;
    inspection_.count_by_process = options_.per_process;
    inspection_.registers = options_.registers;
    inspection_.measure_latency = options_.histogram && !options_.measured;
    inspection_.pair_calls =
        options_.latency || options_.min_latency || inspection_.measure_latency;
    request_.return_at = return_at(options_.return_at.value_or("auto"));
    if (options_.min_latency) inspection_.min_latency = *options_.min_latency;
    if (options_.interval) request_.interval = *options_.interval;
    if (options_.top) request_.top = *options_.top;
    request_.expected_hits = options_.expected;
    if (options_.longest_text)
      inspection_.longest_text = static_cast<std::uint32_t>(*options_.longest_text);
  }

  // The table of options has these words.
  static ReturnAt return_at(std::string_view how) {
    if (how == "trampoline") return ReturnAt::trampoline;
    return how == "ret" ? ReturnAt::exits : ReturnAt::automatic;
  }

  Result<void> read_values() {
    for (const std::string& text : options_.arguments) {
      auto list = parse_arguments(text);
      if (!list) return wrong_value("--args: ", std::move(list).error());
      inspection_.arguments.push_back(std::move(*list));
    }
    for (const std::string& text : options_.conditions) {
      auto condition = parse_condition(text);
      if (!condition) return wrong_value("--if: ", std::move(condition).error());
      inspection_.conditions.push_back(std::move(*condition));
    }
    if (!options_.measured) return {};
    inspection_.measured = parse_source_name(*options_.measured);
    if (!inspection_.measured)
      return wrong("'" + *options_.measured +
                   "' is no --measure, it is arg0, arg1, …, ret or a "
                   "register");
    // Where nobody says what to probe, it is where the value is known.
    const bool returned = inspection_.measured->kind == ArgumentSource::Kind::returned;
    if (returned && request_.static_probes) return wrong("a static probe returns nothing");
    if (!returned && inspection_.pair_calls)
      return wrong("--measure " + *options_.measured +
                   " takes the value where the call begins, and "
                   "--min-latency is known where it ends");
    if (returned && !options_.entry && !inspection_.pair_calls) {
      inspection_.on_return = true;
      inspection_.on_entry = false;
    }
    return {};
  }

  // The parser's own words, and where there is more help where they are about the command line.
  std::unexpected<Error> wrong_value(const std::string& option, Error error) const {
    if (error.kind != ErrorKind::usage) {
      error.message.insert(0, option);
      return fail(std::move(error));
    }
    Error usage = parser_.usage_error(option + error.message);
    usage.hints.insert(usage.hints.begin(), error.hints.begin(), error.hints.end());
    return fail(std::move(usage));
  }

  const OptionParser& parser_;
  const InspectionOptions& options_;
  AttachRequest& request_;
  Inspection& inspection_;
};

} // namespace

Result<void> apply(const OptionParser& parser, const InspectionOptions& options,
                   AttachRequest& request) {
  return Application(parser, options, request).apply();
}

} // namespace uprobectl::cli
