#include "gpu/gpu_rig.hpp"

#include "runtime/runtime_parts.hpp"
#include "support/test_kernels.hpp"
#include "twin/submission_window.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace vma {
namespace {

constexpr Dim3 grid{128}, block{256};

Settings settings() {
  Settings settings;
  settings.cache_bytes_per_gpu = 64 * gpu_chunk_bytes;
  settings.host_cache_bytes = 16 * gpu_chunk_bytes;
  settings.hold_limit = std::chrono::seconds(10);
  return settings;
}

}  // namespace

GpuRig::GpuRig(std::unique_ptr<Driver> driver) : faults_(std::move(driver)) {
  // A runtime owns its driver. A forwarding driver leaves the counts to the rig.
  runtime_ = unique_runtime_of(std::make_unique<RuntimeParts>(
      std::make_unique<SubmissionWindow>(static_cast<Driver&>(faults_), submissions_), settings()));
  places_ = runtime_->places();
  for (const Place at : places_) {
    if (at.kind == Place::Kind::gpu) streams_.push_back(runtime_->make_stream(at));
  }
}

GpuRig::~GpuRig() {
  const RuntimeStats stats = runtime_->stats();
  EXPECT_EQ(stats.allocations, 0u);
  EXPECT_EQ(stats.poisoned, 0u);
  EXPECT_EQ(stats.leaked, forgiven_);
  const auto leaks = parts_of(*runtime_).machinery->memory.chunks().ledger().leak_count();
  runtime_->shutdown();
  EXPECT_EQ(leaks->load(), forgiven_) << "something could not be given back at the end";
}

void GpuRig::forgive_leaks() {
  forgiven_ = runtime_->stats().leaked;
}

void GpuRig::comes_to_rest() {
  Memory& memory = parts_of(*runtime_).machinery->memory;
  memory.chunks().slow_calls().await_empty();
  memory.check_invariants();
}

bool GpuRig::all_comes_back() {
  const SteadyClock clock;
  const TimePoint deadline = clock.now() + std::chrono::seconds(20);
  Poll poll;
  while (clock.now() < deadline) {
    const RuntimeStats stats = runtime_->stats();
    const bool all = std::ranges::all_of(stats.places, [](const RuntimeStats::PlaceStats& place) {
      return place.allocated_bytes == 0;
    });
    if (all) return true;
    poll.pause();
  }
  return false;
}

Pattern::Pattern(GpuRig& rig, Place at, std::uint64_t chunks) : rig_(rig) {
  AllocOptions options;
  options.chunk_bytes = gpu_chunk_bytes;
  try {
    pointer_ = rig.runtime().alloc(chunks * gpu_chunk_bytes, at, options);
    words_ = rig.runtime().size(pointer_) / sizeof(std::uint64_t);
    wrong_ = rig.runtime().alloc(sizeof(std::uint64_t), host(0));
    for (int gpu = 0; gpu < rig.gpus(); ++gpu) {
      streams_.push_back(rig.runtime().make_stream(vma::gpu(gpu)));
    }
  } catch (...) {
    give_back();
    throw;
  }
}

Pattern::~Pattern() {
  give_back();
}

void Pattern::give_back() {
  try {
    rig_.runtime().free(pointer_);
    rig_.runtime().free(wrong_);
    for (const Stream stream : streams_) rig_.runtime().destroy_stream(stream);
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
}

void Pattern::fill(int gpu, std::uint64_t seed) {
  seed_ = seed;
  rig_.runtime().launch(streams_[static_cast<std::size_t>(gpu)], fill_kernel(), grid, block,
                        KernelArguments::of(pointer_, words_, seed));
  synchronize(gpu);
}

void Pattern::write(std::uint64_t seed) {
  seed_ = seed;
  std::vector<std::uint64_t> words(words_);
  for (std::uint64_t i = 0; i < words_; ++i) words[i] = seed + i;
  rig_.runtime().write(pointer_, std::as_bytes(std::span(words)));
}

void Pattern::enqueue_add(int gpu, std::uint64_t value) {
  rig_.runtime().launch(streams_[static_cast<std::size_t>(gpu)], add_kernel(), grid, block,
                        KernelArguments::of(pointer_, words_, value));
  seed_ += value;
}

void Pattern::add(int gpu, std::uint64_t value) {
  enqueue_add(gpu, value);
  synchronize(gpu);
}

void Pattern::synchronize(int gpu) {
  rig_.runtime().synchronize(streams_[static_cast<std::size_t>(gpu)]);
}

void Pattern::check() {
  for (int gpu = 0; gpu < rig_.gpus(); ++gpu) check_by_kernel(gpu);
  check_by_cpu();
}

void Pattern::check_by_kernel(int gpu) {
  std::uint64_t wrong = 0;
  rig_.runtime().write(wrong_, std::as_bytes(std::span(&wrong, 1)));
  rig_.runtime().launch(streams_[static_cast<std::size_t>(gpu)], compare_kernel(), grid, block,
                        KernelArguments::of(pointer_, words_, seed_, wrong_));
  synchronize(gpu);
  rig_.runtime().read(wrong_, std::as_writable_bytes(std::span(&wrong, 1)));
  EXPECT_EQ(wrong, 0u) << "a kernel of gpu " << gpu << " read other words than were written";
}

void Pattern::check_by_cpu() {
  std::vector<std::uint64_t> words(words_);
  rig_.runtime().read(pointer_, std::as_writable_bytes(std::span(words)));
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < words_; ++i) wrong += words[i] != seed_ + i;
  EXPECT_EQ(wrong, 0u) << "words differ from what was written";
}

void Pattern::check_at(Place at) {
  const std::vector<Extent> extents = rig_.runtime().where(pointer_);
  ASSERT_EQ(extents.size(), 1u);
  EXPECT_EQ(extents[0].at, at);
  EXPECT_EQ(extents[0].bytes, size_bytes());
}

}  // namespace vma
