#pragma once

#include "support/drivers/fault_driver.hpp"

#include <vma/runtime.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace vma {

constexpr std::uint64_t gpu_chunk_bytes = std::uint64_t{2} << 20;  // The granularity of GPUs.

/// A runtime for a whole suite of tests, and short forms of common steps. Opened once, because
/// contexts are expensive. Several threads may call the members, except `faults`.
class GpuRig {
 public:
  explicit GpuRig(std::unique_ptr<Driver> driver);
  /// Checks that nothing was left behind except what `forgive_leaks` has seen.
  ~GpuRig();
  GpuRig(const GpuRig&) = delete;
  GpuRig& operator=(const GpuRig&) = delete;

  Runtime& runtime() { return *runtime_; }
  FaultDriver& faults() { return faults_; }
  /// Work that is submitted during a move that may hold contexts must be submitted under this
  /// mutex: see SubmissionWindow.
  Mutex& submissions() { return submissions_; }
  bool simulated() { return faults_.simulated(); }
  int gpus() const { return static_cast<int>(streams_.size()); }
  Stream stream(int gpu) const { return streams_[static_cast<std::size_t>(gpu)]; }
  const std::vector<Place>& places() const { return places_; }
  void forgive_leaks();
  /// Checks the runtime's invariants once its own work has ended.
  void comes_to_rest();
  /// Whether everything freed comes back within 20 s. Requires: nothing is allocated.
  bool all_comes_back();

 private:
  FaultDriver faults_;
  Mutex submissions_;
  std::unique_ptr<Runtime> runtime_;
  std::vector<Stream> streams_;
  std::vector<Place> places_;
  std::size_t forgiven_ = 0;
};

/// An allocation of a few chunks whose word i is `seed + i`. The destructor frees it.
class Pattern {
 public:
  Pattern(GpuRig& rig, Place at, std::uint64_t chunks);
  ~Pattern();
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  std::byte* pointer() const { return static_cast<std::byte*>(pointer_); }
  std::uint64_t size_bytes() const { return words_ * sizeof(std::uint64_t); }

  /// Fills by a kernel of the GPU, or by the CPU.
  void fill(int gpu, std::uint64_t seed);
  void write(std::uint64_t seed);
  /// A kernel of the GPU adds to every word; `enqueue_add` does not wait for it.
  void add(int gpu, std::uint64_t value);
  void enqueue_add(int gpu, std::uint64_t value);
  void synchronize(int gpu);

  /// Checks that kernels of every GPU, and the CPU, see the pattern in every byte.
  void check();
  void check_by_kernel(int gpu);
  void check_by_cpu();
  /// Checks that all of it is there.
  void check_at(Place at);

 private:
  void give_back();

  GpuRig& rig_;
  std::vector<Stream> streams_;  // Its own, so that threads share none.
  void* pointer_ = nullptr;
  void* wrong_ = nullptr;  // The kernels' count of mismatches.
  std::uint64_t words_ = 0;
  std::uint64_t seed_ = 0;
};

}  // namespace vma
