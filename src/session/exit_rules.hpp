// How the built-in program is told when a function is left at an exit.
#pragma once

#include "uprobectl/bpf/record.h"
#include "uprobectl/resolve/function.hpp"

#include <cstring>
#include <map>

namespace uprobectl {

// The rules of a run, each once: functions that are left alike share one.
class ExitRules {
public:
  ExitRules() {
    exit_rule returns{};
    returns.test = EXIT_ALWAYS;
    returns.left_by = LEFT_BY_RETURN;
    number(returns);
  }

  static constexpr std::uint32_t of_returns = 0;
  // Nothing if the rule does not fit: the function's code is in too many pieces.
  std::optional<std::uint32_t> of(const FunctionReturns::TailCall& call,
                                  const FunctionReturns& function, const elf::Machine& machine);

  std::vector<exit_rule> take() && { return std::move(rules_); }

private:
  std::uint32_t number(const exit_rule& rule);

  struct Less {
    bool operator()(const exit_rule& one, const exit_rule& other) const {
      return std::memcmp(&one, &other, sizeof(one)) < 0; // there is no padding
    }
  };
  std::vector<exit_rule> rules_;
  std::map<exit_rule, std::uint32_t, Less> numbers_;
};

} // namespace uprobectl
