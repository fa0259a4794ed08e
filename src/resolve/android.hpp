// SPDX-License-Identifier: Apache-2.0
// Facts about an Android device and its packages, from `pm` and `getprop`. Functions fail with
// unsupported if the command does not exist, unless said otherwise.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl::resolve {

// Returns the ABIs of the device, the preferred one first: "arm64-v8a", "armeabi-v7a", ...
Result<std::vector<std::string>> device_abis();

// Returns the absolute paths of the base APK of an installed package, then of its splits. Errors:
// usage for an invalid package name, not_found if it is not installed.
Result<std::vector<std::string>> package_archives(const std::string& package);

// The Linux user ids of an app, which has a different one for each user of the device.
struct PackageUser {
  std::uint32_t id = 0;                   // for the device's owner
  std::vector<std::uint32_t> others = {}; // for its other users
};
// Errors: as package_archives(); unsupported also if pm does not print the id (Android before 8).
Result<PackageUser> package_user(const std::string& package);

// Returns whether this is a "user" build of Android, as devices are sold, and not "userdebug" or
// "eng". Returns false if this is not Android.
Result<bool> is_user_build();

} // namespace uprobectl::resolve
