// Two ways to copy memory and compute its digests: with one kernel on the source's GPU, or with the
// copy engine followed by a kernel on the target's GPU. Measures the rate of each, and how much it
// slows down bandwidth-bound kernels on either GPU. Nothing moves.

#include "bench/live/cases.hpp"
#include "bench/live/rate_log.hpp"
#include "migrate/copying/digest.hpp"
#include "runtime/runtime_parts.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t tile_bytes = std::uint64_t{256} << 10;

/// Memory on two GPUs, and the kernels and streams that copy it chunk by chunk.
class Copies {
 public:
  Copies(Runtime& runtime, Place from, Place to, std::uint64_t bytes)
      : runtime_(runtime),
        driver_(*parts_of(runtime).driver),
        chunk_bytes_(std::min(bytes, chunk_bytes_most)),
        chunks_(bytes / chunk_bytes_),
        tiling_(Tiling::of(chunk_bytes_, tile_bytes)),
        source_(make(bytes, from)),
        target_(make(bytes, to)),
        digests_(make(chunks_ * tiling_.tiles * digest_bytes, from)),
        target_digests_(make(chunks_ * tiling_.tiles * digest_bytes, to)),
        stream_(runtime.make_stream(from)),
        target_stream_(runtime.make_stream(to)),
        bound_(parts_of(runtime).machinery->launcher.bind(stream_)),
        target_bound_(parts_of(runtime).machinery->launcher.bind(target_stream_)),
        copied_(driver_.create_event(bound_.context)),
        fused_(driver_.load_kernel(bound_.context, copy_digest_kernel())),
        digest_(driver_.load_kernel(target_bound_.context, digest_kernel())) {}
  ~Copies() {
    driver_.unload_kernel(digest_);
    driver_.unload_kernel(fused_);
    driver_.destroy_event(copied_);
    runtime_.destroy_stream(target_stream_);
    runtime_.destroy_stream(stream_);
    for (void* pointer : {source_, target_, digests_, target_digests_}) runtime_.free(pointer);
  }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  /// Blocks: until everything is copied and digested.
  void round(bool fused) {
    for (std::uint64_t chunk = 0; chunk < chunks_; ++chunk) {
      if (fused) {
        copy_by_kernel(chunk);
      } else {
        copy_by_engine(chunk);
      }
    }
    runtime_.synchronize(stream_);
    runtime_.synchronize(target_stream_);
  }

 private:
  void* make(std::uint64_t bytes, Place at) {
    AllocOptions options;
    options.movable = false;
    return runtime_.alloc(bytes, at, options);
  }
  static Address in(void* pointer, std::uint64_t offset_bytes) {
    return address_of(static_cast<std::byte*>(pointer) + offset_bytes);
  }
  Address digests_of(void* table, std::uint64_t chunk) const {
    return in(table, chunk * tiling_.tiles * digest_bytes);
  }
  void copy_by_kernel(std::uint64_t chunk) {
    driver_.launch(
        bound_, fused_, tile_shape(tiling_, LiveTuning{}.copy_blocks / 2),
        copy_digest_arguments(in(target_, chunk * chunk_bytes_), in(source_, chunk * chunk_bytes_),
                              digests_of(digests_, chunk), tiling_, key_));
  }
  void copy_by_engine(std::uint64_t chunk) {
    constexpr unsigned blocks_of_all = 132;
    driver_.copy(bound_, in(target_, chunk * chunk_bytes_), in(source_, chunk * chunk_bytes_),
                 chunk_bytes_);
    driver_.record(copied_, bound_);
    driver_.stream_wait_event(target_bound_, copied_);
    driver_.launch(target_bound_, digest_, tile_shape(tiling_, blocks_of_all),
                   digest_arguments(in(target_, chunk * chunk_bytes_),
                                    digests_of(target_digests_, chunk), tiling_, key_));
  }

  Runtime& runtime_;
  Driver& driver_;
  const std::uint64_t chunk_bytes_, chunks_;
  const Tiling tiling_;
  const DigestKey key_ = DigestKey::random();
  void* const source_;
  void* const target_;
  void* const digests_;
  void* const target_digests_;
  const Stream stream_, target_stream_;
  const BoundStream bound_, target_bound_;
  const EventHandle copied_;
  const KernelHandle fused_, digest_;
};

Sample copy_and_digest(bool fused, std::uint64_t bytes) {
  Runtime& runtime = live_runtime();
  Clock& clock = parts_of(runtime).driver->clock();
  const std::vector<Place> gpus = live_gpus(2);
  Copies copies(runtime, gpus[0], gpus[1], bytes);
  Writers at_source(runtime, sweeps(gpus[0], bytes)), at_target(runtime, sweeps(gpus[1], bytes));
  copies.round(fused);

  TwoLogs logs(at_source, at_target);
  const auto rest = [](RateLog& log) {
    log.watch(std::chrono::nanoseconds(static_cast<std::int64_t>(case_seconds() * 1e9 / 6)));
  };
  std::vector<std::chrono::nanoseconds> took;
  const TwoLogs::Stretch before = logs.over(rest);
  const TwoLogs::Stretch during = logs.over([&](RateLog&) {
    const Stopwatch watch;
    while (took.empty() || to_us(watch.elapsed()) < case_seconds() * 1e6 / 2) {
      const TimePoint begin = clock.now();
      copies.round(fused);
      took.push_back(clock.now() - begin);
    }
  });
  const TwoLogs::Stretch after = logs.over(rest);
  at_source.stop();
  at_target.stop();

  Sample sample;
  sample.wall = median_of(took);
  sample.counters["rate_gb_s"] =
      static_cast<double>(bytes) /
      static_cast<double>(std::max<std::int64_t>(1, sample.wall.count()));
  sample.counters["source_lost_share"] = share_lost(before.one, during.one, after.one);
  sample.counters["target_lost_share"] = share_lost(before.other, during.other, after.other);
  return sample;
}

}  // namespace

void register_copy_cases() {
  const std::uint64_t bytes = sizes_up_to_max({4 * gibibyte}).front();
  for (const bool fused : {true, false}) {
    register_samples(
        std::string("live/copy/") + (fused ? "kernel/" : "engine/") + size_label(bytes),
        [fused, bytes] { return copy_and_digest(fused, bytes); }, 1);
  }
}

}  // namespace vma
