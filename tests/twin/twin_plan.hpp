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

/// Who else is about in a play, besides writers and those who move.
struct TwinCompany {
  bool captures = false;      ///< A thread that captures small graphs and replays them.
  bool frees_plain = false;   ///< One inside cudaFree and cudaDeviceSynchronize.
  bool churns = false;        ///< One whose stream is new each time: attached, used, destroyed.
  bool pins = false;          ///< One that pins the array now and then.
  bool reads_only = false;    ///< One with an array of its own that nobody may write to at times.
  bool host_access = false;   ///< One that calls vma::read and vma::write.
  bool holds = false;         ///< One that moves synchronously, holding all contexts.
  bool frees = false;         ///< One that frees what is being moved.
  bool shuts_down = false;    ///< The runtime ends in mid-move.
  bool waits_across = false;  ///< Streams wait for each other's events.
};

/// How one play is played. Stepped, all of it follows from the seed.
struct TwinPlan {
  std::uint64_t seed = 1;
  std::string machine = "test-2";
  std::vector<int> gpus{0, 1};
  int hardware_queues = 8;  ///< Of a context.
  bool threaded = false;    ///< Threads of the operating system, in place of the stepped ones.
  unsigned yields_per_switch = 16;
  int writers = 3;
  bool mixed_streams = false;  ///< Blocking, legacy and per-thread ones too.
  bool waves = false;          ///< One writer adds and takes away again, on lines of its own.
  TwinCompany company;
  int moves = 4;
  bool hosts = true;  ///< Host memory is one of the places.
  bool cancels = true;
  std::chrono::microseconds gate_limit{100};
  int gate_retries = 3;
  TwinBug bug = TwinBug::none;
  /// Puts another driver between the runtime and the machine; none if empty.
  std::function<std::unique_ptr<Driver>(Driver& machine)> wrap;
  /// Lets that one disturb from now on, or not.
  std::function<void(bool armed)> arm;
  /// A move may end in any error, since calls fail.
  bool any_error = false;

  /// The variant of a seed.
  static TwinPlan drawn(std::uint64_t seed);
};

/// What replays it: "seed 3, test-4, 5 writers, with captures and pins".
std::string describe(const TwinPlan& plan);

/// A number below `count`.
inline std::uint64_t below(std::mt19937_64& random, std::uint64_t count) {
  return random() % count;
}

}  // namespace vma
