// SPDX-License-Identifier: Apache-2.0
#include "host/device.hpp"

#include "uprobectl/arch.hpp"
#include "util/numbers.hpp"
#include "util/rooted_path.hpp"
#include "util/sha256.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace uprobectl::host {

namespace {

using namespace std::chrono_literals;

constexpr auto command_timeout = 30s;
constexpr auto su_timeout = 30s; // a user may have to confirm on the device
constexpr auto push_timeout = 600s;
constexpr std::string_view program_name = "uprobectl";

// Returns the reason why a client has failed, out of more text, some of it after the error.
std::string reason_of(const process::CommandResult& result) {
  const std::string all = result.output + "\n" + result.errors;
  std::string line(last_line(result.errors.empty() ? result.output : result.errors));
  for (const std::string_view prefix : {"adb: error: ", "error: ", "adb: "}) {
    const auto at = all.starts_with(prefix) ? 0 : all.rfind("\n" + std::string(prefix));
    if (at == std::string::npos) continue;
    const auto begin = at + prefix.size() + (at == 0 ? 0 : 1);
    line = all.substr(begin, all.find('\n', begin) - begin);
    break;
  }
  return line.empty() ? fmt::format("exit status {}", result.exit_code) : line;
}

std::optional<std::uint32_t> parse_uid(std::string_view text) {
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  return parse_number<std::uint32_t>(text);
}

std::string own_folder() {
  const std::string path = read_link("/proc/self/exe").value_or("");
  return path.substr(0, path.rfind('/'));
}

// Prints the file system, inode and size of a file, and the times of its last write and last
// change. The kernel sets the last one at each write, and no program can set it.
std::string stamp_command(std::string_view path) {
  return fmt::format("stat -c '%d %i %s %y %z' {} 2>/dev/null", path);
}

std::string stamp_text(const struct stat& status) {
  return fmt::format("{} {} {} {}.{:09} {}.{:09}", status.st_dev, status.st_ino, status.st_size,
                     status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_ctim.tv_sec,
                     status.st_ctim.tv_nsec);
}

constexpr std::array root_method_names = {
    std::pair{RootMethod::none, "none"}, std::pair{RootMethod::adbd, "adbd"},
    std::pair{RootMethod::su_user, "su_user"}, std::pair{RootMethod::su_command, "su_command"}};

std::optional<RootMethod> parse_root_method(std::string_view name) {
  for (const auto& [way, text] : root_method_names)
    if (text == name) return way;
  return std::nullopt;
}

std::string_view name_of(RootMethod way) {
  for (const auto& [each, text] : root_method_names)
    if (each == way) return text;
  return "none";
}

// Checks that the file is a program for the machine.
Result<MappedFile> open_program(const std::string& path, const ArchInfo& machine) {
  auto file = MappedFile::open(path);
  if (!file) return fail(std::move(file).error());
  // Gabi: e_ident, e_type, e_machine at 18; the supported machines are little-endian.
  const auto magic = slice(file->bytes(), 0, 4);
  const auto number = read_at<std::uint16_t>(file->bytes(), 18);
  if (!magic ||
      as_text(*magic) != "\x7f"
                         "ELF" ||
      number != machine.elf_machine)
    return fail(ErrorKind::wrong_machine,
                fmt::format("{}: not a program for {}", path, machine.kernel_name));
  return file;
}

} // namespace

DeviceFacts parse_facts(std::string_view text) {
  DeviceFacts facts;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const auto equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, equals);
    const std::string_view value = line.substr(equals + 1);
    if (key == "uid")
      facts.uid = parse_uid(value);
    else if (key == "machine")
      facts.machine = value;
    else if (key == "kernel")
      facts.kernel = value;
    else if (key == "abi")
      facts.abi = value;
    else if (key == "model")
      facts.model = value;
    else if (key == "android")
      facts.android = value;
    else if (const auto sum = value.substr(0, value.find(' ')); key == "sha256" && is_sha256(sum))
      facts.program_sha256 = sum;
    else if (key == "stamp")
      facts.program_stamp = value;
  }
  return facts;
}

bool is_device_folder(std::string_view path) {
  constexpr std::size_t max_length = 1024;
  return path.starts_with('/') && path.size() <= max_length &&
         std::ranges::all_of(path, [](char c) {
           return is_ascii_letter_or_digit(c) || std::string_view("/._+-").contains(c);
         });
}

Result<DeviceProgram> DevicePrograms::find(const std::string& machine) {
  const std::scoped_lock lock(mutex_);
  const auto before = found_.find(machine);
  if (before != found_.end()) return before->second;
  return found_.emplace(machine, read(machine)).first->second;
}

Result<DeviceProgram> DevicePrograms::read(const std::string& machine) const {
  auto path = search(machine);
  if (!path) return fail(std::move(path).error());
  const auto file = MappedFile::open(*path);
  if (!file) return fail(file.error());
  return DeviceProgram{std::move(*path), sha256_of(file->bytes())};
}

std::optional<std::string> DevicePrograms::stamp(const std::string& machine) const {
  const auto path = search(machine);
  struct stat status{};
  if (!path || ::stat(path->c_str(), &status) != 0) return std::nullopt;
  return stamp_text(status);
}

Result<std::string> DevicePrograms::search(const std::string& machine) const {
  const ArchInfo* const known = arch_from_kernel(machine);
  if (known == nullptr)
    return fail(ErrorKind::unsupported, fmt::format("uprobectl does not run on '{}' (expected {})",
                                                    machine, kernel_names()));
  if (chosen_) {
    if (const auto file = open_program(*chosen_, *known); !file) return fail(file.error());
    return *chosen_;
  }
  const std::string beside = own_folder();
  for (const std::string& path :
       {fmt::format("/proc/{}/exe", ::getpid()), // the client opens it, too
        fmt::format("{}/../lib/uprobectl/{}/uprobectl", beside, known->android_abis.front()),
        fmt::format("{}/uprobectl-{}", beside, known->kernel_name)})
    if (open_program(path, *known)) return path;
  return fail(Error{ErrorKind::not_found,
                    fmt::format("no program of this release for {}", known->kernel_name)}
                  .hint(fmt::format("put uprobectl-{} of the release beside this program",
                                    known->kernel_name))
                  .hint("or name it: --device-program FILE"));
}

std::vector<std::string> Device::words(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), {adb_, "-s", serial_});
  return arguments;
}

Result<process::CommandResult> Device::shell(const std::string& command,
                                             std::chrono::milliseconds timeout) const {
  return run_adb(words({"shell", "-T", "-e", "none", command}), timeout);
}

// The command has nothing of the user's but the folder, which is_device_folder() has checked.
Result<void> Device::survey() {
  std::string command;
  for (const auto& [key, source] : {std::pair{"uid", "id -u"},
                                    {"machine", "uname -m"},
                                    {"kernel", "uname -r"},
                                    {"abi", "getprop ro.product.cpu.abi"},
                                    {"model", "getprop ro.product.model"},
                                    {"android", "getprop ro.build.version.release"}})
    command += fmt::format("echo {}=\"$({} 2>/dev/null)\"; ", key, source);
  // The order matters: a write after the stamp was taken changes the stamp.
  command += fmt::format("echo stamp=\"$({})\"; echo sha256=\"$(sha256sum {} 2>/dev/null)\"",
                         stamp_command(program_path()), program_path());
  const auto result = shell(command, command_timeout);
  if (!result) return fail(result.error());
  facts_ = parse_facts(result->output);
  if (facts_.machine.empty())
    return fail(ErrorKind::io,
                fmt::format("cannot run commands on the device: {}", reason_of(*result)));
  if (facts_.uid == 0) root_method_ = RootMethod::adbd;
  return {};
}

Result<void> Device::restart_as_root() {
  const auto restarted = run_adb(words({"root"}), command_timeout);
  if (!restarted) return fail(restarted.error());
  // The exit status is 0 even if a production build refuses.
  const auto there = run_adb(words({"wait-for-device"}), command_timeout);
  if (!there) return fail(there.error());
  if (auto surveyed = survey(); !surveyed) return surveyed;
  if (root_method_ == RootMethod::adbd) return {};
  return fail(ErrorKind::not_permitted, "adbd cannot run as root: " + reason_of(*restarted));
}

Result<void> Device::gain_root(RootNeed need, bool restart_adbd) {
  if (need == RootNeed::none || root_method_ == RootMethod::adbd) return {};
  if (restart_adbd) {
    auto restarted = restart_as_root();
    if (restarted || need == RootNeed::required) return restarted;
  }
  // `su USER COMMAND` is that of AOSP (system/extras/su), `su -c COMMAND` that of Magisk and
  // others.
  for (const auto& [way, command] : {std::pair{RootMethod::su_user, "su 0 id -u"},
                                     std::pair{RootMethod::su_command, "su -c 'id -u'"}}) {
    const auto result = shell(command, su_timeout);
    if (!result) {
      if (result.error().kind == ErrorKind::interrupted) return fail(result.error());
      continue;
    }
    if (result->exit_code != 0 || parse_uid(std::string(last_line(result->output))) != 0) continue;
    root_method_ = way;
    return {};
  }
  if (need != RootNeed::required) return {};
  return fail(
      Error{ErrorKind::not_permitted, "this needs root, and the device has no usable su"}.hint(
          "on userdebug and eng builds, let adbd restart as root: --adb-root"));
}

Result<bool> Device::install(DevicePrograms& programs) {
  const auto program = programs.find(facts_.machine);
  if (!program) return fail(program.error());
  if (program->sha256 == facts_.program_sha256) return false;
  // A complete file replaces the old one at once: other runs may be using it.
  const std::string target = program_path();
  const std::string temporary = fmt::format("{}.{}", target, ::getpid());
  const auto failed = [&](const std::string& why) -> Result<bool> {
    static_cast<void>(shell("rm -f " + temporary, command_timeout));
    return fail(
        Error{ErrorKind::io, fmt::format("cannot install {} on the device: {}", target, why)}.hint(
            "choose another folder: --device-dir DIR"));
  };
  const auto pushed = run_adb(words({"push", program->path, temporary}), push_timeout);
  if (!pushed) return fail(pushed.error());
  if (pushed->exit_code != 0) return failed(reason_of(*pushed));
  const auto moved = shell(fmt::format("chmod 755 {0} && mv -f {0} {1} && echo stamp=\"$({2})\"; "
                                       "echo sha256=\"$(sha256sum {1})\"",
                                       temporary, target, stamp_command(target)),
                           command_timeout);
  if (!moved) return fail(moved.error());
  DeviceFacts facts = parse_facts(moved->output);
  if (facts.program_sha256 != program->sha256) return failed(reason_of(*moved));
  facts_.program_sha256 = std::move(facts.program_sha256);
  facts_.program_stamp = std::move(facts.program_stamp);
  return true;
}

Result<void> Device::remove_program() {
  const auto removed = shell("rm -f " + program_path(), command_timeout);
  if (!removed) return fail(removed.error());
  if (removed->exit_code != 0)
    return fail(ErrorKind::io, "cannot remove the program: " + reason_of(*removed));
  return {};
}

std::string Device::program_path() const { return fmt::format("{}/{}", folder_, program_name); }

std::string format_known(const KnownDevice& known) {
  return fmt::format("machine={}\ndevice={}\nprogram={}\nroot={}\nchecked={}\n", known.machine,
                     known.device_stamp, known.program_stamp, known.root_method, known.checked_at);
}

std::optional<KnownDevice> parse_known(std::string_view text) {
  KnownDevice known;
  std::string checked;
  for (const auto& [key, value] :
       {std::pair{"machine=", &known.machine}, std::pair{"device=", &known.device_stamp},
        std::pair{"program=", &known.program_stamp}, std::pair{"root=", &known.root_method},
        std::pair{"checked=", &checked}}) {
    std::string_view line = take_line(text);
    if (!line.starts_with(key)) return std::nullopt;
    line.remove_prefix(std::string_view(key).size());
    *value = line;
  }
  const auto checked_at = parse_number<decltype(known.checked_at)>(checked);
  if (!checked_at) return std::nullopt;
  known.checked_at = *checked_at;
  return known;
}

// The device's shell reads it in double quotes.
bool is_useful_stamp(std::string_view stamp) {
  constexpr std::size_t max_length = 200;
  const auto dot = stamp.rfind('.');
  return stamp.size() <= max_length && dot != std::string_view::npos &&
         stamp.find_first_not_of("0123456789 .:+-") == std::string_view::npos &&
         stamp.substr(dot + 1).find_first_not_of('0') <
             std::min(stamp.find(' ', dot), stamp.size()) - dot - 1;
}

// A serial number can be anything.
std::string Device::entry_name() const {
  return "device-" + sha256_of(as_bytes(serial_ + '\n' + folder_));
}

bool Device::recall(const Cache& cache, const DevicePrograms& programs, RootNeed need) {
  // A file system does not notice some damage, such as a bad block. It is found after a day.
  constexpr std::int64_t max_age = 24 * 60 * 60;
  const auto entry = cache.read(entry_name());
  const auto known = entry ? parse_known(entry->content) : std::nullopt;
  const auto way = known ? parse_root_method(known->root_method) : std::nullopt;
  if (!way || !is_useful_stamp(known->device_stamp)) return false;
  const std::int64_t age = std::time(nullptr) - known->checked_at;
  if (age < 0 || age > max_age) return false;
  if (need != RootNeed::none && way == RootMethod::none) return false;
  if (programs.stamp(known->machine) != known->program_stamp) return false;
  facts_ = {.machine = known->machine};
  root_method_ = need != RootNeed::none || way == RootMethod::adbd ? *way : RootMethod::none;
  recalled_stamp_ = known->device_stamp;
  return true;
}

void Device::forget() {
  facts_ = {};
  root_method_ = RootMethod::none;
  recalled_stamp_.reset();
}

void Device::remember(const Cache& cache, const DevicePrograms& programs) const {
  const auto program_stamp = programs.stamp(facts_.machine);
  if (!program_stamp || !is_useful_stamp(facts_.program_stamp)) return;
  KnownDevice known{.machine = facts_.machine,
                    .device_stamp = facts_.program_stamp,
                    .program_stamp = *program_stamp,
                    .root_method = std::string(name_of(root_method_)),
                    .checked_at = std::time(nullptr)};
  // A run that does not need root has not looked for su.
  if (const auto before = cache.read(entry_name()); before && root_method_ == RootMethod::none)
    if (const auto parsed = parse_known(before->content); parsed && parsed->root_method != "adbd")
      known.root_method = parsed->root_method;
  const std::string text = format_known(known);
  cache.write(entry_name(), {.content = text, .sha256 = sha256_of(as_bytes(text))});
}

std::vector<std::string> Device::agent_words() const {
  const std::string agent = program_path() + " --agent";
  std::string command = "exec " + agent;
  if (root_method_ == RootMethod::su_user) command = "exec su 0 " + agent;
  if (root_method_ == RootMethod::su_command) command = fmt::format("exec su -c '{}'", agent);
  if (recalled_stamp_) {
    if (root_method_ == RootMethod::adbd) command = "[ \"$(id -u)\" = 0 ] && " + command;
    command = fmt::format("[ \"$({})\" = \"{}\" ] && {}", stamp_command(program_path()),
                          *recalled_stamp_, command);
  }
  return words({"shell", "-T", "-e", "none", command});
}

} // namespace uprobectl::host
