// SPDX-License-Identifier: Apache-2.0
#include "bpf/kernel_types.hpp"
#include "bpf/pid_namespace.hpp"

#include <bpf/btf.h>
#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <sys/sysmacros.h>

namespace uprobectl::bpf {

namespace {

// The folder of a process in a /proc of our own.
struct ProcessFolder {
  ProcessFolder() {
    REQUIRE(::mkdtemp(path.data()) != nullptr);
    std::filesystem::create_directory(path + "/ns");
  }
  ProcessFolder(const ProcessFolder&) = delete;
  ProcessFolder& operator=(const ProcessFolder&) = delete;
  ~ProcessFolder() { std::filesystem::remove_all(path); }
  std::string path = "/tmp/process-folder-XXXXXX";
};

// As Linux 6.1 has them on x86-64, with what matters here. `without`: a member that is missing.
std::optional<id_namespace> layout_without(const std::string& without) {
  struct Member {
    const char* structure;
    const char* name;
    std::uint32_t offset;
  };
  const std::unique_ptr<btf, decltype(&btf__free)> types(btf__new_empty(), btf__free);
  const int word = btf__add_int(types.get(), "long", 8, 0);
  std::string last;
  for (const auto& [structure, name, offset] :
       {Member{"task_struct", "group_leader", 2512}, Member{"task_struct", "thread_pid", 2552},
        Member{"pid", "level", 4}, Member{"pid", "numbers", 96}, Member{"upid", "nr", 0},
        Member{"upid", "ns", 8}, Member{"pid_namespace", "ns", 112},
        Member{"ns_common", "inum", 16}}) {
    if (last != structure)
      REQUIRE(btf__add_struct(types.get(), structure,
                              structure == std::string("upid") ? 16 : 4096) > 0);
    last = structure;
    const std::string whole = std::string(structure) + "." + name;
    REQUIRE(btf__add_field(types.get(), whole == without ? "other" : name, word, offset * 8, 0) ==
            0);
  }
  return read_id_layout(types.get());
}

} // namespace

TEST_CASE("a kernel without pid namespaces has only the initial one") {
  const ProcessFolder folder; // CONFIG_PID_NS is off: ns/pid does not exist
  CHECK_FALSE(read_pid_namespace(folder.path));
}

TEST_CASE("the initial pid namespace is known by its number") {
  const ProcessFolder folder;
  std::filesystem::create_symlink("pid:[4026531836]", folder.path + "/ns/pid");
  CHECK_FALSE(read_pid_namespace(folder.path));
}

TEST_CASE("another pid namespace is identified as the kernel does it") {
  const ProcessFolder folder;
  std::filesystem::create_symlink("pid:[1]", folder.path + "/ns/pid");
  std::filesystem::create_directory(folder.path + "/ns/pid:[1]"); // what the link leads to
  struct stat status{};
  REQUIRE(::stat((folder.path + "/ns/pid:[1]").c_str(), &status) == 0);
  const auto found = read_pid_namespace(folder.path);
  REQUIRE(found);
  CHECK(found->inode == static_cast<std::uint32_t>(status.st_ino));
  // Linux include/linux/kdev_t.h, MKDEV(): the minor number has the lower 20 bits.
  CHECK(found->device == (::major(status.st_dev) * 1048576 + ::minor(status.st_dev)));
}

TEST_CASE("where the kernel keeps the ids of a task is read from its types") {
  const auto layout = layout_without("");
  REQUIRE(layout);
  CHECK(layout->thread_pid == 2552);
  CHECK(layout->group_leader == 2512);
  CHECK(layout->level == 4);
  CHECK(layout->numbers == 96);
  CHECK(layout->number_size == 16);
  CHECK(layout->nr == 0);
  CHECK(layout->ns == 8);
  CHECK(layout->inum == 128);
  for (const char* member :
       {"task_struct.thread_pid", "task_struct.group_leader", "pid.level", "pid.numbers", "upid.nr",
        "upid.ns", "pid_namespace.ns", "ns_common.inum"})
    CHECK_FALSE(layout_without(member));
}

} // namespace uprobectl::bpf
