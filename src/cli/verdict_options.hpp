// SPDX-License-Identifier: Apache-2.0
// resolve --verify, and the options that say how a verdict is written.
#pragma once

#include "console.hpp"
#include "verify/verdict_formats.hpp"

namespace uprobectl::cli {

// --format, --max-lines and --fail-on.
struct VerdictOptions {
  std::optional<std::string> format;
  std::optional<std::string> fail_on;
  std::optional<std::uint64_t> max_lines;
};
void bind_verdict_options(OptionParser& parser, VerdictOptions& options);
// Also sets CommonOptions::json. usage if --json contradicts --format.
Result<verify::VerdictStyle> make_verdict_style(const OptionParser& parser,
                                                const VerdictOptions& options,
                                                CommonOptions& common);

// Whether the verdict has a change that fails.
bool has_failing_change(const output::Verdict& verdict, const verify::VerdictStyle& style);

// Returns the folder that the paths of a record are relative to; nullopt if it is a file of the
// workstation, and the paths are those of a device.
std::optional<std::string> record_folder(const std::string& path, const Workstation& workstation);
// --record: replaces the file by a record of the points (verify/record_file.hpp), atomically.
Result<void> write_record_file(const std::string& path, std::span<const resolve::ProbePoint> points,
                               Workstation& workstation);

// `resolve --verify RECORD [TARGET]`.
struct VerifyOptions {
  std::optional<std::string> record; // --verify
  VerdictOptions verdict = {};
  verify::VerdictStyle style = {};
  bool update = false; // --update
  bool unsafe = false; // --unsafe, if it was used for recording
};
void bind_verify_options(OptionParser& parser, VerifyOptions& options);
// Fails with usage if an argument cannot be combined with --verify.
Result<void> check_verify_options(const OptionParser& parser, VerifyOptions& options,
                                  CommonOptions& common);
ExitCode run_verify(const VerifyOptions& options, const Arguments& arguments,
                    const resolve::TargetOptions& target_options, output::Output& output);

} // namespace uprobectl::cli
