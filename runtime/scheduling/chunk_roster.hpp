#pragma once

#include "machine/topology.hpp"
#include "memory/allocation.hpp"
#include "migrate/moves/migrator.hpp"
#include "placement/books/chunk_tables.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

namespace vma {

/// Which rows of the books belong to which allocation. Keeps no memory alive. For the scheduler,
/// one thread at a time.
class ChunkRoster {
 public:
  struct Entry {
    std::weak_ptr<Allocation> allocation;
    Address begin{};
    std::uint64_t size_bytes = 0, chunk_bytes = 0;
    std::uint32_t number = 0;  ///< Unique to this allocation in the runtime.
    ChunkId first{};
    std::size_t slots = 0;

    ChunkId chunk(std::size_t slot) const noexcept {
      return ChunkId{static_cast<std::uint32_t>(index(first) + slot)};
    }
    /// Requires: the offset is within the allocation.
    ChunkId chunk_at(std::uint64_t offset) const noexcept { return chunk(offset / chunk_bytes); }
  };

  /// Both arguments outlive it. Places of the books are `topology.places()`, in order.
  ChunkRoster(const Topology& topology, Migrator& migrator);

  PlaceId place_of(Place at) const { return places_.at(at); }
  Place place_at(PlaceId place) const { return topology_.places()[index(place)]; }

  /// Null if the allocation is already being freed, or already known.
  const Entry* add(const std::shared_ptr<Allocation>& allocation, ChunkTables& tables);
  /// Its rows stay in the books. Returns the former entry; its `slots` is 0 if it was not known.
  Entry remove(Address begin);
  const Entry* find(Address begin) const;
  /// The entry around an address; null if there is none.
  const Entry* around(Address address) const;
  const Entry* of(const ChunkRow& row) const;
  const std::map<Address, Entry>& entries() const noexcept { return entries_; }

  /// Updates from the allocation where its chunks are, whether they may move, and where to.
  void refresh(const Entry& entry, ChunkTables& tables) const;
  void refresh_all(ChunkTables& tables) const;

 private:
  void refresh_reach(const Entry& entry, const Allocation& allocation, ChunkTables& tables) const;

  const Topology& topology_;
  const Migrator& migrator_;
  const Reach& reach_;
  std::unordered_map<Place, PlaceId> places_;
  std::map<Address, Entry> entries_;
  std::unordered_map<std::uint32_t, Address> begins_;
  std::uint32_t last_number_ = 0;
};

}  // namespace vma
