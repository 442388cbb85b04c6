#pragma once

#include "lab/trace/trace_event.hpp"

#include <vma/snapshot.hpp>

#include <boost/unordered/unordered_flat_map.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vma {

/// The objects of the trace and their chunks. A freed object stays until nothing uses it any more,
/// like memory whose free waits for earlier work. Not thread-safe.
class ReplayObjects {
 public:
  using Index = std::uint32_t;
  static constexpr Index none = UINT32_MAX;

  struct Object {
    std::uint64_t number = 0, bytes = 0, chunk_bytes = 0;
    ChunkId first{};
    std::uint32_t chunks = 0;  ///< 0: there was no room for it, or it does not exist.
    std::uint32_t pins = 0;    ///< Waiting and running accesses, and moves that have begun.
    TagId tag{};
    Time made{0};  ///< By the trace's times.
    bool freed = false;
    bool pending = false;       ///< Its allocation at a named place waits for room.
    bool placed = false;        ///< Its placement is decided, successfully or not.
    bool vacates = false;       ///< Gives up its memory when it has no pins.
    bool shared = false;        ///< Several requests have accessed it.
    std::uint64_t request = 0;  ///< The first one that has written it.

    std::uint64_t bytes_of(std::size_t slot) const {
      return slot + 1 < chunks ? chunk_bytes : bytes - chunk_bytes * (chunks - 1);
    }
  };

  Index add(const Object& object);
  /// Returns the live object with this number, or `none`.
  Index find(std::uint64_t number) const;
  Object& at(Index index) { return objects_[index]; }
  const Object& at(Index index) const { return objects_[index]; }
  /// Frees its number for other objects. Requires: the object is live.
  void free(Index index);
  /// Requires: the object was freed and has no pins.
  void remove(Index index);
  void belongs(ChunkId chunk, Index object);
  /// Requires: the chunk belongs to an object that has not been removed.
  Index owner(ChunkId chunk) const { return owners_[vma::index(chunk)]; }
  std::size_t size() const noexcept { return live_.size(); }

 private:
  std::vector<Object> objects_;
  std::vector<Index> unused_;
  boost::unordered_flat_map<std::uint64_t, Index> live_;
  std::vector<Index> owners_;  // Indexed by chunk.
};

}  // namespace vma
