// SPDX-License-Identifier: Apache-2.0
#include "uprobectl/util.hpp"
#include "util/text.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <sys/resource.h>

namespace uprobectl {

std::string_view code(ErrorKind kind) {
  switch (kind) {
  case ErrorKind::usage:
    return "usage";
  case ErrorKind::not_found:
    return "not_found";
  case ErrorKind::ambiguous:
    return "ambiguous";
  case ErrorKind::imported:
    return "imported";
  case ErrorKind::no_code:
    return "no_code";
  case ErrorKind::compressed:
    return "compressed";
  case ErrorKind::encrypted:
    return "encrypted";
  case ErrorKind::misaligned:
    return "misaligned";
  case ErrorKind::duplicated:
    return "duplicated";
  case ErrorKind::wrong_machine:
    return "wrong_machine";
  case ErrorKind::not_elf:
    return "not_elf";
  case ErrorKind::not_archive:
    return "not_archive";
  case ErrorKind::corrupt:
    return "corrupt";
  case ErrorKind::out_of_range:
    return "out_of_range";
  case ErrorKind::not_permitted:
    return "not_permitted";
  case ErrorKind::unsupported:
    return "unsupported";
  case ErrorKind::io:
    return "io";
  case ErrorKind::interrupted:
    return "interrupted";
  }
  return "io";
}

Error Error::within(std::string_view subject) && {
  message.insert(0, std::string(subject) + ": ");
  return std::move(*this);
}

Error Error::hint(std::string text) && {
  hints.push_back(std::move(text));
  return std::move(*this);
}

namespace {

std::string descriptor_limit_hint() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return "raise the limit of open files: ulimit -n";
  return fmt::format("the limit of open files is {}: raise it with ulimit -n, as root above {}",
                     limit.rlim_cur, limit.rlim_max);
}

} // namespace

Error system_error(int errnum, std::string_view what) {
  ErrorKind kind = ErrorKind::io;
  if (errnum == ENOENT || errnum == ENOTDIR || errnum == ESRCH) kind = ErrorKind::not_found;
  if (errnum == EACCES || errnum == EPERM) kind = ErrorKind::not_permitted;
  std::string reason = strerror(errnum);
  // Lower the first letter of "Is a directory", but not of "I/O error".
  if (reason.size() > 1 && reason[1] >= 'a' && reason[1] <= 'z') reason[0] = lower_case(reason[0]);
  Error error{kind, std::string(what) + ": " + reason};
  if (errnum == EMFILE) return std::move(error).hint(descriptor_limit_hint());
  if (errnum == ENFILE)
    return std::move(error).hint(
        "raise the limit of open files of the whole system: sysctl fs.file-max");
  if (errnum == ENOMEM)
    return std::move(error).hint(
        "raise the limit of memory: ulimit -v, or memory.max of the control group");
  return error;
}

} // namespace uprobectl
