// SPDX-License-Identifier: Apache-2.0
#include "util/rooted_path.hpp"

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>

using namespace uprobectl;
namespace fs = std::filesystem;

TEST_CASE("links of a system image lead where they do on the device") {
  std::string pattern = fs::temp_directory_path() / "image-XXXXXX";
  REQUIRE(::mkdtemp(pattern.data()) != nullptr);
  const fs::path root = pattern;
  fs::create_directories(root / "product/app");
  fs::create_directories(root / "system/framework");
  std::ofstream(root / "product/app/a.odex") << "a";
  std::ofstream(root / "system/framework/b.odex") << "b";
  fs::create_directory_symlink("/product", root / "system/product");
  fs::create_directory_symlink("/etc", root / "vendor"); // there is none in the image
  fs::create_directory_symlink("framework", root / "system/near");

  const std::string product = find_in_root(root, "/system/product/app/a.odex").value();
  CHECK(fs::equivalent(product, root / "product/app/a.odex"));
  CHECK(fs::equivalent(
      find_in_root(root, "/system/product/app/a.odex!/x").value().substr(0, product.size()),
      root / "product/app/a.odex"));
  CHECK(find_in_root(root, "/system/product/app/a.odex!/x").value().ends_with("a.odex!/x"));
  // As they are where the image's links need no other root.
  CHECK(find_in_root(root, "/system/framework/b.odex") ==
        root.string() + "/system/framework/b.odex");
  CHECK(find_in_root(root, "/system/near/b.odex") == root.string() + "/system/near/b.odex");
  // Never out of it.
  const auto outside = find_in_root(root, "/vendor/passwd");
  REQUIRE_FALSE(outside);
  CHECK(outside.error().kind == ErrorKind::not_found);
  CHECK(outside.error().message == root.string() + "/vendor/passwd: no such file or directory");
  fs::remove_all(root);
}

TEST_CASE("a path of a process is distinguished from all others") {
  const auto parts = [](std::string_view path) {
    const auto rooted = split_process_root(path);
    return rooted ? rooted->root + "|" + rooted->path : "none";
  };
  CHECK(parts("/proc/4711/root/usr/lib/x") == "/proc/4711/root|/usr/lib/x");
  CHECK(parts("//proc//4711/root//usr//lib/x") == "/proc/4711/root|/usr//lib/x");
  CHECK(parts("/proc/self/root/x/") == "/proc/self/root|/x/");
  CHECK(parts("/proc/4711/task/12/root/x") == "/proc/4711/task/12/root|/x");
  CHECK(parts("/proc/4711/root") == "/proc/4711/root|/");
  CHECK(parts("/proc/4711/rootfs/x") == "none");
  CHECK(parts("/proc/4711/exe") == "none");
  CHECK(parts("/proc/net/root/x") == "none");
  CHECK(parts("proc/4711/root/x") == "none");
}

namespace {

// A root folder with links that would lead out of it, and a file outside that they would lead to.
struct Outside {
  fs::path folder;
  fs::path root;
  UniqueFd fd;

  Outside() {
    std::string pattern = fs::temp_directory_path() / "rooted-XXXXXX";
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    folder = pattern;
    root = folder / "root";
    fs::create_directories(root / "lib/deep");
    std::ofstream(folder / "secret") << "outside";
    std::ofstream(root / "lib/inside") << "inside";
    fs::create_symlink(folder / "secret", root / "lib/absolute");
    fs::create_symlink("../../secret", root / "lib/upwards");
    fs::create_symlink("/lib/deep/../inside", root / "lib/good");
    fs::create_symlink("/../../../../lib/inside", root / "lib/above");
    fs::create_symlink("round", root / "lib/round");
    fs::create_symlink("inside/", root / "lib/slash");
    fs::create_directory_symlink("/lib", root / "lib/deep/back");
    fd = UniqueFd(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
  ~Outside() { fs::remove_all(folder); }

  // Where the path leads, or the name of the errno value.
  std::string walk(std::string_view path) const {
    const auto walked = walk_in_root(fd.get(), path);
    return walked ? walked->path : ::strerrorname_np(walked.error());
  }
};

} // namespace

TEST_CASE("path lookup for old kernels stays inside the process's root") {
  const Outside outside;
  CHECK(outside.walk("/lib/inside") == "/lib/inside");
  CHECK(outside.walk("lib//deep/./../inside") == "/lib/inside");
  CHECK(outside.walk("/../../lib/inside") == "/lib/inside");
  CHECK(outside.walk("/lib/good") == "/lib/inside");
  CHECK(outside.walk("/lib/above") == "/lib/inside");
  CHECK(outside.walk("/lib/deep/back/inside") == "/lib/inside");
  CHECK(outside.walk("/lib/absolute") == "ENOENT");
  CHECK(outside.walk("/lib/upwards") == "ENOENT");
  CHECK(outside.walk("/lib/round") == "ELOOP");
  CHECK(outside.walk("/lib/slash") == "ENOTDIR");
  CHECK(outside.walk("/lib/inside/") == "ENOTDIR");
  CHECK(outside.walk("/lib/inside/x") == "ENOTDIR");
  CHECK(outside.walk("/lib/missing") == "ENOENT");
  CHECK(outside.walk("/") == "/");
}

TEST_CASE("links of /proc to open files are not followed below a root folder") {
  const UniqueFd root{::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)};
  const auto walked = walk_in_root(root.get(), "/proc/self/exe");
  REQUIRE_FALSE(walked);
  CHECK(walked.error() == EXDEV);
  CHECK(walk_in_root(root.get(), "/proc/self/status")); // a link, too, but no magic one
}

TEST_CASE("only regular files are opened") {
  const Outside outside;
  const std::string fifo = outside.root / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  for (const std::string& path : {fifo, "/proc/self/root" + fifo}) {
    const auto opened = open_regular_file(path);
    REQUIRE_FALSE(opened);
    CHECK(opened.error().message == path + ": not a regular file");
  }
  CHECK(open_regular_file("/proc/self/root" + (outside.root / "lib/inside").string()));
}
