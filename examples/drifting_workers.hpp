#pragma once

#include <vma/vma.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

/// One worker per GPU, which repeatedly reads its block of an array and reports that to the
/// runtime. In each phase the blocks rotate: each GPU reads what its neighbour has read before.
/// Initially, block i is at GPU i, which is optimal.
class DriftingWorkers {
 public:
  /// Of the array, which has one block per worker. There are at most four workers.
  struct Size {
    std::size_t chunk_bytes = 0, chunks_a_block = 0;
  };
  /// Throws: vma::Error.
  DriftingWorkers(vma::Runtime& runtime, const Size& size);
  /// Ends the workers.
  ~DriftingWorkers();
  DriftingWorkers(const DriftingWorkers&) = delete;
  DriftingWorkers& operator=(const DriftingWorkers&) = delete;

  std::size_t count() const { return workers_.size(); }
  void start_phase(std::size_t phase) { phase_ = phase; }
  /// Total of all workers since the start.
  std::uint64_t bytes_read() const { return bytes_read_; }
  /// The share of what workers read now that is in the HBM of the GPU that reads it; 0 to 1.
  double local_share() const;
  /// Waits until `end`. Returns false if a worker has failed; then it returns at once.
  bool run_until(std::chrono::steady_clock::time_point end);

 private:
  struct Worker {
    vma::Place gpu;
    vma::Stream stream = nullptr;
    std::uint64_t* sum = nullptr;
  };
  std::size_t block_of(std::size_t worker) const;
  void work(std::size_t number, const std::stop_token& stop);

  vma::Runtime& runtime_;
  const std::size_t block_bytes_;
  std::byte* data_ = nullptr;
  std::vector<Worker> workers_;
  std::atomic<std::size_t> phase_{0};
  std::atomic<std::uint64_t> bytes_read_{0};
  std::mutex mutex_;
  std::condition_variable worker_failed_;
  bool failed_ = false;  // Guarded by the mutex.
  std::vector<std::jthread> threads_;
};
