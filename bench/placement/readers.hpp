#pragma once

#include "base/executor.hpp"
#include "base/mutex.hpp"

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

/// The application: a thread and an attached stream a GPU, which read their ranges of an array one
/// after the other, over and over, and tell the runtime of each. One thread calls.
class Readers {
 public:
  /// Nothing is read before `set_ranges`. Requires: `data` outlives this.
  Readers(Runtime& runtime, void* data, const std::vector<Location>& gpus);
  ~Readers();
  Readers(const Readers&) = delete;
  Readers& operator=(const Readers&) = delete;

  /// From the next launch on; one list a GPU.
  void set_ranges(std::vector<std::vector<ReadRange>> ranges);
  /// What all read in a second of the machine's clock, measured for `time` of the processor's.
  /// Throws: what a reader failed with.
  double rate(std::chrono::duration<double> time);

 private:
  struct Reader {
    Location gpu;
    Stream stream = nullptr;
    std::uint64_t* sum = nullptr;
    std::unique_ptr<AttachedStream> attached;
    std::unique_ptr<Task> task;
    std::exception_ptr error;  // The reader's thread only, until it has failed.
  };
  void work(std::size_t number);
  void read(std::size_t number);
  std::shared_ptr<const std::vector<std::vector<ReadRange>>> ranges() const;

  Runtime& runtime_;
  std::byte* const data_;
  mutable Mutex mutex_;
  std::shared_ptr<const std::vector<std::vector<ReadRange>>> ranges_ VMART_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> bytes_read_{0};
  std::atomic<bool> stop_{false};
  std::atomic<std::size_t> failed_{0};  // Number of the one that did, from 1.
  std::vector<Reader> readers_;
};

}  // namespace vma
