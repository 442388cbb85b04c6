#pragma once

#include "base/mutex.hpp"

#include <vma/place.hpp>

#include <cstdint>
#include <map>

namespace vma {

/// The model's view of how many bytes are at each place. Any thread.
class Books {
 public:
  struct Account {
    /// Behind pointers of users.
    std::uint64_t allocated_bytes = 0;
    /// Passed to `free_async`; the runtime may still hold them.
    std::uint64_t leaving_bytes = 0;
  };

  void add(Place at, std::uint64_t size_bytes);
  void take(Place at, std::uint64_t size_bytes);
  void move(Place from, Place to, std::uint64_t size_bytes);
  /// Allocated bytes that will soon be free.
  void leave(Place at, std::uint64_t size_bytes);
  /// All leaving bytes are gone.
  void all_left();

  Account account(Place at) const;
  bool anything_leaving() const;

 private:
  mutable Mutex mutex_;
  std::map<Place, Account> accounts_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
