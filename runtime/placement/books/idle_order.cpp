#include "placement/books/idle_order.hpp"

#include "base/check.hpp"

#include <tuple>

namespace vma {
inline namespace v1 {
namespace {

std::uint32_t number_of(ChunkId chunk) {
  return static_cast<std::uint32_t>(chunk);
}

/// Decides which of two nodes is above the other, as if at random (the finalizer of MurmurHash3).
std::uint32_t priority(std::uint32_t node) {
  node = (node ^ (node >> 16)) * 0x85EBCA6Bu;
  node = (node ^ (node >> 13)) * 0xC2B2AE35u;
  return node ^ (node >> 16);
}

}  // namespace

void IdleOrder::make_room(std::size_t chunks) {
  VMART_CHECK(chunks <= none, "the links have 31 bits");
  nodes_.resize(chunks);
}

bool IdleOrder::comes_before(std::uint32_t one, std::uint32_t other, Rows rows) {
  return std::tuple(last_use_of(rows[one]), one) < std::tuple(last_use_of(rows[other]), other);
}

void IdleOrder::used(ChunkId chunk, PlaceId at) noexcept {
  const std::uint32_t number = number_of(chunk);
  AtPlace& place = places_[index(at)];
  nodes_[number] = {place.last, false, none};
  (place.last == none ? place.first : nodes_[place.last].after) = number;
  place.last = number;
}

void IdleOrder::arrived(ChunkId chunk, PlaceId at, Rows rows) noexcept {
  AtPlace& place = places_[index(at)];
  nodes_[number_of(chunk)] = {none, true, none};
  place.root = with(place.root, number_of(chunk), rows);
}

void IdleOrder::left(ChunkId chunk, PlaceId at, Rows rows) noexcept {
  const Node node = nodes_[number_of(chunk)];
  AtPlace& place = places_[index(at)];
  if (node.arrived) {
    place.root = without(place.root, number_of(chunk), rows);
    return;
  }
  (node.before == none ? place.first : nodes_[node.before].after) = node.after;
  if (node.after == none) {
    place.last = node.before;
  } else {
    nodes_[node.after].before = node.before;
  }
}

std::uint32_t IdleOrder::with(std::uint32_t tree, std::uint32_t node, Rows rows) noexcept {
  const Halves halves = split(tree, node, rows);
  return joined(joined(halves.earlier, node), halves.later);
}

/// Requires: the tree has the node.
std::uint32_t IdleOrder::without(std::uint32_t tree, std::uint32_t node, Rows rows) noexcept {
  VMART_CHECK(tree != none, "a chunk that leaves was there");
  if (tree == node) return joined(nodes_[node].before, nodes_[node].after);
  if (comes_before(node, tree, rows)) {
    nodes_[tree].before = without(nodes_[tree].before, node, rows);
  } else {
    nodes_[tree].after = without(nodes_[tree].after, node, rows);
  }
  return tree;
}

/// One treap of two: all nodes of the first come before those of the second.
std::uint32_t IdleOrder::joined(std::uint32_t earlier, std::uint32_t later) noexcept {
  if (earlier == none) return later;
  if (later == none) return earlier;
  if (priority(earlier) < priority(later)) {
    nodes_[earlier].after = joined(nodes_[earlier].after, later);
    return earlier;
  }
  nodes_[later].before = joined(earlier, nodes_[later].before);
  return later;
}

/// Two treaps of one: the nodes before the node `at`, and those behind it.
IdleOrder::Halves IdleOrder::split(std::uint32_t tree, std::uint32_t at, Rows rows) noexcept {
  if (tree == none) return {none, none};
  if (comes_before(tree, at, rows)) {
    const Halves halves = split(nodes_[tree].after, at, rows);
    nodes_[tree].after = halves.earlier;
    return {tree, halves.later};
  }
  const Halves halves = split(nodes_[tree].before, at, rows);
  nodes_[tree].before = halves.later;
  return {halves.earlier, tree};
}

IdleOrder::Walk::Walk(const IdleOrder& order, PlaceId at, Rows rows)
    : order_(order), rows_(rows), listed_(order.places_[index(at)].first) {
  descend(order.places_[index(at)].root);
}

void IdleOrder::Walk::descend(std::uint32_t node) {
  for (; node != none; node = order_.nodes_[node].before) above_.push_back(node);
}

std::optional<ChunkId> IdleOrder::Walk::next() {
  if (listed_ == none && above_.empty()) return std::nullopt;
  if (above_.empty() || (listed_ != none && comes_before(listed_, above_.back(), rows_))) {
    const std::uint32_t node = listed_;
    listed_ = order_.nodes_[node].after;
    return ChunkId{node};
  }
  const std::uint32_t node = above_.back();
  above_.pop_back();
  descend(order_.nodes_[node].after);
  return ChunkId{node};
}

}  // namespace v1
}  // namespace vma
