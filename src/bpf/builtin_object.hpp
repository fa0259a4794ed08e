// One load of the built-in program: an object for one way of asking. Several of them share their
// maps, so that it is the same to the reader which one has seen a hit.
#pragma once

#include "uprobectl/bpf/builtin.hpp"

#include <array>
#include <bpf/libbpf.h>
#include <map>

namespace uprobectl {

// Calls of one run that have not returned yet: twelve MiB without stacks.
constexpr std::uint32_t most_calls = 65536;

class BuiltinObject {
public:
  // Opened and set up; `first` is the loaded one whose maps it shares, or null.
  static Result<BuiltinObject> load(const BuiltinProgram::Settings& settings,
                                    const builtin_settings& variant, const BuiltinObject* first);

  int map(const char* name) const; // its descriptor, owned by the object
  const bpf_program* program(ProbeRole role) const {
    return programs_[static_cast<std::size_t>(role)];
  }
  // The copy of the program that has this cookie for its number, made when it is first asked for.
  Result<void> make_copy(ProbeRole role, std::uint64_t cookie);
  int copy(ProbeRole role, std::uint64_t cookie) const;

private:
  struct CloseObject {
    void operator()(bpf_object* object) const { bpf_object__close(object); }
  };
  std::unique_ptr<bpf_object, CloseObject> object_;
  std::array<const bpf_program*, 4> programs_{}; // by role; owned by object_
  std::array<std::map<std::uint64_t, UniqueFd>, 4> copies_;
};

} // namespace uprobectl
