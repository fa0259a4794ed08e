// SPDX-License-Identifier: Apache-2.0
// Lines as AOSP's frameworks/native/cmds/dumpstate writes them.
#include <catch2/catch.hpp>

#include "symbolize/report_archive.hpp"

namespace uprobectl::symbolize {

TEST_CASE("of the text of dumpstate the logs and the traces of processes are selected") {
  ReportSections sections;
  CHECK_FALSE(sections.selects("Build fingerprint: 'google/x'"));
  CHECK_FALSE(sections.selects("------ MEMORY INFO (/proc/meminfo) ------"));
  CHECK_FALSE(sections.selects("MemTotal: 1"));
  CHECK(sections.selects("------ SYSTEM LOG (logcat -v threadtime -v printable -d *:v) ------"));
  CHECK(sections.selects("--------- beginning of main"));
  CHECK(sections.selects("11-25 03:01:00.123  1  1 F DEBUG   : #00 pc 01  /a"));
  CHECK(sections.selects("------ 0.123s was the duration of 'SYSTEM LOG' ------"));
  CHECK_FALSE(sections.selects("between"));
  CHECK(sections.selects("------ VM TRACES JUST NOW (/data/anr/dumptrace_a) ------"));
  CHECK(sections.selects("  native: #00 pc 01  /a"));
  CHECK(sections.selects("------ VM TRACES AT LAST ANR (/data/anr/anr_x: 2026-11-25) ------"));
  CHECK_FALSE(sections.selects("  native: #00 pc 01  /a"));
}

} // namespace uprobectl::symbolize
