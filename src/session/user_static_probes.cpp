#include "session/user_static_probes.hpp"

#include "events/static_arguments.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace uprobectl {

Result<void> UserStaticProbes::load(std::span<const UserMap> maps,
                                    std::span<const ProbePoint> points, std::uint64_t cookie,
                                    bool hands_over_cookie) {
  specs_.reset(); // before it is filled again
  cookies_.assign(points.size(), std::nullopt);
  cautions_.clear();
  const auto table = std::ranges::find_if(maps, UsdtSpecs::is_table);
  if (table == maps.end()) return {};
  if (std::ranges::none_of(points,
                           [](const ProbePoint& point) { return point.static_probe != nullptr; }))
    return {};
  if (!hands_over_cookie)
    return fail(Error{ErrorKind::unsupported,
                      "without cookies the program cannot tell where its arguments are"}
                    .hint("they came with Linux 5.15; use --mechanism multi or perf"));
  auto specs = UsdtSpecs::open(*table);
  if (!specs) return fail(std::move(specs).error());
  specs_ = std::move(*specs);
  return add(points, cookie);
}

Result<void> UserStaticProbes::add(std::span<const ProbePoint> points, std::uint64_t cookie) {
  std::map<std::string, std::uint32_t> known; // places with the same arguments share an entry
  for (std::size_t i = 0; i < points.size(); ++i) {
    const ProbePoint& point = points[i];
    if (!point.static_probe) continue;
    const StaticPlace place{.probe = point.static_probe.get(), .address = point.address};
    const bool is_64bit = point.binary->machine.is_64bit;
    const auto [entry, is_new] = known.try_emplace((is_64bit ? "64 " : "32 ") + reading_key(place));
    if (is_new) {
      UsdtSpecs::Spec spec{.arguments = readings_of(place), .cookie = cookie};
      for (std::size_t n = 0; n < spec.arguments.size(); ++n) {
        std::optional<reading>& argument = spec.arguments[n];
        if (!argument) {
          add_caution(point, n, unreadable(place.probe->arguments[n]));
        } else if (!specs_->can_tell(*argument, is_64bit)) {
          add_caution(point, n, "the usdt.bpf.h of this program cannot say where it is");
          argument.reset();
        }
      }
      const auto added = specs_->add(spec);
      if (!added) return fail(Error(added.error()).within(display_name(point)));
      entry->second = *added;
    }
    cookies_[i] = entry->second;
  }
  return {};
}

void UserStaticProbes::add_caution(const ProbePoint& point, std::size_t argument,
                                   std::string_view problem) {
  cautions_.push_back(
      {.problem = std::string(problem),
       .text = fmt::format("{}: arg{} cannot be read ({}: {}), bpf_usdt_arg() fails for it",
                           display_name(point), argument,
                           point.static_probe->arguments[argument].raw, problem)});
}

void UserStaticProbes::tell_cautions(const Reporter& reporter) const {
  for (const Caution& caution : cautions_) reporter.gathered_warning(caution.problem, caution.text);
}

std::optional<std::uint64_t> UserStaticProbes::cookie(std::size_t point) const {
  return cookies_[point];
}

} // namespace uprobectl
