#include "support/reaction/lockstep_program.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace vma {
namespace {

/// As `LaunchPace::batch_time`: a live move waits for all launches in progress.
constexpr double batch_seconds = 1e-3;

Time time_of(double seconds) {
  return std::chrono::duration_cast<Time>(std::chrono::duration<double>(seconds));
}

PlaceId place_of(std::size_t gpu) {
  return PlaceId{static_cast<std::uint8_t>(gpu)};
}

}  // namespace

LockstepProgram::LockstepProgram(const LockstepLoad& load, const MachineCosts& costs,
                                 std::function<PlaceId(std::size_t)> homes)
    : load_(load), costs_(costs), homes_(std::move(homes)), readers_(load.gpus) {
  begin_step(Time::zero());
}

void LockstepProgram::begin_step(Time now) {
  phase_ = load_.phase_at(now);
  finished_ = 0;
  for (std::size_t gpu = 0; gpu < readers_.size(); ++gpu) {
    Reader& reader = readers_[gpu];
    reader = {};
    for (std::size_t block = 0; block < load_.blocks; ++block) {
      const std::size_t passes = load_.passes(phase_, gpu, block);
      if (passes > 0) reader.share.push_back({block, passes});
    }
  }
}

Time LockstepProgram::next() const {
  Time next = Time::max();
  for (const Reader& reader : readers_) {
    if (reader.running) next = std::min(next, reader.until);
  }
  // At the very beginning, nothing runs yet.
  return next == Time::max() && !stopping_ ? Time::zero() : next;
}

void LockstepProgram::launch(std::size_t number, Time now, std::vector<UseEvent>& uses) {
  Reader& reader = readers_[number];
  if (reader.finished) return;
  const PlaceId self = place_of(number);
  double seconds = 0;
  reader.batch_bytes = 0;
  while (reader.stretch < reader.share.size() && seconds < batch_seconds) {
    const Stretch& stretch = reader.share[reader.stretch];
    const std::size_t chunk = stretch.block * load_.chunks_a_block + reader.chunk;
    const auto bytes = static_cast<double>(load_.chunk_bytes);
    uses.push_back({ChunkId{static_cast<std::uint32_t>(chunk)}, self, bytes, 0, nullptr});
    seconds += costs_.access_seconds(self, homes_(chunk), bytes);
    reader.batch_bytes += bytes;
    if (++reader.chunk < load_.chunks_a_block) continue;
    reader.chunk = 0;
    if (++reader.pass < stretch.passes) continue;
    reader.pass = 0;
    ++reader.stretch;
  }
  reader.until = now + std::max(time_of(seconds), Time(1));
  reader.running = true;
  ++running_;
}

void LockstepProgram::launch_all(Time now, std::vector<UseEvent>& uses) {
  for (std::size_t gpu = 0; gpu < readers_.size(); ++gpu) {
    if (!readers_[gpu].running) launch(gpu, now, uses);
  }
}

void LockstepProgram::note_stopped(Time now) {
  if (!stopping_) return;
  first_stood_ = std::min(first_stood_, now);
  last_stood_ = now;
}

void LockstepProgram::advance(Time now, std::vector<UseEvent>& uses) {
  if (running_ == 0 && !stopping_) return launch_all(now, uses);
  const bool abandoned = load_.phase_at(now) != phase_;
  for (std::size_t gpu = 0; gpu < readers_.size(); ++gpu) {
    Reader& reader = readers_[gpu];
    if (!reader.running || reader.until > now) continue;
    reader.running = false;
    --running_;
    bytes_ += reader.batch_bytes;
    if (abandoned || reader.stretch == reader.share.size()) {
      reader.finished = true;
      ++finished_;
    }
    if (stopping_) {
      note_stopped(now);
    } else {
      launch(gpu, now, uses);
    }
  }
  if (finished_ < readers_.size()) return;
  steps_.push_back({now, bytes_});
  begin_step(now);
  if (!stopping_) launch_all(now, uses);
}

void LockstepProgram::stop(Time now) {
  stopping_ = true;
  // A GPU that waits for others has nothing in progress.
  first_stood_ = running_ < readers_.size() ? now : Time::max();
  last_stood_ = now;
}

void LockstepProgram::resume(Time now, std::vector<UseEvent>& uses) {
  stopping_ = false;
  launch_all(now, uses);
}

}  // namespace vma
