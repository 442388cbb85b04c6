#include "bench/live/writers.hpp"

#include "base/clock.hpp"
#include "base/executor.hpp"
#include "runtime/runtime_parts.hpp"
#include "support/test_kernels.hpp"

#include <exception>
#include <optional>
#include <stdexcept>
#include <utility>

namespace vma {
namespace {

LaunchShape sweep_shape(const WriterSpec& spec) {
  constexpr unsigned block = 256;
  constexpr std::uint64_t words_a_thread = 8;
  constexpr unsigned staying = 1056;  // Eight blocks per multiprocessor of an H200.
  const auto passing = static_cast<unsigned>(spec.sweep_words / (block * words_a_thread) + 1);
  return {Dim3{spec.sweep_stays ? staying : passing}, Dim3{block}};
}

/// The places of the writers' GPU with this index.
WritePlaces places_of(const WriterSpec& spec, std::size_t number) {
  WritePlaces places = spec.places;
  if (!spec.own_words) return places;
  places.place_words /= spec.gpus.size();
  if (places.place_words == 0)
    throw std::runtime_error("places have less words than there are GPUs");
  places.begin += number * places.place_words;
  return places;
}

}  // namespace

struct Writers::Worker {
  Place gpu;
  WritePlaces places;
  Stream stream = nullptr;
  BoundStream bound;
  KernelHandle write{};
  KernelHandle sweep{};
  void* swept = nullptr;
  std::uint64_t* progress = nullptr;  // Pinned; the GPU stores to it.
  std::uint64_t launched = 0;         // Used only by the worker's thread until that has ended.
  std::optional<AttachedStream> attached;
  std::unique_ptr<Task> task;
  std::exception_ptr error;  // Like `launched`.

  std::uint64_t completed() const noexcept {
    return std::atomic_ref<std::uint64_t>(*progress).load(std::memory_order_acquire);
  }
};

Writers::Writers(Runtime& runtime, const WriterSpec& spec) : runtime_(runtime), spec_(spec) {
  static ThreadedExecutor executor;
  try {
    for (int stream = 0; stream < spec.streams; ++stream) {
      const auto turn = static_cast<std::size_t>(stream) % spec.gpus.size();
      workers_.push_back(std::make_unique<Worker>());
      workers_.back()->gpu = spec.gpus[turn];
      workers_.back()->places = places_of(spec, turn);
      start(*workers_.back());
    }
  } catch (...) {
    for (const auto& worker : workers_) finish(*worker);
    throw;
  }
  for (const auto& worker : workers_) {
    worker->task = executor.spawn("bench_writer", [this, &worker = *worker] { loop(worker); });
  }
}

Writers::~Writers() {
  try {
    stop();
  } catch (const std::exception&) {  // The benchmark has already failed and reported why.
  }
}

/// Allocates and loads everything that a launch needs, so that no launch waits for that.
void Writers::start(Worker& worker) {
  RuntimeParts& parts = parts_of(runtime_);
  worker.stream = runtime_.make_stream(worker.gpu);
  worker.bound = parts.machinery->launcher.bind(worker.stream);
  worker.progress = static_cast<std::uint64_t*>(
      parts.driver->allocate_pinned(worker.bound.context, sizeof(std::uint64_t)));
  worker.write = parts.driver->load_kernel(worker.bound.context, writer_kernel());
  if (spec_.sweep_words > 0) {
    AllocOptions options;
    options.movable = false;
    worker.sweep = parts.driver->load_kernel(worker.bound.context, add_kernel());
    worker.swept = runtime_.alloc(spec_.sweep_words * sizeof(std::uint64_t), worker.gpu, options);
  }
  if (spec_.attached) worker.attached.emplace(runtime_, worker.stream, nullptr, spec_.work);
}

void Writers::loop(Worker& worker) {
  Driver& driver = *parts_of(runtime_).driver;
  const auto nanoseconds = static_cast<std::uint64_t>(spec_.kernel.count());
  const LaunchShape shape = writer_shape(worker.places);
  const LaunchShape sweep = sweep_shape(spec_);
  Mutex own;
  Mutex& submissions = spec_.submissions != nullptr ? *spec_.submissions : own;
  try {
    while (!stopping_) {
      Poll poll;
      while (worker.launched - worker.completed() >= spec_.backlog && !stopping_) poll.pause();
      const MutexLock lock(submissions);
      if (spec_.sweep_words > 0) {
        driver.launch(worker.bound, worker.sweep, sweep,
                      KernelArguments::of(worker.swept, spec_.sweep_words, std::uint64_t{1}));
      }
      driver.launch(
          worker.bound, worker.write, shape,
          writer_arguments(worker.places, nanoseconds, worker.progress, worker.launched + 1));
      ++worker.launched;
    }
  } catch (const std::exception&) {
    worker.error = std::current_exception();
  }
}

std::uint64_t Writers::completed() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& worker : workers_) sum += worker->completed();
  return sum;
}

std::uint64_t Writers::stop() {
  stopping_ = true;
  for (const auto& worker : workers_) {
    if (worker->task) worker->task->join();
  }
  std::uint64_t added = 0;
  std::exception_ptr error;
  for (const auto& worker : workers_) {
    try {
      if (worker->error) std::rethrow_exception(worker->error);
      runtime_.synchronize(worker->stream);
      if (worker->completed() != worker->launched) {
        throw std::runtime_error("a launch did not say that it ended");
      }
    } catch (const std::exception&) {
      if (!error) error = std::current_exception();
    }
    added += worker->launched * spec_.places.touches;
    finish(*worker);
  }
  workers_.clear();
  if (error) std::rethrow_exception(error);
  return added;
}

/// Releases the worker's resources; those that cannot be released stay with the driver.
void Writers::finish(Worker& worker) noexcept {
  Driver& driver = *parts_of(runtime_).driver;
  const auto attempt = [](auto&& undo) {
    try {
      undo();
    } catch (const std::exception&) {  // The work has already failed and reported why.
    }
  };
  worker.attached.reset();
  if (!is_none(worker.write)) attempt([&] { driver.unload_kernel(worker.write); });
  if (!is_none(worker.sweep)) attempt([&] { driver.unload_kernel(worker.sweep); });
  if (worker.swept != nullptr) attempt([&] { runtime_.free(worker.swept); });
  if (worker.progress != nullptr) {
    attempt([&] { driver.free_pinned(worker.bound.context, worker.progress); });
  }
  if (worker.stream != nullptr) attempt([&] { runtime_.destroy_stream(worker.stream); });
}

}  // namespace vma
