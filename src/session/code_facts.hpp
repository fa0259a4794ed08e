// What the code of probed functions says about how to probe it: each file is read once.
#pragma once

#include "uprobectl/events/plan.hpp"
#include "uprobectl/resolve/function.hpp"

#include <map>

namespace uprobectl {

class CodeReaders {
public:
  explicit CodeReaders(std::vector<std::string> debug_places)
      : debug_places_(std::move(debug_places)) {}

  // The point's binary is held from here on.
  Result<const FunctionReader*> reader_of(const ProbePoint& point);

  // What cannot be found out is taken for code of this machine's own kind. Whose strings it has may
  // take a look at all names, and so only where somebody asks for them.
  CodeFacts facts_of(const ProbePoint& point, bool strings);

private:
  std::vector<std::string> debug_places_;
  std::map<std::shared_ptr<const ProbedBinary>, Result<FunctionReader>> readers_;
};

} // namespace uprobectl
