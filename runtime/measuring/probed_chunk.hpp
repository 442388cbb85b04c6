#pragma once

#include "driver/driver.hpp"

#include <cstdint>
#include <span>

namespace vma {

/// A range of addresses and the chunk in it. Each driver call is a separate function, so that it
/// can be timed. The destructor releases what is left. Neither copied nor moved: keep it in a list.
class ProbedChunk {
 public:
  explicit ProbedChunk(Driver& driver) : driver_(driver) {}
  ~ProbedChunk();
  ProbedChunk(const ProbedChunk&) = delete;
  ProbedChunk& operator=(const ProbedChunk&) = delete;

  void reserve(std::uint64_t size_bytes);
  void create(Location at);
  void map() { show(*this); }
  /// Maps the chunk of `other`, which must outlive the mapping.
  void show(const ProbedChunk& other);
  void grant(std::span<const Accessor> readers) { driver_.grant(begin_, size_bytes_, readers); }
  void unmap();
  void release();
  void unreserve();
  Address begin() const noexcept { return begin_; }

 private:
  Driver& driver_;
  Address begin_{};
  std::uint64_t size_bytes_ = 0;  // 0 if nothing is reserved.
  ChunkHandle chunk_{};
  bool created_ = false, mapped_ = false;
};

}  // namespace vma
