// SPDX-License-Identifier: Apache-2.0
// Runs the `adb` client. It knows the devices and starts its server if needed; the variables that
// it reads, such as ANDROID_ADB_SERVER_PORT, have their usual effect.
//
// Commands on a device go through `adb shell -T`: the shell protocol of Android 7 and newer,
// without a terminal. It leaves stdin and stdout as they are, separates stderr and returns the exit
// status (AOSP packages/modules/adb/shell_protocol.h). `adb exec-out` has no stdin and no exit
// status.
#pragma once

#include "process/command.hpp"
#include "uprobectl/util.hpp"

#include <chrono>
#include <sys/types.h>

namespace uprobectl::host {

// Counts SIGINT, SIGTERM and SIGHUP while it exists. One at a time.
class Interrupts {
public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  static int count();
};

// Finds the client: $ADB, else `adb` in PATH.
Result<std::string> find_adb();

// A running client, in a process group of its own so that Ctrl-C in a terminal does not reach it.
// The destructor kills it.
class AdbProcess {
public:
  // The streams and the terminal that the process gets from us instead of pipes.
  struct Inherited {
    bool own_stdout = false;
    bool own_stderr = false;
    bool own_group = false;    // it gets the keys and signals of our terminal
    std::string variable = {}; // "NAME=VALUE", besides those of our environment
  };
  static Result<AdbProcess> start(const std::vector<std::string>& words, Inherited inherited);
  static Result<AdbProcess> start(const std::vector<std::string>& words) {
    return start(words, {});
  }

  AdbProcess(AdbProcess&& other) noexcept;
  AdbProcess& operator=(AdbProcess&&) = delete;
  ~AdbProcess();

  UniqueFd input; // its stdin; close it to end the input
  UniqueFd output;
  UniqueFd errors;

  // Waits for its end, kills it after the timeout. Returns its exit status as a shell reports it.
  int finish(std::chrono::milliseconds timeout);

private:
  AdbProcess(pid_t pid, UniqueFd in, UniqueFd out, UniqueFd err)
      : input(std::move(in)), output(std::move(out)), errors(std::move(err)), pid_(pid) {}

  pid_t pid_;
};

// Runs the client to its end, as run_command() does. interrupted after a signal that Interrupts
// counts.
Result<process::CommandResult> run_adb(const std::vector<std::string>& words,
                                       std::chrono::milliseconds timeout);

// A device that adb knows.
struct ListedDevice {
  std::string serial;
  std::string state; // "device" if it can be used; "offline", "unauthorized", "recovery", …
};

// Reads the output of `adb devices`. Skips other lines.
std::vector<ListedDevice> parse_devices(std::string_view text);
Result<std::vector<ListedDevice>> list_devices(const std::string& adb);

// The devices that --adb selects.
struct DeviceSelection {
  bool all = false;
  std::vector<std::string> serials =
      {}; // empty without `all`: $ANDROID_SERIAL, else the only device
};
// Parses "", "all" or a list of serials separated by commas.
Result<DeviceSelection> parse_selection(std::string_view text);
// Returns the selected devices, also those that cannot be used. not_found if a device is missing or
// none is connected, ambiguous if there is more than one and none is named.
Result<std::vector<ListedDevice>> select_devices(const DeviceSelection& selection,
                                                 std::vector<ListedDevice> listed,
                                                 std::string_view android_serial);

} // namespace uprobectl::host
