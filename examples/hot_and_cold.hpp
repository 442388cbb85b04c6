#pragma once

#include <vma/vma.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

/// One GPU reads an array of which the last fifth is hot. When the array is allocated, that fifth
/// gets whatever room is left. The runtime is told what each launch uses.
class HotAndCold {
 public:
  using Seconds = std::chrono::duration<double>;

  /// `at` is where the whole array is allocated; if null, wherever the runtime finds room. Throws:
  /// vma::Error.
  HotAndCold(vma::Runtime& runtime, std::size_t bytes, std::size_t chunk_bytes,
             const vma::Place* at);
  ~HotAndCold();
  HotAndCold(const HotAndCold&) = delete;
  HotAndCold& operator=(const HotAndCold&) = delete;

  /// Reads for this long: `hot_share` of the bytes from the hot fifth, the others from a part of
  /// the rest that rotates. Returns bytes per second.
  double read(double hot_share, Seconds time);
  /// Reads like this until the scheduler has made no move for `time`, for 4 to 16 times `time` in
  /// total. Returns when it last moved something; nothing if it still does.
  std::optional<Seconds> settle(double hot_share, Seconds time);
  /// The shares of the hot fifth and of the rest that are at gpu(0); 0 to 1.
  struct Shares {
    double hot = 0, cold = 0;
  };
  Shares in_hbm() const;

 private:
  void read_range(std::size_t offset, std::size_t bytes);
  std::size_t in_hbm(std::size_t begin, std::size_t end) const;

  vma::Runtime& runtime_;
  const std::size_t bytes_, hot_begin_;
  std::size_t cold_at_ = 0;  // Start of the part of the rest that is read next.
  std::byte* data_ = nullptr;
  std::uint64_t* sum_ = nullptr;
  vma::Stream stream_ = nullptr;
};
