#include "telemetry/nvml_library.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <dlfcn.h>

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

}  // namespace vma
