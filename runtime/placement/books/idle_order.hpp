#pragma once

#include <vma/snapshot.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace vma {
inline namespace v1 {

/// When the chunk was used last, or else made.
inline Time last_use_of(const ChunkRow& row) noexcept {
  return std::max(row.last_use, row.born);
}

/// The chunks at each place, by `last_use_of` their rows. 8 bytes a chunk. Only `make_room` and
/// `Walk` allocate. Not thread-safe.
///
/// Uses come in the order of time, so a used chunk is the last of a list. A chunk that arrives from
/// another place may belong anywhere: it stays in a treap beside the list until it is used (Seidel
/// and Aragon, "Randomized search trees", 1996). A use costs O(1), an arrival O(log arrivals).
class IdleOrder {
 public:
  using Rows = std::span<const ChunkRow>;

  explicit IdleOrder(std::size_t places) : places_(places) {}

  /// For chunks with numbers below `chunks`.
  void make_room(std::size_t chunks);

  /// It is used now, or was just made, at `at`. Requires: it is at no place, and no chunk at `at`
  /// was used later.
  void used(ChunkId chunk, PlaceId at) noexcept;
  /// It lies at `at` from now on. Requires: it is at no place.
  void arrived(ChunkId chunk, PlaceId at, Rows rows) noexcept;
  /// It lies at `at` no longer, or is about to be used there. Requires: its row still tells the
  /// last use by which it was ordered.
  void left(ChunkId chunk, PlaceId at, Rows rows) noexcept;

  std::size_t bytes() const noexcept { return nodes_.capacity() * sizeof(Node); }
  /// Prefetch: `prepare_use` is about to be called.
  void prepare(ChunkId chunk) const { __builtin_prefetch(&nodes_[index(chunk)], 1); }
  /// Prefetch: `left` and `used` are about to be called.
  void prepare_use(ChunkId chunk) const {
    const Node& node = nodes_[index(chunk)];
    if (node.before != none) __builtin_prefetch(&nodes_[node.before], 1);
    if (node.after != none) __builtin_prefetch(&nodes_[node.after], 1);
  }

  /// Goes over the chunks of a place, the longest idle first. Valid until the next change.
  class Walk {
   public:
    Walk(const IdleOrder& order, PlaceId at, Rows rows);
    /// None at the end.
    std::optional<ChunkId> next();

   private:
    void descend(std::uint32_t node);

    const IdleOrder& order_;
    const Rows rows_;
    std::uint32_t listed_;
    std::vector<std::uint32_t>
        above_;  // Nodes of the treap that are yet to come, below each other.
  };

 private:
  static constexpr std::uint32_t none = UINT32_MAX >> 1;  // As wide as `Node::before`.
  /// In the list, `before` and `after` are the neighbours; in the treap, the subtrees.
  struct Node {
    std::uint32_t before : 31 = none;
    std::uint32_t arrived : 1 = false;  // It is in the treap.
    std::uint32_t after = none;
  };
  static_assert(sizeof(Node) == 8);
  struct AtPlace {
    std::uint32_t first = none, last = none;  // The list.
    std::uint32_t root = none;                // The treap.
  };

  static bool comes_before(std::uint32_t one, std::uint32_t other, Rows rows);
  std::uint32_t without(std::uint32_t tree, std::uint32_t node, Rows rows) noexcept;
  std::uint32_t with(std::uint32_t tree, std::uint32_t node, Rows rows) noexcept;
  std::uint32_t joined(std::uint32_t earlier, std::uint32_t later) noexcept;
  struct Halves {
    std::uint32_t earlier, later;
  };
  Halves split(std::uint32_t tree, std::uint32_t at, Rows rows) noexcept;

  std::vector<AtPlace> places_;
  std::vector<Node> nodes_;
};

}  // namespace v1
}  // namespace vma
