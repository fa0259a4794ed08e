// SPDX-License-Identifier: Apache-2.0
#include "events/java_method.hpp"

#include "events/readings.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>

namespace uprobectl::events {

namespace {

constexpr std::uint32_t vreg_size = 4;      // bytes of a stack slot; long and double take two
constexpr std::int64_t method_slot = 8;     // bytes of the ArtMethod* below the arguments
constexpr std::size_t vector_registers = 8; // xmm0 to xmm7, d0 to d7
constexpr std::string_view in_vector_register = "in a vector register, which a probe cannot read";

struct JavaType {
  std::string_view name;
  ArgumentType type;
  std::uint32_t size;
  bool is_signed;
};
constexpr std::array java_types = {
    JavaType{"boolean", ArgumentType::boolean, 1, false},
    JavaType{"byte", ArgumentType::s8, 1, true},
    JavaType{"char", ArgumentType::u16, 2, false},
    JavaType{"short", ArgumentType::s16, 2, true},
    JavaType{"int", ArgumentType::s32, 4, true},
    JavaType{"long", ArgumentType::s64, 8, true},
    JavaType{"float", ArgumentType::f32, 4, false},
    JavaType{"double", ArgumentType::f64, 8, false},
    JavaType{"java.lang.String", ArgumentType::java_string, 4, false},
};
constexpr JavaType reference{"", ArgumentType::ptr, 4, false};

const JavaType& java_type(std::string_view name) {
  const auto* const found = std::ranges::find(java_types, name, &JavaType::name);
  return found == java_types.end() ? reference : *found;
}

JavaArgument argument_of(const JavaType& type, std::string name, ArgumentSource source,
                         CodeKind kind) {
  JavaArgument made;
  made.spec.name = std::move(name);
  made.spec.type = type.type;
  made.spec.source = std::move(source);
  made.size = type.size;
  made.is_signed = type.is_signed;
  if (kind == CodeKind::native_32) made.spec.problem = "values of 32-bit Java code cannot be read";
  return made;
}

// Assigns registers and stack slots in the order of the parameters.
class ArgumentLocations {
public:
  explicit ArgumentLocations(const CallingConvention& convention)
      : registers_(convention.argument_registers.subspan(1)), // the first is the ArtMethod*
        first_on_stack_(convention.stack_arguments_offset + method_slot) {}

  void assign(JavaArgument& argument) {
    const std::int64_t stack_offset = first_on_stack_ + vreg_size * vregs_;
    vregs_ += argument.size == 8 ? 2 : 1; // parameters in registers have a stack slot, too
    if (is_floating(argument.spec.type) && vectors_ < vector_registers) {
      ++vectors_;
      if (argument.spec.problem.empty()) argument.spec.problem = in_vector_register;
    } else if (!is_floating(argument.spec.type) && integers_ < registers_.size()) {
      argument.machine_register = registers_[integers_++];
    } else {
      argument.stack_offset = stack_offset;
    }
  }

private:
  std::span<const std::uint32_t> registers_;
  std::int64_t first_on_stack_;
  std::int64_t vregs_ = 0;
  std::size_t integers_ = 0;
  std::size_t vectors_ = 0;
};

// A surrogate pair, RFC 2781 2.2.
constexpr std::uint32_t first_high = 0xd800;
constexpr std::uint32_t first_low = 0xdc00;
constexpr std::uint32_t end_of_low = 0xe000;
constexpr std::uint32_t first_of_pairs = 0x10000;
constexpr std::uint32_t replacement_character = 0xfffd;

bool is_high(std::uint32_t unit) { return unit >= first_high && unit < first_low; }
bool is_low(std::uint32_t unit) { return unit >= first_low && unit < end_of_low; }

} // namespace

std::vector<JavaArgument> java_arguments(const resolve::JavaMethod& method, CodeKind kind) {
  std::vector<JavaArgument> arguments;
  if (!method.is_static)
    arguments.push_back(argument_of(reference, "this", {.number = this_argument}, kind));
  for (std::uint32_t i = 0; i < method.parameters.size(); ++i)
    arguments.push_back(argument_of(java_type(method.parameters[i]), "arg" + std::to_string(i),
                                    {.number = i}, kind));
  ArgumentLocations locations(*calling_convention(CodeKind::native));
  for (JavaArgument& argument : arguments) locations.assign(argument);
  return arguments;
}

const JavaArgument* find_java_argument(std::span<const JavaArgument> arguments,
                                       const ArgumentSource& source) {
  const auto found = std::ranges::find_if(arguments, [&](const JavaArgument& each) {
    return each.spec.source.kind == source.kind && each.spec.source.number == source.number;
  });
  return found == arguments.end() ? nullptr : &*found;
}

std::optional<JavaArgument> java_return(const resolve::JavaMethod& method, CodeKind kind) {
  if (method.return_type == "void") return std::nullopt;
  JavaArgument made = argument_of(java_type(method.return_type), std::string(result_name),
                                  {.kind = ArgumentSource::Kind::returned}, kind);
  if (is_floating(made.spec.type)) made.spec.problem = in_vector_register;
  return made;
}

std::string signature_key(const resolve::JavaMethod* method) {
  if (method == nullptr) return {};
  std::string key = method->is_static ? "static " : "java ";
  key += method->return_type;
  for (const std::string& parameter : method->parameters) key += "," + parameter;
  return key;
}

std::string latin1_to_utf8(Bytes characters) {
  std::string text;
  for (const std::byte character : characters)
    append_code_point(text, std::to_integer<std::uint32_t>(character));
  return text;
}

std::string utf16_to_utf8(Bytes characters) {
  std::string text;
  for (std::size_t at = 0; const auto unit = read_at<std::uint16_t>(characters, at); at += 2) {
    const auto next = read_at<std::uint16_t>(characters, at + 2);
    if (is_high(*unit) && next && is_low(*next)) {
      append_code_point(text, first_of_pairs + ((*unit - first_high) << 10U) + (*next - first_low));
      at += 2;
    } else {
      append_code_point(text, is_high(*unit) || is_low(*unit) ? replacement_character : *unit);
    }
  }
  return text;
}

} // namespace uprobectl::events
