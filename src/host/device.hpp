// SPDX-License-Identifier: Apache-2.0
// Prepares a device: finds out what it is, installs the program, and becomes root.
#pragma once

#include "host/adb.hpp"

#include <map>
#include <mutex>

namespace uprobectl::host {

// What a device says about itself. Empty or nullopt if it does not say.
struct DeviceFacts {
  std::optional<std::uint32_t> uid = {}; // of adb's shell
  std::string machine = {};              // uname -m
  std::string kernel = {};               // uname -r
  std::string abi = {};                  // ro.product.cpu.abi
  std::string model = {};
  std::string android = {};        // version
  std::string program_sha256 = {}; // of the installed program
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

private:
  Result<DeviceProgram> search(const std::string& machine) const;

  std::optional<std::string> chosen_;
  std::mutex mutex_;
  std::map<std::string, Result<DeviceProgram>> found_;
};

enum class RootNeed : std::uint8_t { none, wanted, required };
// How commands become root on a device.
enum class RootWay : std::uint8_t { none, adbd, su_user, su_command };

class Device {
public:
  Device(std::string adb, std::string serial, std::string folder)
      : adb_(std::move(adb)), serial_(std::move(serial)), folder_(std::move(folder)) {}

  const std::string& serial() const { return serial_; }
  const DeviceFacts& facts() const { return facts_; }
  RootWay root_way() const { return root_way_; }

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
  Result<CommandResult> shell(const std::string& command, std::chrono::milliseconds timeout) const;
  Result<void> restart_as_root();

  std::string adb_;
  std::string serial_;
  std::string folder_;
  DeviceFacts facts_;
  RootWay root_way_ = RootWay::none;
};

} // namespace uprobectl::host
