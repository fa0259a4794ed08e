// SPDX-License-Identifier: Apache-2.0
// `report` on the workstation, which gets the saved run of a device while it goes on.
#pragma once

#include "host/adb.hpp"
#include "host/sink.hpp"

#include <csignal>
#include <thread>

namespace uprobectl::host {

class LocalReport {
public:
  // The variable of the environment by which a report with a live view knows that its parent writes
  // what it reads. Its value is the pid of the parent, so that it means nothing to others.
  static constexpr const char* parent_variable = "UPROBECTL_REPORT_OF_PARENT";
  // Starts this program. Without `records` or `messages` the report writes to our stdout or stderr
  // itself. Their sinks must outlive this.
  // `is_live`: it has the terminal, and ctrl-z, after which it stops us as well.
  static Result<std::unique_ptr<LocalReport>> start(const std::vector<std::string>& arguments,
                                                    std::optional<MarkedLines> records,
                                                    std::optional<MarkedLines> messages,
                                                    bool is_live = false);
  LocalReport(const LocalReport&) = delete;
  LocalReport& operator=(const LocalReport&) = delete;
  ~LocalReport();

  Sink& input() { return *input_; } // gets the saved run
  // Ends the input and waits for the report. Returns its exit status.
  int finish();
  // Returns the sums of the `summary` records. Call it only after finish().
  MarkedLines::Totals totals() const {
    return records_ ? records_->totals() : MarkedLines::Totals();
  }

private:
  // Ignores SIGTSTP while it exists.
  class IgnoredStop {
  public:
    IgnoredStop();
    IgnoredStop(const IgnoredStop&) = delete;
    IgnoredStop& operator=(const IgnoredStop&) = delete;
    ~IgnoredStop();

  private:
    struct sigaction before_{};
  };

  LocalReport(AdbProcess process, std::optional<MarkedLines> records,
              std::optional<MarkedLines> messages);

  std::optional<IgnoredStop> ignored_stop_;
  AdbProcess process_;
  std::optional<MarkedLines> records_;
  std::optional<MarkedLines> messages_;
  std::unique_ptr<Sink> input_;
  std::vector<std::thread> readers_;
};

} // namespace uprobectl::host
