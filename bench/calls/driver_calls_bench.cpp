// Cost of the driver's virtual memory calls by size, without other mappings between the GPUs and
// beside keepers. One sample is the life of one chunk, with a counter for each call.

#include "bench/samples.hpp"

#include "base/units.hpp"
#include "driver/driver.hpp"
#include "runtime/runtime_parts.hpp"
#include "runtime/settings.hpp"

#include <vma/error.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vma {
namespace {

/// All accessors that can reach memory at `at`.
std::vector<Accessor> readers_of(Driver& driver, Location at) {
  std::vector<Accessor> readers;
  for (int device = 0; device < driver.device_count(); ++device) {
    const bool reaches = at.kind == Location::Kind::host || device == at.ordinal ||
                         driver.can_access_peer(DeviceId{device}, DeviceId{at.ordinal});
    if (reaches) readers.push_back({gpu(device)});
  }
  return readers;
}

/// Keeps a chunk mapped on each GPU, granted to all GPUs that reach it.
class StandingKeepers {
 public:
  explicit StandingKeepers(Driver& driver) : driver_(driver) {
    for (int device = 0; device < driver.device_count(); ++device) {
      const Location at = gpu(device);
      Keeper keeper;
      keeper.size_bytes = driver.granularity(at);
      keeper.begin = driver.reserve(keeper.size_bytes, 0);
      keeper.chunk = driver.create(at, keeper.size_bytes);
      driver.map(keeper.begin, keeper.size_bytes, keeper.chunk);
      driver.grant(keeper.begin, keeper.size_bytes, readers_of(driver, at));
      keepers_.push_back(keeper);
    }
  }

  void close() {
    for (const Keeper& keeper : keepers_) {
      driver_.unmap(keeper.begin, keeper.size_bytes);
      driver_.release(keeper.chunk);
      driver_.unreserve(keeper.begin, keeper.size_bytes);
    }
    keepers_.clear();
  }

 private:
  struct Keeper {
    Address begin{};
    std::uint64_t size_bytes = 0;
    ChunkHandle chunk{};
  };
  Driver& driver_;
  std::vector<Keeper> keepers_;
};

/// Records the duration of each step of a sequence in a sample.
class Steps {
 public:
  explicit Steps(Sample& sample) : sample_(sample) {}
  void done(const char* step) {
    const std::chrono::nanoseconds took = watch_.elapsed();
    sample_.counters[std::string(step) + "_us"] = to_us(took);
    sample_.wall += took;
    watch_ = Stopwatch();
  }

 private:
  Sample& sample_;
  Stopwatch watch_;
};

Sample chunk_life(Driver& driver, Location at, std::uint64_t bytes) {
  const std::vector<Accessor> readers = readers_of(driver, at);
  Sample sample;
  Steps steps(sample);
  const Address begin = driver.reserve(bytes, 0);
  steps.done("reserve");
  const ChunkHandle chunk = driver.create(at, bytes);
  steps.done("create");
  driver.map(begin, bytes, chunk);
  steps.done("map");
  driver.grant(begin, bytes, readers);
  steps.done("first_grant");
  driver.unmap(begin, bytes);
  steps.done("unmap");
  driver.map(begin, bytes, chunk);
  steps.done("map_again");
  driver.grant(begin, bytes, readers);
  steps.done("later_grant");
  driver.unmap(begin, bytes);
  steps.done("unmap_again");
  driver.release(chunk);
  steps.done("release");
  driver.unreserve(begin, bytes);
  steps.done("unreserve");
  return sample;
}

/// The driver, and the keepers, which the first benchmark that needs them creates. Benchmarks
/// without keepers run before.
struct Bench {
  std::unique_ptr<Driver> driver = open_driver(resolve_settings({}).driver);
  std::unique_ptr<StandingKeepers> keepers;

  Bench() {
    for (int device = 0; device < driver->device_count(); ++device) {
      driver->retain_primary(DeviceId{device});
    }
  }
  ~Bench() {
    try {
      if (keepers) keepers->close();
      for (int device = 0; device < driver->device_count(); ++device) {
        driver->release_primary(DeviceId{device});
      }
    } catch (const Error&) {  // The process ends here; the driver releases the rest.
    }
  }

  Sample life(bool with_keepers, Location at, std::uint64_t bytes) {
    if (with_keepers && !keepers) keepers = std::make_unique<StandingKeepers>(*driver);
    return chunk_life(*driver, at, bytes);
  }
};

void register_all(std::shared_ptr<Bench>& bench) {
  bench = std::make_shared<Bench>();
  const auto sizes =
      sizes_up_to_max({2 * MiB, 16 * MiB, 64 * MiB, 256 * MiB, 510 * MiB, 512 * MiB, 1 * GiB});
  const auto host_sizes = sizes_up_to_max({2 * MiB, 64 * MiB, 256 * MiB});
  for (const bool with_keepers : {false, true}) {
    const std::string state = with_keepers ? "keepers" : "alone";
    for (const Location at : {gpu(0), host(0)}) {
      if (at.kind == Location::Kind::host && bench->driver->host_node_count() == 0) continue;
      const bool on_gpu = at.kind == Location::Kind::gpu;
      for (const std::uint64_t bytes : on_gpu ? sizes : host_sizes) {
        register_samples(
            "driver_calls/" + state + (on_gpu ? "/gpu0/" : "/host0/") + size_label(bytes),
            [&bench, with_keepers, at, bytes] { return bench->life(with_keepers, at, bytes); });
      }
    }
  }
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  std::shared_ptr<vma::Bench> bench;
  return vma::run_benchmarks(argc, argv, [&] { vma::register_all(bench); });
}
