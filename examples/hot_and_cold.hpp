#pragma once

#include <vma/vma.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

/// One GPU reads an array of which a fifth is hot: the last, which comes to lie wherever there is
/// room when the array is made. The runtime is told what each launch uses.
class HotAndCold {
 public:
  using Seconds = std::chrono::duration<double>;

  /// Where the whole array lies at first; not set: where the runtime finds room.
  /// Throws: vma::Error.
  HotAndCold(vma::Runtime& runtime, std::size_t bytes, std::size_t chunk_bytes,
             const vma::Location* at);
  ~HotAndCold();
  HotAndCold(const HotAndCold&) = delete;
  HotAndCold& operator=(const HotAndCold&) = delete;

  /// Reads for so long, `hot_share` of the bytes from the hot fifth, the others from a part of the
  /// rest that goes round. Returns bytes a second.
  double read(double hot_share, Seconds time);
  /// Reads so until the scheduler has made no move for `time`; four times that at least, and
  /// sixteen times at most. Returns when it last moved something; nothing if it still does.
  std::optional<Seconds> settle(double hot_share, Seconds time);
  /// Of the hot fifth and of the rest, how much lies at gpu(0); 0 to 1.
  struct Shares {
    double hot = 0, cold = 0;
  };
  Shares in_hbm() const;

 private:
  void read_range(std::size_t offset, std::size_t bytes);
  std::size_t in_hbm(std::size_t begin, std::size_t end) const;

  vma::Runtime& runtime_;
  const std::size_t bytes_, hot_begin_;
  std::size_t cold_at_ = 0;  // Where the part of the rest begins that is read next.
  std::byte* data_ = nullptr;
  std::uint64_t* sum_ = nullptr;
  vma::Stream stream_ = nullptr;
  std::unique_ptr<vma::AttachedStream> attached_;
};
