#include "session/returns.hpp"

#include "session/counted.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace uprobectl {

namespace {

// "f leaves by 3 jumps to g, h or through a register: those returns are not seen"
void warn_of_tail_calls(const ProbePoint& point, const FunctionReturns& returns,
                        const Reporter& reporter) {
  if (returns.tail_calls.empty()) return;
  constexpr std::size_t most_names = 5;
  std::set<std::string> callees;
  bool somewhere = false;
  for (const FunctionReturns::TailCall& call : returns.tail_calls)
    if (call.callee)
      callees.insert(*call.callee);
    else
      somewhere = true;
  std::vector<std::string> names;
  for (const std::string& callee : callees) {
    if (names.size() == most_names) {
      names.back() = fmt::format("{} others", callees.size() - most_names + 1);
      break;
    }
    names.push_back(callee);
  }
  if (somewhere) names.emplace_back("where a register or memory says");
  const std::size_t count = returns.tail_calls.size();
  reporter.warning(fmt::format(
      "{}: it also leaves by {} ({}), and what returns from there is not seen", display_name(point),
      count == 1 ? "a tail call" : fmt::format("{} tail calls", count), fmt::join(names, ", ")));
}

class ReturnPlanner {
public:
  ReturnPlanner(const AttachRequest& request, CodeReaders& readers, const Reporter& reporter)
      : request_(request), readers_(readers), reporter_(reporter) {}

  // Empty: by the kernel's return probe.
  Result<std::vector<FileOffset>> instructions_of(const ProbePoint& point) {
    const auto reader = readers_.reader_of(point);
    const bool is_java =
        point.java != nullptr || (reader && (*reader)->language_of(point) == CodeLanguage::java);
    if (request_.return_at == ReturnAt::trampoline) {
      if (!is_java && !reader && may_be_java(point)) return fail(reader.error());
      if (!is_java) return {};
      return fail(Error{ErrorKind::unsupported,
                        display_name(point) + ": ART reads the return addresses on the stack, and "
                                              "would end the app over one that a probe replaced"}
                      .hint("probe its return instructions: --return-at ret"));
    }
    if (!reader) {
      if (is_java) return fail(java_without_instructions(reader.error()));
      if (request_.return_at == ReturnAt::automatic && !may_be_java(point)) return {};
      return fail(reader.error());
    }
    const CodeLanguage language = (*reader)->language_of(point);
    if (request_.return_at == ReturnAt::automatic && language == CodeLanguage::other) return {};
    auto returns = (*reader)->returns(point);
    if (returns) {
      warn_of_tail_calls(point, *returns, reporter_);
      return std::move(returns->returns);
    }
    if (request_.return_at == ReturnAt::instruction) return fail(std::move(returns).error());
    return without_instructions(point, language, std::move(returns).error());
  }

private:
  static Error java_without_instructions(Error why) {
    return std::move(why)
        .hint("a return probe of the kernel's would crash the app: ART reads the return addresses "
              "on the stack")
        .hint("probe where the method begins, without --return");
  }

  // Of a file that cannot be read: by what ART calls its files.
  static bool may_be_java(const ProbePoint& point) {
    const std::string_view name = point.binary->path.file;
    return name.ends_with(".odex") || name.ends_with(".oat");
  }

  // Go programs crash sooner or later; those that throw only when they do so through the function.
  Result<std::vector<FileOffset>> without_instructions(const ProbePoint& point,
                                                       CodeLanguage language, Error why) {
    if (language == CodeLanguage::java) return fail(java_without_instructions(std::move(why)));
    if (language == CodeLanguage::go)
      return fail(std::move(why)
                      .hint("a return probe of the kernel's would crash the Go program")
                      .hint("probe where the function begins, without --return"));
    reporter_.warning(fmt::format("{}: an exception that is thrown through it will end the program "
                                  "while its return is probed ({})",
                                  display_name(point), why.message));
    return {};
  }

  const AttachRequest& request_;
  CodeReaders& readers_;
  const Reporter& reporter_;
};

} // namespace

void plan_returns(const AttachRequest& request, CodeReaders& readers, Resolved& resolved,
                  const Reporter& reporter) {
  ReturnPlanner planner(request, readers, reporter);
  std::vector<PlannedSite> sites;
  std::set<std::size_t> failed;
  std::size_t replaced = 0;
  for (const PlannedSite& site : resolved.sites) {
    if (!site.on_return) {
      sites.push_back(site);
      continue;
    }
    const ProbePoint& point = resolved.points[site.point];
    auto instructions = planner.instructions_of(point);
    if (!instructions) {
      resolved.failures.push_back({.target = point.binary->target,
                                   .function = point.request,
                                   .error = std::move(instructions).error()});
      failed.insert(site.point);
      continue;
    }
    if (instructions->empty()) sites.push_back(site);
    for (const FileOffset offset : *instructions) {
      sites.push_back(site);
      sites.back().return_instruction = offset;
    }
    replaced += instructions->empty() ? 0 : 1;
  }
  resolved.sites = std::move(sites);
  drop_points(failed, resolved);
  if (replaced > 0)
    reporter.detail(fmt::format("the returns of {} are probed at their return instructions",
                                counted(replaced, "function", "functions")));
}

} // namespace uprobectl
