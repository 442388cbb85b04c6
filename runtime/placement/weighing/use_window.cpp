#include "placement/weighing/use_window.hpp"

#include <algorithm>

namespace vma::inline v1 {

void UseWindow::add(ChunkId chunk, PlaceId device, double bytes, std::size_t gpus) {
  gpus_ = gpus;
  if (index(chunk) >= entry_.size()) entry_.resize(index(chunk) * 2 + 1, none);
  std::uint32_t& entry = entry_[index(chunk)];
  if (entry == none) {
    entry = static_cast<std::uint32_t>(chunks_.size());
    chunks_.push_back(chunk);
    bytes_.resize(bytes_.size() + gpus_);
  }
  bytes_[entry * gpus_ + index(device)] += bytes;
}

void UseWindow::forget(ChunkId chunk) {
  if (index(chunk) >= entry_.size() || entry_[index(chunk)] == none) return;
  std::ranges::fill(std::span(bytes_).subspan(entry_[index(chunk)] * gpus_, gpus_), 0.0);
}

void UseWindow::clear() {
  for (const ChunkId chunk : chunks_) entry_[index(chunk)] = none;
  chunks_.clear();
  bytes_.clear();
}

}  // namespace vma::inline v1
