// SPDX-License-Identifier: Apache-2.0
// Programs of users, and what the names of their sections say. Source of the names: libbpf's
// documentation, program_types.rst.
#pragma once

#include "bpf/bpf.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace uprobectl::bpf {

// How a program can be attached; fixed when it is loaded.
enum class SectionKind {
  uprobe,         // "uprobe", "uretprobe", "usdt": a plain program
  uprobe_multi,   // "uprobe.multi", "uretprobe.multi"
  uprobe_session, // "uprobe.session"
  other,          // other sections of libbpf: "kprobe", "tracepoint", "raw_tp", ...
};

// A program in an object file.
struct ObjectProgram {
  std::string name;
  std::string section; // "uprobe/libc.so.6:malloc"
  SectionKind kind = SectionKind::other;
  bool on_return = false;   // "uretprobe…", "kretprobe…"
  bool sleepable = false;   // "….s"
  bool is_optional = false; // SEC("?…"): loaded only if it is named
  // In the initial values of a map of programs: libbpf loads such a map with all of them.
  bool is_tail_call = false;
  // A program of a struct_ops map: libbpf 1.1 crashes if it loads the map without any of them.
  bool is_struct_ops = false;
  // Whether it is loaded with each copy of its object, attached or not.
  bool is_always_loaded() const { return is_tail_call || is_struct_ops; }
  // "kprobe…", "kretprobe…": of the type of uprobe programs. BpfObject::use_for_uprobes() makes it
  // one.
  bool is_kprobe = false;
  bool overrides_returns = false;      // it calls bpf_override_return(), which no uprobe has
  bool reads_function_address = false; // it calls bpf_get_func_ip()
  bool can_be_attached = true;         // false: libbpf attaches no program of its type
  std::string load_problem = {};       // why libbpf cannot load it; empty if nothing is known
  LoadedProgram loaded = {};           // owned by the object; fd -1 if it is not loaded
  std::string pin = {};                // the path where it was pinned before, if it was
  bool is_guessed = false;             // the section: nothing is known of the pin
  // Set by load(): a uprobe program that this kernel runs on a stack of the CPU.
  bool has_private_stack = false;
};

// The probe in a section name: "uprobe/FILE:FUNCTION", with a TARGET and a FUNCTION as in
// `resolve`, or "uprobe/FUNCTION". Nullopt if the section names no probe.
struct SectionProbe {
  std::string target; // empty: not named
  std::string function;

  bool operator==(const SectionProbe&) const = default;
};
std::optional<SectionProbe> parse_section_probe(const ObjectProgram& program);

// Returns the program with what its section says.
ObjectProgram classify_section(std::string_view name, std::string_view section);
// The kind of link that its section asks for.
ProgramKind program_kind_for(SectionKind kind);

} // namespace uprobectl::bpf
