#pragma once

#include "driver/driver.hpp"
#include "support/test_kernels.hpp"
#include "support/test_mapping.hpp"

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace vma {

/// One opened machine with a stream on each GPU, and short forms of common steps in contract tests.
class ContractRig {
 public:
  explicit ContractRig(std::unique_ptr<Driver> driver);
  ~ContractRig();
  ContractRig(const ContractRig&) = delete;
  ContractRig& operator=(const ContractRig&) = delete;

  Driver& driver() { return *driver_; }
  int gpus() const { return static_cast<int>(contexts_.size()); }
  ContextHandle context(int gpu) const { return contexts_[static_cast<std::size_t>(gpu)]; }
  /// A non-blocking stream of the GPU's primary context, for the rig's own work.
  BoundStream stream(int gpu) const { return streams_[static_cast<std::size_t>(gpu)]; }
  /// Another stream; the rig destroys it.
  BoundStream new_stream(ContextHandle context, StreamKind kind = StreamKind::non_blocking);
  /// A new context on the GPU; the rig destroys it.
  ContextHandle new_context(int gpu);
  /// Likewise; throws if the driver has none.
  ContextHandle new_green_context(int gpu);
  EventHandle new_event(ContextHandle context);
  /// The smallest chunk size that fits every place.
  std::uint64_t page() const { return page_; }
  /// A new zeroed word of pinned memory.
  std::uint64_t* new_word();

  /// Loads the kernel into the context once.
  KernelHandle kernel(ContextHandle context, const Kernel& kernel);
  template <typename... Values>
  void launch(BoundStream stream, const Kernel& what, const Values&... values) {
    driver_->launch(stream, kernel(stream.context, what), shape, KernelArguments::of(values...));
  }
  /// Launches and waits. Returns the driver's error code, 0 for none; -1 if the kernel does not
  /// end.
  template <typename... Values>
  int run(int gpu, const Kernel& what, const Values&... values) {
    return finish(stream(gpu), [&] { launch(stream(gpu), what, values...); });
  }
  /// The same for a copy by the GPU's copy engine.
  int run_copy(int gpu, Address target, Address source, std::uint64_t size_bytes);
  int finish(BoundStream stream, const std::function<void()>& work);

  /// Fills the memory with words that count up from `seed`, by a kernel of that GPU.
  void fill(int gpu, const TestMapping& memory, std::uint64_t seed);
  /// The number of words that differ from `fill` with that seed, as a kernel of that GPU reads
  /// them.
  std::uint64_t mismatches(int gpu, const TestMapping& memory, std::uint64_t seed);
  /// One word, as that GPU's copy engine reads it.
  std::uint64_t word_at(int gpu, Address address);

  /// Waits at most 20 s; false if that time passed.
  bool wait(BoundStream stream);
  bool wait(EventHandle event);
  /// The same for a word that a stream writes.
  static bool becomes(std::uint64_t& word, std::uint64_t value);

 private:
  static constexpr LaunchShape shape{{1, 1, 1}, {32, 1, 1}};

  std::unique_ptr<Driver> driver_;
  std::vector<ContextHandle> contexts_;
  std::vector<BoundStream> streams_;
  std::vector<BoundStream> extra_streams_;
  std::vector<ContextHandle> extra_contexts_;
  std::vector<EventHandle> events_;
  std::map<std::pair<ContextHandle, std::string>, KernelHandle> kernels_;
  std::uint64_t page_ = 0;
  std::uint64_t* words_ = nullptr;
  std::size_t words_used_ = 0;
};

/// A stream that is stopped until it is opened. The destructor opens it, even if the test failed.
class StoppedStream {
 public:
  StoppedStream(ContractRig& rig, BoundStream stream);
  ~StoppedStream();
  StoppedStream(const StoppedStream&) = delete;
  StoppedStream& operator=(const StoppedStream&) = delete;

  /// Whether the stream reaches its stop within 20 s.
  bool stands();
  /// Whether it has reached its stop by now.
  bool stands_now() const;
  void open();

 private:
  ContractRig& rig_;
  BoundStream stream_;
  std::uint64_t* arrived_;
  std::uint64_t* opened_;
};

/// Whether the CPU may load from, store to, the address. Asks the kernel, which answers where a
/// load would raise a signal.
bool cpu_can_read(const void* address);
bool cpu_can_write(void* address);

}  // namespace vma
