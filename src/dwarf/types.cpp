// SPDX-License-Identifier: Apache-2.0
#include "dwarf/type_table.hpp"

#include "dwarf/attributes.hpp"
#include "dwarf/object_expressions.hpp"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <llvm/Support/LEB128.h>
#include <span>

namespace uprobectl::dwarf {

namespace {

using namespace llvm::dwarf;

bool is_qualifier(std::uint16_t tag) {
  switch (tag) {
  case DW_TAG_const_type:
  case DW_TAG_volatile_type:
  case DW_TAG_restrict_type:
  case DW_TAG_atomic_type:
  case DW_TAG_immutable_type:
  case DW_TAG_packed_type:
    return true;
  default:
    return false;
  }
}

// Qualifiers of a pointer stand after it: "char* const".
std::string with_qualifier(std::uint16_t tag, const std::string& name) {
  const std::string_view qualifier = tag == DW_TAG_const_type      ? "const"
                                     : tag == DW_TAG_volatile_type ? "volatile"
                                                                   : "";
  if (qualifier.empty()) return name;
  if (name.ends_with('*') || name.ends_with("* const"))
    return fmt::format("{} {}", name, qualifier);
  return fmt::format("{} {}", qualifier, name);
}

// The offset in DW_AT_data_member_location: a constant, or in DWARF 2 the expression
// DW_OP_plus_uconst N. nullopt for other expressions, such as those of virtual bases.
std::optional<std::uint64_t> member_offset(const Die& die) {
  const auto value = die.find(DW_AT_data_member_location);
  if (!value) return 0;
  if (const auto offset = unsigned_constant(die, DW_AT_data_member_location)) return offset;
  const auto block = value->getAsBlock();
  if (!block || block->empty() || block->front() != DW_OP_plus_uconst) return std::nullopt;
  unsigned length = 0;
  const char* error = nullptr;
  const std::uint64_t offset =
      llvm::decodeULEB128(block->data() + 1, &length, block->data() + block->size(), &error);
  if (error != nullptr || length + 1 != block->size()) return std::nullopt;
  return offset;
}

// All machines that are supported are little-endian.
bool is_big_endian(const Die& die) {
  return unsigned_constant(die, DW_AT_endianity) == std::uint64_t{DW_END_big};
}

// Returns DW_AT_alignment, bytes; 0 if there is none.
std::uint64_t alignment_of(const Die& die) {
  constexpr std::uint64_t max_alignment = std::uint64_t{1} << 28; // GCC's, for ELF
  const std::uint64_t alignment = unsigned_constant(die, DW_AT_alignment).value_or(0);
  return std::has_single_bit(alignment) && alignment <= max_alignment ? alignment : 0;
}

constexpr std::size_t max_tags = 16; // of one member

// Returns the number that the low bytes of `value` have in a type of this size, bytes.
std::int64_t narrowed(std::int64_t value, std::uint64_t size, bool is_signed) {
  if (size == 0 || size >= sizeof value) return value;
  const std::uint64_t unused = 64 - 8 * size; // bits
  const std::uint64_t high = static_cast<std::uint64_t>(value) << unused;
  return is_signed ? static_cast<std::int64_t>(high) >> unused
                   : static_cast<std::int64_t>(high >> unused);
}

// Returns the number of elements of one dimension of an array; nullopt if it is not known.
std::optional<std::uint64_t> dimension(const Die& range) {
  if (const auto count = unsigned_constant(range, DW_AT_count)) return count;
  const auto last = constant(range, DW_AT_upper_bound);
  if (!last) return std::nullopt;
  const auto first = first_index(range);
  if (!first && range.find(DW_AT_lower_bound)) return std::nullopt; // known at run time only
  if (*last < first.value_or(0)) return 0;
  return checked_add(
      static_cast<std::uint64_t>(*last) - static_cast<std::uint64_t>(first.value_or(0)), 1);
}

// Whether the elements of an array follow each other, from the array's first byte on. Packed arrays
// of Ada have elements of a few bits, those of Fortran may be described by a descriptor.
bool is_dense(const Die& array, const Type& element) {
  const auto is_apart = [&](const Die& die) {
    return die.find(DW_AT_bit_stride) ||
           (die.find(DW_AT_byte_stride) &&
            unsigned_constant(die, DW_AT_byte_stride) != element.size());
  };
  if (array.find(DW_AT_data_location) || is_apart(array)) return false;
  for (const Die& range : array.children())
    if (is_apart(range)) return false;
  return true;
}

std::string function_name_of(const Type& result, std::string_view declarator) {
  return fmt::format("{} ({})(...)", result.name(), declarator);
}

} // namespace

const Type& Type::defined() const {
  return is_declared_ && content_->table != nullptr ? content_->table->definition(*this) : *this;
}

bool Type::is_aggregate() const {
  const TypeKind known = kind();
  return known == TypeKind::structure || known == TypeKind::variants || known == TypeKind::array;
}

bool Type::is_scalar() const {
  const TypeKind known = kind();
  return !is_aggregate() && known != TypeKind::unknown && known != TypeKind::none &&
         known != TypeKind::function;
}

const Type* Type::target() const {
  const Type& type = defined();
  if (type.content_ == nullptr) return nullptr;
  TypeTable* const table = type.content_->table;
  return table == nullptr ? type.content_->target : table->read_target(type);
}

const std::vector<Member>& Type::members() const {
  static const std::vector<Member> none;
  const Content* const content = read_content();
  return content == nullptr ? none : content->members;
}

const std::vector<Enumerator>& Type::enumerators() const {
  static const std::vector<Enumerator> none;
  const Content* const content = read_content();
  return content == nullptr ? none : content->enumerators;
}

const std::optional<Member>& Type::discriminant() const {
  static const std::optional<Member> none;
  const Content* const content = read_content();
  return content == nullptr ? none : content->discriminant;
}

const Type* Type::row() const {
  if (content_ == nullptr || kind_ != TypeKind::array) return nullptr;
  return content_->table == nullptr ? content_->row : content_->table->read_row(*this);
}

std::uint64_t Type::row_count() const {
  if (dimensions_ <= 1) return element_count_;
  const Type* const each = row();
  return each == nullptr || each->element_count_ == 0 ? 0 : element_count_ / each->element_count_;
}

const std::vector<VirtualBase>& Type::virtual_bases() const {
  static const std::vector<VirtualBase> none;
  const Content* const content = read_content();
  return content == nullptr ? none : content->virtual_bases;
}

const ArrayDescriptor* Type::descriptor() const {
  return content_ != nullptr && content_->descriptor ? &*content_->descriptor : nullptr;
}

const std::vector<TemplateArgument>& Type::template_arguments() const {
  static const std::vector<TemplateArgument> none;
  const Content* const content = read_content();
  return content == nullptr ? none : content->template_arguments;
}

const Type::Content* Type::read_content() const {
  const Type& type = defined();
  if (type.content_ != nullptr && type.content_->table != nullptr)
    type.content_->table->read_members(type);
  return type.content_.get();
}

bool Type::is_passed_by_reference() const {
  const Type& type = defined();
  if (type.passed_by_reference_ || type.content_ == nullptr || type.content_->table == nullptr)
    return type.passed_by_reference_.value_or(false);
  return type.content_->table->needs_code_to_copy(type);
}

TypeTable::TypeTable(Context& context) : context_(context) {
  nothing_.kind_ = TypeKind::none;
  nothing_.name_ = nothing_.plain_name_ = "void";
  unknown_.name_ = unknown_.plain_name_ = "<unknown type>";
  character_.kind_ = TypeKind::character;
  character_.name_ = character_.plain_name_ = "char";
  character_.size_ = 1;
}

const Type* TypeTable::type_of(const Die& die) {
  const Die with_type = context_.with_attribute(die, DW_AT_type);
  if (!with_type) return &nothing_;
  // Compilers mark the type, not a member or variable.
  if (is_big_endian(die)) return &unknown_;
  return get(context_.referenced(with_type, DW_AT_type));
}

const Type* TypeTable::make_tuple(const Die& function, std::vector<Member> members) {
  std::unique_ptr<Type>& made = tuples_[Key(function.getDwarfUnit(), function.getOffset())];
  if (made) return made.get();
  made = std::make_unique<Type>();
  made->kind_ = TypeKind::structure;
  made->passed_by_reference_ = false;
  for (const Member& member : members) {
    made->name_ += made->name_.empty() ? "(" : ", ";
    made->name_ += member.type->name();
    made->size_ = member.offset + member.type->size();
  }
  made->name_ += ")";
  made->plain_name_ = made->name_;
  made->content_ = std::make_shared<Type::Content>();
  made->content_->table = this;
  made->content_->has_members = made->content_->has_target = true;
  made->content_->members = std::move(members);
  return made.get();
}

const Type* TypeTable::get(const Die& die) {
  if (!die || depth_ >= max_type_depth || is_full_) return &unknown_;
  const auto [found, is_new] =
      types_.try_emplace(Key(die.getDwarfUnit(), die.getOffset()), nullptr);
  if (!is_new) return found->second ? found->second.get() : &unknown_; // null: a loop
  ++depth_;
  auto type = read(die);
  --depth_;
  name_bytes_ += type->name_.size() + type->plain_name_.size();
  found->second = std::move(type);
  if (types_.size() >= max_types || name_bytes_ >= max_type_names) {
    is_full_ = true;
    context_.warn("the debug information has too many types: the rest are not shown");
  }
  return found->second.get();
}

std::unique_ptr<Type> TypeTable::read(const Die& die) {
  const std::uint16_t tag = tag_of(die);
  if (tag == DW_TAG_typedef || tag == DW_TAG_template_alias || is_qualifier(tag)) {
    auto type = std::make_unique<Type>(*type_of(die));
    type->alignment_ = std::max(type->alignment_, alignment_of(die));
    if (is_qualifier(tag))
      type->name_ = with_qualifier(tag, type->name_);
    else
      type->name_ = qualified_name(die);
    return type;
  }
  // A declaration may refer to the definition in a type unit.
  if (const Die definition = context_.referenced(die, DW_AT_signature);
      definition && definition != die)
    return std::make_unique<Type>(*get(definition));

  auto type = std::make_unique<Type>();
  type->content_ = std::make_shared<Type::Content>();
  type->content_->table = this;
  type->content_->die = die;
  type->size_ = unsigned_constant(die, DW_AT_byte_size).value_or(0);
  type->alignment_ = alignment_of(die);
  read_core(*type, die);
  if (type->plain_name_.empty()) type->plain_name_ = type->name_;
  return type;
}

const Type& TypeTable::definition(const Type& declared) {
  Type::Content& content = *declared.content_;
  if (!content.has_definition) {
    content.has_definition = true;
    if (const Die die = context_.definition_of(content.die)) content.definition = get(die);
  }
  return content.definition != nullptr ? *content.definition : declared;
}

void TypeTable::read_core(Type& type, const Die& die) {
  const std::uint64_t pointer_size = context_.layout().machine.is_64bit ? 8 : 4;
  switch (tag_of(die)) {
  case DW_TAG_base_type:
    return read_base_type(type, die);
  case DW_TAG_pointer_type:
  case DW_TAG_ptr_to_member_type:
  case DW_TAG_reference_type:
  case DW_TAG_rvalue_reference_type: {
    const bool is_pointer =
        die.getTag() == DW_TAG_pointer_type || die.getTag() == DW_TAG_ptr_to_member_type;
    type.kind_ = is_pointer ? TypeKind::pointer : TypeKind::reference;
    const Type& target = *type_of(die);
    if (type.size_ == 0) {
      const bool is_member_function =
          die.getTag() == DW_TAG_ptr_to_member_type && target.kind_ == TypeKind::function;
      type.size_ = is_member_function ? 2 * pointer_size : pointer_size;
    }
    const std::string_view sign = is_pointer                              ? "*"
                                  : die.getTag() == DW_TAG_reference_type ? "&"
                                                                          : "&&";
    type.name_ = target.kind_ == TypeKind::function && target.target() != nullptr
                     ? function_name_of(*target.target(), sign)
                     : fmt::format("{}{}", target.name(), sign);
    // Rust and Go name their pointers: "&str", "*main.T". That of a slice to its elements has none.
    if (const auto own = context_.text(die, DW_AT_name); own && !own->empty()) {
      type.name_ = *own;
      if (own->starts_with('&')) type.kind_ = TypeKind::reference;
    }
    return;
  }
  case DW_TAG_unspecified_type:
    type.name_ = context_.text(die, DW_AT_name).value_or("void");
    type.kind_ = type.name_ == "decltype(nullptr)" ? TypeKind::pointer : TypeKind::unknown;
    if (type.kind_ == TypeKind::pointer) type.size_ = pointer_size;
    return;
  case DW_TAG_array_type:
    return read_array(type, die);
  case DW_TAG_string_type:
    return read_string(type, die);
  case DW_TAG_subroutine_type:
    type.kind_ = TypeKind::function;
    type.name_ = fmt::format("{} (...)", type_of(die)->name());
    return;
  case DW_TAG_enumeration_type:
    type.is_declared_ = is_set(die, DW_AT_declaration);
    type.kind_ = TypeKind::enumeration;
    type.is_scoped_enumeration_ = is_set(die, DW_AT_enum_class);
    type.is_signed_ = die.find(DW_AT_type) && type_of(die)->is_signed();
    if (type.size_ == 0 && die.find(DW_AT_type)) type.size_ = type_of(die)->size();
    break;
  case DW_TAG_structure_type:
  case DW_TAG_class_type:
  case DW_TAG_interface_type:
    type.is_declared_ = is_set(die, DW_AT_declaration);
    type.kind_ = type.is_declared_ ? TypeKind::unknown : TypeKind::structure;
    break;
  case DW_TAG_union_type:
    type.is_declared_ = is_set(die, DW_AT_declaration);
    type.kind_ = type.is_declared_ ? TypeKind::unknown : TypeKind::variants;
    break;
  case DW_TAG_subrange_type: // Ada, Pascal
    // A biased number is stored as its distance from the bias.
    if (!die.find(DW_AT_GNU_bias)) type = *type_of(die);
    return;
  default:
    break;
  }
  if (const auto how = unsigned_constant(die, DW_AT_calling_convention))
    if (*how == DW_CC_pass_by_reference || *how == DW_CC_pass_by_value)
      type.passed_by_reference_ = *how == DW_CC_pass_by_reference;
  type.name_ = qualified_name(die);
}

void TypeTable::read_base_type(Type& type, const Die& die) {
  type.name_ = context_.text(die, DW_AT_name).value_or("<base type>");
  type.is_byte_swapped_ = is_big_endian(die); // also of one byte, for the order of its bits
  if (type.size_ == 0) {                      // Rust's "()"
    type.kind_ = TypeKind::structure;
    return;
  }
  // DWARF 5, 5.1.1: the bits may be any of the bytes.
  const std::uint64_t bits = unsigned_constant(die, DW_AT_bit_size).value_or(8 * type.size_);
  if (bits == 0 || bits > 8 * type.size_ || die.find(DW_AT_bit_offset) ||
      unsigned_constant(die, DW_AT_data_bit_offset).value_or(0) != 0)
    return;
  if (bits != 8 * type.size_) type.bits_ = bits;
  switch (unsigned_constant(die, DW_AT_encoding).value_or(0)) {
  case DW_ATE_boolean:
    type.kind_ = TypeKind::boolean;
    break;
  case DW_ATE_signed_char:
    type.is_signed_ = true;
    [[fallthrough]];
  case DW_ATE_unsigned_char:
    // "signed char" and "unsigned char" are the types of int8_t and uint8_t.
    type.kind_ = type.name_ == "char" ? TypeKind::character : TypeKind::integer;
    break;
  case DW_ATE_UTF:
  case DW_ATE_UCS:
  case DW_ATE_ASCII:
    type.kind_ = TypeKind::character;
    break;
  case DW_ATE_signed:
    type.is_signed_ = true;
    [[fallthrough]];
  case DW_ATE_unsigned:
    type.kind_ = TypeKind::integer;
    break;
  case DW_ATE_address:
    type.kind_ = TypeKind::pointer;
    break;
  case DW_ATE_float:
    type.kind_ = TypeKind::floating;
    break;
  case DW_ATE_complex_float:
    type.is_complex_ = true;
    break;
  default: // decimal numbers
    break;
  }
}

void TypeTable::read_array(Type& type, const Die& die) {
  type.is_vector_ = is_set(die, DW_AT_GNU_vector);
  type.kind_ = type.is_vector_ ? TypeKind::unknown : TypeKind::array;
  const Type& element = *type_of(die);
  std::uint64_t count = 1;
  std::vector<std::optional<std::uint64_t>> sizes;
  std::size_t seen = 0;
  for (const Die& range : die.children()) {
    if (++seen > max_members) break;
    if (range.getTag() == DW_TAG_subrange_type) sizes.push_back(dimension(range));
  }
  // A row is what follows each other in memory: of Fortran's arrays the last index selects it.
  if (sizes.size() > 1 && is_column_major(die)) std::ranges::reverse(sizes);
  std::string dimensions;
  for (const auto& size : sizes) {
    dimensions += size ? fmt::format("[{}]", *size) : "[]";
    ++type.dimensions_;
    type.content_->dimensions.push_back(size.value_or(0));
    count = checked_mul(count, size.value_or(0)).value_or(0);
  }
  type.element_count_ = dimensions.empty() ? 0 : count;
  type.name_ = element.name() + dimensions;
  if (die.find(DW_AT_data_location) && type.kind_ == TypeKind::array)
    return read_descriptor(type, die);
  if (!is_dense(die, element)) type.kind_ = TypeKind::unknown;
  if (type.size_ == 0) type.size_ = checked_mul(type.element_count_, element.size()).value_or(0);
}

// A string of Fortran: characters that end at its length, without a NUL.
void TypeTable::read_string(Type& type, const Die& die) {
  const Type& element = die.find(DW_AT_type) ? *type_of(die) : character_;
  const bool is_counted = die.find(DW_AT_string_length).has_value();
  if (is_counted) type.size_ = 0; // that of the length
  type.name_ = context_.text(die, DW_AT_name).value_or("");
  if (type.name_.empty())
    type.name_ = is_counted ? "character(*)" : fmt::format("character({})", type.size_);
  if (element.size() != 1) return;
  type.kind_ = TypeKind::array;
  type.dimensions_ = 1;
  type.element_count_ = type.size_;
  type.content_->target = &character_;
  type.content_->has_target = true;
}

const Type* TypeTable::read_row(const Type& type) {
  const Type* const element = type.target();
  if (type.dimensions_ <= 1) return element;
  const Type::Content& content = *type.content_;
  const std::size_t rest = type.dimensions_ - 1;
  if (element == nullptr || type.dimensions_ > content.dimensions.size()) return nullptr;
  const auto [found, is_new] = rows_.try_emplace({&content, rest});
  Type& row = found->second;
  if (!is_new) return &row;
  row.kind_ = TypeKind::array;
  row.content_ = type.content_;
  row.dimensions_ = rest;
  row.element_count_ = 1;
  row.name_ = element->name();
  row.plain_name_ = element->plain_name();
  for (const std::uint64_t size : std::span(content.dimensions).last(rest)) {
    row.element_count_ = checked_mul(row.element_count_, size).value_or(0);
    row.name_ += fmt::format("[{}]", size);
    row.plain_name_ += fmt::format("[{}]", size);
  }
  row.size_ = checked_mul(row.element_count_, element->size()).value_or(0);
  return &row;
}

namespace {

// Returns the text that takes the part of a scope without a name in qualified names; nullopt if the
// tag is not that of a scope.
std::optional<std::string_view> unnamed_scope(std::uint16_t tag) {
  switch (tag) {
  case DW_TAG_namespace:
  case DW_TAG_module:
    return "(anonymous namespace)";
  case DW_TAG_structure_type:
  case DW_TAG_class_type:
    return "(anonymous struct)";
  case DW_TAG_union_type:
    return "(anonymous union)";
  case DW_TAG_enumeration_type:
    return "(anonymous enum)";
  case DW_TAG_typedef:
    return "";
  default: // the unit, or the function of a local type
    return std::nullopt;
  }
}

} // namespace

bool is_scope(std::uint16_t tag) { return unnamed_scope(tag).has_value(); }

std::string TypeTable::qualified_name(const Die& die) {
  // The definition in a type unit of g++ is outside of its namespace; its declaration is inside.
  const Die declaration = context_.referenced(die, DW_AT_specification);
  const Die& named = declaration ? declaration : die;
  std::string full;
  int scopes = 0;
  for (Die scope = named; scope && scopes < max_type_depth; scope = scope.getParent(), ++scopes) {
    if (scope != named && !is_scope(tag_of(scope))) break;
    const std::string_view own = context_.text(scope, DW_AT_name).value_or("");
    std::string arguments = missing_arguments(scope, own);
    if (arguments.empty() && scope == named && named != die)
      arguments = missing_arguments(die, own);
    if (arguments.empty()) {
      add_scope(scope, full);
      continue;
    }
    std::string rest = std::move(full);
    full.clear();
    add_scope(scope, full);
    full += arguments;
    if (!rest.empty() && full.size() < max_type_name) full += "::" + rest;
  }
  return full;
}

std::string TypeTable::missing_arguments(const Die& die, std::string_view name) {
  const std::uint16_t tag = tag_of(die);
  if (tag != DW_TAG_structure_type && tag != DW_TAG_class_type && tag != DW_TAG_union_type &&
      tag != DW_TAG_subprogram)
    return {};
  if (name.empty() || name.contains('<') || name.starts_with("operator")) return {};
  const auto language = language_of(die);
  if (!language || !llvm::dwarf::isCPlusPlus(static_cast<SourceLanguage>(*language))) return {};
  std::string text;
  add_arguments(die, text);
  // clang writes a space between two '>' if it writes the arguments at all: "a<b<int> >".
  return text.empty() ? text : fmt::format("<{}{}>", text, text.ends_with('>') ? " " : "");
}

void TypeTable::add_arguments(const Die& parent, std::string& text) {
  std::size_t seen = 0;
  for (const Die& child : parent.children()) {
    if (++seen > max_members || text.size() >= max_type_name) return;
    std::string argument;
    switch (tag_of(child)) {
    case DW_TAG_template_type_parameter: {
      // The arguments in names are types, not their typedefs.
      Die type = context_.referenced(child, DW_AT_type);
      for (int i = 0; type && i < max_type_depth && type.getTag() == DW_TAG_typedef; ++i)
        type = context_.referenced(type, DW_AT_type);
      argument = type ? get(type)->name() : nothing_.name();
      // clang writes "char *".
      if (const std::size_t last = argument.find_last_not_of("*&");
          last != std::string::npos && last + 1 < argument.size())
        argument.insert(last + 1, " ");
      break;
    }
    case DW_TAG_template_value_parameter:
      argument = value_argument(child);
      break;
    case DW_TAG_GNU_template_template_param:
      argument = context_.text(child, DW_AT_GNU_template_name).value_or("");
      break;
    case DW_TAG_GNU_template_parameter_pack:
      if (parent.getTag() != DW_TAG_GNU_template_parameter_pack) add_arguments(child, text);
      continue;
    default:
      continue;
    }
    if (!text.empty()) text += ", ";
    text += argument.substr(0, max_type_name);
  }
}

// Writes a value as clang does: "3", "3U", "true", "(short)3", "(ns::Enumeration)3".
std::string TypeTable::value_argument(const Die& parameter) {
  const Type& type = *type_of(parameter);
  const auto value = parameter.find(DW_AT_const_value);
  const auto number = value ? constant(parameter, DW_AT_const_value) : std::nullopt;
  if (!number) return "?";
  const std::int64_t narrow = narrowed(*number, type.size(), type.is_signed());
  const std::string text = type.is_signed() ? std::to_string(narrow)
                                            : std::to_string(static_cast<std::uint64_t>(narrow));
  if (type.kind() == TypeKind::boolean) return narrow != 0 ? "true" : "false";
  if (type.kind() == TypeKind::character && narrow >= ' ' && narrow < '\x7f')
    return fmt::format("'{}'", static_cast<char>(narrow));
  const std::string& name = type.name();
  if (name == "int") return text;
  if (name == "unsigned int") return text + "U";
  if (name == "long") return text + "L";
  if (name == "unsigned long") return text + "UL";
  if (name == "long long") return text + "LL";
  if (name == "unsigned long long") return text + "ULL";
  return fmt::format("({}){}", name, text);
}

void TypeTable::add_scope(const Die& scope, std::string& name) {
  if (name.size() >= max_type_name) return;
  const auto unnamed = unnamed_scope(tag_of(scope)).value_or("");
  const auto part = context_.text(scope, DW_AT_name).value_or(unnamed).substr(0, max_type_name);
  name = name.empty() ? std::string(part) : fmt::format("{}::{}", part, name);
}

const Type* TypeTable::read_target(const Type& type) {
  Type::Content& content = *type.content_;
  if (!content.has_target) {
    content.has_target = true;
    const bool always = type.kind_ == TypeKind::pointer || type.kind_ == TypeKind::reference ||
                        type.kind_ == TypeKind::array || type.kind_ == TypeKind::function;
    const bool has_type = type.kind_ == TypeKind::enumeration && content.die.find(DW_AT_type);
    if (always || has_type) content.target = type_of(content.die);
  }
  return content.target;
}

// Returns what a member function says about copies of its class (Itanium C++ ABI, 1.1,
// "non-trivial for the purposes of calls").
TypeTable::Copying TypeTable::copying_by(const Die& function, const Die& class_entry) {
  if (is_set(function, DW_AT_virtuality)) return Copying::needs_code;
  const bool is_destructor = context_.text(function, DW_AT_name).value_or("").starts_with('~');
  if (!is_destructor && !is_copy_constructor(function, class_entry)) return Copying::not_said;
  if (is_set(function, DW_AT_deleted))
    return is_destructor ? Copying::not_said : Copying::is_deleted;
  // One that is defaulted outside of the class is user-provided, like one with a body.
  const bool is_compilers = is_set(function, DW_AT_artificial) ||
                            unsigned_constant(function, DW_AT_defaulted) == DW_DEFAULTED_in_class;
  if (!is_compilers) return Copying::needs_code;
  return is_destructor ? Copying::not_said : Copying::is_trivial;
}

// Returns true also for a move constructor.
bool TypeTable::is_copy_constructor(const Die& function, const Die& class_entry) {
  const std::string_view class_name = context_.text(class_entry, DW_AT_name).value_or("");
  const std::string_view name = context_.text(function, DW_AT_name).value_or("");
  if (name.empty() || name != class_name.substr(0, class_name.find('<'))) return false;
  std::size_t count = 0;
  bool has_reference = false;
  for (const Die& parameter : function.children()) {
    if (parameter.getTag() != DW_TAG_formal_parameter) continue;
    if (++count > 2) return false;
    if (count == 1) continue; // this
    const Type& type = *type_of(parameter);
    const Type* const target = type.kind_ == TypeKind::reference ? type.target() : nullptr;
    // Functions of a class that is declared apart may refer to the declaration.
    has_reference = target != nullptr && target->content_ != nullptr &&
                    (target->content_->die == class_entry ||
                     (target->is_declared_ && target->plain_name_ == qualified_name(class_entry)));
  }
  return has_reference;
}

bool TypeTable::needs_code_to_copy(const Type& type) {
  if (type.kind_ == TypeKind::array) { // as a member
    const Type* const element = type.target();
    return element != nullptr && element->is_passed_by_reference();
  }
  if (type.kind_ != TypeKind::structure && type.kind_ != TypeKind::variants) return false;
  Type::Content& content = *type.content_;
  if (content.needs_code_to_copy) return *content.needs_code_to_copy;
  content.needs_code_to_copy = false; // ends loops
  if (depth_ >= max_type_depth) return false;
  ++depth_;
  content.needs_code_to_copy =
      declares_copying(content.die) || std::ranges::any_of(type.members(), [](const Member& each) {
        return each.type->is_passed_by_reference();
      });
  --depth_;
  return *content.needs_code_to_copy;
}

// Whether the functions and virtual bases of the class make its copies need code.
bool TypeTable::declares_copying(const Die& class_entry) {
  bool has_deleted = false;
  bool has_trivial = false;
  std::size_t seen = 0;
  for (const Die& child : class_entry.children()) {
    if (++seen > max_members) break;
    if (child.getTag() == DW_TAG_inheritance && is_set(child, DW_AT_virtuality)) return true;
    if (child.getTag() != DW_TAG_subprogram) continue;
    const Copying copying = copying_by(child, class_entry);
    if (copying == Copying::needs_code) return true;
    has_deleted = has_deleted || copying == Copying::is_deleted;
    has_trivial = has_trivial || copying == Copying::is_trivial;
  }
  return has_deleted && !has_trivial; // all of them are deleted
}

std::optional<Member> TypeTable::read_member(const Die& die) {
  // Static members have no offset in the structure.
  if (is_set(die, DW_AT_external) || is_set(die, DW_AT_declaration)) return std::nullopt;
  const auto offset = member_offset(die);
  if (!offset) return std::nullopt;
  Member member;
  member.name = context_.text(die, DW_AT_name).value_or("");
  member.type = type_of(die);
  member.offset = *offset;
  member.alignment = alignment_of(die);
  member.is_base = die.getTag() == DW_TAG_inheritance;
  for (const Die& child : die.children())
    if (child.getTag() == DW_TAG_LLVM_annotation && context_.name(child) == "btf_decl_tag" &&
        member.tags.size() < max_tags)
      member.tags.emplace_back(context_.text(child, DW_AT_const_value).value_or(""));
  const auto bit_size = unsigned_constant(die, DW_AT_bit_size);
  if (!bit_size) return member;
  // DW_AT_data_bit_offset counts from the least significant bit of the structure's first byte.
  std::optional<std::uint64_t> first = unsigned_constant(die, DW_AT_data_bit_offset);
  if (const auto from_top = unsigned_constant(die, DW_AT_bit_offset); !first && from_top) {
    // DWARF 2 and 3: from the most significant bit of the storage unit. gcc counts in the same way
    // where the bytes of the type are swapped.
    const std::uint64_t storage =
        unsigned_constant(die, DW_AT_byte_size).value_or(member.type->size());
    const auto bits = checked_mul(storage, 8);
    const auto start = checked_mul(member.offset, 8);
    if (!bits || !start || *bits > 1024 || *from_top + *bit_size > *bits) return std::nullopt;
    first = checked_add(*start, *bits - *from_top - *bit_size);
  } else if (!first) {
    first = checked_mul(member.offset, 8);
  }
  if (!first || *bit_size == 0) return std::nullopt;
  member.offset = *first / 8;
  if (*bit_size > 64) { // of __int128 or _BitInt: how it is passed is not known, either
    member.type = &unknown_;
    return member;
  }
  member.bits =
      BitRange{static_cast<std::uint32_t>(*first % 8), static_cast<std::uint32_t>(*bit_size)};
  return member;
}

// DW_TAG_variant_part: a Rust enum. Its variants are structures at the same offset.
void TypeTable::read_variant_part(Type::Content& content, const Die& die) {
  if (const Die discriminant = context_.referenced(die, DW_AT_discr))
    content.discriminant = read_member(discriminant);
  for (const Die& variant : die.children()) {
    if (content.members.size() >= max_members) return;
    if (variant.getTag() != DW_TAG_variant) continue;
    auto value = constant(variant, DW_AT_discr_value);
    // LLVM uses the shortest DW_FORM_data* for signed numbers, too (DIEInteger::BestForm).
    if (value && content.discriminant && content.discriminant->type->is_signed())
      value = variant.find(DW_AT_discr_value)->getAsSignedConstant();
    for (const Die& child : variant.children()) {
      if (child.getTag() != DW_TAG_member) continue;
      auto member = read_member(child);
      if (!member) continue;
      if (value) member->selected_by.push_back(*value);
      content.members.push_back(std::move(*member));
      break;
    }
  }
}

void TypeTable::read_members(const Type& type) {
  Type::Content& content = *type.content_;
  if (content.has_members) return;
  content.has_members = true;
  std::size_t seen = 0;
  for (const Die& child : content.die.children()) {
    if (++seen > max_members) {
      context_.warn(fmt::format("{} has more than {} members", type.name(), max_members));
      return;
    }
    switch (tag_of(child)) {
    case DW_TAG_member:
    case DW_TAG_inheritance:
      if (auto member = read_member(child))
        content.members.push_back(std::move(*member));
      else if (is_set(child, DW_AT_virtuality))
        content.virtual_bases.push_back(
            {.type = type_of(child),
             .position = content.members.size(),
             .vtable_offset = vtable_offset(expression(child, DW_AT_data_member_location),
                                            context_.layout().machine.order)});
      break;
    case DW_TAG_template_type_parameter:
    case DW_TAG_template_value_parameter:
      content.template_arguments.push_back({type_of(child), constant(child, DW_AT_const_value)});
      break;
    case DW_TAG_enumerator:
      if (const auto value = constant(child, DW_AT_const_value))
        content.enumerators.push_back({std::string(context_.text(child, DW_AT_name).value_or("")),
                                       narrowed(*value, type.size(), type.is_signed())});
      break;
    case DW_TAG_variant_part:
      read_variant_part(content, child);
      break;
    default:
      break;
    }
  }
}

} // namespace uprobectl::dwarf
