// SPDX-License-Identifier: Apache-2.0
// Prepares a device: finds out what it is, installs the program, and becomes root.
#pragma once

#include "host/adb.hpp"
#include "host/cache.hpp"

#include <map>
#include <mutex>

namespace uprobectl::host {

// The device's description of itself. A member is empty or nullopt if the device does not have it.
struct DeviceFacts {
  std::optional<std::uint32_t> uid = {}; // of adb's shell
  std::string machine = {};              // uname -m
  std::string kernel = {};               // uname -r
  std::string abi = {};                  // ro.product.cpu.abi
  std::string model = {};
  std::string android = {};        // version
  std::string program_sha256 = {}; // of the installed program
  // Its file system, inode, size and times, as stat of the device prints them before it is read.
  std::string program_stamp = {};
};
// Reads the output of the command that Device::survey() runs. Skips unknown lines.
DeviceFacts parse_facts(std::string_view text);

// Whether --device-dir may be this: absolute, of letters, digits and "/._+-", because the device's
// shell reads it.
bool is_device_folder(std::string_view path);

// A program that can be installed.
struct DeviceProgram {
  std::string path;
  std::string sha256; // lower-case hex
};

// Finds the programs of this release for the machines of devices. Thread-safe.
class DevicePrograms {
public:
  // chosen: the only program, of any machine (--device-program).
  explicit DevicePrograms(std::optional<std::string> chosen) : chosen_(std::move(chosen)) {}

  // machine: as `uname -m` prints it. Takes this program itself, else
  // ../lib/uprobectl/ABI/uprobectl or uprobectl-MACHINE beside it. not_found, or wrong_machine for
  // a chosen one.
  Result<DeviceProgram> find(const std::string& machine);
  // The file system, inode, size and times of the program that find() returns, without reading it.
  std::optional<std::string> stamp(const std::string& machine) const;

private:
  Result<std::string> search(const std::string& machine) const;
  Result<DeviceProgram> read(const std::string& machine) const;

  std::optional<std::string> chosen_;
  std::mutex mutex_;
  std::map<std::string, Result<DeviceProgram>> found_;
};

// The entry of the cache for a device whose program was checked.
struct KnownDevice {
  std::string machine;
  std::string device_stamp;    // DeviceFacts::program_stamp
  std::string program_stamp;   // DevicePrograms::stamp()
  std::string root_method;     // "none", "adbd", "su_user" or "su_command"
  std::int64_t checked_at = 0; // s since 1970
};
std::string format_known(const KnownDevice& known);
std::optional<KnownDevice> parse_known(std::string_view text);

// Whether a stamp tells that a file was written: it has a time of change below a second.
bool is_useful_stamp(std::string_view stamp);

enum class RootNeed : std::uint8_t { none, wanted, required };
// How commands become root on a device.
enum class RootMethod : std::uint8_t { none, adbd, su_user, su_command };

class Device {
public:
  Device(std::string adb, std::string serial, std::string folder)
      : adb_(std::move(adb)), serial_(std::move(serial)), folder_(std::move(folder)) {}

  const std::string& serial() const { return serial_; }
  const DeviceFacts& facts() const { return facts_; }
  RootMethod root_method() const { return root_method_; }

  // Takes what a run of the last day knew of the device. Returns false if that is not enough for
  // this one. Otherwise agent_words() starts the program only if it is still the file whose
  // checksum was right.
  bool recall(const Cache& cache, const DevicePrograms& programs, RootNeed need);
  // Keeps what is known after install().
  void remember(const Cache& cache, const DevicePrograms& programs) const;
  bool is_recalled() const { return recalled_stamp_.has_value(); }
  // Forgets what recall() has taken.
  void forget();

  // Asks the device for its facts.
  Result<void> survey();
  // Finds a way to become root: adbd is root, restarted as root if `restart_adbd`, or su.
  // not_permitted if there is none and it is required.
  Result<void> gain_root(RootNeed need, bool restart_adbd);
  // Installs the program if its checksum differs. Returns whether it did.
  Result<bool> install(DevicePrograms& programs);
  Result<void> remove_program();
  // The words of the client that runs the agent.
  std::vector<std::string> agent_words() const;

private:
  std::vector<std::string> words(std::vector<std::string> arguments) const;
  Result<process::CommandResult> shell(const std::string& command,
                                       std::chrono::milliseconds timeout) const;
  Result<void> restart_as_root();
  std::string program_path() const;
  std::string entry_name() const;

  std::string adb_;
  std::string serial_;
  std::string folder_;
  DeviceFacts facts_;
  RootMethod root_method_ = RootMethod::none;
  std::optional<std::string> recalled_stamp_;
};

} // namespace uprobectl::host
