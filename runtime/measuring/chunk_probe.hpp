#pragma once

#include "driver/driver.hpp"
#include "measuring/measured_calls.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <vector>

namespace vma {

/// Times the calls in the lives of chunks of several sizes, granted to one, two, four and more
/// GPUs: first without other mappings between the GPUs, then beside keepers. One object per run,
/// one thread. Allocates at most a quarter of a GPU's memory and an eighth of a host node's.
class ChunkProbe {
 public:
  /// Requires: nothing is mapped on any GPU, and all have open contexts. `host_bytes` is the memory
  /// of the first host node. `say` is called with a description of each measurement before it
  /// begins.
  ChunkProbe(Driver& driver, std::uint64_t host_bytes, std::function<void(const std::string&)> say);

  /// Throws: Error{driver_gone}.
  void measure(MeasuredCalls& calls);

 private:
  enum Step { reserve, create, map, first, later, shadow, unmap, release, unreserve, steps };
  using Life = std::array<double, steps>;  // Microseconds, by step.
  using Readers = std::vector<Accessor>;

  /// The first `count` GPUs that reach memory at `at`, starting with the GPU that owns it.
  Readers readers(Place at, std::size_t count) const;
  Life one_life(Place at, std::uint64_t bytes, const Readers& readers);
  /// Medians of several lives.
  Life life(Place at, std::uint64_t bytes, const Readers& readers);
  std::vector<Life> lives(MeasuredCalls& calls, const std::vector<std::uint64_t>& sizes,
                          std::size_t count);
  void keep(std::uint64_t bytes);

  void measure_cold(MeasuredCalls& calls);
  void measure_warm(MeasuredCalls& calls);
  void measure_own_class(MeasuredCalls& calls);
  void measure_host(MeasuredCalls& calls);

  Driver& driver_;
  Clock& clock_;
  const std::uint64_t host_bytes_;
  std::function<void(const std::string&)> say_;
  std::vector<std::uint64_t> sizes_;  // In HBM. Constant after construction.
  std::vector<std::size_t> counts_;   // Of participating GPUs. Constant after construction.
  std::list<ProbedChunk> keepers_;
};

}  // namespace vma
