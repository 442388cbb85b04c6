#include "placement/books/idle_order.hpp"

#include "base/check.hpp"

#include <tuple>

namespace vma {
inline namespace v1 {
namespace {

/// Decides which of two nodes is above the other (Fibonacci hashing).
std::uint32_t priority(std::uint32_t node) {
  return node * 0x9E3779B9u;
}

}  // namespace

bool IdleOrder::earlier(std::uint32_t one, std::uint32_t other) const {
  return std::tuple(nodes_[one].last_use, one) < std::tuple(nodes_[other].last_use, other);
}

void IdleOrder::used(ChunkId chunk, PlaceId at, Time when) noexcept {
  const auto number = static_cast<std::uint32_t>(chunk);
  Node& node = nodes_[number];
  AtPlace& place = places_[index(at)];
  if (node.among == Among::used && (node.last_use == when || place.last == number)) {
    node.last_use = when;
    return;
  }
  left(chunk, at);
  node.last_use = when;
  node.among = Among::used;
  node.before = place.last;
  node.after = none;
  (place.last == none ? place.first : nodes_[place.last].after) = number;
  place.last = number;
}

void IdleOrder::arrived(ChunkId chunk, PlaceId at) noexcept {
  const auto number = static_cast<std::uint32_t>(chunk);
  AtPlace& place = places_[index(at)];
  VMART_CHECK(nodes_[number].among == Among::none, "a chunk lies at one place");
  nodes_[number] = {nodes_[number].last_use, none, none, Among::arrived};
  std::uint32_t earlier = none, later = none;
  split(place.root, number, earlier, later);
  place.root = joined(joined(earlier, number), later);
}

void IdleOrder::left(ChunkId chunk, PlaceId at) noexcept {
  const auto number = static_cast<std::uint32_t>(chunk);
  Node& node = nodes_[number];
  AtPlace& place = places_[index(at)];
  if (node.among == Among::used) {
    (node.before == none ? place.first : nodes_[node.before].after) = node.after;
    (node.after == none ? place.last : nodes_[node.after].before) = node.before;
  } else if (node.among == Among::arrived) {
    std::uint32_t* link = &place.root;
    while (*link != number) {
      link = earlier(number, *link) ? &nodes_[*link].before : &nodes_[*link].after;
    }
    *link = joined(node.before, node.after);
  }
  node.among = Among::none;
}

/// One treap of two, all of whose nodes are in order.
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
void IdleOrder::split(std::uint32_t tree, std::uint32_t at, std::uint32_t& earlier_ones,
                      std::uint32_t& later_ones) noexcept {
  if (tree == none) {
    earlier_ones = later_ones = none;
  } else if (earlier(tree, at)) {
    earlier_ones = tree;
    split(nodes_[tree].after, at, nodes_[tree].after, later_ones);
  } else {
    later_ones = tree;
    split(nodes_[tree].before, at, earlier_ones, nodes_[tree].before);
  }
}

IdleOrder::Walk::Walk(const IdleOrder& order, PlaceId at)
    : order_(order), listed_(order.places_[index(at)].first) {
  descend(order.places_[index(at)].root);
}

void IdleOrder::Walk::descend(std::uint32_t node) {
  for (; node != none; node = order_.nodes_[node].before) above_.push_back(node);
}

bool IdleOrder::Walk::next(ChunkId& chunk) {
  if (listed_ == none && above_.empty()) return false;
  if (above_.empty() || (listed_ != none && order_.earlier(listed_, above_.back()))) {
    chunk = ChunkId{listed_};
    listed_ = order_.nodes_[listed_].after;
    return true;
  }
  const std::uint32_t node = above_.back();
  above_.pop_back();
  descend(order_.nodes_[node].after);
  chunk = ChunkId{node};
  return true;
}

}  // namespace v1
}  // namespace vma
