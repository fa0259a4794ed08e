// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "uprobectl/util.hpp"

#include <llvm/Support/SHA256.h>

namespace uprobectl {

class Sha256 {
public:
  void add(Bytes bytes);
  std::string hex(); // lower-case; the last call

private:
  llvm::SHA256 state_;
};

std::string sha256_of(Bytes bytes);

// Whether the text can be a result of Sha256::hex().
bool is_sha256(std::string_view text);

} // namespace uprobectl
