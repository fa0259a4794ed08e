// What BPF programs say through bpf_printk: lines of tracefs' trace_pipe, which is one for the
// whole machine, and whoever reads a line takes it. Linux Documentation/trace/ftrace.rst.
#pragma once

#include "uprobectl/base.hpp"

namespace uprobectl {

class PrintkReader {
public:
  // What has been said before is taken and dropped. not_permitted, not_found name the way out.
  static Result<PrintkReader> open();

  int fd() const { return fd_.get(); }
  // The lines that wait, those of other tracers left out: "cat-4711 [000] …: bpf_trace_printk: hi".
  std::vector<std::string> take_lines();

private:
  UniqueFd fd_;
  std::string unfinished_;
};

} // namespace uprobectl
