// SPDX-License-Identifier: Apache-2.0
// Names the frames of a report by files that belong to the modules in it.
#pragma once

#include "symbolize/report_text.hpp"
#include "symbolize/symbol_files.hpp"

#include <list>
#include <map>

namespace uprobectl::symbolize {

// A frame of a report with the names that were found.
struct NamedFrame {
  std::shared_ptr<const Frame> frame; // has a function or positions
  const Module* module = nullptr;     // of the frame; valid until the next call of name()
  // Set once for each module that was found by its name alone: it may be of another build.
  std::optional<std::string> warning = {};
  // Set if the report has another name of the function. Says both.
  std::optional<std::string> contradiction = {};
};

// Not thread-safe. Keeps at most max_modules open, and at most max_inflated bytes of them in
// memory.
class ReportSymbolizer {
public:
  explicit ReportSymbolizer(NameSources names) : names_(std::move(names)), files_(names_.debug) {
    names_.source_lines = true;
  }

  // Returns the names, or why there are none: the file is missing or of another build, or has no
  // code at the address. The frame names a file.
  Result<NamedFrame> name(const ReportedFrame& reported);
  // Whether name() may take long: it has to search a file.
  bool is_known(const ReportedFrame& reported) const;
  const std::vector<std::string>& warnings() const { return files_.warnings(); }

  static constexpr std::size_t max_modules = 64;
  static constexpr std::uint64_t max_inflated = std::uint64_t{1} << 30; // bytes
  static constexpr std::size_t max_names = 4096;                        // of a module's functions

private:
  struct KnownModule {
    std::string key;
    std::unique_ptr<Module> module; // null if there is none, because of error
    std::optional<Error> error;
    bool is_unproved = false;
    std::uint64_t inflated = 0; // bytes in memory
    // Where the functions of a name begin: a large file is searched once for each name.
    std::map<std::string, std::vector<VirtualAddress>, std::less<>> begins;
  };

  KnownModule& module_of(const ReportedFrame& reported);
  KnownModule open(const ReportedFrame& reported, std::string key);
  void make_room();
  static std::optional<VirtualAddress> address_of_perf(KnownModule& known,
                                                       const ReportedFrame& reported);
  static std::optional<VirtualAddress> address_of_name(KnownModule& known,
                                                       const ReportedFrame& reported);
  static std::optional<VirtualAddress> address_of_minidump(KnownModule& known,
                                                           const ReportedFrame& reported);
  static const std::vector<VirtualAddress>& begins_of(KnownModule& known,
                                                      std::string_view function);

  NameSources names_;
  SymbolFiles files_;
  std::list<KnownModule> modules_; // the last used one first
  std::uint64_t inflated_ = 0;     // bytes, of all modules
};

} // namespace uprobectl::symbolize
