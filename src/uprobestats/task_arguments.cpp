#include "uprobestats/task_arguments.hpp"

#include "events/java_method.hpp"
#include "session/counted.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl {

namespace {

// UprobeStats' kJavaArgumentRegisterOffset.
constexpr std::size_t behind_this = 2;

std::span<const std::uint32_t> registers_in_order() {
  return calling_convention(CodeKind::native)->argument_registers;
}

StatsdArgument parameter_of(const JavaMethod& method, std::int32_t position) {
  if (static_cast<std::size_t>(position) >= method.parameters.size())
    return {.problem = fmt::format("the method has {}, counted from 0",
                                   counted(method.parameters.size(), "parameter", "parameters"))};
  const auto arguments = java_arguments(method, CodeKind::native);
  const JavaArgument& argument =
      arguments[static_cast<std::size_t>(position) + (method.is_static ? 0 : 1)];
  if (!argument.problem.empty()) return {.problem = "it is " + argument.problem};
  const auto order = registers_in_order();
  const auto found = argument.machine_register
                         ? std::ranges::find(order, *argument.machine_register)
                         : order.end();
  if (found == order.end())
    return {.problem = "it is on the stack, which the record does not have"};
  return {.place = static_cast<std::size_t>(found - order.begin())};
}

} // namespace

Result<JavaMethod> method_called(const art::OatFile& oat, VirtualAddress address,
                                 std::string_view signature) {
  if (!oat.knows_access()) return fail(ErrorKind::not_found, "oatdump does not tell it");
  for (const art::Method& method : oat.methods_at(address)) {
    art::Signature called = oat.signature(method);
    if (to_string(called) == signature)
      return JavaMethod{.return_type = std::move(called.return_type),
                        .parameters = std::move(called.parameters),
                        .is_static = method.is_static()};
  }
  return fail(ErrorKind::not_found, "its class is not known");
}

LoggedMethod logged_method(const Target& target, const ProbePoint& point) {
  LoggedMethod method{.is_64bit = point.binary->machine.is_64bit};
  const auto* const oat = target.java_methods();
  if (oat == nullptr) return method;
  if (!*oat)
    method.java = fail(oat->error());
  else if (point.table == elf::Table::oat && point.symbol)
    method.java = method_called(**oat, point.address, *point.symbol);
  else if (auto missing = target.missing_dex())
    method.java = fail(std::move(*missing));
  else
    method.java = fail(ErrorKind::not_found, "its class is not known");
  return method;
}

StatsdArgument argument_at(const LoggedMethod& method, std::int32_t position) {
  if (position < 0) return {.problem = "it is counted from 0"};
  if (!method.is_64bit)
    return {.problem = "the method is 32-bit code, whose registers the record does not have"};
  if (method.java && *method.java) return parameter_of(**method.java, position);
  const std::size_t place = static_cast<std::size_t>(position) + behind_this;
  if (place >= registers_in_order().size())
    return {.problem = fmt::format("it is in none of the {} registers that carry arguments",
                                   registers_in_order().size() - behind_this)};
  return {.place = place};
}

std::vector<StatsdArgument> arguments_at(std::span<const LoggedMethod> methods,
                                         std::span<const std::int32_t> positions) {
  std::vector<StatsdArgument> arguments;
  for (const std::int32_t position : positions) {
    std::optional<StatsdArgument> agreed;
    for (const LoggedMethod& method : methods) {
      StatsdArgument argument = argument_at(method, position);
      if (agreed && *agreed != argument)
        argument = {.problem = "the methods of the task have it in different places, and a record "
                               "does not say whose it is"};
      agreed = std::move(argument);
      if (!agreed->place) break;
    }
    arguments.push_back(agreed.value_or(StatsdArgument{.problem = "there is no method"}));
    if (!arguments.back().place)
      arguments.back().problem = fmt::format("argument {}: {}", position, arguments.back().problem);
  }
  return arguments;
}

void warn_of_arguments(std::string_view subject, const LoggedMethod& method,
                       std::span<const std::int32_t> positions, const Reporter& reporter) {
  if (positions.empty()) return;
  if (!method.java)
    reporter.warning(fmt::format("{}: what its method takes is not known: {}: "
                                 "primitive_argument_positions are counted as the service does, "
                                 "and are wrong for a static method and behind a float or double",
                                 subject, method.java.error().message));
  for (const std::int32_t position : positions)
    if (const auto argument = argument_at(method, position); !argument.place)
      reporter.warning(fmt::format("{}: argument {} cannot be logged, and no atom is made of its "
                                   "calls: {}",
                                   subject, position, argument.problem));
}

} // namespace uprobectl
