// The names of static probes as people write them, and what to type instead of one that is not
// there.
#pragma once

#include "resolve/point.hpp"

namespace uprobectl {

// "PROVIDER:NAME" taken apart: views of the text. Nothing without a colon.
class StaticProbeName {
public:
  static std::optional<StaticProbeName> parse(std::string_view text);

  bool matches(const StaticProbe& probe) const;

private:
  std::string_view provider_;
  std::string_view name_;
  std::string dtrace_name_; // of "query-start", as dtrace writes it, "query__start"
};

// Why no probe of the image is called so: `text` is what was asked for.
Error no_static_probe(const Question& question, const StaticProbes& notes);
// The text has no colon.
Error no_static_name(const Question& question, const StaticProbes& notes);

// A probe that a text may mean which is no function's name: "provider:name", or nothing.
std::optional<std::string> static_probe_called(const StaticProbes& notes, std::string_view text);

} // namespace uprobectl
