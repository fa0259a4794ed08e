// SPDX-License-Identifier: Apache-2.0
// Writes profiles of pprof: a gzipped message Profile of github.com/google/pprof,
// proto/profile.proto, whose field numbers these are.
#include "output/profile.hpp"
#include "output/protobuf.hpp"
#include "util/inflate.hpp"

#include <algorithm>
#include <limits>
#include <map>

namespace uprobectl::output {

namespace {

namespace field {
namespace profile {
constexpr std::uint32_t sample_type = 1;
constexpr std::uint32_t sample = 2;
constexpr std::uint32_t mapping = 3;
constexpr std::uint32_t location = 4;
constexpr std::uint32_t function = 5;
constexpr std::uint32_t string_table = 6;
constexpr std::uint32_t time_nanos = 9;
constexpr std::uint32_t duration_nanos = 10;
constexpr std::uint32_t comment = 13;
} // namespace profile
namespace value_type {
constexpr std::uint32_t type = 1;
constexpr std::uint32_t unit = 2;
} // namespace value_type
namespace sample {
constexpr std::uint32_t location_id = 1;
constexpr std::uint32_t value = 2;
} // namespace sample
namespace mapping {
constexpr std::uint32_t id = 1;
constexpr std::uint32_t memory_limit = 3;
constexpr std::uint32_t filename = 5;
constexpr std::uint32_t build_id = 6;
constexpr std::uint32_t has_functions = 7;
} // namespace mapping
namespace location {
constexpr std::uint32_t id = 1;
constexpr std::uint32_t mapping_id = 2;
constexpr std::uint32_t address = 3;
constexpr std::uint32_t line = 4;
} // namespace location
namespace line {
constexpr std::uint32_t function_id = 1;
constexpr std::uint32_t line = 2;
} // namespace line
namespace function {
constexpr std::uint32_t id = 1;
constexpr std::uint32_t name = 2;
constexpr std::uint32_t system_name = 3;
constexpr std::uint32_t filename = 4;
} // namespace function
} // namespace field

// Samples beyond these limits count for the part of their stack that fits.
constexpr std::size_t max_tree_nodes = 1 << 18;
constexpr std::size_t max_locations = 1 << 18;
constexpr std::size_t max_text_bytes = 4096; // of a name

std::uint64_t saturating_sum(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  return a >= most - std::min(b, most) ? most : a + b;
}

// Numbers that are given to distinct values, from `first` on.
template <typename Value>
class Numbers {
public:
  explicit Numbers(std::uint64_t first) : first_(first) {}
  std::uint64_t find(const Value& value) {
    const auto [found, is_new] = numbers_.try_emplace(value, first_ + values_.size());
    if (is_new) values_.push_back(&found->first);
    return found->second;
  }
  std::uint64_t first() const { return first_; }
  std::span<const Value* const> values() const { return values_; }

private:
  std::uint64_t first_;
  std::map<Value, std::uint64_t> numbers_;
  std::vector<const Value*> values_; // by number
};

struct MappingKey {
  std::string path;
  std::string build_id;
  auto operator<=>(const MappingKey&) const = default;
};
struct FunctionKey {
  std::string name;
  std::string system_name;
  std::string file;
  auto operator<=>(const FunctionKey&) const = default;
};
struct FrameLine {
  std::uint64_t function = 0;
  std::uint64_t number = 0; // 0: unknown
  auto operator<=>(const FrameLine&) const = default;
};
// Addresses are those of the ELF file: the mapping of each file begins at 0.
struct LocationKey {
  std::uint64_t mapping = 0; // 0: none
  std::uint64_t address = 0;
  std::vector<FrameLine> lines; // innermost first
  auto operator<=>(const LocationKey&) const = default;
};

class PprofProfile final : public Profile {
public:
  using Profile::Profile;

private:
  // A node of the tree of stacks, outermost frame first.
  struct Node {
    std::uint32_t parent = 0;
    std::uint64_t location = 0;
    std::uint64_t hits = 0;
    std::uint64_t measured = 0;
  };

  void add_stack(const StackSample& sample, const SampleWeight& weight) override {
    std::vector<std::uint64_t> locations; // innermost first
    const std::span<const unwind::Frame> frames = sample.stack->frames;
    // The frames of functions that are inlined there come before that of the function.
    for (std::size_t i = 0; i < frames.size();) {
      std::size_t end = i + 1;
      while (end < frames.size() && frames[end - 1].inline_depth > 0 &&
             frames[end].inline_depth < frames[end - 1].inline_depth)
        ++end;
      locations.push_back(find_location(frames.subspan(i, end - i)));
      i = end;
    }
    const std::string_view rest = missing_frames_label(sample.completeness);
    if (!rest.empty() || frames.empty())
      locations.push_back(named_location(rest.empty() ? "[no stack]" : std::string(rest)));
    std::ranges::reverse(locations);
    add_locations(locations, weight);
  }

  void add_path(std::span<const PathFrame> path, const SampleWeight& weight) override {
    std::vector<std::uint64_t> locations;
    locations.reserve(path.size());
    for (const PathFrame& frame : path)
      locations.push_back(frame.point != nullptr ? find_location(frame)
                                                 : named_location(std::string(frame.name)));
    add_locations(locations, weight);
  }

  void add_locations(std::span<const std::uint64_t> locations, const SampleWeight& weight) {
    std::uint32_t innermost = 0;
    for (const std::uint64_t location : locations) {
      const auto known = children_.find({innermost, location});
      if (known == children_.end() && nodes_.size() >= max_tree_nodes) break;
      if (known != children_.end()) {
        innermost = known->second;
        continue;
      }
      nodes_.push_back({.parent = innermost, .location = location});
      const auto added = static_cast<std::uint32_t>(nodes_.size() - 1);
      children_.emplace(std::pair(innermost, location), added);
      innermost = added;
    }
    Node& node = nodes_[innermost];
    node.hits = saturating_sum(node.hits, weight.hits);
    node.measured = saturating_sum(node.measured, weight.measured.value_or(0));
  }

  std::uint64_t keep(const LocationKey& location) {
    if (locations_.values().size() >= max_locations) return left_out_location();
    const std::uint64_t number = locations_.find(location);
    if (location.mapping != 0) {
      std::uint64_t& limit = limits_[location.mapping];
      limit = std::max(limit, location.address + 1);
    }
    return number;
  }

  std::uint64_t left_out_location() {
    return locations_.find(
        {.lines = {{.function = functions_.find({"[left out]", "[left out]", ""})}}});
  }

  std::uint64_t named_location(const std::string& name) {
    return keep({.lines = {{.function = functions_.find({name, name, ""})}}});
  }

  std::uint64_t find_location(const PathFrame& frame) {
    const resolve::ProbedBinary& binary = *frame.point->binary;
    const std::string path = to_string(BinaryPath{binary.real_path, binary.path.entry});
    const std::string symbol = frame.point->symbol.value_or(std::string(frame.name));
    return keep({.mapping = mappings_.find({path, binary.build_id.value_or("")}),
                 .address = frame.point->address.value,
                 .lines = {{.function = functions_.find({std::string(frame.name), symbol, ""})}}});
  }

  // `frames`: the function that has the code last, the functions that are inlined there before.
  std::uint64_t find_location(std::span<const unwind::Frame> frames) {
    const unwind::Frame& outer = frames.back();
    if (outer.jit) return named_location(outer.jit->name());
    const auto symbolized = outer.symbolized();
    if (!symbolized)
      return named_location(outer.code ? std::string(outer.code->mapping) : "[unknown]");
    if (const auto known = known_.find(symbolized); known != known_.end()) return known->second;
    const unwind::Module& module = *symbolized->module;
    LocationKey location{.mapping =
                             mappings_.find({uprobectl::to_string({module.path(), module.entry()}),
                                             module.build_id().value_or("")}),
                         .address = symbolized->address.value};
    for (const unwind::Frame& frame : frames)
      location.lines.push_back(find_line(frame, *symbolized));
    const std::uint64_t number = keep(location);
    if (known_.size() < max_locations) known_.emplace(symbolized, number);
    return number;
  }

  FrameLine find_line(const unwind::Frame& frame, const symbolize::Frame& symbolized) {
    const auto& positions = symbolized.positions;
    const symbolize::SourcePosition* const position =
        frame.inline_depth < positions.size() ? &positions[frame.inline_depth] : nullptr;
    const symbolize::Function* function = symbolized.function ? &*symbolized.function : nullptr;
    if (position != nullptr && position->inlined) function = &*position->inlined;
    const std::string file = position != nullptr ? position->file : "";
    const std::string text = function != nullptr ? function->name_with_others() : symbolized.text;
    return {.function =
                functions_.find({text, function != nullptr ? function->symbol : text, file}),
            .number = position != nullptr ? position->line : 0};
  }

  std::uint64_t find_text(std::string_view text) {
    return texts_.find(valid_utf8(text, max_text_bytes));
  }

  Result<std::string> content(const ExportedEnd& end) override {
    std::string out;
    ProtobufWriter writer(out);
    texts_.find(""); // the first one has to be empty
    write_type(writer, "samples", "count");
    if (const auto measured = unit())
      write_type(writer, *measured == "ns" ? "time" : *measured,
                 *measured == "ns" ? "nanoseconds" : "count");
    for (std::uint32_t i = 0; i < nodes_.size(); ++i)
      if (nodes_[i].hits > 0) write_sample(writer, i);
    write_mappings(writer);
    write_locations(writer);
    write_functions(writer);
    writer.number(field::profile::time_nanos, run().start.realtime_ns);
    writer.number(field::profile::duration_nanos, end.time.monotonic_ns - run().start.monotonic_ns);
    for (const std::string& comment : {header().command, end.summary})
      if (!comment.empty()) writer.number(field::profile::comment, find_text(comment));
    for (const std::string* text : texts_.values())
      writer.text(field::profile::string_table, *text);
    return gzip(out);
  }

  void write_type(ProtobufWriter& writer, std::string_view type, std::string_view unit) {
    const std::size_t begin = writer.begin(field::profile::sample_type);
    writer.number(field::value_type::type, find_text(type));
    writer.number(field::value_type::unit, find_text(unit));
    writer.end(begin);
  }

  void write_sample(ProtobufWriter& writer, std::uint32_t innermost) const {
    const std::size_t sample = writer.begin(field::profile::sample);
    std::string packed;
    for (std::uint32_t i = innermost; i != 0; i = nodes_[i].parent)
      ProtobufWriter::append_varint(packed, nodes_[i].location);
    writer.text(field::sample::location_id, packed);
    packed.clear();
    ProtobufWriter::append_varint(packed, nodes_[innermost].hits);
    constexpr std::uint64_t most = INT64_MAX; // values are int64
    if (unit()) ProtobufWriter::append_varint(packed, std::min(nodes_[innermost].measured, most));
    writer.text(field::sample::value, packed);
    writer.end(sample);
  }

  void write_mappings(ProtobufWriter& writer) {
    std::uint64_t id = mappings_.first();
    for (const MappingKey* key : mappings_.values()) {
      const std::size_t mapping = writer.begin(field::profile::mapping);
      writer.number(field::mapping::id, id);
      writer.number(field::mapping::memory_limit, limits_[id]);
      writer.number(field::mapping::filename, find_text(key->path));
      writer.number(field::mapping::build_id, find_text(key->build_id));
      writer.number(field::mapping::has_functions, 1);
      writer.end(mapping);
      ++id;
    }
  }

  void write_locations(ProtobufWriter& writer) const {
    std::uint64_t id = locations_.first();
    for (const LocationKey* key : locations_.values()) {
      const std::size_t location = writer.begin(field::profile::location);
      writer.number(field::location::id, id++);
      if (key->mapping != 0) writer.number(field::location::mapping_id, key->mapping);
      writer.number(field::location::address, key->address);
      for (const FrameLine& each : key->lines) {
        const std::size_t line = writer.begin(field::location::line);
        writer.number(field::line::function_id, each.function);
        if (each.number != 0) writer.number(field::line::line, each.number);
        writer.end(line);
      }
      writer.end(location);
    }
  }

  void write_functions(ProtobufWriter& writer) {
    std::uint64_t id = functions_.first();
    for (const FunctionKey* key : functions_.values()) {
      const std::size_t function = writer.begin(field::profile::function);
      writer.number(field::function::id, id++);
      writer.number(field::function::name, find_text(key->name));
      writer.number(field::function::system_name, find_text(key->system_name));
      if (!key->file.empty()) writer.number(field::function::filename, find_text(key->file));
      writer.end(function);
    }
  }

  std::vector<Node> nodes_ = std::vector<Node>(1); // the first is the root
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> children_; // by node, location
  Numbers<std::string> texts_{0};
  Numbers<MappingKey> mappings_{1};
  Numbers<FunctionKey> functions_{1};
  Numbers<LocationKey> locations_{1};
  std::unordered_map<std::shared_ptr<const symbolize::Frame>, std::uint64_t> known_; // locations
  std::map<std::uint64_t, std::uint64_t> limits_; // the end of each mapping
};

} // namespace

Result<std::unique_ptr<Export>> open_pprof_profile(const std::string& path,
                                                   Workstation& workstation) {
  auto file = ReplacedFile::open(path, workstation);
  if (!file) return fail(std::move(file).error());
  return std::make_unique<PprofProfile>(std::move(*file));
}

} // namespace uprobectl::output
