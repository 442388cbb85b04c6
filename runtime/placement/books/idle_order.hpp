#pragma once

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vma {
inline namespace v1 {

/// The chunks at each place, from the one idle for longest to the one used last. Only `make_room`
/// and `Walk` allocate. Not thread-safe.
///
/// Uses come in the order of time, so a used chunk is the last of a list. A chunk that arrives from
/// another place may belong anywhere: it stays in a treap beside the list until it is used (Seidel
/// and Aragon, "Randomized search trees", 1996). A use costs O(1), an arrival O(log arrivals).
class IdleOrder {
 public:
  explicit IdleOrder(std::size_t places) : places_(places) {}

  /// For chunks with numbers below `chunks`.
  void make_room(std::size_t chunks) { nodes_.resize(chunks); }

  /// It is at `at` and was used `when`. Requires: no chunk there was used later.
  void used(ChunkId chunk, PlaceId at, Time when) noexcept;
  /// It lies at `at` from now on. Requires: it is at no place.
  void arrived(ChunkId chunk, PlaceId at) noexcept;
  /// It lies at `at` no longer.
  void left(ChunkId chunk, PlaceId at) noexcept;

  Time last_use(ChunkId chunk) const { return nodes_[index(chunk)].last_use; }
  std::size_t bytes() const noexcept { return nodes_.capacity() * sizeof(Node); }
  void prepare(ChunkId chunk) const { __builtin_prefetch(&nodes_[index(chunk)], 1); }

  /// Goes over the chunks of a place, the longest idle first. Valid until the next change.
  class Walk {
   public:
    Walk(const IdleOrder& order, PlaceId at);
    /// False at the end.
    bool next(ChunkId& chunk);

   private:
    void descend(std::uint32_t node);

    const IdleOrder& order_;
    std::uint32_t listed_;
    std::vector<std::uint32_t>
        above_;  // Nodes of the treap that are yet to come, below each other.
  };

 private:
  static constexpr std::uint32_t none = UINT32_MAX;
  enum class Among : std::uint8_t { none, used, arrived };
  /// In the list, `before` and `after` are the neighbours; in the treap, the subtrees.
  struct Node {
    Time last_use{0};
    std::uint32_t before = none, after = none;
    Among among = Among::none;
  };
  struct AtPlace {
    std::uint32_t first = none, last = none;  // The list.
    std::uint32_t root = none;                // The treap.
  };

  bool earlier(std::uint32_t one, std::uint32_t other) const;
  std::uint32_t joined(std::uint32_t earlier, std::uint32_t later) noexcept;
  void split(std::uint32_t tree, std::uint32_t at, std::uint32_t& earlier,
             std::uint32_t& later) noexcept;

  std::vector<AtPlace> places_;
  std::vector<Node> nodes_;
};

}  // namespace v1
}  // namespace vma
