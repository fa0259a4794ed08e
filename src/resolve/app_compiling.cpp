// SPDX-License-Identifier: Apache-2.0
#include "resolve/app_compiling.hpp"

#include "process/command.hpp"
#include "resolve/app.hpp"
#include "uprobectl/art.hpp"
#include "util/text.hpp"

#include <fmt/format.h>
#include <map>

namespace uprobectl::resolve {

namespace {

struct CompiledState {
  std::string filter;
  std::size_t methods = 0;
};

// The OAT files of the package, by path. One that cannot be read counts as if it had no code.
Result<std::map<std::string, CompiledState>> read_states(const std::string& package,
                                                         const art::DexSearch& search) {
  const auto app = AppFiles::read(package);
  if (!app) return fail(app.error());
  std::map<std::string, CompiledState> states;
  for (const BinaryPath& path : app->compiled()) {
    CompiledState& state = states[to_string(path)];
    const auto target = Target::open(to_string(path), {.dex = search});
    const auto* const oat = target ? target->java_methods() : nullptr;
    if (oat != nullptr && *oat)
      state = {.filter = std::string((*oat)->value("compiler-filter")),
               .methods = (*oat)->compiled().size()};
  }
  return states;
}

} // namespace

Result<std::vector<CompiledFile>> compile_app(const std::string& package,
                                              const art::DexSearch& search) {
  constexpr std::chrono::minutes compiling_timeout{10};
  const auto before = read_states(package, search);
  if (!before) return fail(before.error());
  const std::vector<std::string> command = {"cmd",   "package", "compile", "-m",
                                            "speed", "-f",      package};
  const auto done = process::run_android_command(command, compiling_timeout);
  if (!done) return fail(Error(done.error()).within("--compile"));
  // It prints "Success", also after a list of results, and ends with 0 even if it has failed.
  if (done->exit_code != 0 || !done->output.contains("Success")) {
    const std::string_view printed = first_line(done->errors.empty() ? done->output : done->errors);
    return fail(Error{ErrorKind::io, fmt::format("--compile: `{}` failed: {}", joined(command, " "),
                                                 printed.empty() ? "it printed nothing" : printed)}
                    .hint("what it says in the log: logcat -d -s artd dex2oat installd"));
  }
  const auto after = read_states(package, search);
  if (!after) return fail(after.error());
  std::vector<CompiledFile> files;
  for (const auto& [path, state] : *after) {
    const auto old = before->find(path);
    const CompiledState was = old == before->end() ? CompiledState() : old->second;
    files.push_back({.path = path,
                     .filter_before = was.filter,
                     .filter_after = state.filter,
                     .methods_before = was.methods,
                     .methods_after = state.methods});
  }
  return files;
}

} // namespace uprobectl::resolve
