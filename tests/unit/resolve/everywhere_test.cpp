// SPDX-License-Identifier: Apache-2.0
#include "resolve/everywhere.hpp"
#include "temporary_folder.hpp"
#include "zip_builder.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>

namespace uprobectl::resolve {

namespace {

class DeviceFolder {
public:
  void put(const std::string& path, const std::string& bytes = "\177ELF") const {
    const std::filesystem::path file = root() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << bytes;
  }
  void link(const std::string& from, const std::string& path) const {
    std::filesystem::create_directories(std::filesystem::path(root() + path).parent_path());
    std::filesystem::create_hard_link(root() + from, root() + path);
  }
  std::string root() const { return folder_.path.string(); }

  // Paths below the root, sorted.
  std::vector<std::string> copies_of(const std::string& name) const {
    const auto found = find_everywhere(name, root());
    if (!found) return {found.error().message};
    std::vector<std::string> paths;
    for (const TargetFile& file : found->files)
      paths.push_back(to_string(file.display_path).substr(root().size()));
    std::ranges::sort(paths);
    return paths;
  }

private:
  test::TemporaryFolder folder_;
};

std::string apk_with(const std::string& entry) {
  return test::ZipFile{.entries = {{.name = entry, .data = "\177ELF"}}}.bytes();
}

} // namespace

TEST_CASE("every copy of a library is found in partitions, modules and apps, each file once") {
  const DeviceFolder device;
  device.put("/system/lib64/libssl.so");
  device.put("/system/lib64/libother.so");
  device.put("/vendor/lib/libssl.so");
  device.put("/apex/com.android.conscrypt/lib64/libssl.so");
  device.link("/apex/com.android.conscrypt/lib64/libssl.so",
              "/apex/com.android.art/lib64/libssl.so");
  device.put("/data/app/~~a==/com.foo-b==/base.apk", apk_with("lib/arm64-v8a/libssl.so"));
  device.put("/data/app/com.bar-1/base.apk", apk_with("lib/arm64-v8a/libbar.so"));
  device.put("/data/app/com.bar-1/lib/arm64/libssl.so");
  device.put("/system/priv-app/Shell/Shell.apk", apk_with("lib/x86_64/libssl.so"));
  device.put("/system/lib/libssl.so", "a script");
  CHECK(device.copies_of("libssl.so") ==
        std::vector<std::string>{
            "/apex/com.android.art/lib64/libssl.so",
            "/data/app/com.bar-1/lib/arm64/libssl.so",
            "/data/app/~~a==/com.foo-b==/base.apk!/lib/arm64-v8a/libssl.so",
            "/system/lib64/libssl.so",
            "/system/priv-app/Shell/Shell.apk!/lib/x86_64/libssl.so",
            "/vendor/lib/libssl.so",
        });
  device.put("/vendor/lib64/libcrypto.so.3");
  device.put("/vendor/lib64/libcrypto.so");
  device.put("/vendor/lib64/libcrypto_extra.so");
  const std::vector<std::string> crypto = {"/vendor/lib64/libcrypto.so",
                                           "/vendor/lib64/libcrypto.so.3"};
  CHECK(device.copies_of("libcrypto.so") == crypto);
  CHECK(device.copies_of("crypto") == crypto);
  CHECK(device.copies_of("libcrypto.so.3") ==
        std::vector<std::string>{"/vendor/lib64/libcrypto.so.3"});
  CHECK(device.copies_of("libnone.so") ==
        std::vector<std::string>{"libnone.so: no library folder and no app has a library of "
                                 "this name"});
}

TEST_CASE("a path is not the name of a library everywhere") {
  for (const char* name : {"", "*", "/system/lib64/libssl.so"})
    CHECK(find_everywhere(name).error().kind == ErrorKind::usage);
}

} // namespace uprobectl::resolve
