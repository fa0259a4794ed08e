// What a BpfObject holds.
#pragma once

#include "uprobectl/bpf/object.hpp"

#include <bpf/libbpf.h>

namespace uprobectl {

struct CloseBpfObject {
  void operator()(bpf_object* object) const { bpf_object__close(object); }
};

struct BpfObject::State {
  std::string path;
  std::string name;
  std::string log; // the verifier's, written by the kernel while it loads
  std::unique_ptr<bpf_object, CloseBpfObject> object;
  std::vector<ObjectProgram> programs;
  std::vector<ObjectMap> maps;
};

// A section's name taken apart: "uretprobe.multi.s/PATH:NAME" is kind, direction and sleep.
ObjectProgram classify_section(std::string_view name, std::string_view section);

} // namespace uprobectl
