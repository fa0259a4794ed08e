#include "session/counted.hpp"
#include "session/report.hpp"

#include <fmt/format.h>

namespace uprobectl {

namespace {

// "2 processes and all named 'nginx'"
std::string named_processes(const AttachRequest& request) {
  std::string names;
  for (std::size_t i = 0; i < request.names.size(); ++i)
    names += fmt::format("{}'{}'",
                         i == 0                          ? ""
                         : i + 1 == request.names.size() ? " or "
                                                         : ", ",
                         request.names[i]);
  if (request.pids.empty()) return "all processes named " + names;
  return fmt::format("{} and all named {}", counted(request.pids.size(), "process", "processes"),
                     names);
}

// "all processes", "2 processes and their children", "all processes of user 1000"
std::string processes_of(const AttachRequest& request) {
  if (request.all_processes) return "all processes";
  const bool any = !request.pids.empty() || !request.names.empty();
  std::string text = !any                    ? "all processes"
                     : request.names.empty() ? counted(request.pids.size(), "process", "processes")
                                             : named_processes(request);
  if (!request.command.empty()) text = fmt::format("'{}'", request.command.front());
  if (request.follow) {
    const bool one = request.names.empty() && request.pids.size() == 1;
    text += one ? " and its children" : " and their children";
  }
  if (request.target_options.app) text += " of " + *request.target_options.app;
  if (request.user) text += fmt::format(" of user {}", *request.user);
  if (request.cgroup) text += " in " + *request.cgroup;
  return text;
}

} // namespace

std::string format_duration(std::chrono::nanoseconds duration) {
  using namespace std::chrono;
  const auto ns = duration.count();
  const auto with_unit = [&](std::int64_t unit, std::string_view name) {
    std::string text = fmt::format("{:.3f}", static_cast<double>(ns) / static_cast<double>(unit));
    while (text.ends_with('0')) text.pop_back();
    if (text.ends_with('.')) text.pop_back();
    return text + std::string(name);
  };
  constexpr std::int64_t second = 1'000'000'000;
  if (ns >= 60 * second && ns % (60 * second) == 0) return with_unit(60 * second, "m");
  if (ns >= second) return with_unit(second, "s");
  if (ns >= 1'000'000) return with_unit(1'000'000, "ms");
  if (ns >= 1000) return with_unit(1000, "us");
  return with_unit(1, "ns");
}

namespace {

// "3 functions", "1 static probe at 4 places"
std::string probes_of(const ProbeTotals& totals) {
  if (totals.static_places == 0) return counted(totals.probes, "function", "functions");
  return counted(totals.probes, "static probe", "static probes") + " at " +
         counted(totals.static_places, "place", "places");
}

} // namespace

std::string start_line(const AttachRequest& request, const ProbeTotals& totals,
                       std::size_t others) {
  std::string what = probes_of(totals);
  if (others > 0) what += fmt::format(" and running {}", counted(others, "program", "programs"));
  const std::string where = processes_of(request);
  if (request.duration)
    return fmt::format("probing {} in {} for {} (ctrl-c ends earlier, -d forever)", what, where,
                       format_duration(*request.duration));
  if (!request.command.empty())
    return fmt::format("probing {} in {} until {}", what, where,
                       request.follow ? "the last has ended" : "it ends");
  return fmt::format("probing {} in {} until ctrl-c", what, where);
}

} // namespace uprobectl
