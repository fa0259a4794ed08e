// SPDX-License-Identifier: Apache-2.0
#include "resolve/android.hpp"

#include "process/command.hpp"
#include "util/numbers.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::resolve {

namespace {

// On old versions of Android, pm starts a Java program.
constexpr std::chrono::seconds command_timeout{20};

// The output of one of Android's own commands.
Result<std::string> run_device_command(const std::vector<std::string>& words) {
  auto result = process::run_android_command(words, command_timeout);
  if (!result && result.error().kind == ErrorKind::not_found)
    return fail(Error{ErrorKind::unsupported,
                      fmt::format("this is not Android: no /system/bin/{}", words.front())}
                    .hint("--app asks Android which files a package has"));
  if (!result) return fail(std::move(result).error());
  if (result->exit_code == 0) return std::move(result->output);
  const std::string_view printed =
      first_line(result->errors.empty() ? result->output : result->errors);
  return fail(printed.empty() ? ErrorKind::not_found : ErrorKind::io,
              fmt::format("`{}` exited with status {}{}{}", fmt::join(words, " "),
                          result->exit_code, printed.empty() ? "" : ": ", printed));
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const auto end = std::min(text.find(separator), text.size());
    if (end != 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// Letters, digits, '_' and '.', so that pm does not take it for an option.
bool is_package_name(std::string_view name) {
  return !name.empty() &&
         std::ranges::all_of(name, [](char c) { return in_ascii_identifier(c) || c == '.'; });
}

Error no_package(const std::string& package) {
  return Error{ErrorKind::not_found, fmt::format("package '{}' is not installed", package)}.hint(
      "list them with: pm list packages");
}

// "10123,1010123"
std::vector<std::uint32_t> parse_users(std::string_view list) {
  std::vector<std::uint32_t> users;
  for (const std::string& text : split(list, ',')) {
    const auto user = parse_number<std::uint32_t>(text);
    if (!user) return {};
    users.push_back(*user);
  }
  return users;
}

} // namespace

// "arm64-v8a,armeabi-v7a,armeabi", or the only ABI on Android before 5.0.
Result<std::vector<std::string>> device_abis() {
  for (const char* property : {"ro.product.cpu.abilist", "ro.product.cpu.abi"}) {
    const auto text = run_device_command({"getprop", property});
    if (!text) return fail(text.error());
    auto abis = split(first_line(*text), ',');
    if (!abis.empty()) return abis;
  }
  return fail(ErrorKind::unsupported, "getprop does not report the ABIs of this device");
}

Result<bool> is_user_build() {
  const auto result = process::run_android_command({"getprop", "ro.build.type"}, command_timeout);
  if (!result && result.error().kind == ErrorKind::not_found) return false;
  if (!result) return fail(result.error());
  if (result->exit_code != 0)
    return fail(ErrorKind::io,
                fmt::format("`getprop ro.build.type` exited with status {}", result->exit_code));
  return first_line(result->output) == "user";
}

// `pm path PKG` prints "package:/data/app/~~x/pkg-y/base.apk", a line each.
Result<std::vector<std::string>> package_archives(const std::string& package) {
  if (!is_package_name(package))
    return fail(ErrorKind::usage, fmt::format("invalid package name '{}'", package));
  const auto listing = run_device_command({"pm", "path", package});
  if (!listing && listing.error().kind == ErrorKind::not_found) return fail(no_package(package));
  if (!listing) return fail(listing.error());
  constexpr std::string_view prefix = "package:/";
  std::vector<std::string> paths;
  for (std::string& line : split(*listing, '\n')) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.starts_with(prefix)) paths.push_back(line.substr(prefix.size() - 1));
  }
  if (paths.empty())
    return fail(ErrorKind::io,
                fmt::format("`pm path {}` names no file: '{}'", package, first_line(*listing)));
  return paths;
}

// `pm list packages -U PKG` prints "package:PKG uid:10123", a line for each package whose name
// contains PKG.
Result<PackageUser> package_user(const std::string& package) {
  if (!is_package_name(package))
    return fail(ErrorKind::usage, fmt::format("invalid package name '{}'", package));
  const auto listing = run_device_command({"pm", "list", "packages", "-U", package});
  if (!listing) return fail(listing.error());
  const std::string prefix = fmt::format("package:{}", package);
  for (std::string& line : split(*listing, '\n')) {
    if (line.ends_with('\r')) line.pop_back();
    if (line == prefix)
      return fail(
          Error{ErrorKind::unsupported,
                fmt::format("pm does not report the user id of '{}'", package)}
              .hint(fmt::format("give it with --uid N, the owner of /data/data/{}", package)));
    constexpr std::string_view key = " uid:";
    if (!line.starts_with(prefix + std::string(key))) continue;
    const auto users = parse_users(std::string_view(line).substr(prefix.size() + key.size()));
    if (users.empty()) return fail(ErrorKind::io, fmt::format("pm printed no user id: '{}'", line));
    return PackageUser{.id = users.front(), .others = {users.begin() + 1, users.end()}};
  }
  return fail(no_package(package));
}

} // namespace uprobectl::resolve
