#pragma once

#include "runtime/runtime_parts.hpp"
#include "sim/sim_driver.hpp"

#include <vma/policy.hpp>
#include <vma/runtime.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vma {

/// A simulated runtime whose scheduler is stepped by hand, with a stream attached on each GPU.
/// Chunks are 8 KiB.
class SchedulerRig {
 public:
  static constexpr std::uint64_t chunk_bytes = 8192;

  explicit SchedulerRig(const std::string& policy, const std::string& machine = "test-2",
                        RuntimeOptions options = {},
                        std::chrono::nanoseconds policy_limit = std::chrono::minutes(1));
  ~SchedulerRig();

  Runtime& runtime() { return *runtime_; }
  Scheduler& scheduler() { return parts_of(*runtime_).machinery->scheduling->scheduler(); }
  SimDriver& machine() { return *machine_; }
  void attach_all();
  void detach_all() { attached_.clear(); }

  std::uint64_t* alloc(std::uint64_t chunks, Place at, const std::string& tag = "");
  /// Records so many passes of the GPU over the chunk that every policy considers a move
  /// worthwhile.
  void use(std::uint64_t* words, std::uint64_t chunk, int gpu, float passes = 1e9F);
  /// Steps `steps` times; after each step, waits until the moves that it started have ended.
  void step(int steps = 1);
  /// The place of a chunk.
  Place place(const std::uint64_t* words, std::uint64_t chunk = 0);
  void pass(std::chrono::nanoseconds time);

 private:
  SimDriver* machine_ = nullptr;
  std::unique_ptr<Runtime> runtime_;
  std::vector<Stream> streams_;
  std::vector<AttachedStream> attached_;
};

}  // namespace vma
