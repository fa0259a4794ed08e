// SPDX-License-Identifier: Apache-2.0
#include "bpf/section.hpp"

#include <algorithm>

namespace uprobectl::bpf {

ProgramKind program_kind_for(SectionKind kind) {
  switch (kind) {
  case SectionKind::uprobe_multi:
    return ProgramKind::multi;
  case SectionKind::uprobe_session:
    return ProgramKind::session;
  case SectionKind::uprobe:
  case SectionKind::other:
    break;
  }
  return ProgramKind::plain;
}

// The parts of a section's name: "uretprobe.multi.s/PATH:NAME" is kind, direction and sleep.
ObjectProgram classify_section(std::string_view name, std::string_view section) {
  ObjectProgram program{.name = std::string(name), .section = std::string(section)};
  std::string_view kind = section.substr(0, section.find('/'));
  if (kind.ends_with(".s")) {
    program.sleepable = true;
    kind.remove_suffix(2);
  }
  program.on_return = kind.starts_with("uretprobe") || kind.starts_with("kretprobe");
  // "….single" is a plain program, also where libbpf would choose a multi link for "uprobe".
  if (kind == "uprobe" || kind == "uretprobe" || kind == "usdt" || kind == "uprobe.single" ||
      kind == "uretprobe.single")
    program.kind = SectionKind::uprobe;
  else if (kind == "uprobe.multi" || kind == "uretprobe.multi")
    program.kind = SectionKind::uprobe_multi;
  else if (kind == "uprobe.session")
    program.kind = SectionKind::uprobe_session;
  else
    program.sleepable = false; // handled by libbpf
  program.is_kprobe = kind == "kprobe" || kind == "kretprobe" || kind == "kprobe.multi" ||
                      kind == "kretprobe.multi";
  return program;
}

namespace {

// The position of the first colon that is not one of two: those are in names of C++.
std::size_t find_single_colon(std::string_view text) {
  for (std::size_t at = text.find(':'); at != std::string_view::npos; at = text.find(':', at)) {
    const std::size_t end = std::min(text.find_first_not_of(':', at), text.size());
    if (end - at != 2) return at;
    at = end;
  }
  return std::string_view::npos;
}

bool may_be_file(std::string_view name) {
  return name.find('/') != std::string_view::npos || name.find(".so") != std::string_view::npos;
}

} // namespace

std::optional<SectionProbe> parse_section_probe(const ObjectProgram& program) {
  const auto slash = program.section.find('/');
  if (program.kind == SectionKind::other || program.is_kprobe || slash == std::string::npos)
    return std::nullopt;
  const std::string named = program.section.substr(slash + 1);
  const std::string function = named.find('/') == std::string::npos ? named : std::string();
  auto colon = find_single_colon(named);
  // "usdt/PROVIDER:NAME"
  const bool is_static = program.section.starts_with("usdt");
  if (is_static && colon != std::string::npos && named.find(':', colon + 1) == std::string::npos &&
      !may_be_file(named.substr(0, colon)))
    colon = std::string::npos;
  if (colon == std::string::npos) {
    if (function.empty()) return std::nullopt;
    return SectionProbe{.target = {}, .function = function};
  }
  if (colon == 0 || colon + 1 == named.size()) return std::nullopt;
  return SectionProbe{.target = named.substr(0, colon), .function = named.substr(colon + 1)};
}

} // namespace uprobectl::bpf
