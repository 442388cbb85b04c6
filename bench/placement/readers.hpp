#pragma once

#include "base/executor.hpp"
#include "base/mutex.hpp"
#include "bench/placement/launch_pace.hpp"
#include "bench/placement/steps.hpp"

#include <vma/runtime.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

namespace vma {

/// A part of an array that is read.
struct ReadRange {
  std::uint64_t offset = 0, bytes = 0;
};

/// What each reader reads in a step; one list a GPU.
using Shares = std::vector<std::vector<ReadRange>>;

/// The application: a thread and an attached stream a GPU, which read their ranges of an array one
/// after the other, over and over, and tell the runtime of each. The GPUs step together: who is
/// done with its ranges waits for the others. One thread calls.
class Readers {
 public:
  /// Nothing is read before `set_ranges`. Requires: `data` outlives this.
  Readers(Runtime& runtime, void* data, const std::vector<Location>& gpus);
  ~Readers();
  Readers(const Readers&) = delete;
  Readers& operator=(const Readers&) = delete;

  /// From the next batch of launches on: steps under way are given up.
  void set_ranges(Shares ranges);
  /// What all read in a second of the machine's clock, measured for `time` of the processor's, or
  /// until something was read: as `Steps` has it. Requires: `set_ranges` was called.
  /// Throws: what a reader failed with.
  double rate(std::chrono::duration<double> time);

 private:
  struct Reader {
    Location gpu;
    Stream stream = nullptr;
    std::uint64_t* sum = nullptr;
    std::unique_ptr<AttachedStream> attached;
    LaunchPace pace;  // The reader's thread only.
    std::unique_ptr<Task> task;
    std::exception_ptr error;  // The reader's thread only, until it has failed.
  };
  void work(std::size_t number);
  void read_share(Reader& reader, const std::vector<ReadRange>& share, const Shares& all);
  void end_batch(Reader& reader, std::uint64_t bytes, TimePoint begin);
  std::shared_ptr<const Shares> ranges() const;

  Runtime& runtime_;
  std::byte* const data_;
  mutable Mutex mutex_;
  std::shared_ptr<const Shares> ranges_ VMART_GUARDED_BY(mutex_);
  Steps steps_;
  std::atomic<bool> stop_{false};
  std::atomic<std::size_t> failed_{0};  // Number of the one that did, from 1.
  std::vector<Reader> readers_;
};

}  // namespace vma
