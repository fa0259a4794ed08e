#include "bpf/descriptor_limit.hpp"
#include "bpf/libbpf_log.hpp"
#include "bpf/link_create.hpp"
#include "bpf/object_state.hpp"
#include "bpf/permission.hpp"
#include "bpf/verifier_log.hpp"

#include <algorithm>
#include <array>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <linux/bpf.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace uprobectl {

namespace {

constexpr std::size_t log_size = 1U << 20;

std::string base_name(std::string_view path) {
  std::string name(path.substr(path.rfind('/') + 1));
  for (const std::string_view ending : {".o", ".bpf"})
    if (name.ends_with(ending) && name.size() > ending.size())
      name.resize(name.size() - ending.size());
  return name;
}

// A regular file that can be read: libbpf says only "invalid argument" to much else.
Result<void> check_file(const std::string& path) {
  const UniqueFd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)};
  if (!file) return fail(system_error(errno, path));
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return fail(system_error(errno, path));
  if (!S_ISREG(status.st_mode)) return fail(ErrorKind::not_elf, path + ": not a regular file");
  return {};
}

Error open_error(const std::string& path, int errnum, const std::string& cause) {
  if (cause.find("legacy map definitions") != std::string::npos)
    return Error{ErrorKind::unsupported, path + ": it defines maps the old way, in SEC(\"maps\")"}
        .hint("libbpf 1.0 ended that: define them in SEC(\".maps\") with their BTF types");
  Error error{ErrorKind::not_elf, path + ": not a BPF object file"};
  if (errnum == ENOENT && cause.empty()) return system_error(errnum, path);
  return cause.empty() ? error : std::move(error).hint("libbpf said: " + cause);
}

ProgramKind kind_of_section(SectionKind kind) {
  switch (kind) {
  case SectionKind::uprobe_multi:
    return ProgramKind::multi;
  case SectionKind::uprobe_session:
    return ProgramKind::session;
  case SectionKind::uprobe:
  case SectionKind::other:
    break;
  }
  return ProgramKind::plain;
}

// Debian's libbpf 1.1.2 does not know the multi, session and sleepable usdt sections and would load
// them as no type at all. Nor may it attach them.
void complete_type(bpf_program* program, ObjectProgram& described, const ObjectLoading& loading) {
  if (described.kind == SectionKind::other) return;
  ProgramKind kind = kind_of_section(described.kind);
  if (loading.kind && kind != ProgramKind::session) kind = *loading.kind;
  described.loaded.kind = kind;
  bpf_program__set_type(program, BPF_PROG_TYPE_KPROBE);
  bpf_program__set_expected_attach_type(program,
                                        static_cast<bpf_attach_type>(expected_attach_type(kind)));
  bpf_program__set_autoattach(program, false);
  if (described.sleepable)
    bpf_program__set_flags(program, bpf_program__flags(program) | BPF_F_SLEEPABLE);
}

} // namespace

ObjectProgram classify_section(std::string_view name, std::string_view section) {
  ObjectProgram program{.name = std::string(name), .section = std::string(section)};
  std::string_view kind = section.substr(0, section.find('/'));
  if (kind.ends_with(".s")) {
    program.sleepable = true;
    kind.remove_suffix(2);
  }
  program.on_return = kind.starts_with("uretprobe");
  if (kind == "uprobe" || kind == "uretprobe" || kind == "usdt")
    program.kind = SectionKind::uprobe;
  else if (kind == "uprobe.multi" || kind == "uretprobe.multi")
    program.kind = SectionKind::uprobe_multi;
  else if (kind == "uprobe.session")
    program.kind = SectionKind::uprobe_session;
  else
    program.sleepable = false; // libbpf's business
  return program;
}

std::optional<SectionPlace> place_of_section(const ObjectProgram& program) {
  const auto slash = program.section.find('/');
  if (program.kind == SectionKind::other || slash == std::string::npos) return std::nullopt;
  // The first colon ends FILE, as with libbpf: the names of C++ functions have more of them.
  const std::string place = program.section.substr(slash + 1);
  const auto colon = place.find(':');
  if (colon == 0 || colon == std::string::npos || colon + 1 == place.size()) return std::nullopt;
  return SectionPlace{.target = place.substr(0, colon), .function = place.substr(colon + 1)};
}

BpfObject::BpfObject(std::unique_ptr<State> state) : state_(std::move(state)) {}
BpfObject::BpfObject(BpfObject&&) noexcept = default;
BpfObject& BpfObject::operator=(BpfObject&&) noexcept = default;
BpfObject::~BpfObject() = default;

const std::string& BpfObject::name() const { return state_->name; }
const std::string& BpfObject::verifier_log() const { return state_->log; }
std::span<const ObjectProgram> BpfObject::programs() const { return state_->programs; }
std::span<const ObjectMap> BpfObject::maps() const { return state_->maps; }

namespace {

// libbpf believes what an object says of its types and relocations, and some damaged objects end
// the process that hands them to it. So a child does it first: what it does not survive is not done
// here.
bool survives(const std::function<void()>& work) {
  constexpr std::array crashes = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGXCPU};
  const pid_t child = ::fork();
  if (child < 0) return true; // without a child nothing is known
  if (child == 0) {
    const rlimit no_core{};
    ::setrlimit(RLIMIT_CORE, &no_core);
    for (const int signal : crashes) std::signal(signal, SIG_DFL);
    // Seconds of processor time: an endless loop ends with SIGXCPU.
    const rlimit seconds{.rlim_cur = 60, .rlim_max = 61};
    ::setrlimit(RLIMIT_CPU, &seconds);
    libbpf_set_print(nullptr);
    work();
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return true;
  return !WIFSIGNALED(status) || std::ranges::find(crashes, WTERMSIG(status)) == crashes.end();
}

Error damaged(const std::string& path) {
  return Error{ErrorKind::corrupt, path + ": damaged: libbpf crashes on its types or relocations"}
      .hint("compile it again");
}

} // namespace

Result<BpfObject> BpfObject::open(const std::string& path) {
  if (auto checked = check_file(path); !checked) return fail(std::move(checked).error());
  auto state = std::make_unique<State>();
  state->path = path;
  state->name = base_name(path);
  state->log.resize(log_size);
  const LibbpfLog said;
  LIBBPF_OPTS(bpf_object_open_opts, options, .kernel_log_buf = state->log.data(),
              .kernel_log_size = state->log.size());
  if (!survives([&] { bpf_object__close(bpf_object__open_file(path.c_str(), &options)); }))
    return fail(damaged(path));
  state->object.reset(bpf_object__open_file(path.c_str(), &options));
  if (!state->object) return fail(open_error(path, errno, said.cause()));
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, state->object.get()) {
    state->programs.push_back(
        classify_section(bpf_program__name(program), bpf_program__section_name(program)));
  }
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, state->object.get())
      state->maps.push_back({.name = bpf_map__name(map)});
  if (state->programs.empty())
    return fail(ErrorKind::not_found, path + ": there is no program in it");
  return BpfObject(std::move(state));
}

Result<void> BpfObject::load(const ObjectLoading& loading) {
  if (auto enough = check_free_descriptors(); !enough) return fail(std::move(enough).error());
  const LibbpfLog said;
  bpf_program* program = nullptr;
  std::size_t index = 0;
  bpf_object__for_each_program(program, state_->object.get()) {
    ObjectProgram& described = state_->programs[index++];
    complete_type(program, described, loading);
    if (!loading.only.empty() &&
        std::ranges::find(loading.only, described.name) == loading.only.end())
      bpf_program__set_autoload(program, false);
  }
  if (!survives([&] { static_cast<void>(bpf_object__load(state_->object.get())); }))
    return fail(damaged(state_->path));
  const int error = bpf_object__load(state_->object.get());
  state_->log.resize(state_->log.find('\0'));
  if (error != 0) {
    const std::string verifier = last_lines(state_->log, 3);
    if (!verifier.empty() && (-error == EACCES || -error == EINVAL))
      return fail(
          Error{ErrorKind::unsupported, state_->path + ": the kernel's verifier refuses it"}.hint(
              "the verifier said: " + verifier));
    return fail(
        bpf_load_error(-error, state_->path + ": cannot be loaded", state_->log, said.cause()));
  }
  index = 0;
  bpf_object__for_each_program(program, state_->object.get()) state_->programs[index++].loaded.fd =
      bpf_program__autoload(program) ? bpf_program__fd(program) : -1;
  index = 0;
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, state_->object.get()) state_->maps[index++].fd = bpf_map__fd(map);
  return {};
}

Result<DataTypes> BpfObject::types() const {
  const btf* const types = bpf_object__btf(state_->object.get());
  std::uint32_t size = 0;
  const void* const blob = types == nullptr ? nullptr : btf__raw_data(types, &size);
  if (blob == nullptr)
    return fail(Error{ErrorKind::not_found, state_->path + ": there are no types in it"}.hint(
        "compile it with -g"));
  return DataTypes::parse({static_cast<const std::byte*>(blob), size});
}

void ObjectLink::Destroy::operator()(bpf_link* link) const { bpf_link__destroy(link); }

Result<ObjectLink> BpfObject::attach_by_section(std::string_view program) const {
  const std::string name(program);
  const LibbpfLog said;
  bpf_link* const link =
      bpf_program__attach(bpf_object__find_program_by_name(state_->object.get(), name.c_str()));
  if (link != nullptr) return ObjectLink(link);
  Error error = bpf_load_error(errno, state_->path + ": program '" + name + "' cannot be attached");
  const std::string cause = said.cause();
  return fail(cause.empty() ? std::move(error) : std::move(error).hint("libbpf said: " + cause));
}

} // namespace uprobectl
