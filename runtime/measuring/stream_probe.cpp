#include "measuring/stream_probe.hpp"

#include "base/log.hpp"
#include "base/units.hpp"
#include "base/vectors.hpp"
#include "calibration/access_kernels.hpp"
#include "calibration/attempt.hpp"
#include "measuring/measured_calls.hpp"

#include <vma/error.hpp>

#include <algorithm>
#include <array>
#include <exception>
#include <vector>

namespace vma {
namespace {

constexpr int stream_tries = 15;
constexpr std::uint64_t plain_bytes = MiB;
constexpr std::chrono::seconds work_limit(10);  // Longer than any work of the probe.

/// Calls a function on destruction.
class Finally {
 public:
  explicit Finally(std::function<void()> body) : body_(std::move(body)) {}
  ~Finally() {
    try {
      body_();
    } catch (const std::exception& error) {
      log(LogLevel::warn, "a probe could not release an object: {}", error.what());
    }
  }
  Finally(const Finally&) = delete;
  Finally& operator=(const Finally&) = delete;

 private:
  std::function<void()> body_;
};

}  // namespace

StreamProbe::StreamProbe(Driver& driver, ContextHandle context)
    : driver_(driver),
      clock_(driver.clock()),
      context_(context),
      stream_(driver.create_stream(context, StreamKind::non_blocking)) {}

StreamProbe::~StreamProbe() {
  const Finally destroy([this] { driver_.destroy_stream(stream_); });
}

double StreamProbe::each(const std::function<void()>& call, const std::function<void()>& after) {
  std::vector<double> all;
  for (int attempt = 0; attempt < stream_tries; ++attempt) {
    all.push_back(timed_us(clock_, call));
    if (after) after();
  }
  return median(std::move(all));
}

void StreamProbe::settle() {
  if (driver_.wait_stream(stream_, clock_.now() + work_limit)) return;
  throw Error(ErrorKind::busy, "machine probe", "the work on a stream did not finish");
}

void StreamProbe::measure(MeasuredCalls& calls) {
  attempt(calls.failures, "calls on streams", [&] { measure_streams(calls); });
  attempt(calls.failures, "plain memory", [&] { measure_plain(calls); });
  attempt(calls.failures, "kernels", [&] { measure_kernel(calls); });
  attempt(calls.failures, "the latency of copies", [&] { measure_copies(calls); });
}

void StreamProbe::measure_streams(MeasuredCalls& calls) {
  CostParameters& costs = calls.costs;
  BoundStream made;
  costs.create_stream_us =
      each([&] { made = driver_.create_stream(context_, StreamKind::non_blocking); },
           [&] { driver_.destroy_stream(made); });
  EventHandle passing{};
  costs.create_event_us = each([&] { passing = driver_.create_event(context_); },
                               [&] { driver_.destroy_event(passing); });
  const EventHandle event = driver_.create_event(context_);
  const Finally destroy([&] { driver_.destroy_event(event); });
  costs.record_us = each([&] { driver_.record(event, stream_); }, [&] { settle(); });
  costs.query_us = each([&] { driver_.query_event(event); });
  costs.wait_us = each([&] { driver_.stream_wait_event(stream_, event); }, [&] { settle(); });
  void* const pinned = driver_.allocate_pinned(context_, sizeof(std::uint64_t));
  const Finally free([&] { driver_.free_pinned(context_, pinned); });
  const std::array words = {
      WordOperation{WordOperation::Kind::write, address_of(pinned), 1},
      WordOperation{WordOperation::Kind::wait_until_at_least, address_of(pinned), 1}};
  costs.batch_us = each([&] { driver_.batch(stream_, words); }, [&] { settle(); });
  for (const char* key :
       {"create_stream_us", "create_event_us", "record_us", "query_us", "wait_us", "batch_us"}) {
    calls.took(key);
  }
}

void StreamProbe::measure_plain(MeasuredCalls& calls) {
  std::vector<double> allocate, free;
  for (int attempt = 0; attempt < stream_tries; ++attempt) {
    Address memory{};
    allocate.push_back(
        timed_us(clock_, [&] { memory = driver_.allocate_plain(context_, plain_bytes); }));
    free.push_back(timed_us(clock_, [&] { driver_.free_plain(context_, memory); }));
  }
  calls.costs.plain_allocate_us = median(std::move(allocate));
  calls.costs.plain_free_us = median(std::move(free));
  calls.took("plain_allocate_us");
  calls.took("plain_free_us");
}

void StreamProbe::measure_kernel(MeasuredCalls& calls) {
  CostParameters& costs = calls.costs;
  const Address memory = driver_.allocate_plain(context_, plain_bytes);
  const Finally free([&] { driver_.free_plain(context_, memory); });
  // Zeros are a chain of one link for the kernel below.
  driver_.fill(stream_, memory, std::byte{0}, plain_bytes);
  settle();
  costs.enqueue_us =
      each([&] { driver_.fill(stream_, memory, std::byte{0}, plain_bytes); }, [&] { settle(); });
  calls.took("enqueue_us");
  KernelHandle kernel{};
  costs.load_kernel_us =
      timed_us(clock_, [&] { kernel = driver_.load_kernel(context_, access_chase_kernel()); });
  const Finally unload([&] { driver_.unload_kernel(kernel); });
  const void* const data = to_pointer(memory);
  const KernelArguments arguments = KernelArguments::of(data, std::uint64_t{1}, data);
  const auto launch = [&] { driver_.launch(stream_, kernel, {{1}, {1}}, arguments); };
  costs.launch_us = each(launch, [&] { settle(); });
  const double whole = each([&] {
    launch();
    settle();
  });
  costs.kernel_us = std::max(0.0, whole - costs.launch_us);
  for (const char* key : {"load_kernel_us", "launch_us", "kernel_us"}) calls.took(key);
}

double StreamProbe::copy_us(Place from, Place to, std::uint64_t bytes) {
  const std::vector<Accessor> both = {{from}, {to}};
  const std::span<const Accessor> readers = std::span(both).first(from == to ? 1 : 2);
  ProbedChunk source(driver_), target(driver_);
  for (const auto& [chunk, at] : {std::pair(&source, from), std::pair(&target, to)}) {
    chunk->reserve(bytes);
    chunk->create(at);
    chunk->map();
    chunk->grant(readers);
  }
  return each([&] {
    driver_.copy(stream_, target.begin(), source.begin(), bytes);
    settle();
  });
}

/// The latency of copies: extrapolates from two sizes to zero bytes, without the cost of the call.
void StreamProbe::measure_copies(MeasuredCalls& calls) {
  const bool peer = driver_.device_count() > 1 &&
                    driver_.can_access_peer(DeviceId{0}, DeviceId{1}) &&
                    driver_.can_access_peer(DeviceId{1}, DeviceId{0});
  const Place to = gpu(peer ? 1 : 0);
  const std::uint64_t granule = driver_.granularity(gpu(0));
  const std::uint64_t large =
      round_down(std::min(64 * MiB, driver_.device_info(DeviceId{0}).memory_bytes / 16), granule);
  const std::uint64_t small = round_up(std::min(2 * MiB, large / 8), granule);
  if (large <= small) throw Error(ErrorKind::unsupported, "machine probe", "GPUs are too small");
  const double small_us = copy_us(gpu(0), to, small), large_us = copy_us(gpu(0), to, large);
  const double us_a_byte = (large_us - small_us) / static_cast<double>(large - small);
  const double empty_us = small_us - us_a_byte * static_cast<double>(small);
  calls.costs.copy_latency_us = std::max(0.0, empty_us - calls.costs.enqueue_us);
  calls.took("copy_latency_us");
}

}  // namespace vma
