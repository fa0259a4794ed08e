// Files compressed by gzip (RFC 1952), decoded within a bound.
#pragma once

#include "uprobectl/base.hpp"

namespace uprobectl::stacks {

// The content of all members. corrupt for what is no whole file, unsupported beyond `most` bytes.
Result<std::vector<std::byte>> gunzip(Bytes compressed, std::uint64_t most);

} // namespace uprobectl::stacks
