// Managed memory that is prefetched from GPU to GPU, which is the driver's own way to move pages
// under a stable pointer. At most 8 GiB exist at once, because more than fits can hang a GPU.

#include "bench/rivals/cuda_calls.hpp"
#include "bench/harness/samples.hpp"

#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace vma {
namespace {

constexpr unsigned word = 0x5EED1234;

/// Prefetches to the GPU and waits until the pages have arrived.
void prefetch(CUdeviceptr begin, std::size_t bytes, int to) {
  const RivalMachine& machine = rival_machine();
  machine.use(to);
  const RivalMachine::Gpu& gpu = machine.gpus.at(static_cast<std::size_t>(to));
#if CUDA_VERSION >= 13000
  CUmemLocation place = {};
  place.type = CU_MEM_LOCATION_TYPE_DEVICE;
  place.id = gpu.device;
  cuda().cuMemPrefetchAsync(begin, bytes, place, 0, gpu.stream);
#else
  cuda().cuMemPrefetchAsync(begin, bytes, gpu.device, gpu.stream);
#endif
  cuda().cuStreamSynchronize(gpu.stream);
}

/// Managed memory of one size. A change of size first frees it.
class PrefetchRig {
 public:
  Sample move(int from, int to, std::uint64_t bytes) {
    if (bytes != bytes_) open(bytes, from, to);
    if (at_ != from) prefetch(begin_, bytes_, from);
    const Stopwatch watch;
    prefetch(begin_, bytes_, to);
    Sample sample;
    sample.wall = watch.elapsed();
    at_ = to;
    return sample;
  }

  /// Throws: std::runtime_error if the bytes differ from those written.
  void close() {
    if (begin_ == 0) return;
    const CUdeviceptr last = begin_;
    const std::size_t bytes = bytes_;
    begin_ = 0;
    bytes_ = 0;
    rival_machine().use(at_);
    expect_words(last, bytes, word);
    cuda().cuMemFree(last);
  }

 private:
  void open(std::uint64_t bytes, int from, int to) {
    close();
    rival_machine().use(from);
    cuda().cuMemAllocManaged(&begin_, bytes, CU_MEM_ATTACH_GLOBAL);
    bytes_ = bytes;
    prefetch(begin_, bytes, from);
    at_ = from;
    fill_words(begin_, bytes, word);
    prefetch(begin_, bytes, from);  // The check above moved pages to the CPU.
    prefetch(begin_, bytes, to);
    prefetch(begin_, bytes, from);
  }

  std::uint64_t bytes_ = 0;
  int at_ = 0;
  CUdeviceptr begin_ = 0;
};

void register_all(PrefetchRig& rig) {
  if (rival_machine().gpus.size() < 2) throw Unavailable{"prefetch between GPUs needs two"};
  for (const RivalMachine::Gpu& gpu : rival_machine().gpus) {
    int concurrent = 0;
    cuda().cuDeviceGetAttribute(&concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
                                gpu.device);
    if (concurrent == 0) throw Unavailable{"a GPU cannot prefetch managed memory"};
  }
  for (const int from : {0, 1}) {
    const int to = 1 - from;
    for (const std::uint64_t bytes :
         sizes_up_to_max({64 * mebibyte, 256 * mebibyte, gibibyte, 4 * gibibyte, 8 * gibibyte})) {
      register_samples("prefetch/gpu" + std::to_string(from) + "-gpu" + std::to_string(to) + "/" +
                           size_label(bytes),
                       [&rig, from, to, bytes] { return rig.move(from, to, bytes); });
    }
  }
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  vma::PrefetchRig rig;
  int status = vma::run_benchmarks(argc, argv, [&] { vma::register_all(rig); });
  try {
    rig.close();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    status = 1;
  }
  return status;
}
