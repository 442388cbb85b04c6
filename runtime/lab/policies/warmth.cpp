#include "lab/policies/warmth.hpp"

#include "base/units.hpp"
#include "placement/weighing/chunk_worth.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>

namespace vma::inline v1 {
namespace {

// So that the logarithm has a floor: a pass in twelve days.
constexpr double passes_s_least = 1e-6;
// What one pass adds to an average with a half-life of ten seconds.
constexpr double newborn_passes_s = std::numbers::ln2 / 10;
constexpr std::size_t ahead = 12;
constexpr double steps = 4;  // Of the order, per power of two.

/// What a chunk is filed by: without a use, its creation.
Time last_sign_of_life(const ChunkRow& row) {
  return std::max(row.born, row.last_use);
}

double passes_s(const Snapshot& snapshot, ChunkId chunk) {
  return snapshot.total_heat(chunk).long_term() / static_cast<double>(snapshot.chunk(chunk).bytes);
}

}  // namespace

void ColdOrder::put(ChunkId chunk, PlaceId at, std::int64_t warmth) {
  if (index(chunk) >= links_.size()) links_.resize(index(chunk) * 2 + 1);
  if (index(at) >= lists_.size()) lists_.resize(index(at) + 1);
  Link& link = links_[index(chunk)];
  if (link.listed && link.at == at && link.warmth == warmth) return;
  remove(chunk);
  const auto number = static_cast<std::uint32_t>(chunk);
  Ends& ends = lists_[index(at)][warmth];
  link = {warmth, ends.last, none, at, true};
  if (ends.last != none) links_[ends.last].after = number;
  if (ends.first == none) ends.first = number;
  ends.last = number;
}

void ColdOrder::remove(ChunkId chunk) {
  if (!holds(chunk)) return;
  Link& link = links_[index(chunk)];
  Lists& lists = lists_[index(link.at)];
  const auto found = lists.find(link.warmth);
  Ends& ends = found->second;
  (link.before == none ? ends.first : links_[link.before].after) = link.after;
  (link.after == none ? ends.last : links_[link.after].before) = link.before;
  link.listed = false;
  if (ends.first == none) lists.erase(found);
}

std::optional<ChunkId> ColdOrder::coldest(PlaceId at) const {
  if (index(at) >= lists_.size() || lists_[index(at)].empty()) return std::nullopt;
  return ChunkId{lists_[index(at)].begin()->second.first};
}

std::optional<ChunkId> ColdOrder::after(ChunkId chunk) const {
  const Link& link = links_[index(chunk)];
  if (link.after != none) return ChunkId{link.after};
  const Lists& lists = lists_[index(link.at)];
  const auto warmer = lists.upper_bound(link.warmth);
  if (warmer == lists.end()) return std::nullopt;
  return ChunkId{warmer->second.first};
}

double Warmth::of_used_now(const Snapshot& snapshot, ChunkId chunk) const {
  const ChunkRow& row = snapshot.chunk(chunk);
  const double half_life = in_seconds(half_life_);
  const double frequency =
      row.last_use == Time::zero() ? newborn_passes_s : passes_s(snapshot, chunk);
  return std::log2(std::max(frequency, passes_s_least)) +
         in_seconds(last_sign_of_life(row)) / half_life;
}

std::string Warmth::text(const Snapshot& snapshot, ChunkId chunk) {
  const Time idle = snapshot.now() - last_sign_of_life(snapshot.chunk(chunk));
  char text[64];
  std::snprintf(text, sizeof text, "idle %s, %.3g passes/s", time_text(in_seconds(idle)).c_str(),
                passes_s(snapshot, chunk));
  return text;
}

void Warmth::follow(const Snapshot& snapshot) {
  // Each costs several cache misses, so they are prefetched.
  const std::span<const ChunkId> changed = snapshot.changed();
  const std::span<const ChunkRow> rows = snapshot.chunks();
  for (std::size_t i = 0; i < changed.size(); ++i) {
    if (i + ahead < changed.size()) {
      const std::size_t coming = index(changed[i + ahead]);
      __builtin_prefetch(&rows[coming]);
      if (coming < filed_.size()) __builtin_prefetch(&filed_[coming]);
      order_.prefetch(changed[i + ahead]);
    }
    file(snapshot, changed[i]);
  }
}

void Warmth::forget(ChunkId chunk) {
  order_.remove(chunk);
  if (index(chunk) < filed_.size()) filed_[index(chunk)] = Filed{};
}

/// Warmth is computed once per use, while the averages still show that use.
void Warmth::file(const Snapshot& snapshot, ChunkId chunk) {
  const ChunkRow& row = snapshot.chunk(chunk);
  if (row.bytes == 0 || row.dropped || index(row.at) >= snapshot.costs().gpus()) {
    return order_.remove(chunk);
  }
  if (index(chunk) >= filed_.size()) filed_.resize(index(chunk) * 2 + 1);
  Filed& filed = filed_[index(chunk)];
  if (filed.use != last_sign_of_life(row)) {
    filed = {last_sign_of_life(row), of_used_now(snapshot, chunk)};
  }
  order_.put(chunk, row.at, static_cast<std::int64_t>(std::floor(filed.warmth * steps)));
}

/// Whether its position was wrong.
bool Warmth::refile(const Snapshot& snapshot, ChunkId chunk) {
  const ChunkRow& row = snapshot.chunk(chunk);
  const PlaceId at = order_.place_of(chunk);
  if (row.bytes > 0 && !row.dropped && row.at == at &&
      filed_[index(chunk)].use == last_sign_of_life(row)) {
    return false;
  }
  const std::int64_t before = order_.warmth_of(chunk);
  file(snapshot, chunk);
  return !order_.holds(chunk) || order_.place_of(chunk) != at || order_.warmth_of(chunk) != before;
}

std::optional<ChunkId> Warmth::start(PlaceId at) const {
  if (index(at) < resume_at_.size()) {
    const std::optional<ChunkId> cut = resume_at_[index(at)];
    if (cut && order_.holds(*cut) && order_.place_of(*cut) == at) return cut;
  }
  return order_.coldest(at);
}

void Warmth::resume(PlaceId at, std::optional<ChunkId> chunk) {
  if (index(at) >= resume_at_.size()) resume_at_.resize(index(at) + 1);
  resume_at_[index(at)] = chunk;
}

}  // namespace vma::inline v1
