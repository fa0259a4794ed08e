// Records of an earlier `resolve --json`, edited or damaged since.
#include "uprobectl/output.hpp"

#include <cstdlib>

using namespace uprobectl;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  const auto match = read_match_record(line);
  if (!match && match.error().message.empty()) std::abort();
  return 0;
}
