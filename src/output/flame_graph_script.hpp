// src/output/flame_graph.js, which the build puts into the binary.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl {

Bytes flame_graph_script();

} // namespace uprobectl
