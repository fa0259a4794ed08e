#include "uprobectl/bpf/pinned.hpp"

#include "bpf/link_create.hpp"
#include "bpf/permission.hpp"

#include <array>
#include <bpf/bpf.h>
#include <cerrno>
#include <linux/bpf.h>
#include <unistd.h>

namespace uprobectl {

namespace {

// A multi link to "/", which is no regular file, is refused with EBADF only after the program has
// been found to be for such links; else with EINVAL. Nothing is ever placed.
bool is_for_multi_links(int program, ProgramKind kind) {
  return impossible_multi_link_error(program, expected_attach_type(kind), 0) == EBADF;
}

std::optional<ProgramKind> kind_of(int program, const KernelFeatures& features) {
  if (features.uprobe_multi && is_for_multi_links(program, ProgramKind::multi))
    return ProgramKind::multi;
  // A link to no perf event: refused with EBADF where it is the event that is missed.
  const auto perf = create_perf_event_link(program, -1, 0);
  if (!perf && perf.error() == EBADF) return ProgramKind::plain;
  if (features.uprobe_session && is_for_multi_links(program, ProgramKind::session))
    return ProgramKind::session;
  if (!features.perf_link && !features.uprobe_multi)
    return ProgramKind::plain; // a kernel older than all other kinds
  return std::nullopt;
}

std::string name_of_descriptor(int fd) {
  std::array<char, 64> text{};
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t size = ::readlink(path.c_str(), text.data(), text.size());
  return {text.data(), size < 0 ? 0 : static_cast<std::size_t>(size)};
}

} // namespace

Result<UniqueFd> open_pin(const std::string& path, std::string_view what) {
  UniqueFd fd{::bpf_obj_get(path.c_str())};
  if (!fd && errno == EACCES)
    return fail(Error{ErrorKind::not_permitted, path + ": this user may not use the pin"}.hint(
        "its mode and owner say who may: ls -l " + path));
  if (!fd && errno == EPERM) return fail(bpf_load_error(errno, path));
  if (!fd && errno == EINVAL)
    return fail(ErrorKind::unsupported, path + ": nothing pinned, not in a bpf file system");
  if (!fd) return fail(system_error(errno, path));
  const bool is_map = name_of_descriptor(fd.get()) == "anon_inode:bpf-map";
  const bool is_program = name_of_descriptor(fd.get()) == "anon_inode:bpf-prog";
  if ((what == "map" && !is_map) || (what == "program" && !is_program))
    return fail(ErrorKind::unsupported, path + ": this pin is no " + std::string(what));
  return fd;
}

Result<PinnedProgram> PinnedProgram::open(const std::string& path, const KernelFeatures& features) {
  auto fd = open_pin(path, "program");
  if (!fd) return fail(std::move(fd).error());
  bpf_prog_info info{};
  std::uint32_t size = sizeof(info);
  if (::bpf_obj_get_info_by_fd(fd->get(), &info, &size) != 0)
    return fail(bpf_load_error(errno, path + ": cannot ask about the program"));
  if (info.type != BPF_PROG_TYPE_KPROBE)
    return fail(ErrorKind::unsupported, path + ": the program is not of the type for uprobes");
  const auto kind = kind_of(fd->get(), features);
  if (!kind)
    return fail(ErrorKind::unsupported,
                path + ": this kernel attaches the program to no uprobe, whatever the mechanism");
  PinnedProgram program;
  program.fd_ = std::move(*fd);
  program.name_.assign(info.name, ::strnlen(info.name, sizeof(info.name)));
  program.kind_ = *kind;
  program.btf_id_ = info.btf_id;
  return program;
}

RunCounting RunCounting::start() {
  RunCounting counting;
  counting.enabled_ = UniqueFd{::bpf_enable_stats(BPF_STATS_RUN_TIME)};
  return counting;
}

std::optional<std::uint64_t> RunCounting::runs(int program) const {
  bpf_prog_info info{};
  std::uint32_t size = sizeof(info);
  if (!enabled_ || ::bpf_obj_get_info_by_fd(program, &info, &size) != 0) return std::nullopt;
  return info.run_cnt;
}

} // namespace uprobectl
