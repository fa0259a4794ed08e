// What Android's own commands in PATH tell. Each is unsupported where there is no such command.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl {

// The ABIs that the device runs, the preferred one first: "arm64-v8a", "armeabi-v7a", ...
Result<std::vector<std::string>> abis_of_device();

// The base APK of an installed package, then its splits: absolute paths, at least one. usage for
// what is no name of a package, not_found if none of this name is installed.
Result<std::vector<std::string>> archives_of_package(const std::string& package);

// The user that each app runs as has a number for each user of the device; the first of them is
// that of the device's owner.
struct PackageUser {
  std::uint32_t id = 0;
  std::vector<std::uint32_t> others = {}; // of the device's other users
};
// usage and not_found as above, unsupported where pm does not tell (Android before 8).
Result<PackageUser> user_of_package(const std::string& package);

// Whether this is Android as people buy it, "user", not "userdebug" or "eng"; also false where it
// is no Android at all.
Result<bool> is_user_build();

} // namespace uprobectl
