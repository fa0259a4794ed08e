// SPDX-License-Identifier: Apache-2.0
// Task files of Android's UprobeStats: what is to be probed in which processes for how long, and
// which atoms come of it. Source: AOSP packages/modules/UprobeStats (config.proto, UprobeStats.cpp,
// ConfigUtil.cpp, Guardrail.cpp).
#pragma once

#include "uprobectl/util.hpp"

#include <chrono>

namespace uprobectl::uprobestats {

// One method, and the program that is to run there.
struct TaskProbe {
  std::string bpf_name;                // the pin's file name
  std::vector<std::string> file_paths; // in order of preference, absolute
  std::string method;          // a FUNCTION: a method's signature, or class.method, or a symbol
  bool has_parameters = false; // `method` says which; else only a method's name is known
  bool by_signature = false;   // `method` is method_signature, not made of its parts
  bool filters_transactions = false; // it names Binder transactions
  std::optional<Error> problem;      // why it cannot be used
};

struct TaskLogging {
  std::int64_t atom_id = 0;
  std::vector<std::int32_t> primitive_argument_positions;
};

struct Task {
  std::vector<TaskProbe> probes;
  std::vector<std::string> bpf_maps; // the pins' file names, or their paths
  std::string target_process_name;   // argv[0], as Android names its processes
  std::chrono::seconds duration{0};
  bool on_start = false; // of a process that is yet to start
  std::optional<TaskLogging> logging;
  std::optional<std::int64_t> id;
  std::optional<Error> problem; // why none of it can be used
};

struct TaskFile {
  std::vector<Task> tasks;           // at least one
  std::string binary;                // the binary form in the current numbering
  std::vector<std::string> warnings; // fields that are not known, and what else is odd
};

// The text or the binary form, of either numbering. corrupt with the place; usage where it has no
// task; ambiguous where the binary form can be read in both numberings. What is wrong with a single
// task or probe is its `problem`.
Result<TaskFile> read_task_file(Bytes file);

// The name of the method that a signature is of, parameters included: "com.foo.Bar.baz(int)" of
// "void com.foo.Bar.baz(int)".
std::string_view without_return_type(std::string_view signature);

// Which methods may be probed: those under a prefix of a list.
class Policy {
public:
  // What UprobeStats allows on user builds of Android.
  static Policy builtin();
  // A prefix a line, '#' begins a comment. corrupt with the line.
  static Result<Policy> parse(std::string_view text);

  // The prefix that allows it: the method itself, or followed by '.', '$' or '('. Blanks between
  // parameters do not count.
  std::optional<std::string_view> allowing(std::string_view method) const;
  // Whether a prefix is a method of this name with parameters: it allows one of them.
  bool has_overload(std::string_view name) const;
  // not_permitted with why no prefix allows it. `name` is the policy's.
  Error refusal(std::string_view method, std::string_view name) const;

private:
  std::vector<std::string> prefixes_;
};

} // namespace uprobectl::uprobestats
