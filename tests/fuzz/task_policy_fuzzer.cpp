// SPDX-License-Identifier: Apache-2.0
// Policies: the first line is a method. A prefix that allows it is its beginning.
#include "uprobestats/task_file.hpp"

#include <algorithm>
#include <cstdlib>

namespace {

std::string without_blanks(std::string_view text) {
  std::string kept(text);
  std::erase(kept, ' ');
  return kept;
}

} // namespace

int fuzz_task_policy(const std::uint8_t* data, std::size_t size) {
  using namespace uprobectl;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto end = std::min(text.find('\n'), text.size());
  const std::string_view method = uprobestats::without_return_type(text.substr(0, end));
  const auto policy = uprobestats::Policy::parse(text.substr(std::min(end + 1, text.size())));
  if (!policy) return 0;
  const auto prefix = policy->find_prefix(method);
  if (prefix && !without_blanks(method).starts_with(without_blanks(*prefix))) std::abort();
  if (!prefix && policy->make_refusal(method, "p").kind != ErrorKind::not_permitted) std::abort();
  return 0;
}
