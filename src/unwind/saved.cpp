#include "uprobectl/unwind/saved.hpp"

#include "uprobectl/path.hpp"
#include "util/inflate.hpp"

#include <algorithm>
#include <dirent.h>
#include <fmt/format.h>
#include <set>

namespace uprobectl::stacks {

namespace {

// Bytes of what is gzipped: of a file that is mapped; of a text or a stack, which the kernel copies
// 64 KiB of and a debugger 8 MiB; and of all stacks.
constexpr std::uint64_t most_of_module = std::uint64_t{512} << 20;
constexpr std::uint64_t most_of_text = std::uint64_t{16} << 20;
constexpr std::uint64_t most_of_stacks = std::uint64_t{64} << 20;

// As it lies there or, where there is only NAME.gz, what that becomes, which has no file.
Result<MappedObject> open_saved(const std::string& folder, std::string_view name,
                                std::uint64_t most) {
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
  auto content = gunzip(zipped->bytes(), most);
  if (!content) return fail(std::move(content).error().within(path + ".gz"));
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(*content));
  return MappedObject{*owner, owner};
}

// Who opens a file keeps it, so what all gzipped ones become is bounded, too.
class SavedFiles final : public FileSource {
public:
  SavedFiles(std::string folder, std::uint64_t most_together)
      : folder_(std::move(folder)), most_together_(most_together) {}

  Result<MappedObject> open(const Mapping& mapping) override {
    const std::string_view name = file_name_of(mapping.path);
    auto found = open_named(name);
    if (found || name != "[vdso]") return found;
    return open_named("vdso.so");
  }

private:
  Result<MappedObject> open_named(std::string_view name) {
    const std::uint64_t room = most_together_ - gzipped_;
    auto found = open_saved(folder_, name, std::min(most_of_module, room));
    if (!found && found.error().kind == ErrorKind::unsupported && room < most_of_module)
      return fail(ErrorKind::unsupported,
                  fmt::format("with it the gzipped files become more than {} bytes, the most that "
                              "is taken",
                              most_together_));
    if (found && found->file == nullptr) gzipped_ += found->bytes.size();
    return found;
  }

  std::string folder_;
  std::uint64_t most_together_; // bytes
  std::uint64_t gzipped_ = 0;   // what gzipped files have become
};

// "stack.data", "stack0.data", …, in order.
Result<std::vector<std::string>> stack_files(const std::string& folder) {
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
  if (names.empty()) return fail(ErrorKind::not_found, folder + ": there is no stack*.data");
  return names;
}

Result<std::string> text_of(const std::string& folder, std::string_view name) {
  auto file = open_saved(folder, name, most_of_text);
  if (!file) return fail(std::move(file).error());
  return std::string(as_text(file->bytes));
}

// What was saved of memory. zipped: the bytes of all gzipped ones so far.
Result<void> add_stack(SavedStack& saved, const std::string& folder, const std::string& name,
                       std::uint64_t& zipped) {
  auto object = open_saved(folder, name, most_of_text);
  if (!object) return fail(std::move(object).error());
  if (object->file == nullptr) zipped += object->bytes.size();
  if (zipped > most_of_stacks)
    return fail(ErrorKind::unsupported,
                fmt::format("{}: its stacks become more than {} bytes, the most that is taken",
                            folder, most_of_stacks));
  const auto address = read_at<std::uint64_t>(object->bytes, 0);
  if (!address) return fail(ErrorKind::corrupt, folder + "/" + name + " has no address of 8 bytes");
  saved.memory.push_back({*address, object->bytes.subspan(sizeof *address)});
  saved.owners.push_back(std::move(object->owner));
  return {};
}

} // namespace

std::optional<elf::Machine> machine_of(std::span<const Mapping> mappings, FileSource& files) {
  std::set<std::string_view> tried;
  for (const Mapping& mapping : mappings) {
    if (!mapping.executable || mapping.path.empty()) continue;
    if (!tried.insert(file_name_of(mapping.path)).second) continue;
    const auto object = files.open(mapping);
    if (!object) continue;
    if (const auto image = elf::Image::parse(object->bytes)) return image->machine();
  }
  return std::nullopt;
}

std::unique_ptr<FileSource> files_in(std::string folder, std::uint64_t most_together) {
  return std::make_unique<SavedFiles>(std::move(folder), most_together);
}

Result<SavedStack> read_saved_stack(const std::string& folder) {
  const auto names = stack_files(folder);
  if (!names) return fail(names.error());
  const auto maps = text_of(folder, "maps.txt");
  if (!maps) return fail(maps.error());
  const auto register_text = text_of(folder, "regs.txt");
  if (!register_text) return fail(register_text.error());

  std::vector<Mapping> mappings = parse_all_maps(*maps);
  if (mappings.empty()) return fail(ErrorKind::corrupt, folder + "/maps.txt has no mapping");
  auto registers =
      parse_registers(*register_text, [&] { return machine_of(mappings, *files_in(folder)); });
  if (!registers) return fail(std::move(registers).error().within(folder + "/regs.txt"));

  SavedStack saved{*registers, {}, {}, std::move(mappings), was_at_function_entry(*register_text)};
  std::uint64_t zipped = 0;
  for (const std::string& name : *names)
    if (auto added = add_stack(saved, folder, name, zipped); !added) return fail(added.error());
  return saved;
}

} // namespace uprobectl::stacks
