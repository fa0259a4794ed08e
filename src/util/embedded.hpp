// SPDX-License-Identifier: Apache-2.0
// A file that the build has compressed into the binary (src/embed.py).
#pragma once

#include "uprobectl/util.hpp"
#include "util/inflate.hpp"

#include <cstdlib>
#include <memory>

namespace uprobectl {

// The bytes of the file. They are aligned as those of operator new.
class EmbeddedFile {
public:
  // Decompresses zlib data of `size` bytes. The build has made it, so it is valid.
  EmbeddedFile(Bytes compressed, std::size_t size)
      : content_(std::make_unique<std::byte[]>(size)), size_(size) {
    if (!inflate_zlib_into({content_.get(), size_}, compressed)) std::abort();
  }

  Bytes bytes() const { return {content_.get(), size_}; }

private:
  std::unique_ptr<std::byte[]> content_;
  std::size_t size_;
};

} // namespace uprobectl
