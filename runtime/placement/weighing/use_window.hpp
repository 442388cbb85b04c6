#pragma once

#include <vma/snapshot.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace vma::inline v1 {

/// Bytes that each GPU used of each chunk in one time window. Unused chunks cost nothing.
class UseWindow {
 public:
  void add(ChunkId chunk, PlaceId device, double bytes, std::size_t gpus);
  void forget(ChunkId chunk);
  /// Begins the next window.
  void clear();

  /// In the order of their first use. Removed chunks have no bytes.
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
  std::vector<std::uint32_t> entry_;  // By chunk: its index in chunks_.
};

}  // namespace vma::inline v1
