// Why a probe has not fired, as far as the mappings of processes tell.
#pragma once

#include "uprobectl/process.hpp"
#include "uprobectl/resolve.hpp"

namespace uprobectl {

// What the processes map, per probe point.
std::vector<MappingSurvey> survey_points(std::span<const ProbePoint> points,
                                         std::span<const pid_t> pids);

// Adds what an earlier survey saw and a later one no longer can: processes that have ended since.
void add_earlier(std::vector<MappingSurvey>& now, std::span<const MappingSurvey> earlier);

// One line, without subject: "no process maps this file executable".
// `change`: what has become of the probed file since it was opened.
std::string explain_silence(const MappingSurvey& survey, std::span<const pid_t> pids,
                            FileChange change = FileChange::none);

} // namespace uprobectl
