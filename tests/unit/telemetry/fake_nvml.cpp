// An NVML that answers and fails as a test asks, with the calls and layouts of NVIDIA's header.
// Every GPU whose name is not "GPU-unknown" exists.
#include "unit/telemetry/fake_nvml.hpp"

#include <unistd.h>

#include <cstring>
#include <thread>

namespace {

constexpr int success = 0, not_supported = 3, not_found = 6, unknown = 999;

struct Utilization {
  unsigned gpu, memory;
};
struct Memory {
  unsigned long long total, free, used;
};
struct FieldValue {
  unsigned field_id, scope_id;
  long long timestamp, latency_us;
  int value_type, result;
  union {
    double d;
    int si;
    unsigned ui;
    unsigned long ul;
    unsigned long long ull;
  } value;
};

int any_device;

}  // namespace

extern "C" {

vma::FakeNvml fake_nvml;

/// The library's static state, which every call uses.
static struct Statics {
  ~Statics() {
    if (fake_nvml.must_be_closed_at_exit && fake_nvml.opened != fake_nvml.closed) _exit(97);
  }
} statics;

static bool fails(vma::FakeNvml::Call call) {
  return (fake_nvml.failing & call) != 0;
}

int nvmlInit_v2() {
  if (fails(vma::FakeNvml::init)) return unknown;
  ++fake_nvml.opened;
  return success;
}
int nvmlShutdown() {
  ++fake_nvml.closed;
  return success;
}
const char* nvmlErrorString(int code) {
  return code == not_found ? "Not Found" : code == not_supported ? "Not Supported" : nullptr;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  if (fails(vma::FakeNvml::device) || std::strcmp(uuid, "GPU-unknown") == 0) return not_found;
  *device = fake_nvml.talks_nonsense ? nullptr : &any_device;
  return success;
}
int nvmlDeviceGetUtilizationRates(void* device, Utilization* utilization) {
  ++fake_nvml.samples;
  while (fake_nvml.hangs) std::this_thread::yield();
  if (fails(vma::FakeNvml::utilisation) || device != &any_device) return not_supported;
  *utilization = {fake_nvml.kernels_percent, fake_nvml.memory_percent};
  return success;
}
int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  if (fails(vma::FakeNvml::memory) || device != &any_device) return not_supported;
  const unsigned long long total = fake_nvml.total_bytes, used = fake_nvml.used_bytes;
  *memory = {total, total - used, used};
  return success;
}
int nvmlDeviceGetFieldValues(void* device, int count, FieldValue* values) {
  if (fails(vma::FakeNvml::fields) || device != &any_device) return not_supported;
  constexpr unsigned all_links = ~0u;
  constexpr int int_type = 1, long_long_type = 3, no_type = 77;
  for (FieldValue* value = values; value != values + count; ++value) {
    const bool nvlink = value->field_id == 138 || value->field_id == 139;
    const bool pcie = value->field_id == 197 || value->field_id == 198;
    const bool known = (nvlink && value->scope_id == all_links) || (pcie && value->scope_id == 0);
    value->result = known ? success : not_supported;
    if (!known) continue;
    const std::uint64_t counted = fake_nvml.counters[value->field_id - (nvlink ? 138 : 195)];
    const bool narrow = pcie && fake_nvml.counts_pcie_narrowly;
    value->value_type = narrow ? int_type : long_long_type;
    if (narrow) value->value.ui = static_cast<unsigned>(counted);
    if (!narrow) value->value.ull = counted;
    if (fake_nvml.has_no_counters) (nvlink ? value->value_type : value->result) = no_type;
  }
  return success;
}
}
