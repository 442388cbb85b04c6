#pragma once

#include "driver/driver.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace vma {

/// Read and write access for all GPUs of the machine.
std::vector<Accessor> all_gpus(Driver& driver);

/// The driver's code of the error that `body` throws, 0 if it throws none.
int native_of(const std::function<void()>& body);

/// A reservation with one chunk mapped and granted. The destructor silently releases whatever is
/// left, so that a test may take the mapping apart.
class TestMapping {
 public:
  TestMapping(Driver& driver, Place at, std::uint64_t size_bytes,
              const std::vector<Accessor>& accessors);
  ~TestMapping();
  TestMapping(const TestMapping&) = delete;
  TestMapping& operator=(const TestMapping&) = delete;

  Address address() const { return address_; }
  std::uint64_t size_bytes() const { return size_bytes_; }
  std::uint64_t words() const { return size_bytes_ / sizeof(std::uint64_t); }
  std::uint64_t* pointer() const { return static_cast<std::uint64_t*>(to_pointer(address_)); }
  ChunkHandle chunk() const { return chunk_; }

  void unmap();
  void map();
  void grant(const std::vector<Accessor>& accessors);
  /// Unmaps, maps a chunk of another place instead, grants; the bytes are lost.
  void replace(Place at, const std::vector<Accessor>& accessors);
  /// Releases the chunk; a second call does nothing.
  void release();

 private:
  Driver& driver_;
  std::uint64_t size_bytes_;
  Address address_{};
  ChunkHandle chunk_{};
};

}  // namespace vma
