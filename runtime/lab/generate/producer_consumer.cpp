#include "lab/generate/trace_generators.hpp"

#include "lab/generate/object_set.hpp"
#include "lab/generate/trace_parameters.hpp"
#include "lab/generate/trace_random.hpp"
#include "lab/trace/event_order.hpp"

#include <fmt/format.h>

#include <array>
#include <vector>

namespace vma {
namespace {

constexpr std::array producer_consumer_parameters{
    object_bytes_parameter,
    length_parameter,
    TraceParameter{"pairs", 4, 1, 4999, "pairs of GPUs"},
    TraceParameter{"period_us", 1000, 1, 1e9, "time between buffers"},
    TraceParameter{"lag", 4, 1, 1e4, "number of periods that read a buffer"},
    TraceParameter{"reads", 4, 1, 1e4, "reads per buffer"},
    TraceParameter{"swap_s", 20, 0, 1e6, "time between role changes; 0: none", false},
    TraceParameter{"jitter", 0.1, 0, 0.99, "how late a period may begin, in periods", false},
    closed_parameter};

/// One buffer: written now, and read in the following periods.
struct Handing {
  Time period{0};
  std::uint64_t lag = 0, reads = 0;

  void add(EventOrder& order, TraceEvent access, int producer, int consumer) const {
    const Time begin = access.time;
    access.at = TracePlace(gpu(producer));
    access.use = UseKind::write;
    order.add(access);
    access.at = TracePlace(gpu(consumer));
    access.use = UseKind::read;
    const Time span = period * static_cast<std::int64_t>(lag - 1);
    for (std::uint64_t read = 0; read < reads; ++read) {
      access.time = begin + period +
                    span * static_cast<std::int64_t>(read) / static_cast<std::int64_t>(reads);
      order.add(access);
    }
  }
};

/// One pair in a closed loop.
class Pair {
 public:
  Pair(const ObjectSet& buffers, std::uint64_t first, std::uint64_t ring)
      : buffers_(&buffers), first_(first), read_(ring) {}

  void hand(ClosedLoop& tasks, std::uint64_t number, TraceEvent write, TraceEvent read) {
    const std::uint64_t place = number % read_.size();
    TraceEvent access = buffers_->access(Time(0), first_ + place);
    const std::array before{written_, read_[place]};
    written_ = tasks.declare(write, before);
    access.use = UseKind::write;
    tasks.access(access);
    const std::array after{written_, last_read_};
    last_read_ = read_[place] = tasks.declare(read, after);
    access.use = UseKind::read;
    tasks.access(access);
  }
  void free(ClosedLoop& tasks) const {
    for (std::uint64_t place = 0; place < read_.size(); ++place) {
      TraceEvent free = buffers_->access(Time(0), first_ + place);
      free.kind = TraceEventKind::free;
      free.bytes = 0;
      tasks.at_end(free, last_read_);
    }
  }
  const DeclaredTask& written() const noexcept { return written_; }

 private:
  const ObjectSet* buffers_;
  std::uint64_t first_;
  std::vector<DeclaredTask> read_;  // By place in the ring.
  DeclaredTask written_, last_read_;
};

void generate_closed(const TraceValues& values, TraceRandom& random, EventOrder& order) {
  const std::uint64_t ring = values.whole("lag") + 1, reads = values.whole("reads");
  const ObjectSet buffers(order, 0, values.whole("pairs") * ring, values.whole("object_bytes"),
                          "buffer");
  buffers.allocate_all(Time(0));
  std::vector<Pair> pairs;
  for (std::uint64_t pair = 0; pair < values.whole("pairs"); ++pair)
    pairs.emplace_back(buffers, pair * ring, ring);
  ClosedLoop tasks(order);
  const Time period = std::chrono::microseconds(values.whole("period_us"));
  const Time end = seconds_of(values["length_s"]), swap = seconds_of(values["swap_s"]);
  std::uint64_t swaps = 0, number = 0;
  for (Time now{0}; now < end; now += period, ++number) {
    order.advance(now);  // No task starts earlier: each follows as many as there were periods.
    if (swap > Time(0) && now >= swap * static_cast<std::int64_t>(swaps + 1)) {
      TraceEvent mark;
      mark.kind = TraceEventKind::mark;
      mark.tag = order.intern(fmt::format("roles change, {}", ++swaps));
      tasks.at_end(mark, pairs.front().written());
    }
    for (std::uint64_t pair = 0; pair < pairs.size(); ++pair) {
      const double late = 1 + random.uniform() * values["jitter"];
      const Time write(static_cast<std::int64_t>(late * static_cast<double>(period.count())));
      const bool swapped = swaps % 2 == 1;
      const TracePlace even(gpu(static_cast<int>(2 * pair)));
      const TracePlace odd(gpu(static_cast<int>(2 * pair + 1)));
      TraceEvent reading =
          task_event(period / static_cast<std::int64_t>(reads), swapped ? even : odd);
      reading.bytes = reads;
      pairs[pair].hand(tasks, number, task_event(write, swapped ? odd : even), reading);
    }
  }
  for (const Pair& pair : pairs) pair.free(tasks);
}

/// GPU 2n writes to the buffers of a ring, one every "period_us". GPU 2n + 1 reads each buffer
/// "reads" times. A ring has "lag" + 1 buffers. Every "swap_s" seconds (0: never) there is a mark,
/// and all pairs swap roles.
///
/// In a closed loop, each buffer is written by one task and read by another, which takes a period
/// for all its reads. Each follows the one for the buffer before. The reader waits for the writer,
/// and the writer waits until the buffer has been read that it overwrites. A write takes a period
/// and a random share of up to "jitter" of it. In an open loop, the reads are evenly spread from
/// one to "lag" periods after the write, and each period of a pair starts late by such a share.
void generate_producer_consumer(const TraceValues& values, TraceRandom& random, EventOrder& order) {
  if (values.whole("closed") == 1) return generate_closed(values, random, order);
  const std::uint64_t pairs = values.whole("pairs"), lag = values.whole("lag");
  const std::uint64_t ring = lag + 1;
  const Time period = std::chrono::microseconds(values.whole("period_us"));
  const Time end = seconds_of(values["length_s"]), swap = seconds_of(values["swap_s"]);
  const Handing handing{period, lag, values.whole("reads")};
  const ObjectSet buffers(order, 0, pairs * ring, values.whole("object_bytes"), "buffer");
  buffers.allocate_all(Time(0));
  std::uint64_t number = 0, swaps = 0;
  for (Time now{0}; now < end; now += period, ++number) {
    order.advance(now);
    if (swap > Time(0) && now >= swap * static_cast<std::int64_t>(swaps + 1)) {
      add_mark(order, now, fmt::format("roles change, {}", ++swaps));
    }
    for (std::uint64_t pair = 0; pair < pairs; ++pair) {
      const double late = random.uniform() * values["jitter"];
      const Time begin =
          now + Time(static_cast<std::int64_t>(late * static_cast<double>(period.count())));
      const int even = static_cast<int>(2 * pair), odd = even + 1;
      const bool swapped = swaps % 2 == 1;
      handing.add(order, buffers.access(begin, pair * ring + number % ring), swapped ? odd : even,
                  swapped ? even : odd);
    }
  }
  buffers.free_all(end + period * static_cast<std::int64_t>(ring));
}

}  // namespace

TraceGenerator producer_consumer_generator() {
  return {"producer-consumer", "pairs of GPUs that pass buffers on", producer_consumer_parameters,
          generate_producer_consumer};
}

}  // namespace vma
