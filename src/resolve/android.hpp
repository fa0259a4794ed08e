// SPDX-License-Identifier: Apache-2.0
// Facts about an Android device and its packages, from `pm` and `getprop`. All return unsupported
// if there is no such command.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl {

// The ABIs of the device, the preferred one first: "arm64-v8a", "armeabi-v7a", ...
Result<std::vector<std::string>> device_abis();

// The base APK of an installed package, then its splits: absolute paths, at least one. usage for an
// invalid package name, not_found if it is not installed.
Result<std::vector<std::string>> package_archives(const std::string& package);

// An app runs as a different Linux user for each user of the device. The owner's is first.
struct PackageUser {
  std::uint32_t id = 0;
  std::vector<std::uint32_t> others = {}; // of the device's other users
};
// usage and not_found as above, unsupported if pm does not print it (Android before 8).
Result<PackageUser> package_user(const std::string& package);

// Whether this is a "user" build of Android, as devices are sold, and not "userdebug" or "eng".
// False if this is not Android.
Result<bool> is_user_build();

} // namespace uprobectl
