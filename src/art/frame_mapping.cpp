// SPDX-License-Identifier: Apache-2.0
#include "art/frame_mapping.hpp"

#include "art/mapping_text.hpp"
#include "util/numbers.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <span>

namespace uprobectl::art {

// The comments are those below the line.
struct MappedRow {
  MappedMember member;
  bool synthesized = false;
  bool outline = false;
  // Set at the call site of an outline: maps a line of the outline to the line of the method with
  // the call.
  std::map<std::uint32_t, std::uint32_t> outline_lines = {};
  struct Rewrite {
    std::string_view exception;      // descriptor
    std::uint32_t removed_inner = 0; // frames
  };
  std::vector<Rewrite> rewrites = {};
};

namespace {

using Rows = std::vector<MappedRow>;

// "throws(Ljava/lang/NullPointerException;)" -> "Ljava/lang/NullPointerException;"
std::optional<std::string_view> argument_of(std::string_view call, std::string_view function) {
  if (!call.starts_with(function) || !call.ends_with(')')) return std::nullopt;
  call.remove_prefix(function.size());
  if (!call.starts_with('(')) return std::nullopt;
  return call.substr(1, call.size() - 2);
}

// Conditions that are not known are not fulfilled.
void add_rewrite(MappedRow& row, std::string_view comment) {
  auto conditions = comment_items(comment, "conditions");
  auto actions = comment_items(comment, "actions");
  if (!conditions || !actions) return;
  const auto condition = take_quoted(*conditions);
  const auto action = take_quoted(*actions);
  if (!condition || !action || take_quoted(*conditions) || take_quoted(*actions)) return;
  const auto exception = argument_of(*condition, "throws");
  const auto removed = argument_of(*action, "removeInnerFrames");
  const auto count = removed ? parse_number<std::uint32_t>(*removed) : std::nullopt;
  if (exception && count) row.rewrites.push_back({*exception, *count});
}

void add_outline_lines(MappedRow& row, std::string_view comment) {
  auto items = comment_items(comment, "positions");
  while (items) {
    const auto from = take_quoted(*items);
    if (!from) return;
    std::string_view rest = trimmed(*items);
    if (!rest.starts_with(':')) return;
    rest = trimmed(rest.substr(1));
    const auto outlined = parse_number<std::uint32_t>(*from);
    const auto line = take_number<std::uint32_t>(rest);
    if (!outlined || !line) return;
    row.outline_lines.emplace(*outlined, *line);
    *items = rest;
  }
}

void add_comment(MappedRow& row, std::string_view comment) {
  const auto id = comment_text(comment, "id");
  if (id == "com.android.tools.r8.synthesized")
    row.synthesized = true;
  else if (id == "com.android.tools.r8.outline")
    row.outline = row.synthesized = true;
  else if (id == "com.android.tools.r8.outlineCallsite")
    add_outline_lines(row, comment);
  else if (id == "com.android.tools.r8.rewriteFrame")
    add_rewrite(row, comment);
}

// Rows in sequence with the same range are one frame: the last one is the method in the file.
std::size_t frame_end(std::span<const MappedRow> rows, std::size_t begin) {
  std::size_t end = begin + 1;
  while (end < rows.size() && rows[begin].member.range &&
         rows[end].member.range == rows[begin].member.range)
    ++end;
  return end;
}

bool is_same_source_method(const MappedRow& a, const MappedRow& b) {
  const MappedMethod& left = a.member.method;
  const MappedMethod& right = b.member.method;
  return left.class_name == right.class_name && left.name == right.name &&
         left.return_type == right.return_type && left.parameters == right.parameters;
}

// Splits the rows of a name into those of each method of the file: the name may be overloaded.
std::vector<std::span<const MappedRow>> split_methods(std::span<const MappedRow> rows) {
  std::vector<std::span<const MappedRow>> methods;
  if (rows.empty()) return methods;
  // Frames of one method are not always in sequence.
  if (is_same_source_method(rows[frame_end(rows, 0) - 1], rows.back())) return {rows};
  std::size_t begin = 0;
  std::size_t end = frame_end(rows, 0);
  while (end < rows.size()) {
    const std::size_t next = frame_end(rows, end);
    if (!is_same_source_method(rows[end - 1], rows[next - 1])) {
      methods.push_back(rows.subspan(begin, end - begin));
      begin = end;
    }
    end = next;
  }
  methods.push_back(rows.subspan(begin));
  return methods;
}

// Copies the rows of a frame: of too many the innermost, and the outermost, the method in the file.
Rows shown_rows(std::span<const MappedRow> frame, std::size_t& omitted) {
  const std::size_t shown = std::min(frame.size(), FrameMapping::max_frames) - 1;
  omitted += frame.size() - 1 - shown;
  Rows rows(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(shown));
  rows.push_back(frame.back());
  return rows;
}

// Returns the frame that has the line. `or_without_range`: else the first one without a range.
Rows rows_for(std::span<const MappedRow> method, std::uint32_t line, bool or_without_range,
              std::size_t& omitted) {
  const MappedRow* without_range = nullptr;
  for (std::size_t i = 0; i < method.size(); i = frame_end(method, i)) {
    const auto& range = method[i].member.range;
    if (!range && without_range == nullptr) without_range = &method[i];
    if (range && range->contains(line))
      return shown_rows(method.subspan(i, frame_end(method, i) - i), omitted);
  }
  if (or_without_range && without_range != nullptr) return {*without_range};
  return {};
}

// Each is an alternative. `left_out` counts those that are too many to be compared.
Rows rows_without_range(std::span<const MappedRow> method, std::size_t& left_out) {
  constexpr std::size_t max_rows = 64;
  Rows rows;
  for (const MappedRow& row : method) {
    if (row.member.range) continue;
    if (rows.size() < max_rows)
      rows.push_back(row);
    else
      ++left_out;
  }
  return rows;
}

bool is_catch_all(std::span<const MappedRow> method) {
  constexpr LineRange all{.first = 0, .last = 65535};
  return method.size() == 1 && method.front().member.range == all;
}

// The method alone: its lines are not known.
Rows without_lines(std::span<const MappedRow> method) {
  if (is_catch_all(method)) return {method.front()};
  MappedRow row = method.back();
  row.member.range.reset();
  row.member.source.reset();
  return {row};
}

// Whether a line of the file is one of several in the source.
bool has_several_lines(const MappedMember& member) {
  const auto& source = member.source;
  if (!source || source->last <= source->first) return false;
  return !member.range || member.range->last - member.range->first != source->last - source->first;
}

// 0 if it is not known.
std::uint32_t source_line(const MappedMember& member, std::optional<std::uint32_t> line) {
  const auto& source = member.source;
  if (!source || source->last < source->first) return line.value_or(0);
  if (source->last == source->first) return source->first;
  if (!line || !member.range || !member.range->contains(*line)) return 0;
  return source->first + std::min(*line - member.range->first, source->last - source->first);
}

Signature signature_of(const MappedMethod& method) {
  Signature signature{.return_type = std::string(method.return_type),
                      .class_name = std::string(method.class_name),
                      .name = std::string(method.name),
                      .parameters = {}};
  for (std::string_view types = method.parameters; !types.empty();) {
    const auto comma = std::min(types.find(','), types.size());
    signature.parameters.emplace_back(trimmed(types.substr(0, comma)));
    types.remove_prefix(std::min(comma + 1, types.size()));
  }
  return signature;
}

// The name of the source file that belongs to a class, if the mapping does not have it: R8 writes
// only names that differ from this (RetraceUtils.hasPredictableSourceFileName). The extension is
// that in the report.
std::string inferred_file(std::string_view class_name, std::string_view reported) {
  std::string_view name = class_name.substr(class_name.rfind('.') + 1); // npos + 1 is 0
  if (const auto nested = name.find('$'); nested != std::string_view::npos && nested > 0)
    name = name.substr(0, nested);
  const auto dot = reported.rfind('.');
  const std::string_view extension =
      dot == std::string_view::npos ? std::string_view() : reported.substr(dot + 1);
  if (name.ends_with("Kt") && (extension.empty() || extension == "kt"))
    return std::string(name.substr(0, name.size() - 2)) + ".kt";
  return std::string(name) + (extension == "kt" ? ".kt" : ".java");
}

bool looks_same(const FrameMapping::Stack& a, const FrameMapping::Stack& b) {
  return std::ranges::equal(
      a, b, {}, [](const SourceFrame& each) { return to_string(each); },
      [](const SourceFrame& each) { return to_string(each); });
}

} // namespace

FrameMapping::FrameMapping(std::shared_ptr<const NameMapping> mapping)
    : mapping_(std::move(mapping)) {}

FrameMapping::~FrameMapping() = default;

void FrameMapping::begin_stack(std::string_view exception) {
  outline_line_.reset();
  exception_.clear();
  if (exception.empty()) return;
  exception_ = fmt::format("L{};", exception);
  std::ranges::replace(exception_, '.', '/');
}

const FrameMapping::Methods* FrameMapping::methods_of(std::string_view class_name) {
  const auto text = mapping_->text_of(class_name);
  if (!text) return nullptr;
  const auto known = classes_.find(text->in_file);
  if (known != classes_.end()) return &known->second;
  constexpr std::size_t max_cached = std::size_t{1} << 17U;
  if (cached_ > max_cached) {
    classes_.clear();
    cached_ = 0;
  }
  const std::size_t before = cached_;
  Methods methods;
  Rows* last = nullptr; // null after a field
  for (std::string_view lines = text->lines; !lines.empty();) {
    const std::string_view line = trimmed(take_line(lines));
    if (is_mapping_comment(line)) {
      if (last != nullptr) add_comment(last->back(), line);
      continue;
    }
    auto member = parse_mapped_member(line);
    last = nullptr;
    if (!member || !member->is_method) continue;
    if (member->method.class_name.empty()) member->method.class_name = text->source;
    last = &methods[member->method.in_file];
    last->push_back({.member = *member});
    ++cached_;
  }
  // Reading a line takes longer than passing over it later.
  constexpr std::uint64_t reading_cost = 16;
  rows_left_ -= std::min(rows_left_, reading_cost * (cached_ - before));
  return &classes_.emplace(text->in_file, std::move(methods)).first->second;
}

std::string FrameMapping::file_of(const std::string& class_name, std::string_view reported) const {
  if (reported == "Native Method") return std::string(reported);
  const auto known = mapping_->source_file(class_name);
  if (known && !known->empty()) return std::string(*known);
  return inferred_file(class_name, reported);
}

SourceFrame FrameMapping::source_frame(const MappedRow& row, const FileFrame& frame) const {
  SourceFrame source{.method = signature_of(row.member.method), .file = {}};
  source.line = source_line(row.member, frame.line);
  source.file = file_of(source.method.class_name, frame.source);
  source.synthesized = row.synthesized;
  return source;
}

// `rows` are those of one method: one frame, or several rows without a range.
void FrameMapping::add_stacks(Answer& answer, const Rows& rows, const FileFrame& frame) {
  std::size_t frames = 0;
  for (const Stack& stack : answer.alternatives) frames += stack.size();
  const auto add = [&](Stack stack) {
    // Overloads have the same text.
    if (std::ranges::any_of(answer.alternatives,
                            [&](const Stack& other) { return looks_same(stack, other); }))
      return;
    frames += stack.size();
    if (answer.alternatives.empty() ||
        (answer.alternatives.size() < max_alternatives && frames <= max_frames))
      answer.alternatives.push_back(std::move(stack));
    else
      ++answer.left_out;
  };
  for (std::size_t begin = 0; begin < rows.size();) {
    const std::size_t end = frame_end(rows, begin);
    std::size_t removed = 0;
    for (std::size_t i = begin; i < end; ++i)
      for (const MappedRow::Rewrite& rewrite : rows[i].rewrites)
        if (!exception_.empty() && rewrite.exception == exception_)
          removed += rewrite.removed_inner;
    if (removed >= end - begin) removed = 0;
    Stack stack;
    for (std::size_t i = begin + removed; i < end; ++i) {
      if (rows[i].synthesized && !stack.empty()) break;
      stack.push_back(source_frame(rows[i], frame));
      stack.back().inlined = i + 1 < end;
    }
    const MappedMember& innermost = rows[begin + removed].member;
    if (frame.line && *frame.line > 0 && has_several_lines(innermost)) {
      const std::uint32_t last = innermost.source->last;
      const std::uint32_t shown =
          std::min<std::uint32_t>(last - innermost.source->first, max_alternatives);
      for (std::uint32_t i = 0; i <= shown; ++i) {
        stack.front().line = innermost.source->first + i;
        add(stack);
      }
      answer.left_out += last - innermost.source->first - shown;
    } else {
      add(std::move(stack));
    }
    begin = end;
  }
}

FrameMapping::Answer FrameMapping::translate(const FileFrame& frame) {
  const auto outlined = std::exchange(outline_line_, std::nullopt);
  const Methods* const known = methods_of(frame.class_name);
  const std::string exception = std::exchange(exception_, {});
  if (known == nullptr || is_exhausted()) return {};
  Question question(frame.class_name, frame.method, frame.source, frame.line, exception, outlined);
  if (const auto before = answers_.find(question); before != answers_.end()) {
    outline_line_ = before->second.outline_line;
    return before->second.answer;
  }
  exception_ = exception;
  Answer answer = find(frame, *known, outlined);
  exception_.clear();
  constexpr std::size_t max_answers = 1024;
  if (answers_.size() >= max_answers) answers_.clear();
  answers_.emplace(std::move(question), Known{answer, outline_line_});
  return answer;
}

FrameMapping::Answer FrameMapping::find(const FileFrame& frame, const Methods& known,
                                        std::optional<std::uint32_t> outlined) {
  Answer answer;
  FileFrame asked = frame;
  if (asked.line == 0U) asked.line.reset();
  std::vector<std::span<const MappedRow>> methods;
  if (const auto named = known.find(frame.method); named != known.end()) {
    rows_left_ -= std::min<std::uint64_t>(rows_left_, named->second.size());
    methods = split_methods(named->second);
  }
  // Overloads whose rows all have the line: more are not told apart.
  constexpr std::size_t max_found = 64;
  std::vector<Rows> found;
  const auto collect = [&](auto&& rows_of_method) {
    for (const auto& method : methods) {
      Rows rows = rows_of_method(method);
      if (rows.empty()) continue;
      if (found.size() < max_found)
        found.push_back(std::move(rows));
      else
        ++answer.left_out;
    }
  };
  collect([&](auto method) {
    return rows_for(method, asked.line.value_or(0), !asked.line, answer.omitted_frames);
  });
  // A call of an outline is at several lines: that in the outline tells which.
  for (std::size_t i = 0; outlined && i < found.size(); ++i) {
    const auto& lines = found[i].back().outline_lines;
    if (lines.empty()) continue;
    const auto line = lines.find(*outlined);
    asked.line = line != lines.end() ? line->second : *outlined;
    found.clear();
    answer = {};
    collect(
        [&](auto method) { return rows_for(method, *asked.line, false, answer.omitted_frames); });
    break;
  }
  if (found.empty() && asked.line)
    collect([&](auto method) { return rows_without_range(method, answer.left_out); });
  if (found.empty() && !asked.line) collect(without_lines);
  for (const Rows& rows : found) {
    if (rows.back().outline) outline_line_ = asked.line;
    add_stacks(answer, rows, asked);
  }
  if (!answer.alternatives.empty()) return answer;
  const std::string class_name(*mapping_->class_in_source(frame.class_name));
  answer.alternatives.push_back({{.method = {.return_type = {},
                                             .class_name = class_name,
                                             .name = std::string(frame.method),
                                             .parameters = {}},
                                  .file = file_of(class_name, frame.source),
                                  .line = frame.line.value_or(0)}});
  return answer;
}

std::vector<Signature> FrameMapping::methods(std::string_view class_name, std::string_view method) {
  std::vector<Signature> signatures;
  const Methods* const known = methods_of(class_name);
  if (known == nullptr) return signatures;
  const auto shown = [](const Signature& each) { return to_string(each); };
  if (const auto named = known->find(method); named != known->end())
    for (const auto& rows : split_methods(named->second)) {
      Signature signature = signature_of(rows.back().member.method);
      if (std::ranges::find(signatures, to_string(signature), shown) == signatures.end())
        signatures.push_back(std::move(signature));
    }
  return signatures;
}

std::string to_string(const SourceFrame& frame) {
  std::string text =
      fmt::format("{}.{}({}", frame.method.class_name, frame.method.name, frame.file);
  if (frame.line != 0) text += fmt::format(":{}", frame.line);
  return text + ')';
}

} // namespace uprobectl::art
