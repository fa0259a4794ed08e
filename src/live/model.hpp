// SPDX-License-Identifier: Apache-2.0
// What the live view shows of a run: for each function its hits, latencies and errors, and of some
// functions the callers, the last events and the stacks. Its memory is bounded.
#pragma once

#include "events/histogram.hpp"
#include "output/format.hpp"
#include "output/point_names.hpp"
#include "output/records.hpp"

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>

namespace uprobectl::live {

// A second of a function.
struct Second {
  std::uint64_t hits = 0;
  std::optional<std::int64_t> p99 = {}; // of what was measured; nullopt: nothing
};

struct CountedText {
  std::string text;
  std::uint64_t hits = 0;
};

struct CountedStack {
  std::vector<std::string> frames; // the innermost first
  std::uint64_t hits = 0;
};

// Details are kept only of the selected function and of those that were hit last.
struct Details {
  static constexpr std::size_t max_events = 100;
  static constexpr std::size_t max_callers = 64;
  static constexpr std::size_t max_stacks = 32;

  std::deque<std::string> events; // the newest is the last
  std::vector<CountedText> callers;
  std::uint64_t other_callers = 0; // hits of callers that are not kept
  std::vector<CountedStack> stacks;
  std::uint64_t other_stacks = 0;

private:
  friend class Model;
  std::unordered_map<std::uint64_t, std::size_t> callers_by_pc_; // indexes of `callers`
  std::unordered_map<std::uint64_t, std::size_t> stacks_by_hash_;
};

// A function, a static probe, the spans of a name, or the records of a map.
struct Row {
  static constexpr std::size_t max_seconds = 64;

  std::string name;
  std::string file; // base name of the probed file; empty for records and spans
  std::uint64_t hits = 0;
  std::uint64_t rate = 0;                  // hits in the last whole second, or on average
  std::optional<std::uint64_t> errors{};   // of known functions; nullopt: not known
  bpf::Histogram measured;                 // latencies, or values of --measure
  bool in_nanoseconds = true;              // `measured` is
  std::shared_ptr<const Details> details;  // null: none are kept
  std::array<Second, max_seconds> seconds; // by their number modulo max_seconds

private:
  friend class Model;
  static constexpr std::uint64_t no_second = UINT64_MAX;
  std::uint64_t second_ = no_second;   // the newest with a hit
  bpf::Histogram measured_in_second_;  // in that one
  std::uint64_t counted_until_ns_ = 0; // end of the last interval that was counted
  std::uint64_t counted_rate_ = 0;     // in it
  std::uint64_t turn_ = 0;             // of advance(), in which `texts_` were made
  std::size_t texts_ = 0;
  std::shared_ptr<Details> own_details_;
  // Numbers of rows with details: those that were hit next before this one, and next after it.
  std::size_t older_ = SIZE_MAX;
  std::size_t newer_ = SIZE_MAX;
};

class Model {
public:
  static constexpr std::size_t max_rows = 10'000;
  static constexpr std::size_t max_detailed = 200; // rows with details
  // The most events of a function that is not selected that are formatted between two calls of
  // advance(), because formatting takes longer than counting.
  static constexpr std::size_t max_texts = 10;
  static constexpr std::size_t max_text_bytes = 512;

  // `hits_are_counted`: CountRecords have the hits, otherwise histograms.
  explicit Model(bool hits_are_counted = false) : hits_are_counted_(hits_are_counted) {}

  // The functions that the run records, before their first hit. They have a row each, unless spans
  // are shown instead.
  void add(const output::ProbeDescription& probed);
  void add(const events::Event& event);
  void add(const output::CountRecord& record);
  void add(const output::HistogramRecord& record);
  void add(const output::LostRecord& record);
  void begin(const output::ClockReading& clocks);
  void set_clocks(const output::ClockReading& clocks);
  // The time goes on, CLOCK_MONOTONIC of the machine that is traced.
  void advance(std::uint64_t now_ns);
  // The recording has ended: the time does not go on, but late records are still added. May be
  // called again when the end is known better.
  void end(std::uint64_t time_ns);
  void end_after(std::uint64_t duration_ns) { end(begin_ns_ + duration_ns); }
  // All events of this row are formatted from now on.
  void select(std::size_t row) { selected_ = row; }
  // Counts from zero again.
  void reset();

  // Returns the rows by their number, in the order in which they came. `rate` is that of the last
  // advance(): the average until there is a whole second since the last reset.
  const std::vector<Row>& rows() const { return rows_; }
  // Returns the last whole seconds since the last reset, the newest last.
  std::vector<Second> last_seconds(const Row& row, std::size_t count) const;
  std::uint64_t hits() const { return hits_; } // since the last reset
  std::uint64_t rate() const { return rate_; }
  std::uint64_t lost() const { return lost_; }            // since the beginning
  std::uint64_t omitted_hits() const { return omitted_; } // of functions beyond max_rows
  std::uint64_t since_begin_ns() const { return now_ns_ - std::min(begin_ns_, now_ns_); }
  // The local time of the last reset, "12:05:09"; empty without one.
  const std::string& reset_time() const { return reset_time_; }
  // Probes as the summary of a run counts them: a static probe with several locations is one.
  // nullopt if hits do not tell which probes were hit, as those of spans.
  std::optional<std::size_t> probes_hit() const {
    return sees_spans_ ? std::nullopt : std::optional(probes_hit_);
  }
  std::size_t probes() const { return probes_; }
  bool has_events() const { return has_events_; } // otherwise hits were only counted

private:
  enum class Kind : std::uint8_t { hits, spans, records };
  // Identifies a row: a point, or the name of spans or records, with what was counted.
  struct Key {
    const resolve::ProbePoint* point = nullptr;
    Kind kind = Kind::hits;
    bool on_return = false;
    std::string text = {};
    auto operator<=>(const Key&) const = default;
  };
  static constexpr std::size_t no_row = SIZE_MAX;
  static constexpr std::size_t omitted_row = SIZE_MAX - 1; // there are too many
  struct PointState {
    std::array<std::size_t, 2> rows = {no_row, no_row}; // of its entries, and of its returns
    // The row that the first location of a function or static probe has before it is known which
    // hits it gets.
    std::size_t expected = no_row;
    bool is_probed = false;
    bool is_hit = false; // since the last reset
  };

  Row* find(const resolve::ProbePoint& point, bool on_return, std::string_view text);
  Row* find(Key key);
  Row* find_counted(const resolve::ProbePoint* point, std::string_view span, bool on_return,
                    std::string text);
  Row* make_row(Key key);
  std::string name_of(const Key& key);
  const resolve::ProbePoint* first_point(const resolve::ProbePoint& point);
  void note_hit(const resolve::ProbePoint& point, PointState& state);
  void go_on_until(std::uint64_t time_ns);
  Row* row_of(const events::Event& event);
  std::uint64_t number_of_second(std::uint64_t time_ns) const;
  std::uint64_t end_of_whole_seconds() const;
  std::uint64_t first_whole_second() const;
  static const Second* find_second(const Row& row, std::uint64_t number);
  void begin_second(Row& row, std::uint64_t number);
  void finish_second(Row& row) const;
  void measure(Row& row, std::uint64_t latency_ns, std::uint64_t number);
  void add_details(Row& row, const events::Event& event);
  Details& details_of(Row& row);
  void unlink(Row& row);
  void link_as_newest(Row& row);
  std::size_t number_of(const Row& row) const {
    return static_cast<std::size_t>(&row - rows_.data());
  }
  void add_stack(Details& details, const unwind::Stack& stack, std::uint64_t hits,
                 std::string_view rest);
  void add_caller(Details& details, const unwind::Frame& frame);
  std::string describe(const events::Event& event);

  bool hits_are_counted_;
  std::vector<Row> rows_;
  std::map<Key, std::size_t> by_key_;
  std::unordered_map<const resolve::ProbePoint*, PointState>
      points_; // the quick way to the row of an event
  std::map<std::pair<const resolve::ProbedBinary*, std::string>, const resolve::ProbePoint*>
      static_probes_;
  output::PointNames names_;
  output::WallClock clock_{0, 0};
  std::uint64_t begin_ns_ = 0;
  std::uint64_t since_ns_ = 0; // of the last reset
  std::uint64_t now_ns_ = 0;
  std::uint64_t counted_until_ns_ = 0;
  std::uint64_t turn_ = 1;
  std::uint64_t hits_ = 0;
  std::uint64_t rate_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t omitted_ = 0;
  std::size_t selected_ = SIZE_MAX;
  std::size_t detailed_ = 0; // rows with details, which are a list from the newest to the oldest
  std::size_t newest_ = no_row;
  std::size_t oldest_ = no_row;
  std::size_t probes_ = 0;
  std::size_t probes_hit_ = 0;
  bool sees_spans_ = false;
  bool has_events_ = false;
  bool has_ended_ = false;
  std::string reset_time_;
};

} // namespace uprobectl::live
