// Which compiled file of a jar a process maps: task files often name another build's.
#pragma once

#include "uprobectl/process.hpp"

namespace uprobectl {

// "services" of "/system/framework/oat/arm64/services.odex", and of what dalvik-cache makes of a
// path, "/data/dalvik-cache/arm64/system@framework@services.jar@classes.odex". Empty for other
// paths.
std::string_view jar_of(std::string_view compiled);

// "com.foo" of "/data/app/~~…==/com.foo-…==/oat/arm64/base.odex", and of what dalvik-cache makes of
// "/data/app/com.foo-1/base.apk". Empty for paths outside of apps' folders.
std::string_view package_of(std::string_view compiled);

// Compiled from one jar, or from one APK of an app: all apps have a base.apk.
bool is_same_jar(std::string_view one, std::string_view other);

// A mapped file that was compiled from the same jar or APK as one of `files`, but is not in it.
std::optional<std::string> mapped_for_same_jar(pid_t pid, std::span<const std::string> files);

} // namespace uprobectl
