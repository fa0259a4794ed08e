#include "uprobectl/output.hpp"

namespace uprobectl {

std::string_view to_string(DriftRecord::Change change) {
  switch (change) {
  case DriftRecord::Change::gone:
    return "gone";
  case DriftRecord::Change::added:
    return "new";
  case DriftRecord::Change::function_moved:
    return "function_moved";
  case DriftRecord::Change::archive_moved:
    return "archive_moved";
  case DriftRecord::Change::semaphore_moved:
    return "semaphore_moved";
  case DriftRecord::Change::arguments:
    return "arguments";
  case DriftRecord::Change::build_id:
    return "build_id";
  }
  return "";
}

} // namespace uprobectl
