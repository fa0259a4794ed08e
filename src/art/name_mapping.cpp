// SPDX-License-Identifier: Apache-2.0
#include "art/name_mapping.hpp"

#include "art/dex.hpp"
#include "art/mapping_text.hpp"
#include "art/oat_state.hpp"
#include "uprobectl/archive.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <tuple>

namespace uprobectl::art {

namespace {

// Where the Android Gradle plugin puts it in an app bundle ("Upload a deobfuscation file").
constexpr std::string_view bundle_entry =
    "BUNDLE-METADATA/com.android.tools.build.obfuscation/proguard.map";

std::vector<std::string_view> split_types(std::string_view text) {
  std::vector<std::string_view> types;
  while (!text.empty()) {
    const auto comma = std::min(text.find(','), text.size());
    types.push_back(trimmed(text.substr(0, comma), " "));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return types;
}

// Splits "a.b[][]" into the class and "[][]".
std::pair<std::string_view, std::string_view> split_array(std::string_view type) {
  const auto bracket = std::min(type.find('['), type.size());
  return {type.substr(0, bracket), type.substr(bracket)};
}

// Whether both are the same method of the source, in the same method of the file.
bool is_same_method(const MappedMethod& a, const MappedMethod& b) {
  return a.in_file == b.in_file && a.class_name == b.class_name && a.name == b.name &&
         a.return_type == b.return_type && a.parameters == b.parameters && a.inlined == b.inlined;
}

std::vector<MappedMethod> read_methods(std::string_view lines, std::string_view class_name) {
  std::vector<MappedMethod> methods;
  std::optional<LineRange> last_range; // of the last method, nullopt after a field
  while (!lines.empty()) {
    const std::string_view line = trimmed(take_line(lines));
    if (is_mapping_comment(line)) {
      const auto residual = residual_signature(line);
      if (residual && !methods.empty() && residual->starts_with('(') && parse_descriptor(*residual))
        methods.back().residual = *residual;
      continue;
    }
    auto member = parse_mapped_member(line);
    if (!member || !member->is_method) {
      last_range.reset();
      continue;
    }
    MappedMethod& method = member->method;
    if (method.class_name.empty()) method.class_name = class_name;
    if (member->range && member->range == last_range && methods.back().in_file == method.in_file)
      methods.back().inlined = true;
    last_range = member->range;
    // A method has a line for each of its ranges.
    if (methods.size() > 1 && !methods.back().inlined &&
        methods[methods.size() - 2] == methods.back())
      methods.pop_back();
    methods.push_back(method);
  }
  // The last method of a range has the others in it.
  for (std::size_t i = methods.size(); i-- > 0;) {
    if (!methods[i].inlined) continue;
    const MappedMethod& next = methods[i + 1];
    methods[i].outer_class = next.inlined ? next.outer_class : next.class_name;
    methods[i].outer_name = next.inlined ? next.outer_name : next.name;
  }
  // The residual signature may be at one line only.
  std::ranges::sort(methods, [](const MappedMethod& a, const MappedMethod& b) {
    return std::tie(a.in_file, a.inlined, a.class_name, a.name, a.return_type, a.parameters,
                    b.residual, a.outer_class, a.outer_name) <
           std::tie(b.in_file, b.inlined, b.class_name, b.name, b.return_type, b.parameters,
                    a.residual, b.outer_class, b.outer_name);
  });
  for (std::size_t i = 1; i < methods.size(); ++i)
    if (methods[i].residual.empty() && is_same_method(methods[i - 1], methods[i]))
      methods[i].residual = methods[i - 1].residual;
  const auto repeated = std::ranges::unique(methods);
  methods.erase(repeated.begin(), repeated.end());
  return methods;
}

Error invalid_line(std::size_t number, std::string_view what) {
  return {ErrorKind::corrupt,
          fmt::format("not a mapping file of R8 or ProGuard: line {} {}", number, what)};
}

std::string qualified(std::string_view class_name, std::string_view name) {
  return std::string(class_name) + '.' + std::string(name);
}

} // namespace

Result<std::shared_ptr<const NameMapping>> NameMapping::read(MappedFile mapped) {
  const auto file = std::make_shared<const MappedFile>(std::move(mapped));
  const std::string& path = file->path();
  Result<std::shared_ptr<const NameMapping>> mapping;
  if (archive::Archive::looks_like_archive(file->bytes())) {
    const auto archive = archive::Archive::parse(file->bytes());
    if (!archive) return fail(Error(archive.error()).within(path));
    const auto entry = archive->find(bundle_entry);
    if (!entry) return fail(Error(entry.error()).within(path));
    auto content = archive->extract(*entry, max_size);
    if (!content) return fail(std::move(content).error().within(path));
    const auto text = std::make_shared<const std::vector<std::byte>>(std::move(*content));
    mapping = parse(as_text(*text), text);
  } else {
    mapping = parse(as_text(file->bytes()), file);
  }
  if (!mapping) return fail(std::move(mapping).error().within(path));
  return mapping;
}

Result<std::shared_ptr<const NameMapping>> NameMapping::parse(std::string_view text,
                                                              std::shared_ptr<const void> owner) {
  if (text.size() > max_size)
    return fail(ErrorKind::unsupported,
                fmt::format("a mapping of more than {} MiB is not supported", max_size >> 20U));
  const std::shared_ptr<NameMapping> mapping(new NameMapping());
  mapping->owner_ = std::move(owner);
  mapping->text_ = text;
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  std::string_view rest = text;
  if (rest.starts_with(byte_order_mark)) rest.remove_prefix(byte_order_mark.size());
  std::vector<MappedClass>& classes = mapping->classes_;
  std::size_t members = 0; // of the last class
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::string_view whole = take_line(rest);
    const std::string_view line = trimmed(whole);
    if (line.empty() || is_mapping_comment(line)) {
      constexpr std::string_view id_comment = "# pg_map_id: ";
      if (classes.empty() && line.starts_with(id_comment))
        mapping->id_ = line.substr(id_comment.size());
      ++members;
    } else if (whole.front() == ' ' || whole.front() == '\t') {
      if (classes.empty()) return fail(invalid_line(number, "is not in a class"));
      if (!parse_mapped_member(line))
        return fail(invalid_line(number, "is not a class or a member"));
      ++members;
    } else {
      const auto at = line.find(mapping_arrow);
      if (at == 0 || at == std::string_view::npos || !line.ends_with(':') ||
          at + mapping_arrow.size() + 1 >= line.size())
        return fail(invalid_line(number, "is not a class or a member"));
      const auto begin = at + mapping_arrow.size();
      classes.push_back({.source = line.substr(0, at),
                         .in_file = line.substr(begin, line.size() - begin - 1),
                         .lines = rest.substr(0, 0)});
      members = 0;
      continue;
    }
    if (members > max_class_lines)
      return fail(invalid_line(
          number, fmt::format("is in a class of more than {} lines", max_class_lines)));
    if (!classes.empty()) {
      MappedClass& last = classes.back();
      last.lines = {last.lines.data(),
                    static_cast<std::size_t>(whole.data() + whole.size() - last.lines.data())};
    }
  }
  if (classes.empty())
    return fail(ErrorKind::corrupt, "not a mapping file of R8 or ProGuard: it has no classes");
  mapping->by_source_.reserve(classes.size());
  mapping->by_file_.reserve(classes.size());
  for (std::size_t i = 0; i < classes.size(); ++i) {
    mapping->by_source_.emplace(classes[i].source, i);
    mapping->by_file_.emplace(classes[i].in_file, i);
  }
  return mapping;
}

const NameMapping::MappedClass* NameMapping::find_source(std::string_view name) const {
  const auto found = by_source_.find(name);
  return found == by_source_.end() ? nullptr : &classes_[found->second];
}

std::optional<std::string_view> NameMapping::class_in_file(std::string_view source) const {
  const MappedClass* const found = find_source(source);
  return found == nullptr ? std::nullopt : std::optional(found->in_file);
}

std::optional<std::string_view> NameMapping::class_in_source(std::string_view in_file) const {
  const auto found = by_file_.find(in_file);
  return found == by_file_.end() ? std::nullopt : std::optional(classes_[found->second].source);
}

std::optional<NameMapping::ClassText> NameMapping::text_of(std::string_view in_file) const {
  const auto found = by_file_.find(in_file);
  if (found == by_file_.end()) return std::nullopt;
  const MappedClass& known = classes_[found->second];
  return ClassText{.source = known.source, .in_file = known.in_file, .lines = known.lines};
}

std::optional<std::string_view> NameMapping::source_file(std::string_view source) const {
  const MappedClass* const found = find_source(source);
  if (found == nullptr) return std::nullopt;
  for (std::string_view lines = found->lines; !lines.empty();) {
    const std::string_view line = trimmed(take_line(lines));
    if (!is_mapping_comment(line)) break;
    if (comment_text(line, "id") == "sourceFile") return comment_text(line, "fileName");
  }
  return std::nullopt;
}

std::shared_ptr<const NameMapping::Members> NameMapping::members(const MappedClass& mapped) const {
  constexpr std::size_t max_cached = std::size_t{1} << 18U;
  const std::scoped_lock lock(mutex_);
  const auto known = members_.find(&mapped);
  if (known != members_.end()) return known->second;
  auto read = std::make_shared<const Members>(read_methods(mapped.lines, mapped.source));
  if (cached_ > max_cached) {
    members_.clear();
    cached_ = 0;
  }
  cached_ += read->size();
  members_.emplace(&mapped, read);
  return read;
}

std::string NameMapping::type_in_source(std::string_view type) const {
  const auto [element, dimensions] = split_array(type);
  return std::string(class_in_source(element).value_or(element)).append(dimensions);
}

std::string NameMapping::type_in_file(std::string_view type) const {
  const auto [element, dimensions] = split_array(type);
  return std::string(class_in_file(element).value_or(element)).append(dimensions);
}

Signature NameMapping::source_signature(const MappedMethod& method) {
  Signature source{.return_type = std::string(method.return_type),
                   .class_name = std::string(method.class_name),
                   .name = std::string(method.name),
                   .parameters = {}};
  for (const std::string_view type : split_types(method.parameters))
    source.parameters.emplace_back(type);
  return source;
}

Signature NameMapping::file_signature(const MappedClass& mapped, const MappedMethod& method) const {
  Signature signature{.return_type = {},
                      .class_name = std::string(mapped.in_file),
                      .name = std::string(method.in_file),
                      .parameters = {}};
  if (auto residual = parse_descriptor(method.residual)) {
    signature.return_type = std::move(residual->return_type);
    signature.parameters = std::move(residual->parameters);
    return signature;
  }
  signature.return_type = type_in_file(method.return_type);
  for (const std::string_view type : split_types(method.parameters))
    signature.parameters.push_back(type_in_file(type));
  return signature;
}

bool NameMapping::fits(const MappedMethod& method, const Signature& in_file) const {
  if (!method.residual.empty()) {
    const auto residual = parse_descriptor(method.residual);
    return residual && residual->return_type == in_file.return_type &&
           residual->parameters == in_file.parameters;
  }
  return type_in_file(method.return_type) == in_file.return_type &&
         std::ranges::equal(split_types(method.parameters), in_file.parameters,
                            [this](std::string_view source, std::string_view other) {
                              return type_in_file(source) == other;
                            });
}

std::vector<Signature> NameMapping::in_source(const Signature& in_file) const {
  const auto known = by_file_.find(in_file.class_name);
  Members fitting;
  if (known != by_file_.end()) {
    const auto all = members(classes_[known->second]);
    const auto named = std::ranges::equal_range(*all, in_file.name, {}, &MappedMethod::in_file);
    const auto is_candidate = [&](const MappedMethod& method) { return !method.inlined; };
    std::ranges::copy_if(named, std::back_inserter(fitting), [&](const MappedMethod& method) {
      return is_candidate(method) && fits(method, in_file);
    });
    // Before version 2.2 of the mapping, R8 does not state types that an optimization has changed.
    if (fitting.empty() && std::ranges::count_if(named, is_candidate) == 1) {
      const MappedMethod& only = *std::ranges::find_if(named, is_candidate);
      if (only.residual.empty() && split_types(only.parameters).size() == in_file.parameters.size())
        fitting.push_back(only);
    }
  }
  std::vector<Signature> signatures;
  for (const MappedMethod& method : fitting) signatures.push_back(source_signature(method));
  if (!signatures.empty()) return signatures;
  Signature same{.return_type = type_in_source(in_file.return_type),
                 .class_name = type_in_source(in_file.class_name),
                 .name = in_file.name,
                 .parameters = {}};
  for (const std::string& type : in_file.parameters)
    same.parameters.push_back(type_in_source(type));
  signatures.push_back(std::move(same));
  return signatures;
}

std::vector<NameMapping::Renamed> NameMapping::renamed(std::string_view class_name,
                                                       std::string_view name) const {
  std::vector<Renamed> methods;
  const MappedClass* const mapped = find_source(class_name);
  if (mapped == nullptr) return methods;
  const auto all = members(*mapped);
  for (const MappedMethod& method : *all)
    if (!method.inlined && method.name == name && method.class_name == class_name)
      methods.push_back({source_signature(method), file_signature(*mapped, method)});
  return methods;
}

std::vector<NameMapping::MovedMethod>
NameMapping::moved_to(std::string_view class_name, std::string_view name,
                      const std::function<bool(const Signature&)>& fits) const {
  constexpr std::size_t max_moved = 64;
  std::vector<MovedMethod> moved;
  // A class has the methods of its own without their class, those of other classes with it.
  std::vector<const MappedClass*> holders;
  if (const MappedClass* const own = find_source(class_name)) holders.push_back(own);
  const std::string wanted = ' ' + qualified(class_name, name) + '(';
  const std::boyer_moore_horspool_searcher searcher(wanted.begin(), wanted.end());
  const char* const end = text_.data() + text_.size();
  for (const char* from = text_.data();;) {
    const char* const hit = std::search(from, end, searcher);
    if (hit == end) break;
    const auto after = std::ranges::upper_bound(
        classes_, hit, std::less<>(), [](const MappedClass& c) { return c.lines.data(); });
    from = hit + 1;
    if (after == classes_.begin()) continue; // in a comment at the start
    const MappedClass& holder = *std::prev(after);
    if (std::ranges::find(holders, &holder) == holders.end()) holders.push_back(&holder);
    if (holders.size() > max_moved) break;
    // The hit may be in the line of the next class.
    from = std::max(from, holder.lines.data() + holder.lines.size());
  }
  for (const MappedClass* const holder : holders) {
    const auto all = members(*holder);
    for (const MappedMethod& method : *all) {
      const bool is_own = holder->source == class_name && !method.inlined;
      if (method.name != name || method.class_name != class_name || is_own) continue;
      if (fits && !fits(source_signature(method))) continue;
      if (moved.size() == max_moved) return moved;
      moved.push_back({.class_name = std::string(holder->in_file),
                       .source = method.inlined ? qualified(method.outer_class, method.outer_name)
                                                : qualified(class_name, name),
                       .inlined = method.inlined});
    }
  }
  return moved;
}

std::vector<Signature> source_signatures(const OatFile& oat, const Method& method) {
  Signature in_file = oat.signature(method);
  if (oat.mapping() != nullptr) return oat.mapping()->in_source(in_file);
  std::vector<Signature> signatures;
  signatures.push_back(std::move(in_file));
  return signatures;
}

std::optional<std::string> source_name(const OatFile& oat, std::string_view signature) {
  const auto parsed = oat.mapping() != nullptr ? parse_signature(signature) : std::nullopt;
  if (!parsed) return std::nullopt;
  std::vector<std::string> names;
  for (const Signature& source : oat.mapping()->in_source(*parsed))
    names.push_back(to_string(source));
  std::string text = joined(names, " or ");
  return text == signature ? std::nullopt : std::optional(std::move(text));
}

std::string shown_name(const OatFile& oat, const Method& method) {
  std::string signature = to_string(oat.signature(method));
  return source_name(oat, signature).value_or(std::move(signature));
}

} // namespace uprobectl::art
