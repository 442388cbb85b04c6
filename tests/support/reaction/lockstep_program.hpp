#pragma once

#include <vma/policy.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace vma {

/// What GPUs that work in lockstep read of an array, as passes over its blocks in one step. The
/// passes may change with time.
struct LockstepLoad {
  std::size_t gpus = 0, blocks = 0, chunks_a_block = 0;
  std::uint64_t chunk_bytes = 0;
  std::function<std::size_t(std::size_t phase, std::size_t gpu, std::size_t block)> passes;
  std::function<std::size_t(Time)> phase_at;

  std::size_t chunks() const { return blocks * chunks_a_block; }
};

/// A program in virtual time: each GPU reads its share in batches of launches, waits for the end of
/// each batch, and after its share for the other GPUs. When the phase changes, the current step is
/// abandoned, as in `bench/placement/readers.cpp`. Links are not shared: each GPU reads at the rate
/// that the costs give.
class LockstepProgram {
 public:
  /// `homes`: where a chunk lies now. Requires: the references outlive it.
  LockstepProgram(const LockstepLoad& load, const MachineCosts& costs,
                  std::function<PlaceId(std::size_t chunk)> homes);

  /// When `advance` is due; `Time::max()` while all GPUs stand.
  Time next() const;
  /// Ends and launches batches. Appends the uses of those that it launches.
  void advance(Time now, std::vector<UseEvent>& uses);
  /// From now on, nothing is launched: `stands` once all batches have ended.
  void stop(Time now);
  bool stands() const { return running_ == 0; }
  /// When the first GPU stopped, and the last. Requires: `stands`.
  Time first_stood() const { return first_stood_; }
  Time last_stood() const { return last_stood_; }
  void resume(Time now, std::vector<UseEvent>& uses);

  /// The end of a step, and the bytes of all steps until then.
  struct Step {
    Time end{0};
    double bytes = 0;
  };
  const std::vector<Step>& steps() const { return steps_; }

 private:
  /// A part of a share: passes over one block.
  struct Stretch {
    std::size_t block = 0, passes = 0;
  };
  struct Reader {
    std::vector<Stretch> share;
    std::size_t stretch = 0, pass = 0, chunk = 0;  // The next chunk to read.
    Time until{0};                                 // The end of its batch.
    double batch_bytes = 0;
    bool running = false, finished = false;
  };
  void begin_step(Time now);
  void launch(std::size_t number, Time now, std::vector<UseEvent>& uses);
  void launch_all(Time now, std::vector<UseEvent>& uses);
  void note_stopped(Time now);

  const LockstepLoad& load_;
  const MachineCosts& costs_;
  const std::function<PlaceId(std::size_t)> homes_;
  std::vector<Reader> readers_;
  std::vector<Step> steps_;
  std::size_t running_ = 0, finished_ = 0, phase_ = 0;
  double bytes_ = 0;
  bool stopping_ = false;
  Time first_stood_{0}, last_stood_{0};
};

}  // namespace vma
