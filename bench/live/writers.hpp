#pragma once

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
  std::vector<Location> gpus;  ///< Streams are dealt out over them.
  int streams = 1;
  bool attached = true;               ///< Otherwise `places` is memory that does not move.
  StreamWork work = StreamWork::any;  ///< As which they are attached; they launch no graphs.
  std::chrono::nanoseconds kernel = std::chrono::microseconds(5);
  std::uint64_t backlog = 1;  ///< Most launches under way on a stream.
  WritePlaces places;
  /// Each GPU adds to words of its own, an equal part of every place. Where the range may lie at a
  /// host node it must: over PCIe, atomics of two GPUs on one word of host memory lose additions.
  bool own_words = false;
  /// Before each launch another reads and writes so many words of memory of the stream's own, as
  /// fast as they come. Zero: none.
  std::uint64_t sweep_words = 0;
  /// Whether a sweep fills all multiprocessors with blocks that stay to its end; otherwise its
  /// blocks are many and short, as those of most kernels.
  bool sweep_stays = false;
};

/// Launches from construction to `stop`. What a launch added can be counted afterwards.
class Writers {
 public:
  /// Throws: Error. Blocks: kernels are loaded.
  Writers(Runtime& runtime, const WriterSpec& spec);
  /// Stops them if need be.
  ~Writers();
  Writers(const Writers&) = delete;
  Writers& operator=(const Writers&) = delete;

  /// Launches that have ended, of all streams, as the GPUs tell. Never blocks.
  std::uint64_t completed() const noexcept;
  /// Ends the threads and waits for what they launched. Returns how many words were added to.
  /// Throws: what a launch or a thread ran into; std::runtime_error if a launch did not end.
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
