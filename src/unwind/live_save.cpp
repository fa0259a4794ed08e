#include "unwind/live_state.hpp"

#include <algorithm>

namespace uprobectl::stacks {

namespace {

// Without a link register the return address that a return probe has replaced lies where the stack
// pointer was when the function was entered, so that it can be put back into what is saved. A
// function that was left by longjmp() may still be known when others use its stack.
std::string stack_data(const Sample& sample, const AddressSpace& space) {
  std::string data(sizeof sample.stack_address, '\0');
  std::memcpy(data.data(), &sample.stack_address, sizeof sample.stack_address);
  data += as_text(sample.stack);
  if (sample.registers.info().link_register != no_register) return data;
  for (const KnownReturn& known : sample.known_returns) {
    const std::uint64_t at = known.stack_pointer - sample.stack_address;
    const auto there = read_at<std::uint64_t>(sample.stack, at);
    if (there && space.is_return_trampoline(*there) && !space.is_return_trampoline(known.address))
      std::memcpy(data.data() + sizeof sample.stack_address + at, &known.address,
                  sizeof known.address);
  }
  return data;
}

} // namespace

// The files of the frames, under names that maps.txt is told.
Result<void> LiveProcesses::State::save_files(const Stack& stack, SavedFolder& folder,
                                              std::vector<Mapping>& mappings) {
  std::set<std::pair<FileIdentity, std::string>> done;
  for (const Frame& frame : stack.frames) {
    if (!frame.place || frame.place->module == nullptr) continue;
    const std::string& path = frame.place->module->path();
    // The place may lie in the mapping before that of the pc.
    const auto mapping =
        std::ranges::find_if(mappings, [&](const Mapping& one) { return one.path == path; });
    if (mapping == mappings.end() || !done.emplace(mapping->identity, path).second) continue;
    const MappedObject* const object = cache.opened(*mapping);
    if (object == nullptr) continue;
    const auto name = folder.add_file(*object, path, saved_files);
    if (!name) return fail(name.error());
    if (!*name || **name == path) continue;
    const FileIdentity identity = mapping->identity;
    for (Mapping& one : mappings)
      if (one.identity == identity && one.path == path) one.path = **name;
    done.emplace(identity, **name);
  }
  return {};
}

Result<void> LiveProcesses::State::save(const Sample& sample, const Stack& stack,
                                        LiveProcess& process, SavedFolder& folder) {
  std::vector<Mapping> mappings = process.mappings();
  if (auto done = save_files(stack, folder, mappings); !done) return done;
  const std::string registers = registers_text(sample.registers, sample.at_function_entry);
  if (auto done = folder.write("regs.txt", as_bytes(registers)); !done) return done;
  if (auto done = folder.write("stack.data", as_bytes(stack_data(sample, process.space()))); !done)
    return done;
  return folder.write("maps.txt", as_bytes(maps_text(mappings)));
}

Result<void> LiveProcesses::save(const Sample& sample, const std::string& folder) {
  const Stack stack = unwind(sample);
  LiveProcess& process = state_->at(sample.pid, sample.time_ns == 0 ? now_ns() : sample.time_ns);
  auto created = SavedFolder::create(folder);
  if (!created) return fail(created.error());
  auto saved = state_->save(sample, stack, process, *created);
  if (!saved) created->remove(); // of a full disk: half a stack is of no use
  return saved;
}

} // namespace uprobectl::stacks
