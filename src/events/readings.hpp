// One value as people name it -> how the program reads it.
#pragma once

#include "events/java_arguments.hpp"
#include "events/static_arguments.hpp"

namespace uprobectl {

std::string name_of_source(const ArgumentSource& source); // "arg0", "this", "ret", "rax"

class ReadingMaker {
public:
  // `at_start`: the point is where its function begins, so that the stack is known. Arguments are
  // those of the static probe, if the point is one, or the parameters of the Java method (null: it
  // is none).
  ReadingMaker(const Inspection& inspection, const CallingConvention& convention,
               const CodeFacts& facts, bool at_start, const StaticPlace& place,
               const JavaMethod* method)
      : inspection_(inspection), convention_(convention), facts_(facts), at_start_(at_start),
        place_(place), is_java_(method != nullptr) {
    if (method == nullptr) return;
    java_ = java_arguments(*method, facts.kind);
    java_return_ = java_return(*method, facts.kind);
  }

  // Without bytes_at. `list`: where the length of a buffer is found by name.
  Result<reading> argument(const ArgumentSpec& spec, std::span<const PlannedArgument> list) const;
  Result<condition> comparison(const ConditionSpec& spec,
                               std::span<const PlannedArgument> list) const;
  Result<reading> measured(const ArgumentSource& source,
                           std::span<const PlannedArgument> list) const;

private:
  Result<reading> value(const ArgumentSource& source, ArgumentType type) const;
  Result<reading> argument_value(const ArgumentSource& source, std::uint32_t size,
                                 bool is_signed) const;
  Result<reading> java_value(const ArgumentSource& source, std::uint32_t size,
                             bool is_signed) const;
  // One on the stack.
  Result<reading> stack_value(const ArgumentSource& source, std::int64_t above) const;
  // How the note of a static probe or a Java method's signature types an argument; nothing for all
  // else. An error where it is a floating-point number.
  Result<std::optional<ArgumentType>> noted_integer(const ArgumentSource& source) const;
  Result<std::uint32_t> moment_of(const ArgumentSource& source) const;

  const Inspection& inspection_;
  const CallingConvention& convention_;
  const CodeFacts& facts_;
  bool at_start_;
  const StaticPlace& place_;
  bool is_java_;
  std::vector<JavaArgument> java_;
  std::optional<JavaArgument> java_return_;
};

} // namespace uprobectl
