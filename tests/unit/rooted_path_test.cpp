#include "base/rooted_path.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
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

  const std::string product = path_in_root(root, "/system/product/app/a.odex").value();
  CHECK(fs::equivalent(product, root / "product/app/a.odex"));
  CHECK(fs::equivalent(
      path_in_root(root, "/system/product/app/a.odex!/x").value().substr(0, product.size()),
      root / "product/app/a.odex"));
  CHECK(path_in_root(root, "/system/product/app/a.odex!/x").value().ends_with("a.odex!/x"));
  // As they are where the image's links need no other root.
  CHECK(path_in_root(root, "/system/framework/b.odex") ==
        root.string() + "/system/framework/b.odex");
  CHECK(path_in_root(root, "/system/near/b.odex") == root.string() + "/system/near/b.odex");
  // Never out of it.
  const auto outside = path_in_root(root, "/vendor/passwd");
  REQUIRE_FALSE(outside);
  CHECK(outside.error().kind == ErrorKind::not_found);
  CHECK(outside.error().message == root.string() + "/vendor/passwd: no such file or directory");
  fs::remove_all(root);
}
