// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "output/json_record.hpp"
#include "output/records.hpp"

namespace uprobectl::output {

// Writes the keys of the record.
void append_json_report_frame(JsonRecord& record, const ReportFrameRecord& written);

} // namespace uprobectl::output
