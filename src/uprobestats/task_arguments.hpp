// Which registers have the arguments that a task logs (primitive_argument_positions).
#pragma once

#include "uprobectl/art.hpp"
#include "uprobectl/session.hpp"
#include "uprobectl/uprobestats/statsd.hpp"

namespace uprobectl {

// A probe's method, as far as its arguments are concerned.
struct LoggedMethod {
  // Nothing for a library's function; an error where it is not known what a Java method takes.
  Result<std::optional<JavaMethod>> java = std::nullopt;
  bool is_64bit = true;
};

// The method of this signature, whose code is at the address: methods that share code may differ in
// what they take. An error where the file does not say it.
Result<JavaMethod> method_called(const art::OatFile& oat, VirtualAddress address,
                                 std::string_view signature);
LoggedMethod logged_method(const Target& target, const ProbePoint& point);

// Of a parameter, from 0 without `this`: where ART's compiler has its callers put it, among the
// registers that carry arguments in C's order, as our GenericInstrumentation.o has them on every
// machine and Android's on arm64. What is not a known method's is where UprobeStats takes it from:
// behind the ArtMethod and `this`, the parameters before it in a register each.
StatsdArgument argument_at(const LoggedMethod& method, std::int32_t position);

// Of several methods' records, which do not say whose they are: what all agree about.
std::vector<StatsdArgument> arguments_at(std::span<const LoggedMethod> methods,
                                         std::span<const std::int32_t> positions);

// Warns of positions that no register has, and where it is not known which one has them.
void warn_of_arguments(std::string_view subject, const LoggedMethod& method,
                       std::span<const std::int32_t> positions, const Reporter& reporter);

} // namespace uprobectl
