// The sequence that a program would use by itself: new memory, temporary addresses, copy, unmap
// both, map at the old address, with one whole handle whatever its size. Grants access to all GPUs,
// which the sequence as published forgets. `alone` has no other mapping between the GPUs; `keepers`
// has a small one on each GPU, granted to all, which makes grants cheap.

#include "bench/rivals/cuda_calls.hpp"
#include "bench/harness/samples.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vma {
namespace {

constexpr unsigned word = 0x5EED1234;

/// One allocation that moves by the naive sequence.
class NaiveAllocation {
 public:
  NaiveAllocation(int ordinal, std::size_t bytes) : bytes_(bytes), at_(ordinal) {
    const CUmemAllocationProp properties = properties_at(ordinal);
    cuda().cuMemAddressReserve(&begin_, bytes, 0, 0, 0);
    cuda().cuMemCreate(&handle_, bytes, &properties, 0);
    cuda().cuMemMap(begin_, bytes, 0, handle_, 0);
    grant_to_all(begin_, bytes);
    rival_machine().use(ordinal);
    fill_words(begin_, bytes, word);
  }

  ~NaiveAllocation() {
    cuda().cuMemUnmap.function(begin_, bytes_);
    cuda().cuMemRelease.function(handle_);
    cuda().cuMemAddressFree.function(begin_, bytes_);
  }
  NaiveAllocation(const NaiveAllocation&) = delete;
  NaiveAllocation& operator=(const NaiveAllocation&) = delete;

  int at() const noexcept { return at_; }

  void move_to(int ordinal) {
    const RivalMachine& machine = rival_machine();
    machine.use(ordinal);
    const CUmemAllocationProp properties = properties_at(ordinal);
    CUmemGenericAllocationHandle target = 0;
    CUdeviceptr temporary = 0;
    cuda().cuMemCreate(&target, bytes_, &properties, 0);
    cuda().cuMemAddressReserve(&temporary, bytes_, 0, 0, 0);
    cuda().cuMemMap(temporary, bytes_, 0, target, 0);
    grant_to_all(temporary, bytes_);
    copy_and_wait(ordinal, temporary, begin_, bytes_);

    cuda().cuMemUnmap(begin_, bytes_);
    cuda().cuMemRelease(handle_);
    cuda().cuMemUnmap(temporary, bytes_);
    cuda().cuMemAddressFree(temporary, bytes_);
    cuda().cuMemMap(begin_, bytes_, 0, target, 0);
    grant_to_all(begin_, bytes_);
    handle_ = target;
    at_ = ordinal;
  }

  void check() const { expect_words(begin_, bytes_, word); }

 private:
  std::size_t bytes_;
  int at_;
  CUdeviceptr begin_ = 0;
  CUmemGenericAllocationHandle handle_ = 0;
};

/// The allocation that the benchmarks of one size move, and the keepers, which the first benchmark
/// that needs them creates. Benchmarks without keepers run before.
class NaiveRig {
 public:
  Sample move(int from, int to, std::uint64_t bytes, bool with_keepers) {
    if (with_keepers && keepers_.empty()) open_keepers();
    if (bytes != bytes_ || !allocation_) open(from, to, bytes);
    if (allocation_->at() != from) allocation_->move_to(from);
    const Stopwatch watch;
    allocation_->move_to(to);
    Sample sample;
    sample.wall = watch.elapsed();
    allocation_->check();
    return sample;
  }

  void close() {
    allocation_.reset();
    keepers_.clear();
  }

 private:
  void open_keepers() {
    allocation_.reset();
    const auto gpus = static_cast<int>(rival_machine().gpus.size());
    for (int ordinal = 0; ordinal < gpus; ++ordinal) {
      keepers_.push_back(std::make_unique<RivalChunk>(ordinal, 2 * mebibyte));
    }
  }

  void open(int from, int to, std::uint64_t bytes) {
    allocation_.reset();
    allocation_ = std::make_unique<NaiveAllocation>(from, bytes);
    bytes_ = bytes;
    allocation_->move_to(to);
    allocation_->move_to(from);
    allocation_->check();
  }

  std::uint64_t bytes_ = 0;
  std::unique_ptr<NaiveAllocation> allocation_;
  std::vector<std::unique_ptr<RivalChunk>> keepers_;
};

void register_all(NaiveRig& rig) {
  if (rival_machine().gpus.size() < 2) throw Unavailable{"the naive sequence needs two GPUs"};
  const auto sizes = sizes_up_to_max(
      {64 * mebibyte, 256 * mebibyte, gibibyte, 4 * gibibyte, 8 * gibibyte, 16 * gibibyte});
  for (const bool with_keepers : {false, true}) {
    for (const int from : {0, 1}) {
      const int to = 1 - from;
      const std::string route = "gpu" + std::to_string(from) + "-gpu" + std::to_string(to);
      for (const std::uint64_t bytes : sizes) {
        register_samples(std::string("naive/") + (with_keepers ? "keepers/" : "alone/") + route +
                             "/" + size_label(bytes),
                         [&rig, from, to, bytes, with_keepers] {
                           return rig.move(from, to, bytes, with_keepers);
                         });
      }
    }
  }
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  vma::NaiveRig rig;
  const int status = vma::run_benchmarks(argc, argv, [&] { vma::register_all(rig); });
  rig.close();
  return status;
}
