#include "output/json_record.hpp"

namespace uprobectl {

void append_hex(std::string& out, std::uint64_t value) {
  char digits[18] = {'0', 'x'};
  const auto end = std::to_chars(digits + 2, std::end(digits), value, 16).ptr;
  out.append(digits, static_cast<std::size_t>(end - digits));
}

void append_decimal(std::string& out, std::uint64_t value) {
  char digits[20];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), value).ptr;
  out.append(digits, static_cast<std::size_t>(end - digits));
}

} // namespace uprobectl
