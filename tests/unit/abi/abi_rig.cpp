#include "unit/abi/abi_rig.hpp"

#include "runtime/runtime_parts.hpp"

#include <cstdlib>

namespace vma {
namespace {

/// Shuts the process-wide runtime and its simulated machine down before the process exits:
/// ThreadSanitizer reports threads that still run then.
class EndOfRuntime : public testing::Environment {
 public:
  void TearDown() override {
    if (!opened) return;
    runtime().shutdown();
    parts_of(runtime()).driver.reset();
  }
  static inline bool opened = false;
};

[[maybe_unused]] const auto* const end_of_runtime =
    testing::AddGlobalTestEnvironment(new EndOfRuntime());

}  // namespace

AbiTest::AbiTest() {
  setenv("VMART_DRIVER", "sim:test-2", 1);
  setenv("VMART_CAPACITY", "gpu1=1MiB", 1);
  setenv("VMART_EXPORTABLE", "fd", 1);
  EndOfRuntime::opened = true;
  for (int gpu = 0; gpu < 2; ++gpu) streams_.push_back(make_stream(vma::gpu(gpu)));
  allocations_before_ = runtime().stats().allocations;
}

AbiTest::~AbiTest() {
  EXPECT_EQ(runtime().stats().allocations, allocations_before_);
  for (const Stream stream : streams_) destroy_stream(stream);
}

Driver& AbiTest::driver() {
  return *parts_of(runtime()).driver;
}

BoundStream AbiTest::bound(Stream stream) {
  return parts_of(runtime()).machinery->launcher.bind(stream);
}

std::uint64_t* AbiTest::filled(std::uint64_t chunks, std::uint64_t seed) {
  AllocOptions options;
  options.chunk_bytes = chunk_bytes;
  auto* words = static_cast<std::uint64_t*>(alloc(chunks * chunk_bytes, gpu(0), options));
  std::vector<std::uint64_t> pattern(chunks * chunk_bytes / 8);
  for (std::uint64_t i = 0; i < pattern.size(); ++i) pattern[i] = seed + i;
  write(words, std::as_bytes(std::span(pattern)));
  return words;
}

std::uint64_t AbiTest::wrong(const std::uint64_t* words, std::uint64_t chunks, std::uint64_t seed) {
  std::vector<std::uint64_t> now(chunks * chunk_bytes / 8);
  read(words, std::as_writable_bytes(std::span(now)));
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < now.size(); ++i) wrong += now[i] != seed + i;
  return wrong;
}

bool AbiTest::is_allocated(const void* pointer) {
  return vmart_base(pointer, nullptr, nullptr) == VMART_OK;
}

vmart_place c_gpu(int ordinal) {
  return {VMART_GPU, ordinal};
}

vmart_place c_host(int node) {
  return {VMART_HOST, node};
}

std::string home_of(const void* pointer) {
  vmart_place at{};
  if (vmart_where(pointer, &at) != VMART_OK) return vmart_last_error();
  return to_string(at.kind == VMART_GPU ? gpu(at.ordinal) : host(at.ordinal));
}

}  // namespace vma
