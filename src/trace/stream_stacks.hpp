// User stacks that come with what users' programs send.
#pragma once

#include "trace/trace.hpp"

namespace uprobectl {

// By map. Perf event arrays have them where --stack asks, and where their name ends in
// "_with_stack". unsupported where it asks and there is no such map; of other buffers it is told
// that they have none.
Result<std::vector<StreamStack>> stacks_of_streams(std::span<const UserMap> maps,
                                                   const CaptureSpec& capture, Output& output);

void tell_sender(Event& event, const SenderContext& from);

// Nothing of a 32-bit process and of a thread of the kernel's, which have no stack to unwind.
std::optional<CapturedStack> stack_of(const SenderContext& from);
bool is_narrow(const SenderContext& from); // a 32-bit process

} // namespace uprobectl
