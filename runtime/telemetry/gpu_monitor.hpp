#pragma once

#include "base/clock.hpp"
#include "base/executor.hpp"
#include "base/mutex.hpp"
#include "telemetry/gpu_load_reader.hpp"

#include <vma/telemetry.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace vma {

/// The load of the runtime's GPUs, for statistics.
///
/// The library's calls are slow and may hang, so the monitor's own thread makes them: from the
/// first query on, once a second while there was a query within the last minute, and never without
/// queries. A query takes a short lock and returns the latest sample.
class GpuMonitor {
 public:
  static constexpr std::chrono::nanoseconds period = std::chrono::seconds(1);
  static constexpr std::chrono::nanoseconds watched = std::chrono::minutes(1);
  /// Older samples predate a pause in queries and are not returned.
  static constexpr std::chrono::nanoseconds stale = std::chrono::seconds(5);

  /// If `library` is empty, no library is opened, and `why_not` is the reason reported.
  GpuMonitor(Executor& executor, std::shared_ptr<Clock> clock, std::vector<NamedGpu> gpus,
             std::string library, std::string why_not = {},
             std::chrono::nanoseconds patience = std::chrono::seconds(2));
  /// Blocks: while a sample is taken, for at most `patience`; then the thread is abandoned. Process
  /// exit does the same to monitors that still exist.
  ~GpuMonitor();
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;

  /// Does not block. Any thread. Returns `off` on a stepped machine, whose threads cannot wait for
  /// a library.
  GpuLoads loads();

 private:
  struct State;  // Shared with the thread.
  class AtExit;
  static void work(const std::shared_ptr<State>& state) noexcept;
  static void sample(const std::shared_ptr<State>& shared);

  Executor& executor_;
  const std::shared_ptr<State> state_;
};

}  // namespace vma
