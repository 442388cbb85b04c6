#include "bench/harness/machine.hpp"

#include "support/test_kernels.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>

namespace vma {
namespace {

constexpr std::size_t marks_max = 256;

std::unique_ptr<Runtime>& shared() {
  static std::unique_ptr<Runtime> runtime;
  return runtime;
}

Place first_host(Runtime& runtime) {
  for (const Place& at : runtime.places()) {
    if (at.kind == Place::Kind::host) return at;
  }
  throw std::runtime_error("the machine has no host node that memory can lie on");
}

std::uint64_t mark_of(std::uint64_t seed, std::size_t mark) {
  std::uint64_t mixed = (seed + 1) * 0x9E3779B97F4A7C15u + mark * 0xD1B54A32D192ED03u;
  mixed ^= mixed >> 29;
  return mixed * 0xBF58476D1CE4E5B9u;
}

/// Offsets of 8-byte marks spread over the range, including its first and last word.
std::vector<std::size_t> mark_offsets(std::size_t bytes) {
  const std::size_t words = bytes / sizeof(std::uint64_t);
  if (words == 0) return {};
  const std::size_t marks = std::min(marks_max, words);
  std::vector<std::size_t> offsets;
  for (std::size_t mark = 0; mark < marks; ++mark) {
    const std::size_t word = marks == 1 ? 0 : (words - 1) / (marks - 1) * mark;
    offsets.push_back(word * sizeof(std::uint64_t));
  }
  offsets.push_back((words - 1) * sizeof(std::uint64_t));
  return offsets;
}

}  // namespace

Runtime& shared_runtime() {
  if (!shared()) {
    RuntimeOptions options;
    options.cache_bytes_per_gpu = bytes_max() + gibibyte;
    options.host_cache_bytes = bytes_max() + gibibyte;
    shared() = std::make_unique<Runtime>(options);
    // Opens a context on each GPU, as a program that uses them does, so that calls that wait for
    // contexts wait for all of them.
    for (const Place gpu : gpus_of(*shared())) shared()->destroy_stream(shared()->make_stream(gpu));
  }
  return *shared();
}

void close_shared_runtime() {
  shared().reset();
}

int run_on_shared_runtime(int argc, char** argv, const std::function<void()>& register_all) {
  const int status = run_benchmarks(argc, argv, register_all);
  close_shared_runtime();
  return status;
}

std::vector<Place> gpus_of(Runtime& runtime) {
  std::vector<Place> gpus = runtime.places();
  std::erase_if(gpus, [](const Place& at) { return at.kind != Place::Kind::gpu; });
  return gpus;
}

KeptPool::KeptPool(int streams) {
  Runtime& runtime = shared_runtime();
  const Place gpu = runtime.places().front();
  PoolOptions options;
  options.release_threshold = SIZE_MAX;
  pool_ = runtime.make_pool(gpu, options);
  for (int i = 0; i < streams; ++i) streams_.push_back(runtime.make_stream(gpu));
}

KeptPool::~KeptPool() {
  for (const Stream stream : streams_) shared_runtime().destroy_stream(stream);
  pool_.destroy();
}

void let_scrubbing_end(std::uint64_t freed_bytes) {
  constexpr std::uint64_t bytes_per_us = 200'000;  // Half of the observed rate of the driver.
  constexpr std::chrono::milliseconds least(5);
  spin_for(least + std::chrono::microseconds(freed_bytes / bytes_per_us));
}

std::vector<Route> gpu_routes(Runtime& runtime) {
  const std::vector<Place> gpus = gpus_of(runtime);
  if (gpus.size() < 2) return {};
  return {{gpus[0], gpus[1]}, {gpus[1], gpus[0]}};
}

std::vector<Route> host_routes(Runtime& runtime) {
  const Place host_node = first_host(runtime);
  const Place first_gpu = runtime.places().front();
  return {{first_gpu, host_node}, {host_node, first_gpu}};
}

std::string route_label(const Route& route) {
  const auto label = [](const Place& at) {
    const bool on_gpu = at.kind == Place::Kind::gpu;
    return (on_gpu ? "gpu" : "host") + std::to_string(at.ordinal);
  };
  return label(route.first) + "-" + label(route.second);
}

void write_pattern(Runtime& runtime, void* pointer, std::size_t bytes, std::uint64_t seed) {
  // Fills the range first, because zeros and other regular data may be cheaper to copy.
  const Stream stream = runtime.make_stream(runtime.places().front());
  runtime.launch(stream, fill_kernel(), {1024}, {256},
                 KernelArguments::of(pointer, static_cast<std::uint64_t>(bytes / 8), seed));
  runtime.synchronize(stream);
  runtime.destroy_stream(stream);
  for (const std::size_t offset : mark_offsets(bytes)) {
    const std::uint64_t mark = mark_of(seed, offset);
    runtime.write(static_cast<std::byte*>(pointer) + offset, std::as_bytes(std::span(&mark, 1)));
  }
}

void check_pattern(Runtime& runtime, void* pointer, std::size_t bytes, std::uint64_t seed) {
  for (const std::size_t offset : mark_offsets(bytes)) {
    std::uint64_t found = 0;
    runtime.read(static_cast<std::byte*>(pointer) + offset,
                 std::as_writable_bytes(std::span(&found, 1)));
    if (found != mark_of(seed, offset)) {
      throw std::runtime_error("the bytes at offset " + std::to_string(offset) +
                               " are not those that were written");
    }
  }
}

}  // namespace vma
