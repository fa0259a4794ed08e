#include "bpf/event_source.hpp"

#include "util/numbers.hpp"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace uprobectl {

namespace {

Result<std::string> read_sysfs(const std::string& name) {
  const std::string path = "/sys/bus/event_source/devices/uprobe/" + name;
  const UniqueFd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!fd) return fail(system_error(errno, path));
  char text[64];
  const ssize_t size = ::read(fd.get(), text, sizeof(text));
  if (size < 0) return fail(system_error(errno, path));
  return std::string(text, static_cast<std::size_t>(size));
}

std::optional<std::uint32_t> leading_number(std::string_view text) {
  return take_number<std::uint32_t>(text);
}

} // namespace

Result<UprobeEventSource> read_uprobe_event_source() {
  const auto type = read_sysfs("type");
  if (!type) return fail(type.error());
  const auto format = read_sysfs("format/retprobe"); // "config:0"
  if (!format) return fail(format.error());
  constexpr std::string_view field = "config:";
  const auto lowest_bit = [&](std::string_view text) {
    return text.starts_with(field) ? leading_number(text.substr(field.size())) : std::nullopt;
  };
  const auto number = leading_number(*type);
  const auto bit = lowest_bit(*format);
  if (!number || !bit || *bit > 63)
    return fail(ErrorKind::unsupported, "the kernel describes its uprobe perf events as type '" +
                                            *type + "', retprobe '" + *format + "'");
  UprobeEventSource source{.type = *number, .return_flag = 1ULL << *bit};
  const auto semaphore = read_sysfs("format/ref_ctr_offset"); // "config:32-63"
  if (semaphore) source.semaphore_shift = lowest_bit(*semaphore);
  if (source.semaphore_shift > 63) source.semaphore_shift.reset();
  return source;
}

} // namespace uprobectl
