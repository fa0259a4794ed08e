// SPDX-License-Identifier: Apache-2.0
#include "trace/self_checks.hpp"

#include "binary/binary.hpp"
#include "elf/self_check.hpp"
#include "trace/process_code.hpp"
#include "trace/skipped_probes.hpp"

#include <fmt/format.h>
#include <map>
#include <set>

namespace uprobectl::trace {

namespace {

constexpr std::string_view self_check_reason =
    "a program that starts compares this code with its hash (FIPS integrity test) and would end "
    "itself";

class SelfChecks {
public:
  SelfChecks(bool programs_may_start, output::Output& output)
      : programs_may_start_(programs_may_start), output_(output) {}

  std::optional<SiteProblem> find(const Probe& probe, const PlannedSite& site) {
    const resolve::ProbePoint& point = probe.point;
    const std::optional<elf::SelfCheck>& check = check_of(point);
    if (!check) return std::nullopt;
    const std::string file = to_string(point.binary->path);
    if (check->kind == elf::SelfCheckKind::go) {
      // The linker puts the code of these packages together, and the program hashes it.
      const bool may_be_hashed =
          !point.symbol || point.symbol->starts_with("crypto/internal/fips140");
      if (programs_may_start_ && may_be_hashed)
        warn(point, fmt::format("{}: a Go program that starts in FIPS mode (GODEBUG=fips140) ends "
                                "itself if there are probes in its cryptographic code: '{}' may "
                                "be there",
                                file, display_name(point)));
      return std::nullopt;
    }
    if (!check->code) {
      warn(point, fmt::format("{}: it compares part of its code with a hash (FIPS integrity test), "
                              "and a program that starts or repeats the test ends itself if there "
                              "are probes: which part is not known, because the file is stripped",
                              file));
      return std::nullopt;
    }
    if (!contains(*check->code, point, site)) return std::nullopt;
    if (!programs_may_start_) {
      warn(point, fmt::format("{}: '{}' is in code that the program compares with its hash (FIPS "
                              "integrity test): it ends itself if it repeats the test during the "
                              "run",
                              file, display_name(point)));
      return std::nullopt;
    }
    return SiteProblem{
        Error{ErrorKind::unsupported, fmt::format("{}: '{}' cannot be probed: {}", file,
                                                  display_name(point), self_check_reason)}
            .hint("probe processes that run already by their pids: -p PID"),
        std::string(self_check_reason)};
  }

private:
  // A file whose range is not known may have it in its debug file.
  const std::optional<elf::SelfCheck>& check_of(const resolve::ProbePoint& point) {
    const auto [known, is_new] = checks_.try_emplace(point.binary.get());
    binary::Binary* const file = point.binary->contents.get();
    if (!is_new || file == nullptr) return known->second;
    known->second = elf::find_self_check(file->image());
    if (known->second && known->second->kind != elf::SelfCheckKind::go && !known->second->code) {
      file->complete_symbols();
      known->second = elf::find_self_check(file->image());
    }
    return known->second;
  }

  static bool contains(const elf::AddressRange& code, const resolve::ProbePoint& point,
                       const PlannedSite& site) {
    const elf::Image& image = point.binary->contents->image();
    const std::uint64_t offset = site_offset(point, site).value - image.entry_data().value;
    const auto address = image.to_address(ImageOffset{offset});
    return address && address->value - code.address.value < code.size;
  }

  void warn(const resolve::ProbePoint& point, const std::string& text) {
    if (warned_.insert(point.binary.get()).second) output_.warn_once(text);
  }

  bool programs_may_start_;
  output::Output& output_;
  std::map<const resolve::ProbedBinary*, std::optional<elf::SelfCheck>> checks_;
  std::set<const resolve::ProbedBinary*> warned_;
};

} // namespace

void skip_self_checked(ResolvedProbes& resolved, bool programs_may_start, output::Output& output) {
  SelfChecks checks(programs_may_start, output);
  skip_probes(
      resolved,
      [&](const Probe& probe, const PlannedSite& site) { return checks.find(probe, site); },
      output);
}

} // namespace uprobectl::trace
