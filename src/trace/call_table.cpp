// SPDX-License-Identifier: Apache-2.0
#include "trace/call_table.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>

namespace uprobectl::trace {

// This reads the whole table. It is urgent while calls are lost.
void CallTable::update(Time now) {
  const std::uint64_t lost = program_.lost(LOST_CALLS_FULL);
  const bool is_urgent = lost > lost_ || gives_up_;
  if (!look_.is_due(now, is_urgent)) return;
  const auto forgotten = program_.forget_calls([](std::uint32_t process, std::uint32_t thread) {
    const auto pid = static_cast<pid_t>(process);
    return (thread == 0 ? ::kill(pid, 0) : ::tgkill(pid, static_cast<pid_t>(thread), 0)) != 0 &&
           errno == ESRCH;
  });
  lost_ = lost;
  ended_ += forgotten.ended;
  given_up_ += forgotten.given_up;
  gives_up_ = forgotten.has_more;
  look_.looked(now, Time::clock::now());
}

// Calls that were given up may still return, but nothing is left to recognize their returns by.
std::uint64_t CallTable::given_up() const {
  return given_up_ + (gives_up_ ? program_.open_calls().given_up : 0);
}

// Returns whose entry was not seen, without those of calls that were given up, or skipped at their
// entry. Some of these do not return, so this may hide other missed entries.
std::uint64_t CallTable::missed_entries(std::uint64_t given_up) const {
  const std::uint64_t unseen = program_.lost(LOST_NO_ENTRY);
  return unseen - std::min(unseen, program_.lost(SKIPPED_CALLS) + given_up);
}

void CallTable::add_losses(std::vector<Loss>& losses) const {
  losses.push_back({loss_reasons::calls_full, program_.lost(LOST_CALLS_FULL)});
  losses.push_back({loss_reasons::no_return, program_.lost(LOST_NO_RETURN)});
  const std::uint64_t calls = given_up();
  losses.push_back({loss_reasons::gave_way, calls});
  losses.push_back({loss_reasons::entry_unseen, missed_entries(calls)});
}

void CallTable::finish(ProgramResults& results) {
  results.open_calls = program_.open_calls().waiting + ended_;
}

} // namespace uprobectl::trace
