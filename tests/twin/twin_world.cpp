#include "twin/twin_world.hpp"

#include "support/plays.hpp"
#include "support/test_machines.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>
#include <utility>

namespace vma {
namespace {

MachineDescription machine_of(const TwinPlan& plan) {
  MachineDescription machine = test_machine(plan.machine);
  for (GpuDescription& gpu : machine.gpus) gpu.hardware_queues = plan.hardware_queues;
  return machine;
}

Settings settings_of(const TwinPlan& plan) {
  Settings settings;
  settings.cache_bytes_per_gpu = 64 * TwinWorld::chunk_bytes;
  settings.host_cache_bytes = 64 * TwinWorld::chunk_bytes;
  settings.hold_limit =
      plan.threaded ? std::chrono::milliseconds(20'000) : std::chrono::milliseconds(20);
  settings.gate_limit = plan.gate_limit;
  settings.gate_retries = plan.gate_retries;
  settings.own_contexts = plan.own_contexts;
  settings.suspends = plan.suspends();
  settings.prepares_gates = settings.prepares_suspensions = plan.prepares;
  return settings;
}

constexpr std::uint64_t host_bytes_max = 256 << 20;

}  // namespace

TwinWorld::TwinWorld(const TwinPlan& plan, SteppedExecutor* stepped)
    : plan_(plan), machine_(machine_of(plan), {stepped, plan.seed, host_bytes_max, false}) {
  for (int gpu = 0; gpu < machine_.device_count(); ++gpu) {
    contexts_.push_back(machine_.retain_primary(DeviceId{gpu}));
    add_kernels_.push_back(machine_.load_kernel(contexts_.back(), twin_add_kernel()));
    compare_kernels_.push_back(machine_.load_kernel(contexts_.back(), twin_compare_kernel()));
  }
  for (const int ordinal : plan.gpus) places_.push_back(gpu(ordinal));
  if (plan.hosts) places_.push_back(host(0));
  if (plan.wrap) wrapped_ = plan.wrap(machine_);
  Driver& below = wrapped_ ? *wrapped_ : static_cast<Driver&>(machine_);
  bugs_ = std::make_unique<BugDriver>(below, plan.bug, plan.gate_limit);
  permitted_ = std::make_unique<PermittedDriver>(static_cast<Driver&>(*bugs_));
  // A runtime owns its driver. A forwarding driver leaves the others to this object.
  auto window = std::make_unique<SubmissionWindow>(static_cast<Driver&>(*permitted_), submissions_);
  auto parts = std::make_unique<RuntimeParts>(std::move(window), settings_of(plan));
  leaked_ = parts->machinery->memory.chunks().ledger().leak_count();
  kept_ = parts->machinery->memory.chunks().ledger().kept_count();
  runtime_ = unique_runtime_of(std::move(parts));
  const PermittedDriver::AsApplication application;  // Beside the check of suspension.
  array_ = make_array(3, places_.front());
  beside_ = make_array(2, places_.front());
}

TwinWorld::~TwinWorld() {
  runtime_.reset();
}

Place TwinWorld::elsewhere(std::mt19937_64& random, const void* pointer) {
  const Place here = runtime_->where(pointer).front().at;
  while (true) {
    const Place there = places_[below(random, places_.size())];
    if (there != here) return there;
  }
}

TwinArray TwinWorld::make_array(std::uint64_t chunks, Place at) {
  AllocOptions options;
  options.chunk_bytes = chunk_bytes;
  options.zeroed = true;
  TwinArray made;
  made.words = chunks * chunk_bytes / sizeof(std::uint64_t);
  made.array = static_cast<std::uint64_t*>(runtime_->alloc(chunks * chunk_bytes, at, options));
  options.movable = false;
  made.twin = static_cast<std::uint64_t*>(runtime_->alloc(chunks * chunk_bytes, host(0), options));
  return made;
}

void TwinWorld::free_array(const TwinArray& array) {
  runtime_->free(array.array);
  runtime_->free(array.twin);
}

void TwinWorld::submit(const std::function<void()>& body) {
  const MutexLock lock(submissions_);
  body();
}

void TwinWorld::add(BoundStream stream, int gpu, const TwinSpan& span, const TwinAdds& adds) {
  submit([&] {
    machine_.launch(stream, add_kernels_[static_cast<std::size_t>(gpu)], {},
                    twin_add_arguments(span, adds));
  });
}

void TwinWorld::compare(BoundStream stream, int gpu, const TwinArray& array,
                        std::uint64_t* different) {
  submit([&] {
    machine_.launch(stream, compare_kernels_[static_cast<std::size_t>(gpu)], {},
                    KernelArguments::of(array.array, array.twin, array.words, different));
  });
}

std::uint64_t* TwinWorld::pinned_word() {
  auto* word = static_cast<std::uint64_t*>(
      machine_.allocate_pinned(contexts_.front(), sizeof(std::uint64_t)));
  const MutexLock lock(mutex_);
  pinned_.push_back(word);
  return word;
}

void TwinWorld::nap(std::chrono::nanoseconds duration) {
  vma::nap(machine_.clock(), duration);
}

Stream TwinWorld::named(BoundStream stream) {
  return reinterpret_cast<Stream>(static_cast<std::uint64_t>(stream.handle));
}

void TwinWorld::share_event(EventHandle event) {
  const MutexLock lock(mutex_);
  events_.push_back(event);
}

EventHandle TwinWorld::any_event(std::mt19937_64& random) {
  const MutexLock lock(mutex_);
  return events_[below(random, events_.size())];
}

std::unique_ptr<Task> TwinWorld::start(const std::string& name, std::function<void()> body) {
  return machine_.executor().spawn(name, [this, name, work = std::move(body)] {
    try {
      work();
    } catch (const std::exception& error) {
      fail(fmt::format("{}: {}", name, error.what()));
    }
  });
}

void TwinWorld::fail(const std::string& problem) {
  {
    const MutexLock lock(mutex_);
    if (problem_.empty()) problem_ = problem;
  }
  finish();
}

std::string TwinWorld::problem() const {
  const MutexLock lock(mutex_);
  return problem_;
}

std::uint64_t TwinWorld::compare_all(const TwinArray& array) {
  std::vector<std::uint64_t> ours(array.words), theirs(array.words);
  runtime_->read(array.array, std::as_writable_bytes(std::span(ours)));
  runtime_->read(array.twin, std::as_writable_bytes(std::span(theirs)));
  std::uint64_t different = 0, first = 0;
  for (std::uint64_t i = array.words; i-- > 0;) {
    if (ours[i] == theirs[i]) continue;
    ++different;
    first = i;
  }
  if (different > 0) {
    fail(fmt::format("{} words differ from the twin's, the first is word {}: {:#x} and {:#x}",
                     different, first, ours[first], theirs[first]));
  }
  std::uint64_t* const counted = pinned_word();
  for (const int gpu : plan_.gpus) {
    const BoundStream stream = machine_.create_stream(context(gpu), StreamKind::non_blocking);
    *counted = 0;
    compare(stream, gpu, array, counted);
    machine_.wait_stream(stream, never);
    machine_.destroy_stream(stream);
    if (*counted != different) {
      fail(fmt::format("gpu {} sees {} words that differ, the CPU {}", gpu, *counted, different));
    }
  }
  return different;
}

void TwinWorld::end() {
  runtime_->shutdown();
  // After a failure in the dark, slow calls are allowed.
  for (const std::string& violation : permitted_->violations()) {
    if (!plan_.any_error) fail(fmt::format("not permitted: {}", violation));
  }
  {
    const MutexLock lock(mutex_);
    for (const EventHandle event : events_) machine_.destroy_event(event);
    for (std::uint64_t* word : pinned_) machine_.free_pinned(contexts_.front(), word);
    events_.clear();
    pinned_.clear();
  }
  for (std::size_t gpu = 0; gpu < contexts_.size(); ++gpu) {
    machine_.unload_kernel(add_kernels_[gpu]);
    machine_.unload_kernel(compare_kernels_[gpu]);
    machine_.release_primary(DeviceId{static_cast<int>(gpu)});
  }
  std::vector<std::string> left = machine_.leaks();
  // Words that a graph may have captured, or that a stream has yet to write when the runtime ends,
  // are never released, on purpose.
  const bool may_leak_words =
      plan_.company.captures || (plan_.threaded && plan_.company.shuts_down);
  if (may_leak_words) {
    std::erase_if(left, [](const std::string& what) { return what.starts_with("pinned memory"); });
  }
  if (left.empty() || (*leaked_ + *kept_ > 0 && plan_.any_error)) return;
  fail(fmt::format("left behind: {}; counted as leaked: {}, as kept: {}", fmt::join(left, ", "),
                   leaked_->load(), kept_->load()));
}

}  // namespace vma
