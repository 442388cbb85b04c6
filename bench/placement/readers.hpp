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

/// A part of an array to read.
struct ReadRange {
  std::uint64_t offset = 0, bytes = 0;
};

/// What each reader reads in a step; one list per GPU.
using Shares = std::vector<std::vector<ReadRange>>;

/// The application: one thread and one attached stream per GPU. They read their ranges of an array
/// one after the other, repeatedly, and report each use to the runtime. The GPUs run in lockstep: a
/// GPU that has read its ranges waits for the others. Called by one thread.
class Readers {
 public:
  /// Reads nothing before `set_ranges`. Requires: `data` outlives this object.
  Readers(Runtime& runtime, void* data, const std::vector<Place>& gpus);
  ~Readers();
  Readers(const Readers&) = delete;
  Readers& operator=(const Readers&) = delete;

  /// Takes effect with the next batch of launches; current steps are abandoned.
  void set_ranges(Shares ranges);
  /// Bytes that all readers read per second of the machine's clock, measured for `time` of the
  /// processor's clock, or longer until something was read; see `Steps`. Requires: `set_ranges` was
  /// called. Throws: the error of a reader, if one failed.
  double rate(std::chrono::duration<double> time);
  /// Total of all readers.
  std::uint64_t bytes() const noexcept { return steps_.bytes(); }

 private:
  struct Reader {
    Place gpu;
    Stream stream = nullptr;
    std::uint64_t* sum = nullptr;
    std::unique_ptr<AttachedStream> attached;
    LaunchPace pace;  // Used only by the reader's thread.
    std::unique_ptr<Task> task;
    std::exception_ptr error;  // Used only by the reader's thread until it has failed.
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
  std::atomic<std::size_t> failed_{0};  // Number of the reader that failed, from 1; 0 if none.
  std::vector<Reader> readers_;
};

}  // namespace vma
