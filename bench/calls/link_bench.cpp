// How reads by kernels and copies by copy engines share the links between GPUs: the rate of each
// alone, against another of its kind, beside one of the other kind, and in rings of all GPUs. All
// flows of a case start before the measurement begins and end after it.
//
//     link_bench [--benchmark_filter=REGEX]
//
// A case ends when its slowest flow has completed VMART_BENCH_MOVES (48) pieces of 1 GiB, or of
// VMART_BENCH_BYTES_MAX if that is less. It runs VMART_BENCH_REPETITIONS (3) times.
// The counters are sums: `read_gb_s` of all reads of the case, `copy_gb_s` of all its copies;
// "least" is the rate of the slowest one.

#include "bench/harness/machine.hpp"

#include "calibration/access_kernels.hpp"
#include "runtime/runtime_parts.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

constexpr int pieces_ahead = 3;  // Enqueued ahead, milliseconds of work, so that no flow runs dry.
constexpr std::uint64_t repetitions_otherwise = 3;  // Of 48 pieces each; takes seconds in total.
constexpr std::chrono::seconds patience(20);        // A case takes about a third of a second.

enum class Kind { read, copy };

/// Bytes that flow from one GPU to another, piece after piece: `to` reads them, or the copy engines
/// of `from` copy them, as for a move.
struct Flow {
  Kind kind;
  Place from, to;
};

/// A range on each GPU that is read and copied, and one that copies write to.
class LinkMemory {
 public:
  LinkMemory() : piece_bytes_(sizes_up_to_max({gibibyte}).front()) {
    AllocOptions fixed;
    fixed.movable = false;
    for (const Place at : gpus_of(runtime_)) {
      gpus_.push_back(at);
      sources_.push_back(runtime_.alloc(piece_bytes_, at, fixed));
      targets_.push_back(runtime_.alloc(piece_bytes_, at, fixed));
      write_pattern(runtime_, sources_.back(), piece_bytes_, gpus_.size());
    }
  }

  const std::vector<Place>& gpus() const { return gpus_; }
  std::uint64_t piece_bytes() const { return piece_bytes_; }
  void* source(Place at) const { return sources_.at(number(at)); }
  void* target(Place at) const { return targets_.at(number(at)); }

 private:
  std::size_t number(Place at) const {
    return static_cast<std::size_t>(std::find(gpus_.begin(), gpus_.end(), at) - gpus_.begin());
  }

  Runtime& runtime_ = shared_runtime();  // Its shutdown releases the memory.
  std::uint64_t piece_bytes_;
  std::vector<Place> gpus_;
  std::vector<void*> sources_, targets_;
};

/// One running flow on its own stream, with pieces enqueued ahead. Records when each piece ended.
class FlowRun {
 public:
  FlowRun(const LinkMemory& memory, const Flow& flow)
      : memory_(memory),
        flow_(flow),
        stream_(runtime_.make_stream(flow.kind == Kind::read ? flow.to : flow.from)),
        bound_(parts_.machinery->launcher.bind(stream_)) {}
  ~FlowRun() {
    try {
      runtime_.synchronize(stream_);
      for (const EventHandle event : under_way_) parts_.driver->destroy_event(event);
      runtime_.destroy_stream(stream_);
    } catch (const std::exception&) {  // The benchmark has already failed and reported why.
    }
  }
  FlowRun(const FlowRun&) = delete;
  FlowRun& operator=(const FlowRun&) = delete;

  /// Loads the kernel or sets up the route, which the first piece of a flow does.
  void warm_up() {
    enqueue_piece();
    runtime_.synchronize(stream_);
  }

  void start() {
    for (int piece = 0; piece < pieces_ahead; ++piece) {
      enqueue_piece();
      under_way_.push_back(parts_.driver->create_event(bound_.context));
      parts_.driver->record(under_way_.back(), bound_);
    }
  }

  /// If a piece has ended, enqueues the next one.
  void look() {
    const EventHandle oldest = under_way_.front();
    if (!parts_.driver->query_event(oldest)) return;
    ended_.push_back(parts_.driver->clock().now());
    enqueue_piece();
    parts_.driver->record(oldest, bound_);
    under_way_.pop_front();
    under_way_.push_back(oldest);
  }

  Kind kind() const { return flow_.kind; }
  const std::vector<TimePoint>& ended() const { return ended_; }

  /// Counts from the first piece that ended at or after `begin`.
  double gb_s(TimePoint begin) const {
    const auto first = std::lower_bound(ended_.begin(), ended_.end(), begin);
    const auto pieces = ended_.end() - first - 1;  // The first one began earlier.
    if (pieces < 1) throw std::runtime_error("a flow ended before another one began");
    const auto took = static_cast<double>((ended_.back() - *first).count());
    return static_cast<double>(pieces) * static_cast<double>(memory_.piece_bytes()) / took;
  }

 private:
  void enqueue_piece() {
    void* const source = memory_.source(flow_.from);
    if (flow_.kind == Kind::copy) {
      parts_.driver->copy(bound_, address_of(memory_.target(flow_.to)), address_of(source),
                          memory_.piece_bytes());
      return;
    }
    const DeviceInfo& reader = parts_.machinery->topology.info(DeviceId{flow_.to.ordinal});
    launch_read(runtime_, stream_, read_blocks(reader.multiprocessors), source,
                memory_.piece_bytes(), 1);
  }

  Runtime& runtime_ = shared_runtime();
  RuntimeParts& parts_ = parts_of(runtime_);
  const LinkMemory& memory_;
  const Flow flow_;
  const Stream stream_;
  const BoundStream bound_;
  std::deque<EventHandle> under_way_;  // Oldest first.
  std::vector<TimePoint> ended_;
};

void add_rates(Sample& sample, const std::string& name, const std::vector<double>& rates) {
  if (rates.empty()) return;
  double sum = 0;
  for (const double rate : rates) sum += rate;
  sample.counters[name + "_gb_s"] = sum;
  if (rates.size() == 1) return;
  sample.counters[name + "_least_gb_s"] = *std::min_element(rates.begin(), rates.end());
}

/// Runs the flows concurrently until the slowest has completed `pieces` pieces.
Sample measure(const LinkMemory& memory, const std::vector<Flow>& flows, std::uint64_t pieces) {
  std::vector<std::unique_ptr<FlowRun>> runs;
  for (const Flow& flow : flows) {
    runs.push_back(std::make_unique<FlowRun>(memory, flow));
    runs.back()->warm_up();
  }
  for (const auto& run : runs) run->start();
  const Stopwatch watch;
  const auto under_way = [pieces](const auto& run) { return run->ended().size() <= pieces; };
  while (std::any_of(runs.begin(), runs.end(), under_way)) {
    if (watch.elapsed() > patience) throw std::runtime_error("a flow hardly gets on");
    for (const auto& run : runs) run->look();
  }
  Sample sample;
  sample.wall = watch.elapsed();
  TimePoint begin{0};
  for (const auto& run : runs) begin = std::max(begin, run->ended().front());
  std::vector<double> reads, copies;
  for (const auto& run : runs) {
    (run->kind() == Kind::read ? reads : copies).push_back(run->gb_s(begin));
  }
  add_rates(sample, "read", reads);
  add_rates(sample, "copy", copies);
  return sample;
}

/// A flow into each GPU from the next one; if `back`, from each GPU into the next one.
std::vector<Flow> ring(Kind kind, const std::vector<Place>& gpus, bool back) {
  std::vector<Flow> flows;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const Place next = gpus[(i + 1) % gpus.size()];
    flows.push_back(back ? Flow{kind, gpus[i], next} : Flow{kind, next, gpus[i]});
  }
  return flows;
}

std::vector<Flow> both(std::vector<Flow> some, const std::vector<Flow>& others) {
  some.insert(some.end(), others.begin(), others.end());
  return some;
}

void require_peers() {
  const std::vector<Place> gpus = gpus_of(shared_runtime());
  if (gpus.size() < 2) throw Unavailable{"takes two GPUs"};
  for (const Flow& flow : both(ring(Kind::read, gpus, false), ring(Kind::read, gpus, true))) {
    const bool reaches =
        parts_of(shared_runtime())
            .driver->can_access_peer(DeviceId{flow.to.ordinal}, DeviceId{flow.from.ordinal});
    if (!reaches) throw Unavailable{"takes GPUs that reach each other's memory"};
  }
}

void register_all() {
  require_peers();
  const auto memory = std::make_shared<LinkMemory>();
  const std::vector<Place>& gpus = memory->gpus();
  const Flow read{Kind::read, gpus[1], gpus[0]}, read_back{Kind::read, gpus[0], gpus[1]};
  const Flow copy{Kind::copy, gpus[1], gpus[0]}, copy_back{Kind::copy, gpus[0], gpus[1]};
  const auto reads = ring(Kind::read, gpus, false), copies = ring(Kind::copy, gpus, false);
  const std::vector<std::pair<std::string, std::vector<Flow>>> cases = {
      {"read/one", {read}},
      {"read/each_other", {read, read_back}},
      {"read/ring", reads},
      {"copy/one", {copy}},
      {"copy/each_other", {copy, copy_back}},
      {"copy/ring", copies},
      {"read_copy/same_way", {read, copy}},
      {"read_copy/against", {read, copy_back}},
      {"read_copy/ring_same_way", both(reads, copies)},
      {"read_copy/ring_against", both(reads, ring(Kind::copy, gpus, true))},
  };
  const std::uint64_t pieces = setting("VMART_BENCH_MOVES", 48);
  const auto repetitions =
      static_cast<int>(setting("VMART_BENCH_REPETITIONS", repetitions_otherwise));
  for (const auto& [name, flows] : cases) {
    register_samples(
        "links/" + name, [memory, flows, pieces] { return measure(*memory, flows, pieces); },
        repetitions);
  }
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  return vma::run_on_shared_runtime(argc, argv, vma::register_all);
}
