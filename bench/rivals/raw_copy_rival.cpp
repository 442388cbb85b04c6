// The lower limit: one copy of the same bytes by copy engine, between two chunks that both GPUs
// have mapped. Nothing is allocated, mapped or granted during the measurement.

#include "bench/rivals/cuda_calls.hpp"
#include "bench/harness/samples.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace vma {
namespace {

constexpr int host_ordinal = -1;

std::string place_label(int ordinal) {
  return ordinal == host_ordinal ? "host0" : "gpu" + std::to_string(ordinal);
}

/// Source and target of one size. A change of size first frees them.
class CopyRig {
 public:
  Sample copy(int from, int to, std::uint64_t bytes) {
    if (bytes != bytes_ || !chunks_.contains(from) || !chunks_.contains(to)) open(from, to, bytes);
    const int by = from == host_ordinal ? to : from;
    const CUdeviceptr source = chunks_.at(from)->begin();
    const CUdeviceptr target = chunks_.at(to)->begin();
    const Stopwatch watch;
    copy_and_wait(by, target, source, bytes);
    Sample sample;
    sample.wall = watch.elapsed();
    return sample;
  }

  void close() { chunks_.clear(); }

 private:
  void open(int from, int to, std::uint64_t bytes) {
    chunks_.clear();
    bytes_ = bytes;
    for (const int ordinal : {from, to}) {
      chunks_.emplace(ordinal, std::make_unique<RivalChunk>(ordinal, bytes));
    }
    const int by = from == host_ordinal ? to : from;
    rival_machine().use(by);
    const unsigned word = static_cast<unsigned>(bytes / mebibyte) * 2654435761u + 1;
    fill_words(chunks_.at(from)->begin(), bytes, word);
    copy_and_wait(by, chunks_.at(to)->begin(), chunks_.at(from)->begin(), bytes);
    copy_and_wait(by, chunks_.at(to)->begin(), chunks_.at(from)->begin(), bytes);
    expect_words(chunks_.at(to)->begin(), bytes, word);
  }

  std::uint64_t bytes_ = 0;
  std::map<int, std::unique_ptr<RivalChunk>> chunks_;
};

void register_route(CopyRig& rig, int from, int to, const std::vector<std::uint64_t>& sizes) {
  for (const std::uint64_t bytes : sizes) {
    register_samples(
        "raw_copy/" + place_label(from) + "-" + place_label(to) + "/" + size_label(bytes),
        [&rig, from, to, bytes] { return rig.copy(from, to, bytes); });
  }
}

void register_all(CopyRig& rig) {
  const auto sizes = sizes_up_to_max(
      {64 * mebibyte, 256 * mebibyte, gibibyte, 4 * gibibyte, 8 * gibibyte, 16 * gibibyte});
  const auto host_sizes =
      sizes_up_to_max({64 * mebibyte, 256 * mebibyte, gibibyte, 4 * gibibyte, 16 * gibibyte});
  if (rival_machine().gpus.size() >= 2) {
    register_route(rig, 0, 1, sizes);
    register_route(rig, 1, 0, sizes);
  }
  register_route(rig, 0, host_ordinal, host_sizes);
  register_route(rig, host_ordinal, 0, host_sizes);
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  vma::CopyRig rig;
  const int status = vma::run_benchmarks(argc, argv, [&] { vma::register_all(rig); });
  rig.close();
  return status;
}
