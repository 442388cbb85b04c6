#pragma once

#include "driver/driver.hpp"

#include <vma/pool.hpp>
#include <vma/runtime.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace vma {

/// A pool of the allocator under test.
class PoolUnderTest {
 public:
  struct Terms {
    std::size_t release_threshold = 0;
    std::size_t max_bytes = 0;  ///< 0: no limit.
    ReusePolicies reuse;
  };
  struct Stats {
    std::size_t reserved = 0, used = 0, reserved_high = 0, used_high = 0;
  };

  virtual ~PoolUnderTest() = default;
  /// Null: out of memory.
  virtual void* allocate(std::size_t bytes, Stream stream) = 0;
  virtual Stats stats() const = 0;
  virtual void reset_high_marks() = 0;
  virtual void set_release_threshold(std::size_t bytes) = 0;
  virtual void set_reuse(const ReusePolicies& reuse) = 0;
  virtual void trim(std::size_t keep_bytes) = 0;
  virtual void allow_access(int gpu) = 0;
  /// False: refused.
  virtual bool destroy() = 0;
};

/// An allocator in stream order: vmart's pools, or CUDA's own. Streams, events, graphs and kernels
/// are the same for both, those of a runtime, so that only the memory differs. Each of the virtual
/// functions is the call of the same name, or what comes closest to it.
class StreamAllocator {
 public:
  using Pool = std::shared_ptr<PoolUnderTest>;

  explicit StreamAllocator(std::unique_ptr<Driver> driver);
  virtual ~StreamAllocator();
  StreamAllocator(const StreamAllocator&) = delete;
  StreamAllocator& operator=(const StreamAllocator&) = delete;

  virtual Pool make_pool(int gpu, const PoolUnderTest::Terms& terms) = 0;
  virtual Pool default_pool(int gpu) = 0;
  virtual Pool current_pool(int gpu) = 0;
  virtual void set_current(const Pool& pool) = 0;
  virtual bool same(const Pool& a, const Pool& b) const = 0;
  /// From the current pool of the stream's GPU.
  virtual void* allocate(std::size_t bytes, Stream stream) = 0;
  virtual void deallocate(void* pointer, Stream stream) = 0;
  /// cudaMalloc and cudaFree.
  virtual void* allocate_plain(std::size_t bytes, int gpu) = 0;
  virtual void free(void* pointer) = 0;
  /// cudaStreamSynchronize.
  virtual void synchronize(Stream stream) = 0;
  /// `after` waits for an event that is recorded on `before` now.
  virtual void order(Stream after, Stream before);
  /// Gives back what is kept for graphs that are gone.
  virtual void trim_graphs(int gpu) = 0;
  /// Called first by each thread of a test's own.
  virtual void enter_thread() {}

  int gpus() const;
  /// A stream that lasts until `end`, or until the allocator goes.
  Stream new_stream(int gpu = 0);
  void end(Stream stream);
  /// Makes the stream stand until `let_go`.
  void stop(Stream stream);
  void let_go(Stream stream);
  /// Waits until the work that is now on the stream has run, without a call of the driver: the host
  /// sees a word that the stream writes.
  void watch_end(Stream stream);

  void run(Stream stream, const Kernel& kernel, const KernelArguments& arguments);
  void copy(Stream stream, void* to, const void* from, std::size_t bytes);
  /// Host memory that lasts as long as the allocator.
  void* pinned(std::size_t bytes);

  /// Kernels on the stream. Word i of a pattern is its seed plus i.
  void fill(Stream stream, void* words, std::uint64_t count, std::uint64_t seed);
  void add(Stream stream, void* words, std::uint64_t count, std::uint64_t value);
  /// Waits for the stream, without the allocator's knowledge, and counts the words that differ.
  std::uint64_t wrong(Stream stream, void* words, std::uint64_t count, std::uint64_t seed);

  void begin_capture(Stream stream);
  ExecGraphHandle end_capture(Stream stream);
  void launch(Stream stream, ExecGraphHandle graph);
  void destroy(ExecGraphHandle graph);

 protected:
  Runtime& runtime() { return *runtime_; }
  Driver& driver() { return *driver_; }
  BoundStream bind(Stream stream);

 private:
  struct Stop {
    BoundStream stream;
    std::uint64_t* word = nullptr;
  };
  std::uint64_t* pinned_word(ContextHandle context);
  void await(Stream stream);

  Driver* driver_;  // The runtime's.
  std::unique_ptr<Runtime> runtime_;
  std::vector<Stream> streams_;
  std::vector<Stream> capturing_;
  std::vector<Stop> stops_;
  std::vector<std::pair<ContextHandle, void*>> pinned_;
  std::uint64_t* mismatches_ = nullptr;
};

/// vmart's pools.
std::unique_ptr<StreamAllocator> vmart_allocator(std::unique_ptr<Driver> driver);
/// CUDA's pools: cuMemAllocAsync and the calls around it. `why_no_cuda_pools` says why there are
/// none here, and is empty if there are.
std::unique_ptr<StreamAllocator> cuda_allocator(std::unique_ptr<Driver> driver);
std::string why_no_cuda_pools();

}  // namespace vma
