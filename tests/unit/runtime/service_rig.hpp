#pragma once

#include "support/drivers/trace_driver.hpp"
#include "runtime/runtime_parts.hpp"
#include "sim/sim_driver.hpp"
#include "unit/memory/memory_rig.hpp"

#include <vma/runtime.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vma {

/// A runtime on a simulated machine whose calls are traced, with a stream on each GPU. The machine
/// outlives the runtime; the test fails if the runtime leaves anything in it.
class ServiceRig {
 public:
  explicit ServiceRig(const std::string& machine = "test-2", RuntimeOptions options = {});
  ~ServiceRig();
  ServiceRig(const ServiceRig&) = delete;
  ServiceRig& operator=(const ServiceRig&) = delete;

  SimDriver& machine() { return machine_; }
  Runtime& runtime() { return *runtime_; }
  int gpus() const { return static_cast<int>(streams_.size()); }
  Stream stream(int gpu) const { return streams_.at(static_cast<std::size_t>(gpu)); }
  TraceDriver& trace() { return *trace_; }

  /// Sets word i of the range to `seed` + i, with a kernel on the GPU.
  void fill_on(int gpu, void* pointer, std::uint64_t bytes, std::uint64_t seed);
  /// The number of words that a kernel on the GPU finds different from that.
  std::uint64_t wrong_on(int gpu, void* pointer, std::uint64_t bytes, std::uint64_t seed);
  /// The same with `vma::write` and `vma::read`.
  void write(void* pointer, std::uint64_t bytes, std::uint64_t seed);
  std::uint64_t wrong(const void* pointer, std::uint64_t bytes, std::uint64_t seed);
  void check_invariants();

 private:
  SimDriver machine_;
  TraceDriver* trace_ = nullptr;  // Owned by the runtime.
  std::unique_ptr<Runtime> runtime_;
  std::vector<Stream> streams_;
  std::uint64_t* mismatches_ = nullptr;
};

constexpr std::uint64_t page = 4096;

inline std::byte* at(void* pointer, std::uint64_t offset) {
  return static_cast<std::byte*>(pointer) + offset;
}

}  // namespace vma
