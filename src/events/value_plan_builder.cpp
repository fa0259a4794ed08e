// SPDX-License-Identifier: Apache-2.0
// Makes the readings of values; value_plan.cpp decodes what they found.
#include "events/library_types.hpp"
#include "events/path_resolver.hpp"
#include "events/value_plan_draft.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace uprobectl::events {

namespace {

using dwarf::Location;
using dwarf::Piece;
using dwarf::Type;
using dwarf::TypeKind;

constexpr std::size_t max_elements = 8;       // of an array
constexpr std::size_t max_strings = 4;        // of an array: each is a reading of its own
constexpr std::size_t max_shown_members = 24; // of a structure
constexpr int max_nested_nodes = 64;
constexpr std::size_t max_nodes = 4096; // of all values of a probe
constexpr std::string_view type_not_known = "its type is not known";

bool has_result(const TypedPoint& point) {
  return point.phases.exit && point.function->result->kind() != TypeKind::none;
}

} // namespace

// Builds the readings and nodes of one set of values.
class ValuePlanBuilder : private ValuePlanDraft {
public:
  using ValuePlanDraft::take;
  using ValuePlanDraft::ValuePlanDraft;

  void add_variable(const dwarf::Variable& variable) {
    std::string name =
        variable.name.empty() ? fmt::format("arg{}", made_.values_.size()) : variable.name;
    phase_ = PHASE_ENTRY;
    begin_value(variable.type);
    add_value(make_value(std::move(name), *variable.type, variable.location), *variable.type, false,
              parameter_source(where_, variable));
  }

  void add_result(std::string name = std::string(result_name)) {
    begin_value(where_.function->result);
    add_value(make_result(std::move(name)), *where_.function->result, true,
              std::string(result_name));
  }

  // Adds the result, which no path names, with the readings that the others have left. Removes it
  // again if nothing of it can be read, so that the register is shown, unless the result is in
  // another one.
  void add_implied_result() {
    const std::size_t others = made_.readings_.size();
    add_result();
    const Type& result = *where_.function->result;
    if (made_.readings_.size() == others && has_content(result) &&
        result.kind() != TypeKind::floating)
      made_.values_.pop_back();
  }

  Result<void> add_path(const ValuePath& path) {
    const bool is_result = path.is_of_result();
    if (is_result && has_result(where_) && path.steps.empty()) {
      add_result(path.text);
      return {};
    }
    begin_value();
    const std::size_t others = made_.readings_.size();
    auto named =
        resolve_path(builder_, where_, path,
                     is_result && has_result(where_) ? keep_result_address() : std::nullopt, {},
                     nullptr, keep());
    if (!named) remove_readings_after(others);
    if (!named) return fail(std::move(named).error());
    phase_ = named->value.phase;
    add_value(make_at(path.text, named->value), *named->value.type, is_result,
              parameter_source(where_, path));
    return {};
  }

  void add_unreadable(const ValuePath& path, std::string_view reason) {
    made_.values_.push_back({.node = {.name = path.text, .text = std::string(reason)}});
  }

private:
  void add_value(Node node, const Type& type, bool is_result, std::string source) {
    made_.values_.push_back(
        {.node = std::move(node),
         .type_name = type.name(),
         .phase = static_cast<record_u8>(is_result ? PHASE_RETURN : PHASE_ENTRY),
         .is_result = is_result,
         .source = std::move(source)});
  }

  // On arm64 nothing has the address of a result in memory at the return: it is read at the entry
  // if calls are paired.
  std::optional<reading> keep_result_address() {
    const dwarf::FunctionInfo& function = *where_.function;
    const bool needs_entry = !function.result_location.is_readable() && where_.phases.paired;
    if (!needs_entry || !function.result_address || !function.result_address->is_readable())
      return std::nullopt;
    phase_ = PHASE_ENTRY;
    const auto at_entry =
        builder_.follow(function.result_address->pieces.front().formula, phase_, word_size);
    const auto index = at_entry ? add_reading(*at_entry) : std::nullopt;
    phase_ = PHASE_RETURN;
    return index ? std::optional(based_on(*index, phase_)) : std::nullopt;
  }

  Node make_result(std::string name) {
    const dwarf::FunctionInfo& function = *where_.function;
    if (const auto address = keep_result_address())
      return in_memory(std::move(name), *function.result, *address, 0);
    phase_ = PHASE_RETURN;
    if (function.result_address && !function.result_location.is_readable())
      return problem_node(std::move(name), *function.result, "returned through memory");
    return make_value(std::move(name), *function.result, function.result_location);
  }

  Node make_value(std::string name, const Type& type, const Location& location) {
    // Compilers describe no location for what has no bytes.
    if (!has_content(type)) return structure_node(std::move(name), type, 0, 0, nullptr, 0);
    if (!location.is_readable()) return problem_node(std::move(name), type, problem_of(location));
    return make_at(std::move(name), {.type = &type, .phase = phase_, .location = &location});
  }

  // A value in memory, in a register or in several pieces.
  Node make_at(std::string name, const LocatedValue& value) {
    const Type& type = *value.type;
    if (value.bits) {
      const std::uint64_t size = (value.bits->offset + value.bits->size + 7) / 8;
      const auto number = size <= word_size ? builder_.number(value, size) : std::nullopt;
      if (!number) return problem_node(std::move(name), type, location_too_complex);
      Node node = from_reading(std::move(name), type, *number, false, load_size(size), 0);
      node.bits = value.bits;
      return node;
    }
    if (value.address) return in_memory(std::move(name), type, *value.address, 0);
    if (value.location->length && value.offset == 0) return counted_text(std::move(name), value);
    if (is_in_memory(value)) {
      const auto address = builder_.address(value);
      if (!address) return problem_node(std::move(name), type, location_too_complex);
      return in_memory(std::move(name), type, *address, 0);
    }
    return in_pieces(std::move(name), value);
  }

  // Characters whose number has a location of its own.
  Node counted_text(std::string name, const LocatedValue& value) {
    const Type& type = *value.type;
    const auto length = builder_.length(value);
    auto text = builder_.address(value);
    if (!length || !text) return problem_node(std::move(name), type, location_too_complex);
    if (readings_left() < 2 || string_capacity() == 0) return more_node(std::move(name), type);
    set_length(*text, *add_reading(*length));
    read_bytes(*text, string_capacity());
    return text_node(std::move(name), type, *text);
  }

  // A value in registers, or in several pieces. Only the pieces that it has are read.
  Node in_pieces(std::string name, const LocatedValue& value) {
    ValuePlan::Source source;
    std::uint64_t start = 0;
    const std::uint64_t size = value.type->size();
    for (const Piece& piece : value.location->pieces) {
      const std::uint64_t piece_size = piece.size != 0 ? piece.size : value.offset + size;
      if (start + piece_size > value.offset && start < value.offset + size)
        source.parts.push_back(make_part(piece, start, piece_size, value.guard));
      start += piece_size;
    }
    made_.sources_.push_back(std::move(source));
    return make_node(std::move(name), *value.type, made_.sources_.size() - 1, value.offset, nullptr,
                     0);
  }

  Part make_part(const Piece& piece, std::uint64_t offset, std::uint64_t size,
                 const std::optional<std::size_t>& guard) {
    Part part{.offset = offset, .size = size};
    if (piece.kind == Piece::Kind::missing) {
      part.problem = piece.problem.empty() ? dwarf::optimized_out : piece.problem;
      return part;
    }
    part.is_memory = piece.kind == Piece::Kind::memory && size > word_size;
    auto made = builder_.of_piece(piece, phase_, size);
    if (made && guard) add_offset(*made, *guard);
    if (made && part.is_memory) {
      part.size = std::min<std::uint64_t>(size, bytes_left());
      read_bytes(*made, part.size);
      if (part.size == 0) made.reset();
    }
    const auto index = made ? add_reading(*made) : std::nullopt;
    if (index)
      part.reading = *index;
    else
      part.problem = location_too_complex;
    return part;
  }

  // A value at the address that a reading finds: a number is read alone, a structure as one block.
  Node in_memory(std::string name, const Type& type, const reading& address, int depth) {
    if (const auto form = find_string_form(type))
      return string_at(std::move(name), type, address, *form);
    if (!has_content(type)) return structure_node(std::move(name), type, 0, 0, nullptr, depth);
    if (is_number(type)) {
      reading number = address;
      if (!add_load(number, 0, load_size(type.size())))
        return problem_node(std::move(name), type, location_too_complex);
      return from_reading(std::move(name), type, number, false, type.size(), depth);
    }
    if (type.descriptor() != nullptr) return described_array(std::move(name), type, address, depth);
    if (!type.problem().empty()) return problem_node(std::move(name), type, type.problem());
    if (type.size() == 0 || (!type.is_aggregate() && !is_wide_integer(type)))
      return type.size() > word_size
                 ? problem_node(std::move(name), type, "its type is not supported")
                 : problem_node(std::move(name), type, type_not_known);
    if (limits_.scalars_only) return beyond_scalars(std::move(name), type);
    if (bytes_left() == 0) return more_node(std::move(name), type);
    reading block = address;
    read_bytes(block, std::min<std::uint64_t>(type.size(), bytes_left()));
    return from_reading(std::move(name), type, block, true, block.capacity, depth);
  }

  // `size`: of the source, bytes.
  Node from_reading(std::string name, const Type& type, const reading& made, bool is_memory,
                    std::uint64_t size, int depth) {
    const auto index = add_reading(made);
    if (!index) return more_node(std::move(name), type);
    made_.sources_.push_back({{{.size = size, .reading = *index, .is_memory = is_memory}}});
    return make_node(std::move(name), type, made_.sources_.size() - 1, 0,
                     is_memory ? &made : nullptr, depth);
  }

  Node string_at(std::string name, const Type& type, reading object, reading_form form) {
    read_text(object, form, string_capacity());
    return text_node(std::move(name), type, object);
  }

  // Strings that are still to come get the same share.
  std::uint32_t string_capacity() const {
    return std::min(limits_.max_string, bytes_left() / waiting_strings_);
  }

  Node text_node(std::string name, const Type& type, const reading& made) {
    const auto index = made.capacity == 0 ? std::nullopt : add_reading(made);
    if (!index) return more_node(std::move(name), type);
    return {.kind = Node::Kind::text, .name = std::move(name), .type = &type, .reading = *index};
  }

  static Node scalar_node(std::string name, const Type& type, std::size_t source,
                          std::uint64_t offset) {
    return {.kind = Node::Kind::scalar,
            .name = std::move(name),
            .type = &type,
            .source = source,
            .offset = offset};
  }

  // Makes the node of a value at an offset of a source. `block`: the reading whose bytes the source
  // has; null if it is in registers.
  Node make_node(std::string name, const Type& type, std::size_t source, std::uint64_t offset,
                 const reading* block, int depth) {
    if (++nested_ > max_nested_nodes || ++nodes_ > max_nodes) {
      --nested_;
      return more_node(std::move(name), type);
    }
    Node node = make_node_of_kind(std::move(name), type, source, offset, block, depth);
    --nested_;
    return node;
  }

  Node make_node_of_kind(std::string name, const Type& type, std::size_t source,
                         std::uint64_t offset, const reading* block, int depth) {
    const bool is_base_class = std::exchange(is_base_class_, false);
    switch (type.kind()) {
    case TypeKind::structure:
    case TypeKind::variants:
      if (const auto form = find_string_form(type); form && block != nullptr)
        return string_at(std::move(name), type, moved(address_of(*block), offset), *form);
      if (const auto library = find_library_type(type))
        return library_node(std::move(name), type, *library, source, offset, block, depth);
      if (type.discriminant())
        return choice_node(std::move(name), type, source, offset, block, depth);
      is_base_class_ = is_base_class;
      return structure_node(std::move(name), type, source, offset, block, depth);
    case TypeKind::array:
      return array_node(std::move(name), type, source, offset, block, depth);
    case TypeKind::reference:
      return reference_node(std::move(name), type, source, offset, block, depth);
    case TypeKind::pointer:
      if (is_text_pointer(type)) return c_string_node(std::move(name), type, source, offset, block);
      break;
    case TypeKind::unknown:
    case TypeKind::none:
    case TypeKind::function:
      return problem_node(std::move(name), type,
                          type.problem().empty() ? type_not_known : type.problem());
    case TypeKind::integer:
    case TypeKind::boolean:
    case TypeKind::character:
    case TypeKind::floating:
    case TypeKind::enumeration:
      break;
    }
    return scalar_node(std::move(name), type, source, offset);
  }

  // A reading of the word at an offset of the source; nullopt if it is not in one piece.
  std::optional<reading> word_at(std::size_t source, std::uint64_t offset,
                                 const reading* block) const {
    if (block != nullptr) return word_of(address_of(*block), offset);
    for (const Part& part : made_.sources_[source].parts)
      if (part.offset == offset && part.size == word_size && part.problem.empty())
        return based_on(part.reading, phase_);
    return std::nullopt;
  }

  Node c_string_node(std::string name, const Type& type, std::size_t source, std::uint64_t offset,
                     const reading* block) {
    auto pointer = word_at(source, offset, block);
    if (!pointer) return problem_node(std::move(name), type, part_problem(source, offset));
    read_text(*pointer, READ_STRING, limits_.max_string);
    pointer->capacity = std::min(pointer->capacity, bytes_left() / waiting_strings_);
    if (pointer->capacity < 3) return more_node(std::move(name), type);
    return text_node(std::move(name), type, *pointer);
  }

  std::string part_problem(std::size_t source, std::uint64_t offset) const {
    for (const Part& part : made_.sources_[source].parts)
      if (offset >= part.offset && offset < part.offset + part.size && !part.problem.empty())
        return part.problem;
    const auto& parts = made_.sources_[source].parts;
    const bool is_described = std::ranges::any_of(parts, [&](const Part& part) {
      return offset >= part.offset && offset < part.offset + part.size;
    });
    return is_described ? std::string(location_too_complex) : dwarf::optimized_out;
  }

  // A reference is shown as what it refers to.
  Node reference_node(std::string name, const Type& type, std::size_t source, std::uint64_t offset,
                      const reading* block, int depth) {
    const auto pointer = word_at(source, offset, block);
    const Type* const target = type.target();
    if (!pointer || target == nullptr || depth >= limits_.depth || target->size() == 0)
      return scalar_node(std::move(name), type, source, offset);
    return in_memory(std::move(name), *target, *pointer, depth);
  }

  Node library_node(std::string name, const Type& type, const LibraryType& library,
                    std::size_t source, std::uint64_t offset, const reading* block, int depth) {
    const std::uint64_t at = offset + library.offset;
    switch (library.kind) {
    case LibraryType::Kind::c_string:
      return c_string_node(std::move(name), type, source, at, block);
    case LibraryType::Kind::pointer:
      return scalar_node(std::move(name), *library.type, source, at);
    case LibraryType::Kind::duration: {
      Node node{.kind = Node::Kind::duration, .name = std::move(name), .type = &type};
      node.children.push_back(scalar_node({}, *library.type, source, at));
      node.text = name_unit(*library.tick);
      return node;
    }
    case LibraryType::Kind::optional: {
      Node node{.kind = Node::Kind::optional, .name = std::move(name), .type = &type};
      node.children.push_back(
          scalar_node({}, *library.flag, source, offset + library.length_offset));
      node.children.push_back(make_node({}, *library.type, source, at, block, depth));
      node.text = "nullopt";
      return node;
    }
    case LibraryType::Kind::interface: {
      Node node{.kind = Node::Kind::interface, .name = std::move(name), .type = &type};
      node.children.push_back(scalar_node({}, *library.type, source, at));
      node.children.push_back(structure_node({}, type, source, offset, block, depth));
      node.content = interface_content(library, source, offset, block, depth);
      return node;
    }
    case LibraryType::Kind::text:
    case LibraryType::Kind::sequence:
      break;
    }
    return sequence_node(std::move(name), type, library, source, offset, block, depth);
  }

  // The value in an interface of Go. Its type is known by the address of the runtime's description,
  // but not before the hit.
  std::optional<ValuePlan::Content> interface_content(const LibraryType& library,
                                                      std::size_t source, std::uint64_t offset,
                                                      const reading* block, int depth) {
    const std::size_t needed = module_reading_ ? 1 : 2;
    // At a return the instruction is any of the function's exits.
    const bool knows_module = phase_ == PHASE_ENTRY || where_.phases.paired;
    if (depth >= limits_.depth || readings_left() < needed || !knows_module || !find_go_types())
      return std::nullopt;
    auto description = word_at(source, offset, block);
    if (!description) return std::nullopt;
    if (library.description_offset &&
        !add_load(*description, static_cast<std::int64_t>(*library.description_offset), word_size))
      return std::nullopt;
    if (!module_reading_) module_reading_ = add_reading(builder_.load_bias());
    return ValuePlan::Content{.description = *add_reading(*description),
                              .module = *module_reading_,
                              .value = value_in_interface(source, offset, block)};
  }

  // Reads the data of a value in an interface, in case it is a number, is a string, or begins with
  // one.
  std::optional<ValuePlan::Content::Data>
  value_in_interface(std::size_t source, std::uint64_t offset, const reading* block) {
    constexpr std::size_t needed = 3; // readings: descriptor, address of the data, elements
    auto first = word_at(source, offset + word_size, block);
    auto length = first;
    if (!first || readings_left() < needed || string_capacity() == 0 ||
        !add_load(*first, 0, word_size) || !add_load(*length, word_size, word_size))
      return std::nullopt;
    const std::size_t first_index = *add_reading(*first);
    reading text = based_on(first_index, phase_);
    set_length(text, *add_reading(*length));
    read_bytes(text, string_capacity());
    made_.sources_.push_back({{{.size = word_size, .reading = first_index}}});
    return ValuePlan::Content::Data{.first_word = made_.sources_.size() - 1,
                                    .text = *add_reading(text)};
  }

  bool find_go_types() {
    if (made_.go_types_ == nullptr && where_.find_go_types)
      made_.go_types_ = where_.find_go_types();
    return made_.go_types_ != nullptr;
  }

  // The characters or elements that a pointer points to, with their number.
  Node sequence_node(std::string name, const Type& type, const LibraryType& library,
                     std::size_t source, std::uint64_t offset, const reading* block, int depth) {
    auto pointer = word_at(source, offset + library.offset, block);
    const bool is_fixed = library.fixed_length.has_value();
    const auto length =
        is_fixed ? std::nullopt : word_at(source, offset + library.length_offset, block);
    const bool is_text = library.kind == LibraryType::Kind::text;
    const std::uint64_t size = is_text ? 1 : library.type->size();
    if (!pointer || (!length && !is_fixed) || size == 0)
      return problem_node(std::move(name), type, part_problem(source, offset + library.offset));
    if (!is_text && limits_.scalars_only) return beyond_scalars(std::move(name), type);
    if (!is_text && depth >= limits_.depth) return more_node(std::move(name), type);
    const bool has_strings = !is_text && is_string(*library.type);
    const auto capacity = static_cast<std::uint32_t>(
        is_text ? string_capacity()
                : std::min<std::uint64_t>(
                      std::min<std::uint64_t>(max_elements,
                                              library.fixed_length.value_or(max_elements)) *
                          size,
                      bytes_left()));
    if (capacity == 0 || readings_left() < 2) return more_node(std::move(name), type);
    const auto length_index = length ? add_reading(*length) : std::nullopt;
    if (!has_strings) read_bytes(*pointer, capacity);
    if (!has_strings && length_index) {
      set_length(*pointer, *length_index, library.length_is_end ? 0 : size);
      pointer->length_is_end = library.length_is_end ? 1 : 0;
    }
    if (is_text) return text_node(std::move(name), type, *pointer);
    const auto index = add_reading(*pointer);
    made_.sources_.push_back({{{.size = capacity, .reading = *index, .is_memory = !has_strings}}});
    const std::size_t elements = made_.sources_.size() - 1;
    Node node{.kind = Node::Kind::sequence,
              .name = std::move(name),
              .type = library.type,
              .reading = *index,
              .length = length_index,
              .length_is_end = library.length_is_end,
              .fixed_length = library.fixed_length.value_or(0)};
    add_elements(node, *library.type, max_elements, elements, 0, &*pointer, depth);
    return node;
  }

  // Strings are followed by a reading each; the bytes of the elements are not needed.
  static bool is_string(const Type& type) {
    return is_text_pointer(type) || find_string_form(type).has_value();
  }

  void add_elements(Node& node, const Type& element, std::uint64_t count, std::size_t source,
                    std::uint64_t offset, const reading* block, int depth) {
    const bool needs_readings = is_string(element) || find_library_type(element);
    const std::uint64_t shown =
        std::min<std::uint64_t>(count, needs_readings ? max_strings : max_elements);
    const std::uint32_t outside = waiting_strings_;
    for (std::uint64_t i = 0; i < shown; ++i) {
      if (needs_readings) waiting_strings_ = outside * static_cast<std::uint32_t>(shown - i);
      node.children.push_back(
          make_node({}, element, source, offset + i * element.size(), block, depth + 1));
    }
    waiting_strings_ = outside;
    if (shown < count) node.children.push_back(more_node({}, element));
  }

  Node structure_node(std::string name, const Type& type, std::size_t source, std::uint64_t offset,
                      const reading* block, int depth) {
    Node node{.kind = Node::Kind::structure, .name = std::move(name), .type = &type};
    if (depth >= limits_.depth) return more_node(std::move(node.name), type);
    // Base classes of one object share their virtual bases.
    const bool is_part = std::exchange(is_base_class_, false);
    std::vector<std::string> outer_bases;
    if (!is_part) outer_bases = std::exchange(virtual_bases_, {});
    const auto add = [&](Node child) {
      if (child.kind == Node::Kind::structure)
        std::ranges::move(child.children, std::back_inserter(node.children));
      else
        node.children.push_back(std::move(child));
    };
    std::size_t position = 0;
    const auto add_virtual_bases = [&] {
      for (const dwarf::VirtualBase& base : type.virtual_bases()) {
        if (base.position != position) continue;
        if (std::ranges::find(virtual_bases_, base.type->plain_name()) != virtual_bases_.end())
          continue;
        virtual_bases_.push_back(base.type->plain_name());
        add(virtual_base_node(base, offset, block, depth));
      }
      ++position;
    };
    add_virtual_bases();
    for (const dwarf::Member& member : type.members()) {
      if (node.children.size() >= max_shown_members) {
        node.children.push_back(more_node({}, type));
        break;
      }
      // Base classes and anonymous structures do not count as a level.
      const bool is_transparent = member.is_base || member.name.empty();
      is_base_class_ = is_transparent;
      Node child = make_node(member.name, *member.type, source, offset + member.offset, block,
                             depth + (is_transparent ? 0 : 1));
      is_base_class_ = false;
      child.bits = member.bits;
      is_transparent ? add(std::move(child)) : node.children.push_back(std::move(child));
      add_virtual_bases();
    }
    if (!is_part) virtual_bases_ = std::move(outer_bases);
    return node;
  }

  // `offset`: of the object, in the block that was read.
  Node virtual_base_node(const dwarf::VirtualBase& base, std::uint64_t offset, const reading* block,
                         int depth) {
    const Type& type = *base.type;
    if (!base.vtable_offset || block == nullptr)
      return problem_node(type.plain_name(), type, "virtual base class");
    if (!has_content(type)) return structure_node({}, type, 0, 0, nullptr, depth);
    const auto address = base_address(moved(address_of(*block), offset), base, keep());
    if (!address) return more_node(type.plain_name(), type);
    is_base_class_ = true;
    Node node = in_memory(type.plain_name(), type, *address, depth);
    is_base_class_ = false;
    return node;
  }

  // An enum of Rust: one of its variants is valid.
  Node choice_node(std::string name, const Type& type, std::size_t source, std::uint64_t offset,
                   const reading* block, int depth) {
    if (depth >= limits_.depth) return more_node(std::move(name), type);
    Node node{.kind = Node::Kind::choice, .name = std::move(name), .type = &type};
    const dwarf::Member& discriminant = *type.discriminant();
    node.children.push_back(
        scalar_node({}, *discriminant.type, source, offset + discriminant.offset));
    for (const dwarf::Member& variant : type.members()) {
      // Beyond the limit only the name is known.
      Node child = node.children.size() > max_shown_members
                       ? more_node(variant.name, *variant.type)
                       : make_node(variant.name, *variant.type, source, offset + variant.offset,
                                   block, depth);
      child.selected_by = variant.selected_by;
      node.children.push_back(std::move(child));
    }
    return node;
  }

  Node array_node(std::string name, const Type& type, std::size_t source, std::uint64_t offset,
                  const reading* block, int depth) {
    Node node{.kind = Node::Kind::array,
              .name = std::move(name),
              .type = &type,
              .source = source,
              .offset = offset};
    if (type.descriptor() != nullptr) {
      if (block == nullptr) return problem_node(std::move(node.name), type, location_too_complex);
      return described_array(std::move(node.name), type, moved(address_of(*block), offset), depth);
    }
    const Type* const element = type.row();
    if (element == nullptr) return problem_node(std::move(node.name), type, type_not_known);
    if (type.element_count() == 0) return more_node(std::move(node.name), type);
    if (element->size() == 0) return problem_node(std::move(node.name), type, type_not_known);
    if (is_character_type(*element)) return node;
    if (depth >= limits_.depth) return more_node(std::move(node.name), type);
    // All dimensions are one level.
    add_elements(node, *element, type.row_count(), source, offset, block,
                 type.dimensions() > 1 ? depth - 1 : depth);
    return node;
  }

  // A dimension of an array by descriptor. Indexes of readings.
  struct DescribedDimension {
    std::size_t count = 0;
    std::vector<std::size_t> distance = {}; // factors
  };

  static std::optional<reading> word_of(reading descriptor, std::uint64_t offset) {
    return add_load(descriptor, static_cast<std::int64_t>(offset), word_size)
               ? std::optional(descriptor)
               : std::nullopt;
  }

  // Needs a reading of the number of elements, one of what is subtracted from it, and one of each
  // factor of the distance.
  std::optional<DescribedDimension> add_dimension(const reading& descriptor,
                                                  const dwarf::ArrayDescriptor::Dimension& how) {
    DescribedDimension made;
    auto count = word_of(descriptor, how.added);
    if (!count) return std::nullopt;
    count->addend = how.constant;
    if (how.subtracted) {
      const auto lower = word_of(descriptor, *how.subtracted);
      if (!lower) return std::nullopt;
      add_offset(*count, *add_reading(*lower), -1);
    }
    made.count = *add_reading(*count);
    for (const std::uint64_t offset : how.distance) {
      const auto factor = word_of(descriptor, offset);
      if (!factor) return std::nullopt;
      made.distance.push_back(*add_reading(*factor));
    }
    return made;
  }

  // An array whose elements a descriptor in memory leads to.
  Node described_array(std::string name, const Type& type, const reading& descriptor, int depth) {
    const dwarf::ArrayDescriptor& how = *type.descriptor();
    const Type* const element = type.target();
    if (element == nullptr || element->size() == 0)
      return problem_node(std::move(name), type, type_not_known);
    // Readings: of the elements, of the address of the first row, and see add_dimension().
    std::size_t needed = how.dimensions.size() + (descriptor.offset_from != 0 ? 1 : 0);
    for (const auto& each : how.dimensions)
      needed += 1 + (each.subtracted ? 1 : 0) + each.distance.size();
    if (limits_.scalars_only || depth >= limits_.depth || readings_left() < needed ||
        bytes_left() < element->size())
      return more_node(std::move(name), type);
    const auto object = without_offset(descriptor, keep());
    const auto data = object ? word_of(*object, how.data) : std::nullopt;
    const auto inner = data ? add_dimension(*object, how.dimensions.front()) : std::nullopt;
    const bool has_rows = how.dimensions.size() == 2;
    const auto outer =
        inner && has_rows ? add_dimension(*object, how.dimensions.back()) : std::nullopt;
    if (!inner || (has_rows && !outer))
      return problem_node(std::move(name), type, location_too_complex);
    Node node = has_rows ? described_rows(*element, *data, *inner, *outer, how, depth)
                         : described_row(*element, *data, *inner, depth);
    node.name = std::move(name);
    node.text = how.without_data;
    return node;
  }

  // The elements of one dimension. `data`: the address of the first.
  Node described_row(const Type& element, reading data, const DescribedDimension& how, int depth) {
    read_bytes(data, std::min<std::uint64_t>(max_elements * element.size(), bytes_left()));
    set_length(data, how.count, element.size());
    Node node{.kind = Node::Kind::sequence,
              .type = &element,
              .reading = *add_reading(data),
              .length = how.count,
              .is_described = true,
              .distance = how.distance};
    made_.sources_.push_back(
        {{{.size = data.capacity, .reading = node.reading, .is_memory = true}}});
    add_elements(node, element, max_elements, made_.sources_.size() - 1, 0, &data, depth);
    return node;
  }

  // The rows of an array of two dimensions. Their distance is a word that counts bytes, or the size
  // of elements if another word has this size; decode_sequence() checks it.
  Node described_rows(const Type& element, const reading& data, const DescribedDimension& inner,
                      const DescribedDimension& outer, const dwarf::ArrayDescriptor& how,
                      int depth) {
    constexpr std::size_t max_rows = 4; // each is a reading of its own
    const auto& words = how.dimensions.back().distance;
    const auto& inner_words = how.dimensions.front().distance;
    std::size_t step = 0; // of `words`: the one that differs
    if (words.size() == 2 && std::ranges::find(inner_words, words.front()) != inner_words.end())
      step = 1;
    const std::uint64_t unit = words.size() == 2 ? element.size() : 1;
    Node rows{.kind = Node::Kind::sequence,
              .type = &element,
              .reading = *add_reading(data),
              .length = outer.count,
              .is_described = true};
    if (words.size() == 2) rows.distance = {outer.distance[1 - step]};
    for (std::size_t i = 0; i < (words.empty() ? 1 : max_rows); ++i) {
      if (readings_left() == 0 || bytes_left() < element.size() || unit > UINT16_MAX) break;
      reading row = data;
      if (i > 0) add_offset(row, outer.distance[step], static_cast<std::int64_t>(i * unit));
      rows.children.push_back(described_row(element, row, inner, depth));
    }
    rows.children.push_back(more_node({}, element));
    return rows;
  }

  bool is_base_class_ = false;             // the next structure is one of the current object
  std::vector<std::string> virtual_bases_; // of the current object that have been shown, by name
  int nested_ = 0;
  std::size_t nodes_ = 0;
};

ValuePlan ValuePlan::make(const ReadingBuilder& readings, const TypedPoint& point,
                          const TypedLimits& limits) {
  std::vector<const dwarf::Variable*> shown;
  for (const dwarf::Variable& variable : point.function->variables) {
    if (!point.phases.entry) break;
    if (point.at_entry && (!variable.is_parameter || !variable.inlined_function.empty())) continue;
    if (point.is_inlined_call && !variable.of_probed_call) continue;
    shown.push_back(&variable);
  }
  std::vector<const Type*> types;
  for (const dwarf::Variable* variable : shown) types.push_back(variable->type);
  if (has_result(point)) types.push_back(point.function->result);
  const auto numbers = static_cast<std::size_t>(
      std::ranges::count_if(types, [](const Type* type) { return is_plain_number(*type); }));
  ValuePlanBuilder builder(readings, point, limits, types.size() - numbers, numbers);
  for (const dwarf::Variable* variable : shown) builder.add_variable(*variable);
  if (has_result(point)) builder.add_result();
  return builder.take();
}

ValuePlan ValuePlan::make(const ReadingBuilder& readings, const TypedPoint& point,
                          const TypedLimits& limits, std::span<const ValuePath> paths,
                          std::vector<std::optional<Error>>& problems) {
  ValuePlanBuilder builder(readings, point, limits, paths.size(), 0);
  for (const ValuePath& path : paths) {
    auto added = builder.add_path(path);
    auto& problem = problems.emplace_back();
    if (added) continue;
    problem = std::move(added).error();
    builder.add_unreadable(path, "not available here");
  }
  if (limits.adds_result && has_result(point) &&
      std::ranges::none_of(paths, &ValuePath::is_of_result))
    builder.add_implied_result();
  return builder.take();
}

} // namespace uprobectl::events
