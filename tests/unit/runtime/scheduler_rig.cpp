#include "unit/runtime/scheduler_rig.hpp"

#include "machine/machine_file.hpp"
#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

namespace vma {

SchedulerRig::SchedulerRig(const std::string& policy, const std::string& machine,
                           RuntimeOptions options, std::chrono::nanoseconds policy_limit) {
  options.driver = "sim:" + machine;
  options.policy = policy;
  options.gate_limit = std::chrono::seconds(1);  // Busy computers then give up no gate.
  auto driver = std::make_unique<SimDriver>(load_machine(machine));
  machine_ = driver.get();
  Settings settings = resolve_settings(options);
  settings.stepped_by_hand = true;
  settings.policy_limit = policy_limit;
  settings.calibration = "off";
  runtime_ = unique_runtime_of(std::make_unique<RuntimeParts>(std::move(driver), settings));
  for (const Place at : runtime_->places()) {
    if (at.kind == Place::Kind::gpu) streams_.push_back(runtime_->make_stream(at));
  }
  attach_all();
}

SchedulerRig::~SchedulerRig() {
  attached_.clear();
}

void SchedulerRig::attach_all() {
  for (const Stream stream : streams_) attached_.emplace_back(*runtime_, stream);
}

std::uint64_t* SchedulerRig::alloc(std::uint64_t chunks, Place at, const std::string& tag) {
  AllocOptions options;
  options.chunk_bytes = chunk_bytes;
  options.tag = tag;
  return static_cast<std::uint64_t*>(runtime_->alloc(chunks * chunk_bytes, at, options));
}

void SchedulerRig::use(std::uint64_t* words, std::uint64_t chunk, int gpu, float passes) {
  const Use use{words + chunk * chunk_bytes / sizeof(std::uint64_t), chunk_bytes, vma::gpu(gpu),
                UseKind::read, passes};
  runtime_->record_uses(std::span(&use, 1));
}

void SchedulerRig::step(int steps) {
  for (int i = 0; i < steps; ++i) {
    runtime_->step_scheduler();
    // Moves that end as soon as they start leave room for others, which the next look starts.
    EXPECT_TRUE(comes_true([&] {
      const SchedulerStats before = runtime_->scheduler_stats();
      scheduler().collect();
      const SchedulerStats after = runtime_->scheduler_stats();
      const std::uint64_t ended = after.moves_done + after.moves_failed;
      return ended == after.moves_started && after.moves_started == before.moves_started &&
             ended == before.moves_done + before.moves_failed;
    }));
  }
}

Place SchedulerRig::place(const std::uint64_t* words, std::uint64_t chunk) {
  for (const Extent& extent : runtime_->where(words)) {
    if (chunk * chunk_bytes < extent.offset + extent.bytes) return extent.at;
  }
  ADD_FAILURE() << "no such chunk";
  return {};
}

void SchedulerRig::pass(std::chrono::nanoseconds time) {
  Clock& clock = machine_->clock();
  clock.reached(clock.now() + time);
}

}  // namespace vma
