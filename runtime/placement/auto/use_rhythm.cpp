#include "placement/auto/use_rhythm.hpp"

#include "base/check.hpp"
#include "base/units.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace vma::inline v1 {
namespace {

using Key = std::pair<Time, ChunkId>;

Key key_of(const UseOrder::Use& use) {
  return {use.at, use.chunk};
}

}  // namespace

/// The first one that does not end before the use.
std::vector<UseOrder::Block>::iterator UseOrder::block_of(Time at, ChunkId chunk) {
  return std::ranges::lower_bound(blocks_, Key(at, chunk), {},
                                  [](const Block& block) { return key_of(block.back()); });
}

void UseOrder::insert(const Use& use) {
  auto block = block_of(use.at, use.chunk);
  if (block == blocks_.end()) {
    if (blocks_.empty()) blocks_.emplace_back();
    block = std::prev(blocks_.end());
  }
  block->insert(std::ranges::lower_bound(*block, key_of(use), {}, key_of), use);
  if (block->size() <= block_max) return;
  const auto half = block->begin() + block_max / 2;
  Block later(half, block->end());
  block->erase(half, block->end());
  blocks_.insert(block + 1, std::move(later));
}

void UseOrder::erase(Time at, ChunkId chunk) {
  const auto block = block_of(at, chunk);
  VMART_CHECK(block != blocks_.end(), "a use that is erased is there");
  const auto use = std::ranges::lower_bound(*block, Key(at, chunk), {}, key_of);
  VMART_CHECK(key_of(*use) == Key(at, chunk), "a use that is erased is there");
  block->erase(use);
  if (block->empty()) blocks_.erase(block);
}

void UseCalendar::put(ChunkId chunk, const NextUse& use, Time now, PlaceId at,
                      std::uint16_t pays_below) {
  if (index(chunk) >= entries_.size()) entries_.resize(index(chunk) + 1);
  if (index(at) >= at_.size()) at_.resize(index(at) + 1);
  Entry& entry = entries_[index(chunk)];
  // The usual case: it is predicted again, with the same answer.
  const bool stays = entry.known && entry.at == at && entry.use.at == use.at &&
                     entry.use.device == use.device && entry.pays_below == pays_below;
  if (!stays) {
    drop(chunk);
    const UseOrder::Use listed{use.at, chunk, use.device, at, pays_below};
    order_.insert(listed);
    at_[index(at)].insert(listed);
  }
  entry = {use, now, at, true, pays_below};
}

void UseCalendar::drop(ChunkId chunk) {
  if (!has(chunk)) return;
  Entry& entry = entries_[index(chunk)];
  order_.erase(entry.use.at, chunk);
  at_[index(entry.at)].erase(entry.use.at, chunk);
  entry = {};
}

const UseCalendar::Entry& UseCalendar::operator[](ChunkId chunk) const {
  static const Entry none;
  return index(chunk) < entries_.size() ? entries_[index(chunk)] : none;
}

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
