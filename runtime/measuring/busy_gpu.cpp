#include "measuring/busy_gpu.hpp"

#include "base/log.hpp"
#include "base/units.hpp"
#include "calibration/access_kernels.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace vma {
namespace {

/// A round is at most this many launches. A gate that arrives while a round is being launched waits
/// for the launches made so far; if a round had few launches, that would be the whole round.
constexpr double launches_max = 16;

}  // namespace

BusyGpu::BusyGpu(Runtime& runtime, Place gpu, const Work& work, Executor& executor)
    : runtime_(runtime), bytes_(work.bytes) {
  AllocOptions options;
  options.tag = "calibration";
  options.zeroed = true;
  try {
    stream_ = runtime.make_stream(gpu);
    data_ = static_cast<std::byte*>(runtime.alloc(bytes_, gpu, options));
    attached_.emplace(runtime, stream_);
    read();  // Loads the kernel.
    shape_rounds(work.round);
    task_ = executor.spawn("vmart_reader", [this] { this->work(); });
  } catch (...) {
    give_back();
    throw;
  }
}

BusyGpu::~BusyGpu() {
  stop_ = true;
  task_->join();
  give_back();
}

void BusyGpu::require_works() const {
  if (ended_ && error_) std::rethrow_exception(error_);
}

void BusyGpu::read() {
  constexpr unsigned blocks = 512;
  for (int launch = 0; launch < launches_; ++launch)
    launch_read(runtime_, stream_, blocks, data_, bytes_, passes_);
  runtime_.synchronize(stream_);
}

/// Measured by this computer's clock. On a simulated machine in threaded mode, a launch takes as
/// long as it takes here, and only the durations of calls are those of the machine.
Time BusyGpu::read_time() {
  const auto began = std::chrono::steady_clock::now();
  read();
  return std::chrono::steady_clock::now() - began;
}

/// The shortest of three, since a busy computer only lengthens a reading; or the first one that is
/// shorter than `enough`.
Time BusyGpu::shortest_read_time(Time enough) {
  constexpr int readings = 3;
  Time shortest = Time::max();
  for (int reading = 0; reading < readings && shortest >= enough; ++reading) {
    shortest = std::min(shortest, read_time());
  }
  return shortest;
}

void BusyGpu::shape_rounds(Time round) {
  const Time one = shortest_read_time(Time(0));
  const double wanted = in_seconds(round) / in_seconds(std::max(one, Time(1)));
  launches_ = static_cast<int>(std::clamp(wanted, 1.0, launches_max));
  if (wanted > launches_max) lengthen_launches(round, wanted / launches_max);
}

/// Lengthens the launches by a factor of `times`, then by whatever is still missing: much of the
/// time of a short launch is overhead.
void BusyGpu::lengthen_launches(Time round, double times) {
  constexpr int tries = 40;
  // So that readings that were slowed down do not use all tries.
  constexpr double growth_min = 1.2;
  constexpr double passes_max = 1e9;
  const Time enough = round * 9 / 10;
  Time longest(0);
  for (int attempt = 0; attempt < tries; ++attempt) {
    const double passes = std::ceil(static_cast<double>(passes_) * times);
    passes_ = static_cast<std::uint64_t>(std::min(passes, passes_max));
    const Time took = shortest_read_time(enough);
    if (took >= enough) return;
    longest = std::max(longest, took);
    times = std::max(growth_min, in_seconds(round) / in_seconds(std::max(took, Time(1))));
  }
  throw Error(ErrorKind::unsupported, "vma::calibrate",
              fmt::format("a round of reads takes {:.1f} ms instead of {:.1f} ms",
                          in_seconds(longest) * 1e3, in_seconds(round) * 1e3));
}

void BusyGpu::work() noexcept {
  try {
    while (!stop_) read();
  } catch (...) {
    error_ = std::current_exception();
  }
  ended_ = true;
}

void BusyGpu::give_back() noexcept {
  attached_.reset();
  try {
    if (data_ != nullptr) runtime_.free(data_);
    if (stream_ != nullptr) runtime_.destroy_stream(stream_);
  } catch (const std::exception& error) {
    log(LogLevel::warn, "calibration could not release a reader: {}", error.what());
  }
}

}  // namespace vma
