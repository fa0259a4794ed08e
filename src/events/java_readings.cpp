// Parameters of Java methods -> how the program reads them.
#include "events/readings.hpp"

#include <algorithm>

namespace uprobectl {

namespace {

std::size_t java_parameters(std::span<const JavaArgument> arguments) {
  return static_cast<std::size_t>(std::ranges::count_if(arguments, [](const JavaArgument& each) {
    return each.spec.source.number != this_argument;
  }));
}

} // namespace

Result<reading> ReadingMaker::java_value(const ArgumentSource& source, std::uint32_t size,
                                         bool is_signed) const {
  const JavaArgument* const argument = find_java(java_, source);
  if (argument == nullptr)
    return fail(ErrorKind::usage, name_of_source(source) + ": the method has " +
                                      std::to_string(java_parameters(java_)) +
                                      (java_parameters(java_) == 1 ? " parameter" : " parameters"));
  if (!argument->problem.empty())
    return fail(ErrorKind::unsupported, name_of_source(source) + ": " + argument->problem);
  reading made{};
  if (argument->machine_register) {
    made.base = *argument->machine_register;
  } else {
    if (source.memory)
      return fail(ErrorKind::unsupported,
                  name_of_source(source) + ": memory behind a reference on the stack is not read");
    auto read = stack_value(source, argument->on_stack);
    if (!read) return read;
    made = *read;
  }
  // No more than there is: what lies behind it is something else.
  made.size = std::min(size, argument->size);
  made.is_signed = (made.size < size ? argument->is_signed : is_signed) ? 1 : 0;
  return made;
}

} // namespace uprobectl
