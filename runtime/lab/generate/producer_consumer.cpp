#include "lab/generate/producer_consumer.hpp"

#include <fmt/format.h>

namespace vma {
namespace {

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

}  // namespace

void generate_producer_consumer(const TraceValues& values, TraceRandom& random, EventOrder& order) {
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

}  // namespace vma
