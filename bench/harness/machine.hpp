#pragma once

#include "bench/harness/samples.hpp"

#include <vma/pool.hpp>
#include <vma/runtime.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace vma {

/// The runtime shared by the benchmarks of one process. Opened on first use from the environment
/// (VMART_DRIVER etc.), with caches that hold the largest allocation of any benchmark.
Runtime& shared_runtime();
/// Shuts the shared runtime down, so that another one can be opened: on GPUs, a process can have
/// only one at a time.
void close_shared_runtime();
/// As `run_benchmarks`, and then closes the shared runtime.
int run_on_shared_runtime(int argc, char** argv, const std::function<void()>& register_all);

std::vector<Place> gpus_of(Runtime& runtime);

/// A pool of the shared runtime's first GPU that keeps its memory, and streams there.
class KeptPool {
 public:
  explicit KeptPool(int streams);
  ~KeptPool();
  KeptPool(const KeptPool&) = delete;
  KeptPool& operator=(const KeptPool&) = delete;

  const Pool& pool() const noexcept { return pool_; }
  Stream stream(int number) const { return streams_[static_cast<std::size_t>(number)]; }

 private:
  Pool pool_;
  std::vector<Stream> streams_;
};

/// Spins for as long as the driver may need to scrub released memory. Until then, a first grant of
/// that memory waits (driver 580: 0.6 ms for 256 MiB instead of 0.15 ms), and the driver does not
/// signal the end.
void let_scrubbing_end(std::uint64_t freed_bytes);

/// Source and target. The benchmarks move between these pairs of places, in both directions: the
/// first two GPUs, and the first GPU and the first host node.
using Route = std::pair<Place, Place>;
std::vector<Route> gpu_routes(Runtime& runtime);
std::vector<Route> host_routes(Runtime& runtime);
/// Such as "gpu0-gpu1" or "host0-gpu0", as in the names of benchmarks.
std::string route_label(const Route& route);

/// Writes bytes that `check_pattern` can verify: at the start, at the end and in between, in many
/// places of each chunk, but not everywhere. Each seed has a different pattern.
void write_pattern(Runtime& runtime, void* pointer, std::size_t bytes, std::uint64_t seed);
/// Throws: std::runtime_error that names the first offset at which the bytes differ.
void check_pattern(Runtime& runtime, void* pointer, std::size_t bytes, std::uint64_t seed);

}  // namespace vma
