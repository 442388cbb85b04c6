#include "placement/auto/victim_search.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

namespace vma::inline v1 {
namespace {

constexpr double buckets_per_doubling = 2;

}  // namespace

void ValueOrder::prepare_put(ChunkId chunk) const {
  if (index(chunk) >= nodes_.size()) return;
  const Node& node = nodes_[index(chunk)];
  if (node.previous != ChunkRow::none) __builtin_prefetch(&nodes_[node.previous], 1);
  if (node.next != ChunkRow::none) __builtin_prefetch(&nodes_[node.next], 1);
}

void ValueOrder::put(ChunkId chunk, PlaceId at, double key, std::uint64_t bytes) {
  if (index(chunk) >= nodes_.size()) nodes_.resize(index(chunk) + 1);
  if (index(at) >= buckets_.size()) buckets_.resize(index(at) + 1);
  const auto number = static_cast<std::int32_t>(
      std::floor(std::clamp(key, worthless, -worthless) * buckets_per_doubling));
  Node& node = nodes_[index(chunk)];
  if (node.bucket != nullptr && node.at == at && node.bucket->number == number) return;
  Bucket& into = buckets_[index(at)][number];  // First, since it may throw.
  into.number = number;
  if (node.bucket != nullptr) unlink(node);
  const auto link = static_cast<std::uint32_t>(chunk);
  node = {&into, into.last, ChunkRow::none, static_cast<float>(bytes), at};
  into.bytes += node.bytes;
  if (into.last != ChunkRow::none) nodes_[into.last].next = link;
  if (into.first == ChunkRow::none) into.first = link;
  into.last = link;
}

void ValueOrder::drop(ChunkId chunk) {
  if (index(chunk) >= nodes_.size() || nodes_[index(chunk)].bucket == nullptr) return;
  unlink(nodes_[index(chunk)]);
  nodes_[index(chunk)] = {};
}

void ValueOrder::unlink(Node& node) {
  Bucket& bucket = *node.bucket;
  const bool first = node.previous == ChunkRow::none, last = node.next == ChunkRow::none;
  if (!first) nodes_[node.previous].next = node.next;
  if (!last) nodes_[node.next].previous = node.previous;
  if (first) bucket.first = node.next;
  if (last) bucket.last = node.previous;
  bucket.bytes -= node.bytes;
  if (first && last) buckets_[index(node.at)].erase(bucket.number);
}

std::uint32_t ValueOrder::first(PlaceId at) const {
  if (index(at) >= buckets_.size() || buckets_[index(at)].empty()) return ChunkRow::none;
  return buckets_[index(at)].begin()->second.first;
}

std::uint32_t ValueOrder::next(std::uint32_t chunk) const {
  const Node& node = nodes_[chunk];
  if (node.next != ChunkRow::none) return node.next;
  const Buckets& buckets = buckets_[index(node.at)];
  const auto after = buckets.upper_bound(node.bucket->number);
  return after == buckets.end() ? ChunkRow::none : after->second.first;
}

double ValueOrder::mean_value(PlaceId at, double fading) const {
  if (index(at) >= buckets_.size()) return 0;
  double value = 0, bytes = 0;
  for (const auto& [number, bucket] : buckets_[index(at)]) {
    const double key = (number + 0.5) / buckets_per_doubling;
    value += bucket.bytes * std::exp2(key - fading);
    bytes += bucket.bytes;
  }
  return bytes > 0 ? value / bytes : 0;
}

std::size_t ValueOrder::state_bytes() const {
  return nodes_.capacity() * sizeof(Node);
}

void VictimLosses::begin() {
  ways_.clear();
  ++call_;
}

void VictimLosses::weigh(const Snapshot& snapshot, ChunkId chunk, Weighed& weighed) {
  weighed = {call_, static_cast<std::uint32_t>(ways_.size()), 0};
  for (const PlaceId to : slower_places(snapshot, chunk))
    if (can_lie(snapshot, chunk, to)) ways_.push_back({to});
  weighed.count = static_cast<std::uint32_t>(ways_.size()) - weighed.first;
  if (weighed.count == 0) return;
  outlook_.read(snapshot, chunk, horizon_seconds_);
  if (!outlook_.announced()) shifts_.correct(chunk, snapshot, false, outlook_);
  shifts_.correct(chunk, snapshot, true, outlook_);
  const double here = outlook_.all_seconds_at(snapshot.chunk(chunk).at);
  for (Way& way : std::span(ways_).subspan(weighed.first))
    way.lost = std::max(0.0, outlook_.all_seconds_at(way.to) - here);
}

const VictimLosses::Way* VictimLosses::next(const Snapshot& snapshot, ChunkId chunk,
                                            const Room& room) {
  if (index(chunk) >= chunks_.size()) chunks_.resize(snapshot.chunks().size());
  Weighed& weighed = chunks_[index(chunk)];
  if (weighed.call != call_) weigh(snapshot, chunk, weighed);
  const std::uint64_t bytes = snapshot.chunk(chunk).bytes;
  for (const Way& way : std::span(ways_).subspan(weighed.first, weighed.count))
    if (room.holds(way.to, bytes)) return &way;
  return nullptr;
}

}  // namespace vma::inline v1
