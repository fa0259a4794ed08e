// From the run-time addresses of a process to the files and functions they lie in.
#pragma once

#include "uprobectl/output.hpp"
#include "uprobectl/process.hpp"

#include <functional>
#include <map>

namespace uprobectl {

// What processes map, remembered beyond their end.
class ProcessMaps {
public:
  // Reads what the process maps now, if it still lives; what it mapped before is forgotten.
  void look_at(pid_t pid);
  // The executable mapping with the address, of a file or not; null where none is known.
  const Mapping* find(pid_t pid, std::uint64_t address) const;

private:
  std::map<pid_t, std::vector<Mapping>> executable_; // by start
};

class StackPlaces {
public:
  explicit StackPlaces(std::vector<std::string> debug_places)
      : debug_places_(std::move(debug_places)) {}

  // Addresses as BuiltinProgram::stack_counts() has them: the first is that of the point, where the
  // thread was, the others are return addresses. Those in the point's own file are named even where
  // nothing is known of the process's mappings.
  std::vector<StackFrame> frames(const ProcessMaps& maps, pid_t pid,
                                 std::span<const std::uint64_t> addresses, const ProbePoint& point);

private:
  using Place = std::optional<ProbePoint>;
  struct File {
    std::optional<Target> target;          // nothing where it cannot be read
    std::map<std::uint64_t, Place> places; // by offset in the file
  };
  // Null if it cannot be opened.
  using Opener = std::function<std::shared_ptr<const MappedFile>()>;
  File& file_of(const FileIdentity& identity, const std::string& path, const Opener& open);
  Place beside(const ProbePoint& point, std::uint64_t distance);
  Place find(File& file, std::uint64_t offset);

  std::vector<std::string> debug_places_;
  std::map<std::pair<FileIdentity, std::string>, File> files_;
  std::map<std::shared_ptr<const ProbedBinary>, std::optional<elf::Image>> images_;
};

} // namespace uprobectl
