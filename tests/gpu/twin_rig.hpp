#pragma once

#include "support/twin_kernels.hpp"
#include "twin/twin_bug.hpp"

#include <vma/runtime.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace vma {

class Driver;

/// How two arrays move while writers use them.
struct GpuTwinPlan {
  std::uint64_t seed = 1;
  int gpus = 2;  ///< The number of GPUs used, from the first on.
  /// The streams that a gate stops. 8 take all hardware queues that a context has by default, so
  /// that settling runs in a context of the runtime; with more, nothing moves live.
  int streams_per_gpu = 8;
  std::uint64_t chunks = 4;  ///< Of each array.
  std::uint64_t chunk_bytes = std::uint64_t{2} << 20;
  std::uint64_t adds = 2'000;  ///< The most of one launch.
  std::uint64_t switches = 300;
  std::chrono::microseconds gate_limit{5'000};
  bool hosts = true;
  bool cancels = true;
  TwinBug bug = TwinBug::none;
};

/// The results of a play.
struct GpuTwinOutcome {
  std::uint64_t switches = 0;
  std::uint64_t launches = 0;
  std::uint64_t words_different = 0;
  RuntimeStats stats;
  std::string problem;  ///< Empty if nothing else than differing words went wrong.
};

/// A separate runtime, writers that never pause, and moves, on real or simulated GPUs.
class GpuTwinRig {
 public:
  GpuTwinRig(std::unique_ptr<Driver> driver, const GpuTwinPlan& plan);
  ~GpuTwinRig();

  /// Moves until `switches` chunks were switched, then compares the arrays with their twins.
  GpuTwinOutcome play();

 private:
  struct Twins {
    std::uint64_t* array = nullptr;  ///< Moves.
    std::uint64_t* twin = nullptr;   ///< Gets the same additions, and stays.
  };
  Twins make_twins();
  void write(int gpu);
  void write_waves(const Twins& twins, unsigned number);
  void move();
  void move_some();
  Migration start_move(const Twins& twins, Place to);
  void end(const Migration& move);
  TwinSpan some_of(std::mt19937_64& random, int gpu) const;
  std::uint64_t compare(const Twins& twins);
  void fail(const std::string& problem);
  /// Runs `body` on a thread until the moves have ended; an exception fails the play.
  void start(std::function<void()> body);

  const GpuTwinPlan plan_;
  std::unique_ptr<Driver> driver_;
  std::unique_ptr<Runtime> runtime_;
  std::vector<Place> places_;
  std::array<Twins, 2> twins_;
  std::uint64_t words_ = 0;  // Of each array.
  std::mt19937_64 random_;
  std::atomic<bool> finished_{false};
  std::atomic<std::uint64_t> launches_{0};
  std::vector<std::thread> threads_;
  GpuTwinOutcome outcome_;
  std::mutex mutex_;
};

}  // namespace vma
