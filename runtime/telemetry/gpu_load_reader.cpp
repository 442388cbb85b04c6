#include "telemetry/gpu_load_reader.hpp"

#include <vma/error.hpp>

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace vma {
namespace {

constexpr int success = 0;

// These have the layouts of nvmlUtilization_t, nvmlMemory_t and nvmlFieldValue_t.
struct NativeUtilisation {
  unsigned gpu = 0, memory = 0;
};
struct NativeMemory {
  unsigned long long total = 0, free = 0, used = 0;
};
struct NativeField {
  unsigned field = 0;
  unsigned scope = 0;
  long long timestamp_us = 0, latency_us = 0;
  int type = 0;
  int result = 0;
  union {
    double as_double;
    unsigned as_unsigned;
    unsigned long as_long;
    unsigned long long as_long_long = 0;
  } value;
};
static_assert(sizeof(NativeUtilisation) == 8 && sizeof(NativeMemory) == 24);
static_assert(sizeof(NativeField) == 40, "the library steps through an array of them");

constexpr unsigned all_links = std::numeric_limits<unsigned>::max();

/// Leaves the value unset if the field's type is one that no counter has.
void take(const NativeField& field, NvmlLibrary::CounterValue& counter) {
  enum Type { unsigned_int = 1, unsigned_long = 2, unsigned_long_long = 3 };
  const auto set = [&](auto value) {
    counter.value = value;
    counter.bits = std::numeric_limits<decltype(value)>::digits;
  };
  counter.value.reset();
  if (field.result != success) return;
  switch (field.type) {
    case unsigned_int: return set(field.value.as_unsigned);
    case unsigned_long: return set(field.value.as_long);
    case unsigned_long_long: return set(field.value.as_long_long);
    default: return;
  }
}

Error unusable(const std::string& file, const std::string& reason) {
  return Error(ErrorKind::unsupported, "NVML", fmt::format("{}: {}", file, reason));
}

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

struct NvmlLibrary::Calls {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*device)(const char* uuid, Device* found) = nullptr;
  int (*utilisation)(Device device, NativeUtilisation* utilisation) = nullptr;
  int (*memory)(Device device, NativeMemory* memory) = nullptr;
  int (*fields)(Device device, int count, NativeField* fields) = nullptr;
  const char* (*error_text)(int code) = nullptr;
};

NvmlLibrary::NvmlLibrary(const std::string& file) : file_(file) {
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    throw Error(ErrorKind::unsupported, "NVML", reason != nullptr ? reason : file);
  }
  auto calls = std::make_unique<Calls>();
  const auto find = [&](const char* name, auto& call) {
    call = reinterpret_cast<std::remove_reference_t<decltype(call)>>(dlsym(library, name));
    if (call == nullptr) throw unusable(file, fmt::format("it has no {}", name));
  };
  find("nvmlInit_v2", calls->init);
  find("nvmlShutdown", calls->shutdown);
  find("nvmlDeviceGetHandleByUUID", calls->device);
  find("nvmlDeviceGetUtilizationRates", calls->utilisation);
  find("nvmlDeviceGetMemoryInfo", calls->memory);
  find("nvmlDeviceGetFieldValues", calls->fields);
  find("nvmlErrorString", calls->error_text);
  if (const int code = calls->init(); code != success) {
    throw unusable(file, fmt::format("nvmlInit_v2: error {}", code));
  }
  calls_ = std::move(calls);
}

NvmlLibrary::~NvmlLibrary() {
  calls_->shutdown();
}

void NvmlLibrary::require(const char* call, int code) const {
  if (code == success) return;
  const char* text = calls_->error_text(code);
  throw Error(ErrorKind::driver_failure, call,
              fmt::format("{} ({})", text != nullptr ? text : "unknown error", code), code);
}

NvmlLibrary::Device NvmlLibrary::device(const std::string& uuid) const {
  constexpr const char* call = "nvmlDeviceGetHandleByUUID";
  Device found = nullptr;
  require(call, calls_->device(uuid.c_str(), &found));
  if (found != nullptr) return found;
  throw Error(ErrorKind::driver_failure, call, fmt::format("no handle for {}", uuid));
}

NvmlLibrary::Utilisation NvmlLibrary::utilisation(Device device) const {
  constexpr const char* call = "nvmlDeviceGetUtilizationRates";
  constexpr unsigned percent_max = 100;
  NativeUtilisation told;
  require(call, calls_->utilisation(device, &told));
  if (told.gpu <= percent_max && told.memory <= percent_max) return {told.gpu, told.memory};
  throw Error(ErrorKind::driver_failure, call, fmt::format("{} % and {} %", told.gpu, told.memory));
}

NvmlLibrary::MemoryInfo NvmlLibrary::memory(Device device) const {
  constexpr const char* call = "nvmlDeviceGetMemoryInfo";
  NativeMemory told;
  require(call, calls_->memory(device, &told));
  if (told.total > 0 && told.used <= told.total) return {told.total, told.used};
  throw Error(ErrorKind::driver_failure, call,
              fmt::format("{} of {} bytes", told.used, told.total));
}

void NvmlLibrary::read(Device device, std::span<CounterValue> counters) const {
  std::vector<NativeField> fields(counters.size());
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto number = static_cast<unsigned>(counters[i].counter);
    const bool of_links = number <= static_cast<unsigned>(Counter::nvlink_received_kib);
    fields[i].field = number;
    fields[i].scope = of_links ? all_links : 0;
    fields[i].result = -1;  // Detects fields that the library does not fill in.
  }
  require("nvmlDeviceGetFieldValues",
          calls_->fields(device, static_cast<int>(fields.size()), fields.data()));
  for (std::size_t i = 0; i < fields.size(); ++i) take(fields[i], counters[i]);
}

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
