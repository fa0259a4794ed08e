// SPDX-License-Identifier: Apache-2.0
#include "uprobectl/unwind/saved.hpp"
#include "unwind/saved_writer.hpp"
#include "uprobectl/path.hpp"
#include "util/descriptor_io.hpp"
#include "util/inflate.hpp"
#include "util/mapped_file.hpp"
#include "util/numbers.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <set>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace uprobectl::unwind {

namespace {

struct NamedValue {
  std::string_view name;
  std::uint64_t value = 0;
};

// "NAME: HEX", with or without 0x.
std::optional<NamedValue> parse_register(std::string_view line) {
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  NamedValue found{trimmed(line.substr(0, colon)), 0};
  std::string_view number = trimmed(line.substr(colon + 1));
  if (number.starts_with("0x")) number.remove_prefix(2);
  const auto value = parse_number<std::uint64_t>(number, 16);
  if (!value || found.name.empty()) return std::nullopt;
  found.value = *value;
  return found;
}

Result<Arch> unsupported(std::string_view machine) {
  return fail(
      ErrorKind::unsupported,
      fmt::format("the registers are of unsupported architecture {} (expected x86-64 or arm64)",
                  machine));
}

Result<Arch> detect_arch(std::span<const NamedValue> registers, const MachineLookup& ask) {
  const auto has = [&](std::string_view name) {
    return std::ranges::find(registers, name, &NamedValue::name) != registers.end();
  };
  if (has("rip") || has("rsp") || has("rax")) return Arch::x86_64;
  if (has("eip")) return unsupported("i386");
  if (has("x0") || has("x29")) {
    if (has("x31") || has("ra")) return unsupported("riscv64");
    return Arch::arm64;
  }
  if (has("r0") || has("r11")) return unsupported("arm");
  const auto machine = ask ? ask() : std::nullopt;
  if (!machine)
    return fail(
        ErrorKind::unsupported,
        "unknown architecture: no register name identifies it, and no mapped file was saved");
  if (const auto arch = unwound_arch(*machine)) return *arch;
  return unsupported(elf::to_string(*machine));
}

// Fails if the pc or the stack pointer is missing.
Result<void> check_complete(const Registers& registers) {
  if (registers.pc() && registers.stack_pointer()) return {};
  const std::string pc = register_name(registers.arch(), registers.info().pc);
  const std::string stack_pointer = register_name(registers.arch(), registers.info().stack_pointer);
  if (!registers.pc() && !registers.stack_pointer())
    return fail(ErrorKind::corrupt, pc + " and " + stack_pointer + " are missing");
  return fail(ErrorKind::corrupt, (registers.pc() ? stack_pointer : pc) + " is missing");
}

// Maxima of decompressed files, in bytes: a mapped file; a text or a stack (the kernel copies 64
// KiB, a debugger 8 MiB); all stacks together.
constexpr std::uint64_t max_module_size = std::uint64_t{512} << 20;
constexpr std::uint64_t max_text_size = std::uint64_t{16} << 20;
constexpr std::uint64_t max_stacks_size = std::uint64_t{64} << 20;

// Opens the file, or decompresses NAME.gz if only that exists; the result then has no `file`.
Result<MappedObject> open_saved(const std::string& folder, std::string_view name,
                                std::uint64_t max_size) {
  const std::string path = folder + "/" + std::string(name);
  auto plain = MappedFile::open(path);
  if (plain) {
    auto file = std::make_shared<const MappedFile>(std::move(*plain));
    const Bytes bytes = file->bytes();
    return MappedObject{bytes, file, file};
  }
  const auto zipped = MappedFile::open(path + ".gz");
  if (!zipped)
    return fail(zipped.error().kind == ErrorKind::not_found ? plain.error() : zipped.error());
  auto content = gunzip(zipped->bytes(), max_size);
  if (!content) return fail(std::move(content).error().within(path + ".gz"));
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(*content));
  return MappedObject{*owner, owner};
}

// Opened files stay in memory, so the total of decompressed files is limited too.
class SavedFiles final : public FileSource {
public:
  SavedFiles(std::string folder, std::uint64_t max_total)
      : folder_(std::move(folder)), max_total_(max_total) {}

  Result<MappedObject> open(const process::Mapping& mapping) override {
    const std::string_view name = file_name_of(mapping.path);
    auto found = open_named(name);
    if (found || name != "[vdso]") return found;
    return open_named("vdso.so");
  }

private:
  Result<MappedObject> open_named(std::string_view name) {
    const std::uint64_t room = max_total_ - inflated_;
    auto found = open_saved(folder_, name, std::min(max_module_size, room));
    if (!found && found.error().kind == ErrorKind::unsupported && room < max_module_size)
      return fail(ErrorKind::unsupported,
                  fmt::format("the gzipped files exceed {} bytes when decompressed", max_total_));
    if (found && found->file == nullptr) inflated_ += found->bytes.size();
    return found;
  }

  std::string folder_;
  std::uint64_t max_total_;    // bytes
  std::uint64_t inflated_ = 0; // bytes of all decompressed files
};

// "stack.data", "stack0.data", …, in order.
Result<std::vector<std::string>> list_stack_files(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(folder.c_str()), &::closedir);
  if (!listing) return fail(system_error(errno, folder));
  std::vector<std::string> names;
  while (const dirent* const entry = ::readdir(listing.get())) {
    std::string_view name = entry->d_name;
    if (!name.starts_with("stack")) continue;
    if (name.ends_with(".gz")) name.remove_suffix(3);
    if (name.ends_with(".data")) names.emplace_back(name);
  }
  std::ranges::sort(names);
  const auto repeated = std::ranges::unique(names); // gzipped and not
  names.erase(repeated.begin(), repeated.end());
  if (names.empty()) return fail(ErrorKind::not_found, folder + ": no stack*.data file");
  return names;
}

Result<std::string> read_text(const std::string& folder, std::string_view name) {
  auto file = open_saved(folder, name, max_text_size);
  if (!file) return fail(std::move(file).error());
  return std::string(as_text(file->bytes));
}

// Adds a piece of memory. inflated: total size of the decompressed stacks so far; updated.
Result<void> add_stack(SavedStack& saved, const std::string& folder, const std::string& name,
                       std::uint64_t& inflated) {
  auto object = open_saved(folder, name, max_text_size);
  if (!object) return fail(std::move(object).error());
  if (object->file == nullptr) inflated += object->bytes.size();
  if (inflated > max_stacks_size)
    return fail(ErrorKind::unsupported,
                fmt::format("{}: the gzipped stacks exceed {} bytes when decompressed", folder,
                            max_stacks_size));
  const auto address = read_at<std::uint64_t>(object->bytes, 0);
  if (!address)
    return fail(ErrorKind::corrupt,
                folder + "/" + name + ": too short (expected an address of 8 bytes)");
  saved.memory.push_back({*address, object->bytes.subspan(sizeof *address)});
  saved.owners.push_back(std::move(object->owner));
  return {};
}

} // namespace

Result<Registers> parse_registers(std::string_view text, const MachineLookup& machine) {
  std::vector<NamedValue> found;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = trimmed(take_line(text));
    if (line.empty()) continue;
    const auto named = parse_register(line);
    if (!named)
      return fail(ErrorKind::corrupt, "line " + std::to_string(number) + " is not 'NAME: HEX'");
    found.push_back(*named);
  }
  const auto arch = detect_arch(found, machine);
  if (!arch) return fail(arch.error());
  Registers registers(*arch);
  for (const NamedValue& named : found)
    if (const auto number = register_number(*arch, named.name)) registers.set(*number, named.value);
  if (auto complete = check_complete(registers); !complete) return fail(complete.error());
  return registers;
}

bool was_at_function_entry(std::string_view text) {
  while (!text.empty()) {
    const auto named = parse_register(trimmed(take_line(text)));
    if (named && named->name == "at_function_entry") return named->value != 0;
  }
  return false;
}

std::optional<elf::Machine> find_machine(std::span<const process::Mapping> mappings,
                                         FileSource& files) {
  std::set<std::string_view> tried;
  for (const process::Mapping& mapping : mappings) {
    if (!mapping.executable || mapping.path.empty()) continue;
    if (!tried.insert(file_name_of(mapping.path)).second) continue;
    const auto object = files.open(mapping);
    if (!object) continue;
    if (const auto machine = elf::read_machine(object->bytes)) return *machine;
  }
  return std::nullopt;
}

std::unique_ptr<FileSource> open_saved_files(std::string folder, std::uint64_t max_total) {
  return std::make_unique<SavedFiles>(std::move(folder), max_total);
}

Result<SavedStack> read_saved_stack(const std::string& folder) {
  const auto names = list_stack_files(folder);
  if (!names) return fail(names.error());
  const auto maps = read_text(folder, "maps.txt");
  if (!maps) return fail(maps.error());
  const auto register_text = read_text(folder, "regs.txt");
  if (!register_text) return fail(register_text.error());

  std::vector<process::Mapping> mappings = process::parse_all_maps(*maps);
  if (mappings.empty()) return fail(ErrorKind::corrupt, folder + "/maps.txt: no mapping");
  auto registers = parse_registers(
      *register_text, [&] { return find_machine(mappings, *open_saved_files(folder)); });
  if (!registers) return fail(std::move(registers).error().within(folder + "/regs.txt"));

  SavedStack saved{*registers, {}, {}, std::move(mappings), was_at_function_entry(*register_text)};
  std::uint64_t inflated = 0;
  for (const std::string& name : *names)
    if (auto added = add_stack(saved, folder, name, inflated); !added) return fail(added.error());
  return saved;
}

namespace {

constexpr std::uint64_t max_file_size = std::uint64_t{512} << 20;
constexpr std::uint64_t max_folder_size = std::uint64_t{1} << 30;

// A newline in a path would end the line (see src/process/maps.cpp).
std::string escape_newlines(std::string_view path) {
  std::string text;
  for (const char letter : path) {
    if (letter == '\n')
      text += "\\012";
    else
      text += letter;
  }
  return text;
}

// Whether read_saved_stack() interprets a file of this name.
bool is_reserved(std::string_view name) {
  return name == "regs.txt" || name == "maps.txt" ||
         (name.starts_with("stack") && name.ends_with(".data"));
}

Error shrunk_error(std::string_view path) {
  return {ErrorKind::io, std::string(path) + ": changed size while it was being read"};
}

// `source`: where the content is mapped from, empty if it is ours.
Result<void> write_content(int fd, Bytes content, const std::string& path,
                           std::string_view source) {
  const auto written = write_all(fd, content);
  if (written) return {};
  // write() fails with EFAULT, without SIGBUS, if the mapped file has shrunk.
  if (written.error() == EFAULT && !source.empty()) return fail(shrunk_error(source));
  return fail(system_error(written.error(), path));
}

} // namespace

std::string format_registers(const Registers& registers, bool at_function_entry) {
  std::string text;
  for (std::uint8_t number = 0; number < Registers::count; ++number)
    if (const auto value = registers.get(number))
      text += fmt::format("{}: {:x}\n", register_name(registers.arch(), number), *value);
  if (at_function_entry) text += "at_function_entry: 1\n";
  return text;
}

std::string format_maps(std::span<const process::Mapping> mappings) {
  std::string text;
  for (const process::Mapping& mapping : mappings) {
    const std::uint64_t device = mapping.identity.device;
    text += fmt::format("{:x}-{:x} r-{}p {:08x} {:02x}:{:02x} {} {}{}\n", mapping.start,
                        mapping.end, mapping.executable ? 'x' : '-', mapping.offset.value,
                        ::gnu_dev_major(device), ::gnu_dev_minor(device), mapping.identity.inode,
                        escape_newlines(mapping.path), mapping.deleted ? " (deleted)" : "");
  }
  return text;
}

Result<SavedFolder> SavedFolder::create(const std::string& folder, Workstation& workstation) {
  if (!workstation.make_folder(folder, 0700)) return fail(system_error(errno, folder));
  return SavedFolder(folder, workstation);
}

Result<void> SavedFolder::write(std::string_view name, Bytes content, std::string_view source) {
  const std::string path = folder_ + "/" + std::string(name);
  const UniqueFd fd{
      workstation_->open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)};
  if (!fd) return fail(system_error(errno, path));
  return write_content(fd.get(), content, path, source);
}

void SavedFolder::remove() { static_cast<void>(workstation_->remove_folder(folder_)); }

std::string SavedFolder::free_name(std::string_view path) const {
  const std::string base(path == "[vdso]" ? "vdso.so" : file_name_of(path));
  std::string name = base;
  for (int number = 2; names_.contains(name) || is_reserved(name); ++number)
    name = std::to_string(number) + "-" + base;
  return name;
}

Result<std::optional<std::string>> SavedFolder::add_file(const MappedObject& object,
                                                         std::string_view path,
                                                         std::map<FileIdentity, FileCopy>& copies) {
  const std::uint64_t size = object.bytes.size();
  if (size > max_file_size || size > max_folder_size - written_) return std::nullopt;
  const std::string name = free_name(path);
  const std::string copy = folder_ + "/" + name;
  FileCopy before;
  if (object.file)
    if (const auto known = copies.find(object.file->identity()); known != copies.end())
      before = known->second;
  if (object.file == nullptr || before.file.lock() != object.file ||
      ::link(before.path.c_str(), copy.c_str()) != 0) {
    auto written = write(name, object.bytes, path);
    if (!written) return fail(std::move(written).error());
    // Bytes that the file has lost were written as zeros.
    if (has_shrunk(object.bytes)) return fail(shrunk_error(path));
    if (object.file) copies.insert_or_assign(object.file->identity(), FileCopy{object.file, copy});
  }
  names_.insert(name);
  written_ += size;
  if (path == "[vdso]") return std::string(path);
  return std::string(path.substr(0, path.size() - file_name_of(path).size())) + name;
}

} // namespace uprobectl::unwind
