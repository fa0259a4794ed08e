#include "resolve/pattern_points.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl {

void PatternPoints::add(Result<ProbePoint> point) {
  if (point) {
    points_.push_back(std::move(*point));
    return;
  }
  ++left_out_;
  if (!why_) why_ = std::move(point).error();
}

Result<std::vector<ProbePoint>> PatternPoints::take(std::string_view kind) {
  const bool inside = question_.function.plus.value_or(0) != 0;
  if (inside && why_) {
    if (points_.empty()) return fail(std::move(*why_));
    points_.front().warnings.push_back(fmt::format("{}; {} that match '{}' and are left out: {}",
                                                   why_->message, kind, question_.function.name,
                                                   left_out_));
  }
  std::ranges::sort(points_, {}, &ProbePoint::image_offset);
  return std::move(points_);
}

} // namespace uprobectl
