// SPDX-License-Identifier: Apache-2.0
#include "uprobestats/task_file.hpp"

#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace uprobectl::uprobestats {

namespace {

constexpr std::size_t max_prefixes = 4096;

// AOSP packages/modules/UprobeStats: src/Guardrail.cpp (its last version; the first has no
// updateDeviceIdleTempAllowlist), and daemon/core/config_resolver/guardrail.rs.
constexpr std::array<std::string_view, 4> allowed_by_android15 = {
    "com.android.server.am.ActivityManagerService$LocalService.updateDeviceIdleTempAllowlist",
    "com.android.server.am.CachedAppOptimizer",
    "com.android.server.am.OomAdjuster",
    "com.android.server.am.OomAdjusterModernImpl",
};
constexpr std::array<std::string_view, 7> allowed_by_android16 = {
    "com.android.server.am.ActiveServices.bindServiceLocked",
    "com.android.server.am.ActivityManagerService$LocalService.updateDeviceIdleTempAllowlist",
    "com.android.server.am.CachedAppOptimizer",
    "com.android.server.am.OomAdjuster",
    "com.android.server.am.OomAdjusterModernImpl",
    "com.android.server.pm.PackageManagerService$IPackageManagerImpl.setComponentEnabledSetting",
    "com.android.server.pm.permission.PermissionManagerService.grantRuntimePermission",
};

// Removes the spaces between parameters.
std::string without_inner_blanks(std::string_view method) {
  std::string kept(method);
  const auto parameters =
      kept.begin() + static_cast<std::ptrdiff_t>(std::min(kept.find('('), kept.size()));
  kept.erase(std::remove(parameters, kept.end(), ' '), kept.end());
  return kept;
}

bool allows(std::string_view prefix, std::string_view method) {
  if (!method.starts_with(prefix)) return false;
  const std::string_view rest = method.substr(prefix.size());
  return rest.empty() || rest[0] == '.' || rest[0] == '$' || rest[0] == '(';
}

// Returns why the prefix is invalid. Spaces are allowed only between parameters.
std::optional<std::string> find_prefix_problem(std::string_view prefix) {
  const auto control = std::ranges::find_if(
      prefix, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == '\x7f'; });
  if (control != prefix.end()) return "a control character in a prefix";
  if (prefix.substr(0, prefix.find('(')).find(' ') != std::string_view::npos)
    return fmt::format("invalid prefix '{}': it contains a blank", prefix);
  if (prefix.ends_with('.') || prefix.ends_with('$'))
    return fmt::format("invalid prefix '{}': remove the trailing '.' or '$'", prefix);
  if (prefix.find('*') != std::string_view::npos)
    return fmt::format("invalid prefix '{}': patterns are not supported", prefix);
  return std::nullopt;
}

} // namespace

Policy Policy::builtin(Service service) {
  Policy policy;
  if (service == Service::android15) {
    policy.prefixes_.assign(allowed_by_android15.begin(), allowed_by_android15.end());
    return policy;
  }
  policy.prefixes_.assign(allowed_by_android16.begin(), allowed_by_android16.end());
  policy.programs_ = {std::string(gesture_program)};
  return policy;
}

bool Policy::allows_program(std::string_view bpf_name) const {
  return std::ranges::find(programs_, bpf_name) != programs_.end();
}

Result<Policy> Policy::parse(std::string_view text) {
  Policy policy;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = take_line(text);
    const std::string_view prefix = trimmed(line.substr(0, line.find('#')));
    if (prefix.empty()) continue;
    if (auto wrong = find_prefix_problem(prefix))
      return fail(ErrorKind::corrupt, fmt::format("line {}: {}", number, *wrong));
    if (policy.prefixes_.size() == max_prefixes)
      return fail(ErrorKind::out_of_range,
                  fmt::format("there are more than {} prefixes", max_prefixes));
    policy.prefixes_.emplace_back(prefix);
  }
  return policy;
}

std::optional<std::string_view> Policy::find_prefix(std::string_view method) const {
  const std::string asked = without_inner_blanks(method);
  for (const std::string& prefix : prefixes_)
    if (allows(without_inner_blanks(prefix), asked)) return prefix;
  return std::nullopt;
}

bool Policy::has_overload(std::string_view name) const {
  return std::ranges::any_of(prefixes_, [&](std::string_view prefix) {
    return prefix.starts_with(name) && prefix.substr(name.size()).starts_with('(');
  });
}

Error Policy::make_refusal(std::string_view method, std::string_view name) const {
  Error error{ErrorKind::not_permitted,
              fmt::format("'{}' is rejected by {}: it matches none of the {} allowed prefixes",
                          method, name, prefixes_.size())};
  // The longest prefix that the method starts with, but does not continue with '.', '$' or '('.
  const std::string* nearest = nullptr;
  for (const std::string& prefix : prefixes_)
    if (method.starts_with(prefix) && (nearest == nullptr || prefix.size() > nearest->size()))
      nearest = &prefix;
  if (nearest == nullptr) return error;
  return std::move(error).hint(fmt::format(
      "'{}' matches itself, and names that continue it with '.', '$' or '('", *nearest));
}

} // namespace uprobectl::uprobestats
