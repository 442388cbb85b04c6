#include "bench/live/live_machine.hpp"

#include "runtime/runtime_parts.hpp"
#include "runtime/settings.hpp"
#include "twin/submission_window.hpp"

#include <memory>
#include <optional>
#include <string>

namespace vma {
namespace {

Mutex& submissions() {
  static Mutex mutex;
  return mutex;
}

struct Opened {
  LiveSettings settings;
  Runtime runtime;
};

std::unique_ptr<Opened>& opened() {
  static std::unique_ptr<Opened> one;
  return one;
}

bool same(const LiveSettings& one, const LiveSettings& other) {
  return one.stall_budget == other.stall_budget && one.holds == other.holds &&
         one.tuning.tiles_per_granule == other.tuning.tiles_per_granule &&
         one.tuning.copy_blocks == other.tuning.copy_blocks &&
         one.tuning.settle_blocks_per_multiprocessor ==
             other.tuning.settle_blocks_per_multiprocessor;
}

std::unique_ptr<RuntimeParts> make_parts(const LiveSettings& chosen) {
  // A drained GPU gets 32 GiB back at once.
  const std::uint64_t cache_bytes = 2 * bytes_max() + gibibyte;
  RuntimeOptions options;
  options.cache_bytes_per_gpu = cache_bytes;
  options.host_cache_bytes = cache_bytes;
  Settings settings = resolve_settings(options);
  settings.stall_budget = chosen.stall_budget;
  settings.tuning = chosen.tuning;
  settings.nvml.clear();  // NVML calls would disturb the measurement.
  std::unique_ptr<Driver> driver = open_driver(settings.driver);
  if (chosen.holds) driver = std::make_unique<SubmissionWindow>(std::move(driver), submissions());
  return std::make_unique<RuntimeParts>(std::move(driver), settings);
}

}  // namespace

Runtime& live_runtime(const LiveSettings& settings, bool fresh) {
  if (opened() && (fresh || !same(opened()->settings, settings))) close_live_runtime();
  const bool opens = !opened();
  if (opens) opened().reset(new Opened{settings, runtime_of(make_parts(settings))});
  Runtime& runtime = opened()->runtime;
  for (const Place& at : runtime.places()) {
    runtime.trim(at);
    // Opens a context on each GPU, as a program that uses all of them does.
    if (opens && at.kind == Place::Kind::gpu) runtime.destroy_stream(runtime.make_stream(at));
  }
  return runtime;
}

Mutex* live_submissions() {
  return opened() && opened()->settings.holds ? &submissions() : nullptr;
}

void close_live_runtime() {
  opened().reset();
}

std::vector<Place> live_gpus(std::size_t gpus_min) {
  if (!opened()) live_runtime();
  std::vector<Place> gpus = gpus_of(opened()->runtime);
  if (gpus.size() < gpus_min) {
    throw Unavailable{"live moves are measured between " + std::to_string(gpus_min) +
                      " GPUs or more; there are " + std::to_string(gpus.size())};
  }
  return gpus;
}

}  // namespace vma
