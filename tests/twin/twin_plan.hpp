#pragma once

#include "driver/driver.hpp"
#include "twin/twin_bug.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace vma {

/// Other threads in a play, besides writers and migrators.
struct TwinCompany {
  bool captures = false;      ///< A thread that captures small graphs and replays them.
  bool frees_plain = false;   ///< One that calls cudaFree and cudaDeviceSynchronize.
  bool churns = false;        ///< One with a new stream each time: attached, used, destroyed.
  bool pins = false;          ///< One that pins the array now and then.
  bool reads_only = false;    ///< One with its own array, which is read-only at times.
  bool host_access = false;   ///< One that calls vma::read and vma::write.
  bool holds = false;         ///< One that moves synchronously, holding all contexts.
  bool frees = false;         ///< One that frees memory while it moves.
  bool shuts_down = false;    ///< The runtime ends in the middle of a move.
  bool waits_across = false;  ///< Streams wait for each other's events.
};

/// How to run one play. A stepped play is determined by these values.
struct TwinPlan {
  std::uint64_t seed = 1;
  std::string machine = "test-2";
  std::vector<int> gpus{0, 1};
  int hardware_queues = 8;  ///< Per context.
  bool threaded = false;    ///< Operating system threads instead of stepped ones.
  unsigned yields_per_switch = 16;
  int writers = 3;
  bool mixed_streams = false;  ///< Including blocking, legacy and per-thread streams.
  bool waves = false;          ///< One writer adds and subtracts again, on its own lines.
  TwinCompany company;
  int moves = 4;
  bool hosts = true;  ///< Host memory is one of the places.
  bool cancels = true;
  std::chrono::microseconds gate_limit{100};
  int gate_retries = 3;
  bool own_contexts = false;  ///< Copies never run in contexts of the program.
  bool prepares = false;      ///< What live moves need is created beside the program.
  TwinBug bug = TwinBug::none;
  /// Puts another driver between the runtime and the machine; none if empty.
  std::function<std::unique_ptr<Driver>(Driver& machine)> wrap;
  /// Arms or disarms that driver.
  std::function<void(bool armed)> arm;
  /// A move may end in any error, since calls fail.
  bool any_error = false;

  /// Moves suspend the program's work instead of stopping attached streams.
  bool suspends() const;
  /// Whether streams are attached: not in half of the plays that suspend. But where GPUs do not all
  /// reach each other some moves need to know them, and where calls fail they need not wait long
  /// until suspension is tried again.
  bool attaches() const;
  /// Whether moves may end captures: where holds are requested, and where nothing is attached and a
  /// busy computer makes a check of suspension, or a suspension, late, which is in real time alone.
  bool ends_captures() const { return company.holds || (threaded && !attaches()); }
  /// The random plan of a seed.
  static TwinPlan drawn(std::uint64_t seed);
};

/// All that is needed to replay it: "seed 3, test-4, 5 writers, with captures and pins".
std::string describe(const TwinPlan& plan);

/// A number below `count`.
inline std::uint64_t below(std::mt19937_64& random, std::uint64_t count) {
  return random() % count;
}

}  // namespace vma
