#include "version.hpp"

namespace uprobectl::cli {

std::string_view version_text() {
  return "uprobectl " UPROBECTL_VERSION "\n"
         "LLVM " UPROBECTL_LLVM_VERSION "\n"
         "libbpf " UPROBECTL_LIBBPF_VERSION "\n";
}

} // namespace uprobectl::cli
