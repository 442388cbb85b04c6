#include "service/busy_gpu.hpp"

#include "base/log.hpp"
#include "service/access_kernels.hpp"

#include <algorithm>
#include <chrono>

namespace vma {

BusyGpu::BusyGpu(Runtime& runtime, Location gpu, const Work& work, Executor& executor)
    : runtime_(runtime), bytes_(work.bytes) {
  AllocOptions options;
  options.tag = "calibration";
  options.zeroed = true;
  try {
    stream_ = runtime.make_stream(gpu);
    data_ = static_cast<std::byte*>(runtime.alloc(bytes_, gpu, options));
    attached_.emplace(runtime, stream_);
    read();  // Loads the kernel.
    launches_ = launches_for(work.round);
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
  constexpr std::uint64_t vector_bytes = 16, no_sum = ~std::uint64_t{0};
  constexpr unsigned blocks = 512, threads = 512;
  constexpr int passes = 4;
  for (int launch = 0; launch < launches_; ++launch) {
    runtime_.launch(stream_, access_read_kernel(), {blocks}, {threads},
                    KernelArguments::of(data_, bytes_ / vector_bytes, passes, no_sum, data_));
  }
  runtime_.synchronize(stream_);
}

int BusyGpu::launches_for(Time round) {
  constexpr double launches_max = 512;  // A driver takes about twice as many before it waits.
  constexpr int tries = 3;
  auto one = std::chrono::steady_clock::duration::max();
  for (int attempt = 0; attempt < tries; ++attempt) {
    const auto began = std::chrono::steady_clock::now();
    read();
    one = std::min(one, std::chrono::steady_clock::now() - began);
  }
  const double wanted = std::chrono::duration<double>(round) / one;
  return static_cast<int>(std::clamp(wanted, 1.0, launches_max));
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
    log(LogLevel::warn, "calibration could not give a reader back: {}", error.what());
  }
}

}  // namespace vma
