#include "placement/repeating/use_rhythm.hpp"

#include "base/units.hpp"

#include <algorithm>
#include <chrono>

namespace vma::inline v1 {
namespace {

constexpr std::uint32_t beat_least = 4;  // Chunks that have to agree.

Time time_of(float seconds) {
  return std::chrono::duration_cast<Time>(std::chrono::duration<float>(seconds));
}

}  // namespace

bool UseRhythm::alike(Time left, Time right) const {
  const Time difference = left < right ? right - left : left - right;
  return difference <= patience(std::max(left, right));
}

/// Only a new use changes it, and predictions are asked for far more often. Requires: a use.
std::uint8_t UseRhythm::find_period(const Rhythm& rhythm) const {
  const std::uint32_t gaps = rhythm.count - 1;  // The first use has none.
  const std::uint32_t kept = std::min<std::uint32_t>(gaps, uses_kept);
  for (std::uint32_t period = 1; period <= period_max && 2 * period <= kept; ++period) {
    bool repeats = true;
    for (std::uint32_t i = 1; i <= period && repeats; ++i) {
      const Use &late = use_at(rhythm, rhythm.count - i),
                &early = use_at(rhythm, rhythm.count - i - period);
      repeats = late.device == early.device && alike(time_of(late.gap), time_of(early.gap));
    }
    if (repeats) return static_cast<std::uint8_t>(period);
  }
  return 0;
}

std::optional<NextUse> UseRhythm::next(const Rhythm& rhythm) const {
  if (rhythm.count == 0 || rhythm.lost) return std::nullopt;
  const Use& last = use_at(rhythm, rhythm.count - 1);
  if (rhythm.count >= 3) {
    if (rhythm.period == 0) return std::nullopt;
    const Use& like = use_at(rhythm, rhythm.count - rhythm.period);
    return NextUse{rhythm.begin + time_of(like.gap), like.device, like.passes};
  }
  if (index(last.device) >= beats_.size()) return std::nullopt;
  const Beat& beat = beats_[index(last.device)];
  if (beat.agreed < beat_least) return std::nullopt;
  return NextUse{rhythm.begin + beat.gap, last.device, last.passes};
}

std::optional<NextUse> UseRhythm::next(ChunkId chunk) const {
  if (index(chunk) >= rhythms_.size()) return std::nullopt;
  return next(rhythms_[index(chunk)]);
}

bool UseRhythm::follows_others(ChunkId chunk) const {
  if (index(chunk) >= rhythms_.size()) return false;
  const Rhythm& rhythm = rhythms_[index(chunk)];
  return rhythm.count > 0 && rhythm.count < 3 && !rhythm.lost;
}

void UseRhythm::judge(const Rhythm& rhythm, Time now) {
  const std::optional<NextUse> expected = next(rhythm);
  if (expected) record_.note(alike(expected->at - rhythm.begin, now - rhythm.begin));
}

void UseRhythm::keep_beat(PlaceId device, Time gap) {
  if (index(device) >= beats_.size()) beats_.resize(index(device) + 1);
  Beat& beat = beats_[index(device)];
  beat.agreed = alike(beat.gap, gap) ? beat.agreed + 1 : 1;
  beat.gap = gap;
}

bool UseRhythm::used(const UseEvent& use, const Snapshot& snapshot) {
  if (index(use.chunk) >= chunks_max) return false;
  if (index(use.chunk) >= rhythms_.size()) rhythms_.resize(index(use.chunk) + 1);
  Rhythm& rhythm = rhythms_[index(use.chunk)];
  const Time now = snapshot.now();
  const auto passes =
      static_cast<float>(use.bytes() / static_cast<double>(snapshot.chunk(use.chunk).bytes));
  const bool known = rhythm.count > 0;
  Use& last = rhythm.uses[(rhythm.count - (known ? 1 : 0)) % uses_kept];
  if (known && now - rhythm.last < apart_ && last.device == use.device) {
    last.passes += passes;
    rhythm.last = now;
    return false;
  }
  Use begun;
  begun.passes = passes;
  begun.device = use.device;
  if (known) {
    judge(rhythm, now);
    keep_beat(use.device, now - rhythm.begin);
    begun.gap = static_cast<float>(in_seconds(now - rhythm.begin));
  }
  rhythm.uses[rhythm.count % uses_kept] = begun;
  ++rhythm.count;
  rhythm.period = find_period(rhythm);
  rhythm.begin = rhythm.last = now;
  rhythm.lost = false;
  return true;
}

void UseRhythm::missed(ChunkId chunk) {
  record_.note(false);
  rhythms_[index(chunk)].lost = true;
}

void UseRhythm::gone(ChunkId chunk) {
  if (index(chunk) < rhythms_.size()) rhythms_[index(chunk)] = {};
}

}  // namespace vma::inline v1
