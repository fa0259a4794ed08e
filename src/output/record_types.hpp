// SPDX-License-Identifier: Apache-2.0
// The `type` in JSON of records that are described (output/descriptions.hpp).
#pragma once

#include "output/records.hpp"

#include <tuple>

namespace uprobectl::output {

template <typename T>
struct Named {
  std::string_view name;
};
inline constexpr std::tuple record_names = {Named<resolve::ProbePoint>{"match"},
                                            Named<StaticProbeRecord>{"usdt"},
                                            Named<SymbolRecord>{"symbol"},
                                            Named<LibraryRecord>{"library"},
                                            Named<SourceLineRecord>{"source_line"},
                                            Named<Finding>{"drift"},
                                            Named<Verdict>{"verify_summary"},
                                            Named<inventory::InstalledProbe>{"installed_probe"},
                                            Named<bpf::Pin>{"pinned"},
                                            Named<doctor::Check>{"check"},
                                            Named<CallSummaryRecord>{"call_summary"},
                                            Named<CallEdgeRecord>{"call_edge"},
                                            Named<GraphTreesRecord>{"graph_trees"},
                                            Named<SpanSummaryRecord>{"span_summary"},
                                            Named<CountRecord>{"count"},
                                            Named<HistogramRecord>{"histogram"},
                                            Named<ProbeRecord>{"probe"},
                                            Named<MapEntryRecord>{"map_entry"},
                                            Named<LostRecord>{"lost"},
                                            Named<TriggerRecord>{"trigger"},
                                            Named<SummaryRecord>{"summary"},
                                            Named<ErrorRecord>{"error"},
                                            Named<DeviceRecord>{"device"},
                                            Named<DevicesSummaryRecord>{"devices_summary"}};
template <typename T>
constexpr std::string_view record_type = std::get<Named<T>>(record_names).name;

} // namespace uprobectl::output
