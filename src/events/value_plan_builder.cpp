// SPDX-License-Identifier: Apache-2.0
// Makes the readings of values; value_plan.cpp decodes what they found.
#include "events/library_types.hpp"
#include "events/presentation.hpp"
#include "events/plan.hpp"
#include "events/readings.hpp"
#include "events/value_places.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl {

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

bool has_result(const TypedPlace& place) {
  return place.moments.exit && place.function->result->kind() != TypeKind::none;
}

constexpr std::size_t max_number_readings = 2; // of a number, which may be in two pieces

bool is_plain_number(const Type& type) {
  return is_number(type) && type.kind() != TypeKind::reference && !is_text_pointer(type);
}

bool has_content(const Type& type, int& visits_left, int depth) {
  constexpr int max_depth = 8;
  if (type.kind() != TypeKind::structure || depth > max_depth || --visits_left < 0) return true;
  if (type.discriminant() || !type.virtual_bases().empty()) return true;
  return std::ranges::any_of(type.members(), [&](const dwarf::Member& member) {
    return has_content(*member.type, visits_left, depth + 1);
  });
}

} // namespace

bool has_content(const Type& type) {
  int visits_left = 1000; // of types: empty ones may contain each other many times
  return has_content(type, visits_left, 0);
}

// Builds the readings and nodes of one set of values.
class ValuePlanBuilder {
public:
  // `values`: how many will be added, without the numbers.
  ValuePlanBuilder(const TypedPlace& where, const TypedLimits& limits, std::size_t values,
                   std::size_t numbers)
      : where_(where), limits_(limits), waiting_values_(values), waiting_numbers_(numbers) {}

  void add_variable(const dwarf::Variable& variable) {
    std::string name =
        variable.name.empty() ? fmt::format("arg{}", made_.values_.size()) : variable.name;
    set_phase(MOMENT_ENTRY);
    begin_value(variable.type);
    add_value(make_value(std::move(name), *variable.type, variable.location), *variable.type,
              false);
  }

  void add_result(std::string name = "ret") {
    begin_value(where_.function->result);
    add_value(make_result(std::move(name)), *where_.function->result, true);
  }

  // Nobody has asked for it: it gets what the others have left, and where nothing of it can be read
  // the register is shown, unless the result is in another one.
  void add_implied_result() {
    const std::size_t others = made_.readings_.size();
    add_result();
    const Type& result = *where_.function->result;
    if (made_.readings_.size() == others && has_content(result) &&
        result.kind() != TypeKind::floating)
      made_.values_.pop_back();
  }

  Result<void> add_path(const ValuePath& path) {
    const bool is_result = is_result_path(where_, path);
    if (is_result && has_result(where_) && path.steps.empty()) {
      add_result(path.text);
      return {};
    }
    begin_value();
    auto named = find_place(where_, path,
                            is_result && has_result(where_) ? keep_result_address() : std::nullopt);
    if (!named) return fail(std::move(named).error());
    set_phase(is_result ? MOMENT_RETURN : MOMENT_ENTRY);
    add_value(make_at(path.text, named->place), *named->place.type, is_result);
    return {};
  }

  void add_unreadable(const ValuePath& path, std::string_view reason) {
    made_.values_.push_back({.node = {.name = path.text, .text = std::string(reason)}});
  }

  ValuePlan take() { return std::move(made_); }

private:
  using Node = ValuePlan::Node;
  using Part = ValuePlan::Part;

  void add_value(Node node, const Type& type, bool is_result) {
    made_.values_.push_back(
        {.node = std::move(node),
         .type_name = type.name(),
         .phase = static_cast<record_u8>(is_result ? MOMENT_RETURN : MOMENT_ENTRY),
         .is_result = is_result});
  }

  void set_phase(record_u8 phase) {
    phase_ = phase;
    reader_.emplace(where_, phase);
  }

  static Node problem_node(std::string name, const Type& type, std::string_view problem) {
    return {.kind = Node::Kind::problem,
            .name = std::move(name),
            .type = &type,
            .text = std::string(problem)};
  }
  static Node beyond_scalars(std::string name, const Type& type) {
    return problem_node(std::move(name), type,
                        fmt::format("not read with more than {} functions", max_whole_functions));
  }
  static Node more_node(std::string name, const Type& type) {
    return {.kind = Node::Kind::more, .name = std::move(name), .type = &type};
  }

  std::optional<std::size_t> add_reading(const reading& made) {
    if (readings_left() == 0 || made.capacity > bytes_left()) return std::nullopt;
    used_bytes_ += made.capacity;
    made_.readings_.push_back(made);
    return made_.readings_.size() - 1;
  }
  std::uint32_t bytes_left() const { return bytes_limit_ - used_bytes_; }
  std::size_t readings_left() const { return readings_limit_ - made_.readings_.size(); }

  // Gives the next value its share of what is left. Numbers need hardly anything of it.
  void begin_value(const Type* type = nullptr) {
    const std::size_t used = made_.readings_.size();
    if (type != nullptr && is_plain_number(*type)) {
      if (waiting_numbers_ > 0) --waiting_numbers_;
      bytes_limit_ = used_bytes_;
      readings_limit_ = std::min<std::size_t>(limits_.max_readings, used + max_number_readings);
      return;
    }
    const std::size_t waiting = std::max<std::size_t>(waiting_values_, 1);
    bytes_limit_ =
        used_bytes_ + static_cast<std::uint32_t>((limits_.max_bytes - used_bytes_) / waiting);
    const std::size_t left = limits_.max_readings - used;
    const std::size_t shared = left - std::min(waiting_numbers_, left / 2);
    readings_limit_ = used + (shared + waiting - 1) / waiting;
    waiting_values_ = waiting - 1;
  }

  // On arm64 nothing has the address of a result in memory at the return: it is read at the entry
  // if calls are paired.
  std::optional<reading> keep_result_address() {
    const dwarf::FunctionInfo& function = *where_.function;
    const bool needs_entry = !function.result_location.is_readable() && where_.moments.paired;
    if (!needs_entry || !function.result_address || !function.result_address->is_readable())
      return std::nullopt;
    set_phase(MOMENT_ENTRY);
    const auto at_entry =
        reader_->follow(function.result_address->pieces.front().formula, word_size);
    const auto index = at_entry ? add_reading(*at_entry) : std::nullopt;
    set_phase(MOMENT_RETURN);
    return index ? std::optional(reader_->based_on(*index)) : std::nullopt;
  }

  Node make_result(std::string name) {
    const dwarf::FunctionInfo& function = *where_.function;
    if (const auto address = keep_result_address())
      return in_memory(std::move(name), *function.result, *address, 0);
    set_phase(MOMENT_RETURN);
    if (function.result_address && !function.result_location.is_readable())
      return problem_node(std::move(name), *function.result, "returned through memory");
    return make_value(std::move(name), *function.result, function.result_location);
  }

  Node make_value(std::string name, const Type& type, const Location& location) {
    // Compilers give what has no bytes no place.
    if (!has_content(type)) return structure_node(std::move(name), type, 0, 0, nullptr, 0);
    if (!location.is_readable()) return problem_node(std::move(name), type, problem_of(location));
    return make_at(std::move(name), {.type = &type, .location = &location});
  }

  // A value at a place: in memory, in a register or in several pieces.
  Node make_at(std::string name, const ValuePlace& place) {
    const Type& type = *place.type;
    if (place.bits) {
      const std::uint64_t size = (place.bits->offset + place.bits->size + 7) / 8;
      const auto number = size <= word_size ? reader_->number(place, size) : std::nullopt;
      if (!number) return problem_node(std::move(name), type, location_too_complex);
      Node node = from_reading(std::move(name), type, *number, false, load_size(size), 0);
      node.bits = place.bits;
      return node;
    }
    if (place.address) return in_memory(std::move(name), type, *place.address, 0);
    if (place.location->length && place.offset == 0) return counted_text(std::move(name), place);
    const auto& pieces = place.location->pieces;
    if (pieces.size() == 1 && pieces[0].kind == Piece::Kind::memory) {
      auto address = reader_->follow(pieces[0].formula, word_size);
      if (!address) return problem_node(std::move(name), type, location_too_complex);
      address->addend = add_wrapping(address->addend, place.offset);
      return in_memory(std::move(name), type, *address, 0);
    }
    return in_pieces(std::move(name), place);
  }

  // Characters whose number is at a place of its own.
  Node counted_text(std::string name, const ValuePlace& place) {
    const Type& type = *place.type;
    const auto length = reader_->length(place);
    auto text = reader_->address({.type = place.type, .location = place.location});
    if (!length || !text) return problem_node(std::move(name), type, location_too_complex);
    if (readings_left() < 2 || string_capacity() == 0) return more_node(std::move(name), type);
    text->form = READ_BYTES;
    text->length_from = static_cast<record_u8>(*add_reading(*length) + 1);
    text->capacity = string_capacity();
    return text_node(std::move(name), type, *text);
  }

  // A value in registers, or in several places. Only the pieces that it has are read.
  Node in_pieces(std::string name, const ValuePlace& place) {
    ValuePlan::Source source;
    std::uint64_t start = 0;
    const std::uint64_t size = place.type->size();
    for (const Piece& piece : place.location->pieces) {
      const std::uint64_t piece_size = piece.size != 0 ? piece.size : place.offset + size;
      if (start + piece_size > place.offset && start < place.offset + size)
        source.parts.push_back(make_part(piece, start, piece_size));
      start += piece_size;
    }
    made_.sources_.push_back(std::move(source));
    return make_node(std::move(name), *place.type, made_.sources_.size() - 1, place.offset, nullptr,
                     0);
  }

  Part make_part(const Piece& piece, std::uint64_t offset, std::uint64_t size) {
    Part part{.offset = offset, .size = size};
    if (piece.kind == Piece::Kind::missing) {
      part.problem = piece.problem.empty() ? dwarf::optimized_out : piece.problem;
      return part;
    }
    std::optional<reading> made;
    if (piece.kind == Piece::Kind::memory && size > word_size) {
      made = reader_->follow(piece.formula, word_size);
      part.is_memory = true;
      if (made) {
        made->form = READ_BYTES;
        made->capacity = static_cast<record_u32>(std::min<std::uint64_t>(size, bytes_left()));
        part.size = made->capacity;
        if (made->capacity == 0) made.reset();
      }
    } else if (size <= word_size) {
      made = reader_->follow(piece.formula,
                             piece.kind == Piece::Kind::memory ? word_size : load_size(size));
      if (made && piece.kind == Piece::Kind::memory && !add_load(*made, 0, load_size(size)))
        made.reset();
    }
    const auto index = made ? add_reading(*made) : std::nullopt;
    if (index)
      part.reading = *index;
    else
      part.problem = location_too_complex;
    return part;
  }

  // A value at the number of a reading: a number is read alone, a structure as one block.
  Node in_memory(std::string name, const Type& type, const reading& address, int depth) {
    if (const auto form = find_string_form(type))
      return string_at(std::move(name), type, address, 0, *form);
    if (!has_content(type)) return structure_node(std::move(name), type, 0, 0, nullptr, depth);
    if (is_number(type)) {
      reading number = address;
      if (!add_load(number, 0, load_size(type.size())))
        return problem_node(std::move(name), type, location_too_complex);
      return from_reading(std::move(name), type, number, false, type.size(), depth);
    }
    if (type.size() == 0 || (!type.is_aggregate() && !is_wide_integer(type)))
      return type.size() > word_size
                 ? problem_node(std::move(name), type, "its type is not supported")
                 : problem_node(std::move(name), type, type_not_known);
    if (limits_.scalars_only) return beyond_scalars(std::move(name), type);
    if (bytes_left() == 0) return more_node(std::move(name), type);
    reading block = address;
    block.form = READ_BYTES;
    block.capacity = static_cast<record_u32>(std::min<std::uint64_t>(type.size(), bytes_left()));
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

  Node string_at(std::string name, const Type& type, reading object, std::uint64_t offset,
                 reading_form form) {
    object.form = static_cast<record_u8>(form);
    object.addend = add_wrapping(object.addend, offset);
    object.capacity = string_capacity();
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
    switch (type.kind()) {
    case TypeKind::structure:
    case TypeKind::variants:
      if (const auto form = find_string_form(type); form && block != nullptr)
        return string_at(std::move(name), type, address_of(*block), offset, *form);
      if (const auto library = find_library_type(type))
        return library_node(std::move(name), type, *library, source, offset, block, depth);
      if (type.discriminant())
        return choice_node(std::move(name), type, source, offset, block, depth);
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
      return problem_node(std::move(name), type, type_not_known);
    case TypeKind::integer:
    case TypeKind::boolean:
    case TypeKind::character:
    case TypeKind::floating:
    case TypeKind::enumeration:
      break;
    }
    return scalar_node(std::move(name), type, source, offset);
  }

  // The address that a block was read from.
  static reading address_of(reading block) {
    block.form = READ_INTEGER;
    block.capacity = 0;
    block.length_from = 0;
    block.length_is_end = 0;
    block.element_size = 0;
    return block;
  }

  // A reading of the word_size at an offset of the source; nullopt if it is not in one place.
  std::optional<reading> word_at(std::size_t source, std::uint64_t offset,
                                 const reading* block) const {
    if (block != nullptr) {
      reading number = address_of(*block);
      if (add_load(number, offset, word_size)) return number;
      return std::nullopt;
    }
    for (const Part& part : made_.sources_[source].parts)
      if (part.offset == offset && part.size == word_size && part.problem.empty())
        return reader_->based_on(part.reading);
    return std::nullopt;
  }

  Node c_string_node(std::string name, const Type& type, std::size_t source, std::uint64_t offset,
                     const reading* block) {
    auto pointer = word_at(source, offset, block);
    if (!pointer) return problem_node(std::move(name), type, part_problem(source, offset));
    pointer->form = READ_STRING;
    // With room for the NUL, and one more byte that shows whether the string goes on.
    pointer->capacity = std::min(limits_.max_string + 2, bytes_left() / waiting_strings_);
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
      node.text = library.unit;
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
    const bool knows_module = phase_ == MOMENT_ENTRY || where_.moments.paired;
    if (depth >= limits_.depth || readings_left() < needed || !knows_module || !find_go_types())
      return std::nullopt;
    auto description = word_at(source, offset, block);
    if (!description) return std::nullopt;
    if (library.description_offset &&
        !add_load(*description, *library.description_offset, word_size))
      return std::nullopt;
    if (!module_reading_) {
      reading module{};
      module.moment = MOMENT_ENTRY;
      module.size = word_size;
      module.base = static_cast<record_u8>(instruction_pointer());
      module.base_offset = add_wrapping(0, 0 - where_.address.value);
      module_reading_ = add_reading(module);
    }
    return ValuePlan::Content{.description = *add_reading(*description),
                              .module = *module_reading_,
                              .value = value_in_interface(source, offset, block)};
  }

  // What the value is if it is a number, a string, or begins with a string.
  std::optional<ValuePlan::Content::Value>
  value_in_interface(std::size_t source, std::uint64_t offset, const reading* block) {
    constexpr std::size_t needed = 3; // readings
    auto first = word_at(source, offset + word_size, block);
    auto length = first;
    if (!first || readings_left() < needed || string_capacity() == 0 ||
        !add_load(*first, 0, word_size) || !add_load(*length, word_size, word_size))
      return std::nullopt;
    const std::size_t first_index = *add_reading(*first);
    reading text = reader_->based_on(first_index);
    text.form = READ_BYTES;
    text.capacity = string_capacity();
    text.length_from = static_cast<record_u8>(*add_reading(*length) + 1);
    made_.sources_.push_back({{{.size = word_size, .reading = first_index}}});
    return ValuePlan::Content::Value{.first_word = made_.sources_.size() - 1,
                                     .text = *add_reading(text)};
  }

  bool find_go_types() {
    if (made_.go_types_ == nullptr && where_.find_go_types)
      made_.go_types_ = where_.find_go_types();
    return made_.go_types_ != nullptr;
  }

  // Characters or elements behind a pointer, with their number.
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
    if (!has_strings) {
      pointer->form = READ_BYTES;
      pointer->capacity = capacity;
    }
    if (!has_strings && length_index) {
      pointer->length_from = static_cast<record_u8>(*length_index + 1);
      pointer->length_is_end = library.length_is_end ? 1 : 0;
      pointer->element_size = library.length_is_end ? 0 : static_cast<record_u32>(size);
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
    for (const Type* const base : type.virtual_bases())
      node.children.push_back(problem_node(base->plain_name(), *base, "virtual base class"));
    for (const dwarf::Member& member : type.members()) {
      if (node.children.size() >= max_shown_members) {
        node.children.push_back(more_node({}, type));
        break;
      }
      // Base classes and anonymous structures do not count as a level.
      const bool is_transparent = member.is_base || member.name.empty();
      Node child = make_node(member.name, *member.type, source, offset + member.offset, block,
                             depth + (is_transparent ? 0 : 1));
      child.bits = member.bits;
      if (is_transparent && child.kind == Node::Kind::structure)
        std::ranges::move(child.children, std::back_inserter(node.children));
      else
        node.children.push_back(std::move(child));
    }
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

  const TypedPlace& where_;
  const TypedLimits& limits_;
  std::optional<PlaceReader> reader_;
  record_u8 phase_ = MOMENT_ENTRY;
  std::optional<std::size_t> module_reading_; // see ValuePlan::Content::module
  std::size_t waiting_values_ = 0;
  std::size_t waiting_numbers_ = 0;
  std::uint32_t waiting_strings_ = 1;
  std::uint32_t used_bytes_ = 0;
  std::uint32_t bytes_limit_ = 0; // of the value that is being made
  std::size_t readings_limit_ = 0;
  int nested_ = 0;
  std::size_t nodes_ = 0;
  ValuePlan made_;
};

ValuePlan ValuePlan::make(const TypedPlace& place, const TypedLimits& limits) {
  std::vector<const dwarf::Variable*> shown;
  for (const dwarf::Variable& variable : place.function->variables) {
    if (!place.moments.entry) break;
    if (place.at_entry && (!variable.is_parameter || !variable.inlined_function.empty())) continue;
    if (place.is_inlined_call && !variable.of_probed_call) continue;
    shown.push_back(&variable);
  }
  std::vector<const Type*> types;
  for (const dwarf::Variable* variable : shown) types.push_back(variable->type);
  if (has_result(place)) types.push_back(place.function->result);
  const auto numbers = static_cast<std::size_t>(
      std::ranges::count_if(types, [](const Type* type) { return is_plain_number(*type); }));
  ValuePlanBuilder builder(place, limits, types.size() - numbers, numbers);
  for (const dwarf::Variable* variable : shown) builder.add_variable(*variable);
  if (has_result(place)) builder.add_result();
  return builder.take();
}

ValuePlan ValuePlan::make(const TypedPlace& place, const TypedLimits& limits,
                          std::span<const ValuePath> paths,
                          std::vector<std::optional<Error>>& problems) {
  ValuePlanBuilder builder(place, limits, paths.size(), 0);
  for (const ValuePath& path : paths) {
    auto added = builder.add_path(path);
    auto& problem = problems.emplace_back();
    if (added) continue;
    problem = std::move(added).error();
    builder.add_unreadable(path, "not available here");
  }
  const auto names_result = [&](const ValuePath& path) { return is_result_path(place, path); };
  if (limits.adds_result && has_result(place) && std::ranges::none_of(paths, names_result))
    builder.add_implied_result();
  return builder.take();
}

ValuePlan ValuePlan::make_unreadable(std::span<const ValuePath> paths, std::string_view reason) {
  ValuePlan made;
  for (const ValuePath& path : paths)
    made.values_.push_back({.node = {.name = path.text, .text = std::string(reason)}});
  return made;
}

Result<void> ValuePlan::add(const DeclaredValues& declared, const ReadingBuilder& builder) {
  const std::span<const ArgumentSpec> list = declared.arguments;
  const KnownCall* const known = declared.known.get();
  six_registers_ = declared.six_registers;
  is_known_call_ = known != nullptr;
  if (known != nullptr) set_function(known->function, known->returns_nothing);
  // Integers come first, because the lengths of buffers are among them.
  std::vector<std::size_t> numbers(list.size());
  for (const bool memory : {false, true})
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!list[i].problem.empty() || is_memory(list[i].type) != memory) continue;
      if (readings_.size() == MAX_READINGS)
        return fail(ErrorKind::usage, fmt::format("more than {} values", MAX_READINGS));
      auto read = builder.build_argument(list[i], list, numbers);
      if (!read) return fail(std::move(read).error());
      numbers[i] = readings_.size();
      readings_.push_back(*read);
    }
  for (std::size_t i = 0; i < list.size(); ++i) {
    const ArgumentSpec& spec = list[i];
    const bool is_shown = known == nullptr || i < known->shown;
    if (!is_shown && spec.adds_thread_pointer) error_number_ = numbers[i];
    if (!is_shown) continue;
    Value& value = values_.emplace_back(
        Value{.node = {.name = spec.name, .reading = numbers[i], .text = spec.problem}});
    value.declared = std::make_shared<const ArgumentSpec>(spec);
    value.type_name =
        spec.shown_as != nullptr ? std::string_view(spec.shown_as->type) : to_string(spec.type);
    value.is_result = spec.source.kind == ArgumentSource::Kind::returned;
    value.phase = value.is_result ? MOMENT_RETURN : MOMENT_ENTRY;
    if (spec.problem.empty()) value.phase = readings_[numbers[i]].moment;
    if (known == nullptr) continue;
    const auto condition = std::ranges::find(known->conditions, i, &KnownCall::Condition::argument);
    if (condition != known->conditions.end()) value.passed_if = *condition;
  }
  return {};
}

} // namespace uprobectl
