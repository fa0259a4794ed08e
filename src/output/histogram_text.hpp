// Histograms in the forms of the two sinks.
#pragma once

#include "uprobectl/output.hpp"

namespace uprobectl {

// A head line with the sums, then a bar for each power of two.
void draw_histogram(std::string& out, std::string_view name, const HistogramRecord& record);

// Numbers of the record's unit: "12.4us" where they are nanoseconds.
std::string in_unit(const HistogramRecord& record, std::int64_t number);

// "256:12,512:40": the lower bound of each power of two and how many it has.
std::string bucket_list(const Histogram& histogram);

// [{"low":256,"high":512,"count":12},…]
void append_json_buckets(std::string& out, const Histogram& histogram);

} // namespace uprobectl
