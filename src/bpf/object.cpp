// SPDX-License-Identifier: Apache-2.0
#include "bpf/object.hpp"

#include "bpf/btf_reading.hpp"
#include "bpf/link.hpp"
#include "bpf/load_error.hpp"
#include "bpf/map_sizes.hpp"
#include "bpf/object_check.hpp"
#include "bpf/object_values.hpp"
#include "bpf/thread_stack.hpp"
#include "util/numbers.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cerrno>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <ranges>
#include <sys/mman.h>
#include <unistd.h>

namespace uprobectl::bpf {

namespace {

struct CloseBpfObject {
  void operator()(bpf_object* object) const { bpf_object__close(object); }
};

// A global variable of a BPF object, found by its BTF (Linux Documentation/bpf/btf.rst, DATASEC).
struct GlobalVariable {
  std::string name;
  bpf_map* map = nullptr; // that holds it
  std::size_t offset = 0; // in the map's first value
  std::size_t size = 0;
  std::uint32_t type = 0;
};

// The section of a map: ".rodata" of "object.rodata".
std::string_view map_section(std::string_view map) {
  const auto dot = map.find('.');
  return dot == std::string_view::npos ? std::string_view() : map.substr(dot);
}

std::vector<GlobalVariable> find_globals(bpf_object* object) {
  std::vector<GlobalVariable> globals;
  const btf* types = bpf_object__btf(object);
  if (types == nullptr) return globals;
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, object) {
    const std::string section(map_section(bpf_map__name(map)));
    const int id =
        section.empty() ? -1 : btf__find_by_name_kind(types, section.c_str(), BTF_KIND_DATASEC);
    std::size_t size = 0;
    if (id < 0 || bpf_map__initial_value(map, &size) == nullptr) continue;
    const btf_type* list = btf__type_by_id(types, static_cast<std::uint32_t>(id));
    const btf_var_secinfo* entry = btf_var_secinfos(list);
    for (int i = 0; i < btf_vlen(list); ++i, ++entry) {
      const btf_type* variable = btf__type_by_id(types, entry->type);
      if (variable == nullptr || entry->offset > size || entry->size > size - entry->offset)
        continue;
      globals.push_back({.name = std::string(btf_name(types, variable->name_off)),
                         .map = map,
                         .offset = entry->offset,
                         .size = entry->size,
                         .type = variable->type});
    }
  }
  return globals;
}

constexpr std::size_t log_size = 1U << 20;

std::string base_name(std::string_view path) {
  std::string name(path.substr(path.rfind('/') + 1));
  for (const std::string_view ending : {".o", ".bpf"})
    if (name.ends_with(ending) && name.size() > ending.size())
      name.resize(name.size() - ending.size());
  return name;
}

constexpr std::size_t max_object_size = 64U << 20;

// Returns a copy, so that the file cannot change between our check and libbpf's reading.
Result<std::vector<std::byte>> read_object(const MappedFile& file) {
  const std::string& path = file.path();
  if (file.bytes().size() > max_object_size)
    return fail(ErrorKind::not_elf, path + ": not a BPF object file: larger than 64 MiB");
  std::vector<std::byte> bytes(file.bytes().begin(), file.bytes().end());
  if (auto valid = check_bpf_object(bytes); !valid)
    return fail(std::move(valid).error().within(path + ": damaged").hint("compile it again"));
  return bytes;
}

Error open_error(const std::string& path, int errnum, const std::string& cause) {
  // libbpf says the second of a map of the old form in a section ".maps".
  if (cause.find("legacy map definitions") != std::string::npos ||
      cause.find("attr 'type': expected PTR") != std::string::npos)
    return Error{ErrorKind::unsupported,
                 path + ": legacy map definitions (struct bpf_map_def, SEC(\"maps\")) are not "
                        "supported"}
        .hint("define each map in SEC(\".maps\") with BTF types and compile the object again: "
              "docs/bpf-programs.md shows both forms");
  if (cause.find("'.addr_space.1'") != std::string::npos)
    return Error{ErrorKind::unsupported,
                 path + ": global variables in an arena (__arena) are not supported"}
        .hint("libbpf said: " + cause);
  Error error{ErrorKind::not_elf, path + ": not a BPF object file"};
  if (errnum == ENOENT && cause.empty()) return system_error(errnum, path);
  return cause.empty() ? error : std::move(error).hint("libbpf said: " + cause);
}

// Returns a file in memory with a checked copy of the BTF: libbpf takes a path, and trusts the
// types.
Result<UniqueFd> copy_kernel_types(const MappedFile& file) {
  const auto types = find_types(file.bytes());
  if (!types) return fail(Error(types.error()).within(file.path()));
  UniqueFd copy{::memfd_create("btf", MFD_CLOEXEC)};
  if (!copy) return fail(system_error(errno, file.path()));
  for (Bytes rest = *types; !rest.empty();) {
    const ssize_t written = ::write(copy.get(), rest.data(), rest.size());
    if (written <= 0) return fail(system_error(errno, file.path()));
    rest = rest.subspan(static_cast<std::size_t>(written));
  }
  return copy;
}

// Whether entries can be made of text.
bool has_plain_entries(std::uint32_t type) {
  constexpr std::array uses = {MapUse::table, MapUse::per_cpu, MapUse::queue, MapUse::bloom};
  return type == BPF_MAP_TYPE_PROG_ARRAY ||
         std::ranges::find(uses, map_use_for_type(type)) != uses.end();
}

// An entry to make in a map when it is loaded.
struct PendingEntry {
  bpf_map* map = nullptr;
  std::vector<std::byte> key;
  std::vector<std::byte> value; // of one CPU
  std::string program;          // whose descriptor is the value, in a map of programs
  std::string text;             // "KEY=VALUE"
  LinePosition position;
};

Error at_position(Error error, const LinePosition& position) {
  if (position.file == nullptr) return error;
  return std::move(error).within(fmt::format("{}, line {}", *position.file, position.line));
}

// The kernel returns the same error for an index outside of an array and for a full map.
Error entry_error(int errnum, const PendingEntry& entry, const std::string& path) {
  const std::string name = bpf_map__name(entry.map);
  const std::uint32_t type = bpf_map__type(entry.map);
  const std::string subject =
      fmt::format("{}: map '{}': entry '{}' cannot be made", path, name, entry.text);
  if (errnum != E2BIG && errnum != ENOSPC) return system_error(errnum, subject);
  const bool is_array = type == BPF_MAP_TYPE_ARRAY || type == BPF_MAP_TYPE_PERCPU_ARRAY ||
                        type == BPF_MAP_TYPE_PROG_ARRAY;
  const std::uint32_t entries = bpf_map__max_entries(entry.map);
  Error error{ErrorKind::out_of_range,
              fmt::format("{}: {}", subject,
                          is_array ? fmt::format("the map has the indexes 0 to {}", entries - 1)
                                   : fmt::format("the map is full, with {} entries", entries))};
  if (bpf_map__pin_path(entry.map) != nullptr) return error; // it was made before
  return std::move(error).hint(fmt::format("request a larger map: --map-entries {}=N", name));
}

Result<std::vector<std::byte>> parse_entry_part(const btf* types, std::uint32_t type,
                                                std::size_t size, std::string_view text) {
  std::vector<std::byte> bytes(size);
  if (size == 0) return bytes;
  auto written = type != 0 && types != nullptr
                     ? write_value(types, {.type = type, .size = size}, text, bytes)
                     : write_untyped_value(text, bytes);
  if (!written) return fail(std::move(written).error());
  return bytes;
}

// The kernel takes a value for each possible CPU, padded to 8 bytes.
Result<std::vector<std::byte>> repeat_for_cpus(const std::vector<std::byte>& value) {
  const auto cpus = possible_cpus();
  if (!cpus) return fail(cpus.error());
  const std::size_t step = cpu_stride(value.size());
  std::vector<std::byte> all(step * *cpus);
  for (std::size_t i = 0; i < *cpus; ++i)
    std::ranges::copy(value, all.begin() + static_cast<std::ptrdiff_t>(i * step));
  return all;
}

// Finds what the kernel would refuse with EINVAL.
Result<void> check_map_type(const bpf_map* map, const std::string& path) {
  const std::uint32_t type = bpf_map__type(map);
  constexpr std::uint32_t first_foreign = 1000; // Linux has some 40; bpftime's begin at 1501
  if (!bpf_map__autocreate(map) || type < first_foreign) return {};
  return fail(ErrorKind::unsupported,
              fmt::format("{}: map '{}' has type {}, which is not a type of Linux", path,
                          bpf_map__name(map), type));
}

// Keeps libbpf from making the pin of LIBBPF_PIN_BY_NAME, and returns its path. If there is a pin,
// libbpf uses its map, and nothing is returned.
std::string take_wanted_pin(bpf_map* map) {
  const char* const path = bpf_map__pin_path(map);
  if (path == nullptr || ::access(path, F_OK) == 0) return {};
  std::string wanted = path;
  bpf_map__set_pin_path(map, nullptr);
  return wanted;
}

// The program types with sections that libbpf attaches by itself (libbpf.c, section_defs). A
// program of an iterator runs only when somebody reads the link.
bool has_attachable_type(const bpf_program* program) {
  if (bpf_program__expected_attach_type(program) == BPF_TRACE_ITER) return false;
  constexpr std::array types = {BPF_PROG_TYPE_KPROBE,         BPF_PROG_TYPE_TRACEPOINT,
                                BPF_PROG_TYPE_RAW_TRACEPOINT, BPF_PROG_TYPE_RAW_TRACEPOINT_WRITABLE,
                                BPF_PROG_TYPE_TRACING,        BPF_PROG_TYPE_LSM};
  return std::ranges::find(types, bpf_program__type(program)) != types.end();
}

// Why libbpf cannot load a program by its section; empty if nothing is known.
std::string find_load_problem(const bpf_program* program, const ObjectProgram& described) {
  if (described.kind != SectionKind::other) return {};
  if (bpf_program__type(program) == BPF_PROG_TYPE_UNSPEC) return "libbpf does not know its section";
  if (bpf_program__type(program) == BPF_PROG_TYPE_EXT)
    return "it replaces a function of another program";
  return {};
}

// Sets the type of programs in multi, session and sleepable usdt sections, which Debian's
// libbpf 1.1.2 does not know, and keeps libbpf from attaching them.
void complete_type(bpf_program* program, ObjectProgram& described, const ObjectLoading& loading) {
  if (described.kind == SectionKind::other) return;
  ProgramKind kind = program_kind_for(described.kind);
  if (loading.kind && kind != ProgramKind::session) kind = *loading.kind;
  if (described.loaded.loaded_by_us) described.loaded.kind = kind;
  bpf_program__set_type(program, BPF_PROG_TYPE_KPROBE);
  bpf_program__set_expected_attach_type(program,
                                        static_cast<bpf_attach_type>(expected_attach_type(kind)));
  bpf_program__set_autoattach(program, false);
  if (described.sleepable)
    bpf_program__set_flags(program, bpf_program__flags(program) | BPF_F_SLEEPABLE);
}

// Whether the code of the program, before it is loaded, calls the helper.
bool calls_helper(const bpf_program* program, std::int32_t helper) {
  const std::span code(bpf_program__insns(program), bpf_program__insn_cnt(program));
  return std::ranges::any_of(code, [&](const bpf_insn& each) {
    return each.code == (BPF_JMP | BPF_CALL) && each.src_reg == 0 && each.imm == helper;
  });
}

// Returns the name of a helper that the kernel is too old for, or an empty string. Its verifier
// knows only the number: "invalid func unknown#174".
std::string unknown_helper(std::string_view verifier) {
  constexpr std::string_view prefix = "invalid func unknown#";
  const auto at = verifier.find(prefix);
  if (at == std::string_view::npos) return {};
  verifier.remove_prefix(at + prefix.size());
  const auto number = take_number<unsigned>(verifier);
#define HELPER_NAME(name) "bpf_" #name
  constexpr std::array names = {__BPF_FUNC_MAPPER(HELPER_NAME)};
#undef HELPER_NAME
  if (!number || *number >= names.size()) return {};
  return names[*number];
}

// The first releases of Linux with types of maps and programs that objects for uprobes may have.
struct TypeRelease {
  std::string_view type; // as libbpf names it
  std::string_view release;
};
constexpr std::array type_releases = {
    TypeRelease{"ringbuf", "5.8"},       TypeRelease{"inode_storage", "5.10"},
    TypeRelease{"task_storage", "5.11"}, TypeRelease{"bloom_filter", "5.16"},
    TypeRelease{"user_ringbuf", "6.1"},  TypeRelease{"cgrp_storage", "6.2"},
    TypeRelease{"arena", "6.9"},         TypeRelease{"tracing", "5.5"},
    TypeRelease{"ext", "5.6"},           TypeRelease{"struct_ops", "5.6"},
    TypeRelease{"lsm", "5.7"},           TypeRelease{"syscall", "5.14"}};

// `what`: "map" or "program". `type`: null if libbpf does not know it either.
Error missing_type(const std::string& path, std::string_view what, std::string_view name,
                   const char* type) {
  const std::string_view shown = type == nullptr ? "unknown" : type;
  const auto known = std::ranges::find(type_releases, shown, &TypeRelease::type);
  return Error{ErrorKind::unsupported,
               fmt::format("{}: {} '{}': this kernel has no {}s of type '{}'{}", path, what, name,
                           what, shown,
                           known == type_releases.end()
                               ? std::string()
                               : fmt::format(" (Linux {} or later)", known->release))};
}

// Machine code: only the JIT compiler sets private stacks up.
bool has_machine_code(int program) {
  bpf_prog_info info{};
  std::uint32_t size = sizeof(info);
  return ::bpf_obj_get_info_by_fd(program, &info, &size) == 0 && info.jited_prog_len > 0;
}

// `program` is loaded. Other programs than those of uprobes are not preempted.
bool gets_private_stack(const bpf_program* program, const ObjectProgram& described) {
  return described.kind != SectionKind::other &&
         wants_private_stack({bpf_program__insns(program), bpf_program__insn_cnt(program)}) &&
         kernel_has_private_stacks() && has_machine_code(described.loaded.fd);
}

} // namespace

struct BpfObject::State {
  std::string path;
  std::string name;
  std::string log; // of the verifier, written by the kernel during loading
  std::unique_ptr<bpf_object, CloseBpfObject> object;
  std::vector<ObjectProgram> programs;
  std::vector<ObjectMap> maps;
  std::vector<PendingEntry> entries;
  UniqueFd kernel_types;
  std::vector<UniqueFd> pins; // of programs

  // Returns a map that may be sized and filled. libbpf also finds ".bss", which has another name in
  // `maps`.
  Result<bpf_map*> find_map(std::string_view map) const {
    bpf_map* const found = bpf_object__find_map_by_name(object.get(), std::string(map).c_str());
    if (found != nullptr && bpf_map__is_internal(found))
      return fail(
          Error{ErrorKind::unsupported,
                fmt::format("{}: map '{}' holds global variables: it has one entry", path, map)}
              .hint("set a variable: --set NAME=VALUE"));
    if (found != nullptr) return found;
    return fail(Error{ErrorKind::not_found, fmt::format("{}: no map '{}'", path, map)}.hint(
        "use one of: " + joined(maps | std::views::transform(&ObjectMap::name))));
  }
  Result<PendingEntry> parse_entry(const MapFill& fill);
  // After loading has failed: the error if a map or a program that was to be loaded is of a type
  // that this kernel does not have. It rejects both with EINVAL, and says nothing more.
  std::optional<Error> find_missing_type() const;
  // Makes the entries, after all programs and maps are loaded.
  Result<void> make_entries() const;
};

std::optional<Error> BpfObject::State::find_missing_type() const {
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, object.get()) {
    const bpf_map_type type = bpf_map__type(map);
    if (bpf_map__autocreate(map) && libbpf_probe_bpf_map_type(type, nullptr) == 0)
      return missing_type(path, "map", bpf_map__name(map), libbpf_bpf_map_type_str(type));
  }
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, object.get()) {
    const bpf_prog_type type = bpf_program__type(program);
    if (!bpf_program__autoload(program) || libbpf_probe_bpf_prog_type(type, nullptr) != 0) continue;
    Error error =
        missing_type(path, "program", bpf_program__name(program), libbpf_bpf_prog_type_str(type));
    return type == BPF_PROG_TYPE_KPROBE
               ? std::move(error).hint("needs CONFIG_BPF_EVENTS and CONFIG_UPROBE_EVENTS")
               : std::move(error).hint("load others: --program-name NAME");
  }
  return std::nullopt;
}

Result<void> BpfObject::State::make_entries() const {
  for (const PendingEntry& entry : entries) {
    std::vector<std::byte> value = entry.value;
    if (!entry.program.empty()) {
      const std::int32_t program =
          bpf_program__fd(bpf_object__find_program_by_name(object.get(), entry.program.c_str()));
      std::memcpy(value.data(), &program, sizeof(program));
    }
    if (map_use_for_type(bpf_map__type(entry.map)) == MapUse::per_cpu) {
      auto repeated = repeat_for_cpus(value);
      if (!repeated) return fail(std::move(repeated).error());
      value = std::move(*repeated);
    }
    if (::bpf_map_update_elem(bpf_map__fd(entry.map),
                              entry.key.empty() ? nullptr : entry.key.data(), value.data(),
                              BPF_ANY) != 0)
      return fail(at_position(entry_error(errno, entry, path), entry.position));
  }
  return {};
}

Result<void> BpfObject::set_global(std::string_view name, std::string_view value) {
  const std::string subject = fmt::format("{}: '{}'", state_->path, name);
  bpf_object* const object = state_->object.get();
  const std::vector<GlobalVariable> globals = find_globals(object);
  const std::string_view variable = name.substr(0, name.find_first_of(".["));
  const auto found = std::ranges::find(globals, variable, &GlobalVariable::name);
  if (found == globals.end()) {
    const std::string known = joined(globals | std::views::transform(&GlobalVariable::name));
    Error error{ErrorKind::not_found, fmt::format("{}: '{}' is not a global variable of the object",
                                                  state_->path, variable)};
    return fail(std::move(error).hint(
        known.empty() ? "the object has no global variables, or was compiled without -g"
                      : "use one of: " + known));
  }
  const btf* const types = bpf_object__btf(object);
  const auto part =
      find_value_part(types, {.type = found->type, .offset = found->offset, .size = found->size},
                      name.substr(variable.size()));
  if (!part) return fail(Error(part.error()).within(subject));
  std::size_t size = 0;
  const auto* const first =
      static_cast<const std::byte*>(bpf_map__initial_value(found->map, &size));
  std::vector<std::byte> content(first, first + size);
  if (auto written = write_value(types, *part, value, content); !written)
    return fail(std::move(written).error().within(subject));
  if (bpf_map__set_initial_value(found->map, content.data(), content.size()) != 0)
    return fail(ErrorKind::unsupported, subject + " cannot be set after loading");
  return {};
}

Result<void> BpfObject::set_map_entries(std::string_view map, std::uint32_t count) {
  const auto found = state_->find_map(map);
  if (!found) return fail(found.error());
  if (const int error = bpf_map__set_max_entries(*found, count); error != 0)
    return fail(system_error(-error, fmt::format("{}: map '{}'", state_->path, map)));
  const std::string_view name = bpf_map__name(*found);
  for (ObjectMap& each : state_->maps)
    if (each.name == name) each.size_is_requested = true;
  return {};
}

Result<PendingEntry> BpfObject::State::parse_entry(const MapFill& fill) {
  const auto found = find_map(fill.map);
  if (!found) return fail(found.error());
  bpf_map* const map = *found;
  const std::string subject = fmt::format("{}: map '{}'", path, fill.map);
  const std::uint32_t type = bpf_map__type(map);
  if (!has_plain_entries(type))
    return fail(ErrorKind::unsupported, subject + ": maps of this type cannot be filled");
  const btf* const types = bpf_object__btf(object.get());
  PendingEntry entry{.map = map,
                     .key = {},
                     .value = {},
                     .program = {},
                     .text = fill.key + "=" + fill.value,
                     .position = fill.position};
  auto key =
      parse_entry_part(types, bpf_map__btf_key_type_id(map), bpf_map__key_size(map), fill.key);
  if (!key) return fail(std::move(key).error().within(subject + ": key"));
  if (bpf_map__key_size(map) == 0 && !fill.key.empty())
    return fail(ErrorKind::usage, subject + " has no keys (expected '=VALUE')");
  entry.key = std::move(*key);
  if (type == BPF_MAP_TYPE_PROG_ARRAY) {
    const auto program = std::ranges::find(programs, fill.value, &ObjectProgram::name);
    if (program == programs.end())
      return fail(Error{ErrorKind::usage, fmt::format("{}: no program '{}'", subject, fill.value)});
    program->is_tail_call = true;
    entry.program = fill.value;
    entry.value.resize(sizeof(std::int32_t));
  } else {
    auto value = parse_entry_part(types, bpf_map__btf_value_type_id(map), bpf_map__value_size(map),
                                  fill.value);
    if (!value) return fail(std::move(value).error().within(subject + ": value"));
    entry.value = std::move(*value);
  }
  return entry;
}

Result<void> BpfObject::fill_map(const MapFill& fill) {
  auto entry = state_->parse_entry(fill);
  if (!entry) return fail(at_position(std::move(entry).error(), fill.position));
  state_->entries.push_back(std::move(*entry));
  return {};
}

Result<void> BpfObject::share_maps(const BpfObject& other, bool all) {
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, state_->object.get()) {
    if (bpf_map__is_internal(map) && !all) continue;
    bpf_map* const known =
        bpf_object__find_map_by_name(other.state_->object.get(), bpf_map__name(map));
    if (all && known != nullptr && !bpf_map__autocreate(known)) bpf_map__set_autocreate(map, false);
    if (known == nullptr || bpf_map__fd(known) < 0 || bpf_map__type(known) != bpf_map__type(map))
      continue;
    // Loaded ones have the size of the kernel's structure. No map is used before it is attached.
    if (bpf_map__type(map) == BPF_MAP_TYPE_STRUCT_OPS) continue;
    const std::string subject = fmt::format("{}: map '{}'", state_->path, bpf_map__name(map));
    if (bpf_map__key_size(known) != bpf_map__key_size(map) ||
        bpf_map__value_size(known) != bpf_map__value_size(map))
      return fail(Error{ErrorKind::unsupported,
                        fmt::format("{} cannot be shared with {}: keys and values have {} and {} "
                                    "bytes here, {} and {} there",
                                    subject, other.state_->path, bpf_map__key_size(map),
                                    bpf_map__value_size(map), bpf_map__key_size(known),
                                    bpf_map__value_size(known))});
    if (const int error = bpf_map__reuse_fd(map, bpf_map__fd(known)); error != 0)
      return fail(system_error(-error, subject));
  }
  return {};
}

Result<void> apply_settings(std::span<BpfObject> objects, const ObjectSettings& settings) {
  // Fails if `set` fails for one object, with not_found only if it does for all.
  const auto set_in_all = [&](const auto& set) -> Result<void> {
    std::optional<Error> unknown;
    bool is_known = false;
    for (BpfObject& object : objects) {
      auto done = set(object);
      if (!done && done.error().kind != ErrorKind::not_found) return done;
      if (!done && !unknown) unknown = std::move(done).error();
      is_known = is_known || done.has_value();
    }
    if (!is_known && unknown) return fail(std::move(*unknown));
    return {};
  };
  for (const auto& [name, value] : settings.globals)
    if (auto done = set_in_all([&](BpfObject& each) { return each.set_global(name, value); });
        !done)
      return done;
  for (const auto& [map, count] : settings.map_entries)
    if (auto done = set_in_all([&](BpfObject& each) { return each.set_map_entries(map, count); });
        !done)
      return done;
  for (const MapFill& fill : settings.fills)
    if (auto done = set_in_all([&](BpfObject& each) { return each.fill_map(fill); }); !done)
      return done;
  return {};
}

Result<void> BpfObject::use_pins(std::vector<OpenedPin> programs, std::vector<OpenedPin> maps) {
  for (OpenedPin& pin : programs)
    for (ObjectProgram& program : state_->programs) {
      if (program.name != pin.name) continue;
      program.pin = std::move(pin.path);
      program.is_optional = false; // it was chosen when it was pinned
      program.load_problem = pin.problem ? pin.problem->message : "";
      program.loaded = {
          .fd = pin.fd.get(), .kind = program_kind_for(program.kind), .loaded_by_us = false};
      state_->pins.push_back(std::move(pin.fd));
      break;
    }
  if (!state_->object) return {};
  bpf_map* map = nullptr;
  std::size_t index = 0;
  bpf_object__for_each_map(map, state_->object.get()) {
    ObjectMap& described = state_->maps[index++];
    const auto pin = std::ranges::find(maps, described.name, &OpenedPin::name);
    if (pin == maps.end() || !pin->fd) {
      bpf_map__set_autocreate(map, false);
      if (pin == maps.end()) continue; // no program that was pinned uses it
      const MapUse use = map_use_for_type(bpf_map__type(map));
      described.pin_problem = std::move(pin->problem);
      described.pinned_id = pin->id;
      described.is_buffer = is_buffer(use);
      continue;
    }
    if (const int error = bpf_map__reuse_fd(map, pin->fd.get()); error != 0)
      return fail(system_error(-error, pin->path));
    described.fd = bpf_map__fd(map);
    described.is_of_pin = true;
  }
  return {};
}

void BpfObject::set_kind(std::string_view program, ProgramKind kind) {
  for (ObjectProgram& each : state_->programs) {
    if (each.name != program) continue;
    each.loaded.kind = kind;
    if (kind == ProgramKind::session) each.kind = SectionKind::uprobe_session;
  }
}

void BpfObject::use_for_uprobes(std::string_view program) {
  for (ObjectProgram& each : state_->programs)
    if (each.name == program && each.is_kprobe) each.kind = SectionKind::uprobe;
}

BpfObject BpfObject::of_pins(std::string path, std::vector<ObjectProgram> programs) {
  auto state = std::make_unique<State>();
  state->path = std::move(path);
  state->programs = std::move(programs);
  return BpfObject(std::move(state));
}

BpfObject::BpfObject(std::unique_ptr<State> state) : state_(std::move(state)) {}
BpfObject::BpfObject(BpfObject&&) noexcept = default;
BpfObject& BpfObject::operator=(BpfObject&&) noexcept = default;
BpfObject::~BpfObject() = default;

const std::string& BpfObject::name() const { return state_->name; }
const std::string& BpfObject::verifier_log() const { return state_->log; }
std::span<const ObjectProgram> BpfObject::programs() const { return state_->programs; }
std::span<const ObjectMap> BpfObject::maps() const { return state_->maps; }

Result<BpfObject> BpfObject::open(const MappedFile& file, const MappedFile* kernel_types) {
  const std::string& path = file.path();
  const auto bytes = read_object(file);
  if (!bytes) return fail(bytes.error());
  auto state = std::make_unique<State>();
  state->path = path;
  state->name = base_name(path);
  state->log.resize(log_size);
  std::string types_path;
  if (kernel_types != nullptr) {
    auto copy = copy_kernel_types(*kernel_types);
    if (!copy) return fail(std::move(copy).error());
    state->kernel_types = std::move(*copy);
    types_path = fmt::format("/proc/self/fd/{}", state->kernel_types.get());
  }
  const LibbpfLog libbpf_log;
  // The name that libbpf derives from the file; the maps of global variables begin with it.
  const std::string file_name = path.substr(path.rfind('/') + 1);
  const std::string object_name = file_name.substr(0, file_name.find('.'));
  LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = object_name.c_str(),
              .btf_custom_path = types_path.empty() ? nullptr : types_path.c_str(),
              .kernel_log_buf = state->log.data(), .kernel_log_size = state->log.size());
  state->object.reset(bpf_object__open_mem(bytes->data(), bytes->size(), &options));
  if (!state->object) return fail(open_error(path, errno, libbpf_log.cause()));
  const std::vector<std::string> tail_calls = list_map_programs(*bytes);
  bpf_map* map = nullptr;
  bool has_struct_ops = false;
  bpf_object__for_each_map(map, state->object.get()) {
    if (bpf_map__type(map) == BPF_MAP_TYPE_STRUCT_OPS) has_struct_ops = true;
  }
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, state->object.get()) {
    ObjectProgram described =
        classify_section(bpf_program__name(program), bpf_program__section_name(program));
    described.is_optional = !bpf_program__autoload(program);
    described.is_tail_call = std::ranges::find(tail_calls, described.name) != tail_calls.end();
    described.can_be_attached =
        described.kind != SectionKind::other || has_attachable_type(program);
    described.load_problem = find_load_problem(program, described);
    described.is_struct_ops =
        has_struct_ops && bpf_program__type(program) == BPF_PROG_TYPE_STRUCT_OPS;
    described.overrides_returns = calls_helper(program, BPF_FUNC_override_return);
    described.reads_function_address = calls_helper(program, BPF_FUNC_get_func_ip);
    state->programs.push_back(std::move(described));
  }
  bpf_object__for_each_map(map, state->object.get()) {
    complete_map(map);
    state->maps.push_back({.name = bpf_map__name(map),
                           .key_type = bpf_map__btf_key_type_id(map),
                           .value_type = bpf_map__btf_value_type_id(map)});
  }
  if (state->programs.empty())
    return fail(ErrorKind::not_found, path + ": the object has no BPF program");
  return BpfObject(std::move(state));
}

Result<void> BpfObject::load(const ObjectLoading& loading) {
  if (!state_->object) return {};
  if (auto enough = prepare_limits(); !enough) return fail(std::move(enough).error());
  const LibbpfLog libbpf_log;
  bpf_program* program = nullptr;
  std::size_t index = 0;
  bpf_object__for_each_program(program, state_->object.get()) {
    ObjectProgram& described = state_->programs[index++];
    complete_type(program, described, loading);
    const bool is_named = std::ranges::find(loading.only, described.name) != loading.only.end();
    const bool is_wanted = is_named || (loading.only.empty() && !described.is_optional &&
                                        described.load_problem.empty());
    bpf_program__set_autoload(program, is_wanted || described.is_always_loaded());
  }
  index = 0;
  std::vector<bpf_map*> sized_by_object; // or by us
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, state_->object.get()) {
    if (auto valid = check_map_type(map, state_->path); !valid) return valid;
    ObjectMap& described = state_->maps[index++];
    described.wanted_pin = take_wanted_pin(map);
    described.is_of_pin = described.is_of_pin || bpf_map__pin_path(map) != nullptr;
    described.chosen_size = choose_map_size(map);
    described.size_in_bytes = bpf_map__type(map) == BPF_MAP_TYPE_RINGBUF;
    if (described.chosen_size) bpf_map__set_max_entries(map, *described.chosen_size);
    if (!described.size_is_requested) sized_by_object.push_back(map);
  }
  if (auto checked = check_map_memory(sized_by_object, state_->path); !checked) return checked;
  const int error = bpf_object__load(state_->object.get());
  state_->log.resize(state_->log.find('\0'));
  if (error != 0) {
    const std::string verifier = find_rejection(state_->log);
    if (!verifier.empty() && -error != EPERM && -error != ESRCH && !is_shortage(-error)) {
      Error rejected{ErrorKind::unsupported, state_->path + ": rejected by the kernel's verifier"};
      if (const std::string helper = unknown_helper(state_->log); !helper.empty())
        rejected.hints.push_back("this kernel does not have the helper " + helper);
      if (verifier.contains("invalid CO-RE relocation"))
        rejected.hints.emplace_back("the kernel's types do not have one that the object reads: "
                                    "--btf FILE has others");
      return fail(std::move(rejected).hint("the verifier said: " + verifier));
    }
    const std::string cause = libbpf_log.cause();
    if (error == -EINVAL)
      if (auto missing = state_->find_missing_type()) return fail(std::move(*missing));
    return fail(bpf_load_error(-error, state_->path + ": cannot be loaded", state_->log, cause));
  }
  index = 0;
  bpf_object__for_each_program(program, state_->object.get()) {
    ObjectProgram& described = state_->programs[index++];
    if (!described.loaded.loaded_by_us) continue;
    described.loaded.fd = bpf_program__autoload(program) ? bpf_program__fd(program) : -1;
    described.has_private_stack =
        described.loaded.fd >= 0 && gets_private_stack(program, described);
  }
  index = 0;
  bpf_object__for_each_map(map, state_->object.get()) state_->maps[index++].fd = bpf_map__fd(map);
  return state_->make_entries();
}

Result<Bytes> BpfObject::type_information() const {
  const btf* const types = state_->object ? bpf_object__btf(state_->object.get()) : nullptr;
  std::uint32_t size = 0;
  const void* const blob = types == nullptr ? nullptr : btf__raw_data(types, &size);
  if (blob == nullptr)
    return fail(
        Error{ErrorKind::not_found, state_->path + ": the object has no BTF type information"}.hint(
            "compile it with -g"));
  return Bytes{static_cast<const std::byte*>(blob), size};
}

Result<std::set<std::uint32_t>> find_used_maps(const BpfObject& object) {
  std::set<std::uint32_t> used;
  for (const ObjectProgram& program : object.programs()) {
    if (program.loaded.fd < 0) continue;
    const auto ids = list_map_ids(program.loaded.fd);
    if (!ids) return fail(ids.error());
    used.insert(ids->begin(), ids->end());
  }
  return used;
}

void ObjectLink::Destroy::operator()(bpf_link* link) const { bpf_link__destroy(link); }

Result<std::optional<ObjectLink>> BpfObject::attach_by_section(std::string_view program) const {
  const std::string name(program);
  const LibbpfLog libbpf_log;
  bpf_link* const link =
      bpf_program__attach(bpf_object__find_program_by_name(state_->object.get(), name.c_str()));
  if (link != nullptr) return ObjectLink(link);
  if (errno == EOPNOTSUPP) return std::nullopt;
  Error error = bpf_load_error(errno, "the kernel does not attach it");
  const std::string cause = libbpf_log.cause();
  return fail(cause.empty() ? std::move(error) : std::move(error).hint("libbpf said: " + cause));
}

} // namespace uprobectl::bpf
