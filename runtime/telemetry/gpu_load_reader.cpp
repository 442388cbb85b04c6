#include "telemetry/gpu_load_reader.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <utility>

namespace vma {
namespace {

constexpr double percent = 0.01;
constexpr double kib = 1024;
/// A 32-bit counter can wrap unnoticed between two samples: at 50 GB/s, it does so every 86 ms.
constexpr unsigned counter_bits_min = 64;

using Counter = NvmlLibrary::Counter;

struct Rate {
  Counter counter;
  double unit_bytes;
  std::optional<double> GpuLoad::*member;
};
constexpr Rate rates[] = {
    {Counter::nvlink_sent_kib, kib, &GpuLoad::nvlink_sent_bytes_s},
    {Counter::nvlink_received_kib, kib, &GpuLoad::nvlink_received_bytes_s},
    {Counter::pcie_sent_bytes, 1, &GpuLoad::pcie_sent_bytes_s},
    {Counter::pcie_received_bytes, 1, &GpuLoad::pcie_received_bytes_s},
};

bool says_nothing(const GpuLoad& load) {
  return !load.kernels && !load.memory_used_bytes &&
         std::ranges::none_of(rates,
                              [&](const Rate& rate) { return (load.*rate.member).has_value(); });
}

}  // namespace

GpuLoadReader::GpuLoadReader(const NvmlLibrary& library, const std::vector<NamedGpu>& gpus,
                             Clock& clock)
    : library_(library), clock_(clock) {
  static_assert(std::size(rates) == counters);
  bool any = false;
  for (const NamedGpu& named : gpus) {
    Gpu& added = gpus_.emplace_back();
    added.at = named.at;
    try {
      added.device = library_.device(named.uuid);
      any = true;
    } catch (const Error& error) {
      added.why_not = error.what();
    }
  }
  if (any) return;
  throw Error(ErrorKind::unsupported, "NVML",
              fmt::format("{} does not know a GPU of the runtime: {}", library.file(),
                          gpus_.empty() ? "there is none" : gpus_.front().why_not));
}

GpuLoads GpuLoadReader::read() {
  GpuLoads loads;
  for (Gpu& gpu : gpus_) loads.gpus.push_back(read(gpu, loads.reason));
  const bool counted = std::ranges::any_of(gpus_, [](const Gpu& gpu) {
    return std::ranges::any_of(gpu.counted, [](const auto& count) { return count.has_value(); });
  });
  const bool nothing = std::ranges::all_of(loads.gpus, says_nothing) && !counted;
  loads.state = nothing ? GpuLoads::State::off : GpuLoads::State::on;
  if (nothing) loads.gpus.clear();
  return loads;
}

GpuLoad GpuLoadReader::read(Gpu& gpu, std::string& reason) const {
  GpuLoad load;
  load.at = gpu.at;
  const auto fails = [&](const std::string& why) {
    if (reason.empty()) reason = fmt::format("{}: {}", to_string(gpu.at), why);
  };
  if (gpu.device == nullptr) {
    fails(gpu.why_not);
    return load;
  }
  const auto attempt = [&](const std::function<void()>& body) {
    try {
      body();
      return true;
    } catch (const Error& error) {
      fails(error.what());
      return false;
    }
  };
  attempt([&] {
    const NvmlLibrary::Utilisation told = library_.utilisation(gpu.device);
    load.kernels = percent * told.kernels_percent;
    load.memory = percent * told.memory_percent;
  });
  attempt([&] {
    const NvmlLibrary::MemoryInfo told = library_.memory(gpu.device);
    load.memory_used_bytes = told.used_bytes;
    load.memory_total_bytes = told.total_bytes;
  });
  if (!attempt([&] { read_throughput(gpu, load); })) gpu.counted = {};
  return load;
}

/// Computes rates from the increase of the counters. A counter that fell has wrapped or was reset.
void GpuLoadReader::read_throughput(Gpu& gpu, GpuLoad& load) const {
  std::array<NvmlLibrary::CounterValue, counters> values;
  for (std::size_t i = 0; i < counters; ++i) values[i].counter = rates[i].counter;
  const TimePoint now = clock_.now();
  library_.read(gpu.device, values);
  const double passed_s = std::chrono::duration<double>(now - gpu.counted_at).count();
  for (std::size_t i = 0; i < counters; ++i) {
    if (values[i].bits < counter_bits_min) values[i].value.reset();
    const auto before = std::exchange(gpu.counted[i], values[i].value);
    if (!before || !values[i].value || *values[i].value < *before || passed_s <= 0) continue;
    load.*rates[i].member =
        static_cast<double>(*values[i].value - *before) * rates[i].unit_bytes / passed_s;
  }
  gpu.counted_at = now;
}

}  // namespace vma
