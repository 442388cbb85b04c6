// Cost of `park` and `resume` of one allocation on the first GPU: without its contents, resumed at
// once or when the driver has scrubbed what it got back, as zeros or not, in chunks by size or in
// the largest; and with its contents at the host, whose memory stays cached, both at once and
// scrubbed.

#include "bench/harness/machine.hpp"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace vma {
namespace {

constexpr const char* parked_tag = "parked";

/// How the memory is allocated, parked and resumed.
struct ParkCase {
  std::string name;
  std::size_t chunk_bytes = 0;
  ParkOptions options;
  bool rests = false;
};

/// Allocates the case's memory for the samples that follow; frees that of the case before.
class ParkRig {
 public:
  explicit ParkRig(Runtime& runtime) : runtime_(runtime) {}
  ~ParkRig() { free(); }
  ParkRig(const ParkRig&) = delete;
  ParkRig& operator=(const ParkRig&) = delete;

  void allocate(const ParkCase& wanted, std::uint64_t bytes) {
    const std::string name = wanted.name + size_label(bytes);
    if (name == name_) return;
    free();
    AllocOptions options;
    options.chunk_bytes = wanted.chunk_bytes;
    options.tag = parked_tag;
    pointer_ = runtime_.alloc(bytes, runtime_.places().front(), options);
    name_ = name;
    bytes_ = bytes;
    write_pattern(runtime_, pointer_, bytes_, bytes_);
    sample(wanted);  // Creates the context of the stop, and memory at the host.
  }

  Sample sample(const ParkCase& wanted) {
    const bool keeps = wanted.options.contents == ParkContents::keep;
    const Stopwatch parking;
    require_all(runtime_.park(parked_tag, wanted.options));
    const std::chrono::nanoseconds parked = parking.elapsed();
    if (wanted.rests) let_scrubbing_end(bytes_);
    const Stopwatch resuming;
    require_all(runtime_.resume(parked_tag, wanted.options));
    const std::chrono::nanoseconds resumed = resuming.elapsed();
    if (keeps) check_pattern(runtime_, pointer_, bytes_, bytes_);
    Sample sample;
    sample.wall = parked + resumed;
    sample.counters["park_us"] = to_us(parked);
    sample.counters["resume_us"] = to_us(resumed);
    const std::uint64_t chunk_bytes = runtime_.allocation(pointer_).chunk_bytes;
    sample.counters["chunks"] = static_cast<double>((bytes_ + chunk_bytes - 1) / chunk_bytes);
    return sample;
  }

 private:
  void require_all(const ParkReport& report) const {
    if (report.bytes_moved >= bytes_) return;
    throw std::runtime_error("moved " + std::to_string(report.bytes_moved) + " bytes of " +
                             std::to_string(bytes_) +
                             (report.stayed.empty() ? "" : ": " + report.stayed.front().reason));
  }
  void free() noexcept {
    if (pointer_ != nullptr) runtime_.free(std::exchange(pointer_, nullptr));
  }

  Runtime& runtime_;
  std::string name_;
  void* pointer_ = nullptr;
  std::uint64_t bytes_ = 0;
};

void register_all(ParkRig& rig) {
  ParkOptions dropping;
  dropping.contents = ParkContents::drop;
  ParkOptions undefined = dropping;
  undefined.zeroed = false;
  const ParkCase cases[] = {
      {"dropped", 0, dropping, false},
      {"dropped_rested", 0, dropping, true},
      {"undefined", 0, undefined, false},
      {"undefined_rested", 0, undefined, true},
      {"undefined_largest", largest_chunks, undefined, false},
      {"undefined_largest_rested", largest_chunks, undefined, true},
      {"kept", 0, {}, false},
      {"kept_rested", 0, {}, true},
  };
  for (const ParkCase& each : cases) {
    for (const std::uint64_t bytes : sizes_up_to_max({256 * mebibyte, 8 * gibibyte})) {
      register_samples("park/" + each.name + "/" + size_label(bytes), [&rig, each, bytes] {
        rig.allocate(each, bytes);
        return rig.sample(each);
      });
    }
  }
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  int status = 0;
  {
    vma::ParkRig rig(vma::shared_runtime());
    status = vma::run_benchmarks(argc, argv, [&] { vma::register_all(rig); });
  }
  vma::close_shared_runtime();
  return status;
}
