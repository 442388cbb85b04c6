#pragma once

#include "base/mutex.hpp"
#include "bench/live/writer_kernel.hpp"

#include <vma/runtime.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

namespace vma {

/// The work of an application: streams, each with a thread that keeps it busy.
struct WriterSpec {
  std::vector<Place> gpus;  ///< Streams are distributed over these.
  int streams = 1;
  bool attached = true;  ///< If false, `places` is memory that does not move.
  /// Declared when the streams are attached. They launch no graphs.
  StreamWork work = StreamWork::any;
  std::chrono::nanoseconds kernel = std::chrono::microseconds(5);
  /// Held for each launch; null: nothing is. See `live_submissions`.
  Mutex* submissions = nullptr;
  std::uint64_t backlog = 1;  ///< Maximum number of launches in progress on a stream.
  WritePlaces places;
  /// Each GPU increments its own words, an equal part of every place. Required if the range may be
  /// at a host node: over PCIe, atomics of two GPUs on one word of host memory lose additions.
  bool own_words = false;
  /// Before each launch, another one reads and writes this many words of the stream's own memory at
  /// full speed. Zero: none.
  std::uint64_t sweep_words = 0;
  /// Whether the blocks of a sweep fill all multiprocessors and stay to its end. Otherwise its
  /// blocks are many and short, like those of most kernels.
  bool sweep_stays = false;
};

/// Launches from construction to `stop`. Afterwards, everything that launches added can be counted.
class Writers {
 public:
  /// Throws: Error. Blocks: until kernels are loaded.
  Writers(Runtime& runtime, const WriterSpec& spec);
  /// Calls `stop` if necessary.
  ~Writers();
  Writers(const Writers&) = delete;
  Writers& operator=(const Writers&) = delete;

  /// Launches of all streams that have ended, according to the GPUs. Never blocks.
  std::uint64_t completed() const noexcept;
  /// Ends the threads and waits for their launches. Returns the number of words incremented.
  /// Throws: the error of a launch or a thread; std::runtime_error if a launch did not end.
  std::uint64_t stop();

 private:
  struct Worker;
  void start(Worker& worker);
  void loop(Worker& worker);
  void finish(Worker& worker) noexcept;

  Runtime& runtime_;
  const WriterSpec spec_;
  std::atomic<bool> stopping_{false};
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace vma
