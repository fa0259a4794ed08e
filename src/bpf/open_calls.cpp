// SPDX-License-Identifier: Apache-2.0
#include "bpf/open_calls.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace uprobectl::bpf {

namespace {

constexpr std::uint64_t min_age = 1'000'000'000; // ns, of calls that are given up

} // namespace

CallRoom::Choice CallRoom::choose(std::span<const CallEntry> calls, bool was_full,
                                  std::uint64_t now_ns, const HasEnded& has_ended) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, bool> known;
  const auto ended = [&](std::uint32_t process, std::uint32_t thread) {
    const auto [at, is_new] = known.try_emplace({process, thread});
    if (is_new) at->second = has_ended(process, thread);
    return at->second;
  };
  Choice choice;
  std::vector<std::uint64_t> kept; // when they began
  const bool looks_at_threads = calls.size() > capacity_ / 2;
  for (const CallEntry& call : calls) {
    const bool is_complete = call.began_ns != 0;
    if (ended(call.key.process, 0) || (looks_at_threads && is_complete && call.key.goroutine == 0 &&
                                       ended(call.key.process, call.thread)))
      choice.ended.push_back(call);
    else if (is_complete && call.began_ns < given_up_before_)
      choice.given_up.push_back(call);
    else if (is_complete)
      kept.push_back(call.began_ns);
  }
  const std::size_t room = capacity_ - capacity_ / 4;
  if (was_full && kept.size() > room && now_ns > min_age) {
    const auto first_kept = kept.begin() + static_cast<std::ptrdiff_t>(kept.size() - room);
    std::ranges::nth_element(kept, first_kept);
    given_up_before_ = std::max(given_up_before_, std::min(*first_kept, now_ns - min_age));
  }
  choice.given_up_before = given_up_before_;
  return choice;
}

} // namespace uprobectl::bpf
