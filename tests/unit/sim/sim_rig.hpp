#pragma once

#include "driver/driver.hpp"
#include "sim/sim_driver.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace vma {

/// Stores a word that the machine waits for, as a program would.
inline void store(std::uint64_t* word, std::uint64_t value) {
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/// A simulated machine with the primary context of each GPU open and a stream in it, and short
/// forms of common steps. Chunks are 4 KiB unless the machine says otherwise.
class SimRig {
 public:
  explicit SimRig(const std::string& machine = "test-2", const SimOptions& options = {});
  ~SimRig();
  SimRig(const SimRig&) = delete;
  SimRig& operator=(const SimRig&) = delete;

  SimDriver& driver() { return driver_; }
  ContextHandle context(int gpu) const { return contexts_.at(static_cast<std::size_t>(gpu)); }
  BoundStream stream(int gpu) const { return streams_.at(static_cast<std::size_t>(gpu)); }
  BoundStream new_stream(int gpu, StreamKind kind = StreamKind::non_blocking);
  EventHandle new_event(int gpu);
  std::uint64_t page() { return driver_.granularity(gpu(0)); }
  /// A zeroed word of pinned memory.
  std::uint64_t* new_word();

  struct Memory {
    Address address{};
    std::uint64_t size_bytes = 0;
    ChunkHandle chunk{};
    std::uint64_t* words() const { return static_cast<std::uint64_t*>(to_pointer(address)); }
  };
  /// Memory reserved, created, mapped and granted to all GPUs.
  Memory allocate(Place at, std::uint64_t size_bytes);
  void give_back(const Memory& memory);
  void grant_all(Address begin, std::uint64_t size_bytes);

  void launch(BoundStream stream, std::function<void(DeviceView&)> body,
              const std::string& entry = "test");
  void launch_spin(BoundStream stream, TimePoint duration);
  void batch_write(BoundStream stream, std::uint64_t* word, std::uint64_t value);
  void batch_wait(BoundStream stream, std::uint64_t* word, std::uint64_t value);
  void finish(BoundStream stream) { driver_.wait_stream(stream, never); }
  /// The word as the GPU's copy engine reads it.
  std::uint64_t word_at(int gpu, Address address);
  void set_word(int gpu, Address address, std::uint64_t value);

 private:
  SimDriver driver_;
  std::vector<ContextHandle> contexts_;
  std::vector<BoundStream> streams_;
};

/// The text of the error that the body throws.
std::string error_of(const std::function<void()>& body);

}  // namespace vma
