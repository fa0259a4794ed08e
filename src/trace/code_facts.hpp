// What the code of probed functions says about how to probe it: each file is read once.
#pragma once

#include "events/plan.hpp"
#include "uprobectl/resolve/function.hpp"

#include <map>

namespace uprobectl {

namespace stacks {
class UnwindData;
}

class CodeReaders {
public:
  explicit CodeReaders(std::vector<std::string> debug_places);
  ~CodeReaders();
  CodeReaders(const CodeReaders&) = delete;
  CodeReaders& operator=(const CodeReaders&) = delete;

  // The point's binary is held from here on.
  Result<const FunctionReader*> reader_of(const ProbePoint& point);

  // What cannot be found out is taken for code of this machine's own kind. Whose strings it has may
  // take a look at all names, and so only where somebody asks for them.
  CodeFacts facts_of(const ProbePoint& point, bool strings);

private:
  bool has_frame(const elf::Image& image, VirtualAddress at);

  std::vector<std::string> debug_places_;
  // By the image: what its file tells unwinders.
  std::map<const elf::Image*, std::unique_ptr<stacks::UnwindData>> frames_;
  std::map<std::shared_ptr<const ProbedBinary>, Result<FunctionReader>> readers_;
};

} // namespace uprobectl
