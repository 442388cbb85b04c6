#pragma once

#include <vma/snapshot.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace vma::inline v1 {

/// Bytes that each GPU used of each chunk in one window of time. Costs nothing for chunks that
/// were not used in it.
class UseWindow {
 public:
  void add(ChunkId chunk, PlaceId device, double bytes, std::size_t gpus);
  void forget(ChunkId chunk);
  /// The next window begins.
  void clear();

  /// In the order of their first use. Those that are gone have no bytes.
  std::span<const ChunkId> chunks() const { return chunks_; }
  /// By GPU. Requires: `i` is below the number of `chunks`.
  std::span<const double> bytes(std::size_t i) const {
    return std::span(bytes_).subspan(i * gpus_, gpus_);
  }

 private:
  static constexpr std::uint32_t none = UINT32_MAX;
  std::size_t gpus_ = 0;
  std::vector<ChunkId> chunks_;
  std::vector<double> bytes_;         // [place in chunks_][gpu]
  std::vector<std::uint32_t> entry_;  // By chunk: its place in chunks_.
};

}  // namespace vma::inline v1
