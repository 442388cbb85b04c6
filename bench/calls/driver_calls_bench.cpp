// Cost of the driver's virtual memory calls by size, without other mappings between the GPUs and
// beside keepers; beside keepers also for chunks that can be exported. One sample is the life of
// one chunk, with a counter for each call. And of a switch of a slot after a rest, by what was
// called just before it; and of copies to the host while the slots of their targets are granted.

#include "bench/harness/samples.hpp"

#include "base/units.hpp"
#include "driver/driver.hpp"
#include "runtime/runtime_parts.hpp"
#include "runtime/settings.hpp"

#include <vma/error.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

/// All accessors that can reach memory at `at`.
std::vector<Accessor> readers_of(Driver& driver, Place at) {
  std::vector<Accessor> readers;
  for (int device = 0; device < driver.device_count(); ++device) {
    const bool reaches = at.kind == Place::Kind::host || device == at.ordinal ||
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
      const Place at = gpu(device);
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

/// A descriptor leaves and comes back. The mapping of the imported chunk is not timed: it is like
/// any other.
void export_and_import(Driver& driver, ChunkHandle chunk, Steps& steps) {
  const int descriptor = driver.export_chunk(chunk);
  steps.done("export");
  const ChunkHandle imported = driver.import_chunk(descriptor);
  steps.done("import");
  driver.release(imported);
  close(descriptor);
  steps.done("release_imported");
}

Sample chunk_life(Driver& driver, Place at, std::uint64_t bytes, const ExportTypes& types) {
  const std::vector<Accessor> readers = readers_of(driver, at);
  Sample sample;
  Steps steps(sample);
  const Address begin = driver.reserve(bytes, 0);
  steps.done("reserve");
  const ChunkHandle chunk =
      types.any() ? driver.create_exportable(at, bytes, types) : driver.create(at, bytes);
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
  if (types.descriptor) export_and_import(driver, chunk, steps);
  driver.release(chunk);
  steps.done("release");
  driver.unreserve(begin, bytes);
  steps.done("unreserve");
  return sample;
}

/// A slot on the first GPU that shows one of two chunks there in turn.
class TurnedSlot {
 public:
  TurnedSlot(Driver& driver, std::uint64_t bytes)
      : driver_(driver),
        readers_(readers_of(driver, gpu(0))),
        bytes_(bytes),
        begin_(driver.reserve(bytes, 0)),
        chunks_{driver.create(gpu(0), bytes), driver.create(gpu(0), bytes)} {
    driver_.map(begin_, bytes_, chunks_[0]);
    grant();
  }
  ~TurnedSlot() {
    driver_.unmap(begin_, bytes_);
    for (const ChunkHandle chunk : chunks_) driver_.release(chunk);
    driver_.unreserve(begin_, bytes_);
  }
  TurnedSlot(const TurnedSlot&) = delete;
  TurnedSlot& operator=(const TurnedSlot&) = delete;

  void grant() { driver_.grant(begin_, bytes_, readers_); }
  Sample turn() {
    Sample sample;
    Steps steps(sample);
    driver_.unmap(begin_, bytes_);
    steps.done("unmap");
    driver_.map(begin_, bytes_, chunks_[++turns_ % 2]);
    steps.done("map");
    grant();
    steps.done("grant");
    return sample;
  }

 private:
  Driver& driver_;
  const std::vector<Accessor> readers_;
  const std::uint64_t bytes_;
  const Address begin_;
  const ChunkHandle chunks_[2];
  std::size_t turns_ = 0;
};

/// What is called before a switch, after the rest.
enum class Before { nothing, grant, switch_of_a_small_slot };

/// Copies from the first GPU to the host, chunk by chunk.
class CopiesToHost {
 public:
  CopiesToHost(Driver& driver, ContextHandle context, std::uint64_t bytes)
      : driver_(driver),
        stream_(driver.create_stream(context, StreamKind::non_blocking)),
        chunk_bytes_(std::min<std::uint64_t>(bytes, 256 * MiB)),
        bytes_(bytes),
        slots_(driver.reserve(bytes, 0)) {
    for (const Place at : {gpu(0), host(0)}) {
      Ends& ends = at.kind == Place::Kind::host ? targets_ : sources_;
      ends.begin = driver.reserve(bytes, 0);
      for (std::uint64_t at_byte = 0; at_byte < bytes; at_byte += chunk_bytes_) {
        ends.chunks.push_back(driver.create(at, chunk_bytes_));
        driver.map(ends.begin + at_byte, chunk_bytes_, ends.chunks.back());
        driver.grant(ends.begin + at_byte, chunk_bytes_, readers_of(driver, at));
      }
    }
  }
  ~CopiesToHost() {
    for (const Ends* const ends : {&sources_, &targets_}) {
      for (std::size_t i = 0; i < ends->chunks.size(); ++i) {
        driver_.unmap(ends->begin + i * chunk_bytes_, chunk_bytes_);
        driver_.release(ends->chunks[i]);
      }
      driver_.unreserve(ends->begin, bytes_);
    }
    driver_.unreserve(slots_, bytes_);
    driver_.destroy_stream(stream_);
  }
  CopiesToHost(const CopiesToHost&) = delete;
  CopiesToHost& operator=(const CopiesToHost&) = delete;

  /// `grants`: shows each target in a slot beside the copies.
  Sample run(bool grants) {
    const Stopwatch watch;
    driver_.copy(stream_, targets_.begin, sources_.begin, bytes_);
    double granting_us = 0;
    for (std::size_t i = 0; grants && i < targets_.chunks.size(); ++i) {
      const Stopwatch granting;
      const Address slot = slots_ + i * chunk_bytes_;
      driver_.map(slot, chunk_bytes_, targets_.chunks[i]);
      driver_.grant(slot, chunk_bytes_, readers_of(driver_, host(0)));
      granting_us += to_us(granting.elapsed());
    }
    driver_.wait_stream(stream_, never);
    Sample sample;
    sample.wall = watch.elapsed();
    sample.counters["grants_us"] = granting_us;
    for (std::size_t i = 0; grants && i < targets_.chunks.size(); ++i) {
      driver_.unmap(slots_ + i * chunk_bytes_, chunk_bytes_);
    }
    return sample;
  }

 private:
  struct Ends {
    Address begin{};
    std::vector<ChunkHandle> chunks;
  };
  Driver& driver_;
  const BoundStream stream_;
  const std::uint64_t chunk_bytes_;
  const std::uint64_t bytes_;
  const Address slots_;
  Ends sources_, targets_;
};

/// The driver, and the keepers, which the first benchmark that needs them creates. Benchmarks
/// without keepers run before.
struct Bench {
  std::unique_ptr<Driver> driver = open_driver(resolve_settings({}).driver);
  std::unique_ptr<StandingKeepers> keepers;
  std::unique_ptr<TurnedSlot> slot, small_slot;
  std::unique_ptr<CopiesToHost> copies;
  std::vector<ContextHandle> contexts;

  Bench() {
    for (int device = 0; device < driver->device_count(); ++device) {
      contexts.push_back(driver->retain_primary(DeviceId{device}));
    }
  }
  ~Bench() {
    try {
      copies.reset();
      slot.reset();
      small_slot.reset();
      if (keepers) keepers->close();
      for (int device = 0; device < driver->device_count(); ++device) {
        driver->release_primary(DeviceId{device});
      }
    } catch (const Error&) {  // The process ends here; the driver releases the rest.
    }
  }

  Sample life(bool with_keepers, Place at, std::uint64_t bytes, const ExportTypes& types = {}) {
    if (with_keepers && !keepers) keepers = std::make_unique<StandingKeepers>(*driver);
    return chunk_life(*driver, at, bytes, types);
  }
};

void register_rested(std::shared_ptr<Bench>& bench) {
  const std::pair<const char*, Before> befores[] = {
      {"nothing", Before::nothing},
      {"grant", Before::grant},
      {"small_switch", Before::switch_of_a_small_slot}};
  const std::uint64_t bytes = sizes_up_to_max({256 * MiB}).front();
  for (const int rest_ms : {0, 10, 60}) {
    for (const auto& [name, before] : befores) {
      register_samples("driver_calls/switch/rested" + std::to_string(rest_ms) + "ms/after_" + name +
                           "/" + size_label(bytes),
                       [&bench, rest_ms, bytes, before = before] {
                         if (!bench->slot) {
                           bench->slot = std::make_unique<TurnedSlot>(*bench->driver, bytes);
                           bench->small_slot =
                               std::make_unique<TurnedSlot>(*bench->driver, 2 * MiB);
                         }
                         spin_for(std::chrono::milliseconds(rest_ms));
                         if (before == Before::grant) bench->small_slot->grant();
                         if (before == Before::switch_of_a_small_slot) bench->small_slot->turn();
                         return bench->slot->turn();
                       });
    }
  }
}

void register_copies(std::shared_ptr<Bench>& bench) {
  if (bench->driver->host_node_count() == 0) return;
  const std::uint64_t bytes = sizes_up_to_max({1 * GiB}).front();
  for (const bool grants : {false, true}) {
    register_samples(std::string("driver_calls/to_host/") + (grants ? "granted_beside" : "alone") +
                         "/" + size_label(bytes),
                     [&bench, bytes, grants] {
                       if (!bench->copies) {
                         bench->copies = std::make_unique<CopiesToHost>(
                             *bench->driver, bench->contexts.front(), bytes);
                       }
                       return bench->copies->run(grants);
                     });
  }
}

/// With and without the ways in which a chunk can leave, all beside keepers and in one run, so that
/// they can be compared: `RuntimeOptions::exportable` has its default from here.
void register_exportable(std::shared_ptr<Bench>& bench) {
  const ExportTypes possible = bench->driver->export_types(gpu(0));
  const std::pair<const char*, ExportTypes> ways[] = {
      {"none", {}},
      {"fd", {.descriptor = true}},
      {"rdma", {.descriptor = false, .fabric = false, .rdma = true}},
      {"fd_rdma", {.descriptor = true, .fabric = false, .rdma = true}}};
  for (const auto& [name, types] : ways) {
    if ((types.descriptor && !possible.descriptor) || (types.rdma && !possible.rdma)) continue;
    for (const std::uint64_t bytes : sizes_up_to_max({2 * MiB, 64 * MiB, 256 * MiB})) {
      register_samples(
          "driver_calls/exportable/" + std::string(name) + "/" + size_label(bytes),
          [&bench, bytes, types = types] { return bench->life(true, gpu(0), bytes, types); });
    }
  }
}

void register_all(std::shared_ptr<Bench>& bench) {
  bench = std::make_shared<Bench>();
  const auto sizes =
      sizes_up_to_max({2 * MiB, 16 * MiB, 64 * MiB, 256 * MiB, 510 * MiB, 512 * MiB, 1 * GiB});
  const auto host_sizes = sizes_up_to_max({2 * MiB, 64 * MiB, 256 * MiB});
  for (const bool with_keepers : {false, true}) {
    const std::string state = with_keepers ? "keepers" : "alone";
    for (const Place at : {gpu(0), host(0)}) {
      if (at.kind == Place::Kind::host && bench->driver->host_node_count() == 0) continue;
      const bool on_gpu = at.kind == Place::Kind::gpu;
      for (const std::uint64_t bytes : on_gpu ? sizes : host_sizes) {
        register_samples(
            "driver_calls/" + state + (on_gpu ? "/gpu0/" : "/host0/") + size_label(bytes),
            [&bench, with_keepers, at, bytes] { return bench->life(with_keepers, at, bytes); });
      }
    }
  }
  register_exportable(bench);
  register_rested(bench);
  register_copies(bench);
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  std::shared_ptr<vma::Bench> bench;
  return vma::run_benchmarks(argc, argv, [&] { vma::register_all(bench); });
}
