// Records of a perf event's ring, as far as they tell of mappings.
// Source: Linux include/uapi/linux/perf_event.h (struct perf_event_header, enum perf_event_type).
#pragma once

#include "process/mapping_watch.hpp"

namespace uprobectl {

// Parses a record with its header. The event has sample_id_all and the sample_type
// PERF_SAMPLE_TIME, so each record ends with its time. Nullopt for other records, for threads, and
// if it is truncated.
std::optional<MappingEvent> parse_mapping_record(Bytes record);
// Records that the ring had no room for (PERF_RECORD_LOST); 0 for other records.
std::uint64_t lost_records(Bytes record);

// The records between two positions, which count bytes from the first one ever and are at most the
// size of the ring apart. Ends at a record that cannot be one.
void visit_records(Bytes ring, std::uint64_t tail, std::uint64_t head,
                   const std::function<void(Bytes)>& visit);

} // namespace uprobectl
