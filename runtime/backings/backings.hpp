#pragma once

#include "base/mutex.hpp"
#include "base/part.hpp"
#include "memory/allocation.hpp"
#include "memory/chunk.hpp"

#include <vma/place.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace vma {

class Memory;

/// Memory without addresses of its own, which its user maps at addresses that the user has
/// reserved: one at a time. While it is mapped, it is an ordinary allocation; otherwise it stays
/// where it is. Only `Backings` looks inside.
struct Backing {
  Geometry geometry;
  Place at;  ///< Where it was asked for.
  ExportTypes needs;
  std::string tag;
  std::string site;  ///< Where it was created.

  Mutex mutex;  ///< Held while it is mapped and unmapped; comes before all locks of allocations.
  std::vector<Chunk> chunks VMART_GUARDED_BY(mutex);  ///< Of each slot; none while it is mapped.
  std::shared_ptr<Allocation> shown VMART_GUARDED_BY(mutex);  ///< Null if it is not mapped.
  bool shared VMART_GUARDED_BY(mutex) = false;
  bool released VMART_GUARDED_BY(mutex) = false;
};

/// The backings of a runtime. Any thread.
class Backings final : public Part {
 public:
  explicit Backings(Memory& memory) : memory_(memory) {}
  ~Backings() { release(); }
  Backings(const Backings&) = delete;
  Backings& operator=(const Backings&) = delete;

  /// `size_bytes` is a multiple of the granularity. The contents are undefined. Other memory makes
  /// way for it only if `make_room`. Throws: Error{out_of_memory, invalid_argument,
  /// driver_failure}. Blocks: as an allocation.
  std::shared_ptr<Backing> create(std::uint64_t size_bytes, Place at, const ExportTypes& needs,
                                  const std::string& tag, bool make_room = false,
                                  const std::string& site = {});
  /// All of it appears at `begin`, with its bytes, for all GPUs that reach it. Requires: the caller
  /// has reserved the addresses, and nothing is mapped there. Throws: Error{invalid_argument} if it
  /// is mapped already, and as `create`.
  void map(Backing& backing, Address begin);
  /// Ends that; the bytes stay. Blocks: until a running move of it has ended. Requires: no work
  /// uses it any more. Throws: Error{invalid_argument} if it is not mapped, and {pinned}.
  void unmap(Backing& backing);
  /// Something else knows the memory by its handle from now on: it stays where it is for good, and
  /// is not reused. Throws: Error{unsupported} if it has several chunks, and {busy} if it does not
  /// lie where it was asked for; then nothing has changed.
  void share(Backing& backing);
  /// Gives its memory back. Throws: Error{invalid_argument} while it is mapped.
  void release(Backing& backing);

  /// Of all backings that are not released.
  std::uint64_t size_bytes() const;
  /// How much memory of the program, that it maps itself, has no backing.
  void note_passed(std::uint64_t size_bytes) noexcept { passed_bytes_ = size_bytes; }
  std::uint64_t passed_bytes() const noexcept { return passed_bytes_; }
  /// What unmapped backings hold at each place.
  std::map<Place, std::uint64_t> unmapped_bytes() const;
  /// Gives what is not mapped back to the memory. Requires: no call is in progress; no more are
  /// made.
  void release() noexcept override;

 private:
  void complete(Backing& backing) VMART_REQUIRES(backing.mutex);

  Memory& memory_;
  std::atomic<std::uint64_t> passed_bytes_{0};
  mutable Mutex mutex_;  // No other lock is taken under it.
  std::set<std::shared_ptr<Backing>> backings_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
