#pragma once

#include "base/mutex.hpp"

#include <vma/location.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace vma {

/// Who holds how many bytes where, and what could not be given back. Any thread.
class Ledger {
 public:
  enum class Use { allocated, cached, own };

  struct Account {
    std::uint64_t capacity_bytes = 0;
    std::uint64_t allocated_bytes = 0;
    std::uint64_t cached_bytes = 0;
    std::uint64_t own_bytes = 0;
    std::uint64_t total() const { return allocated_bytes + cached_bytes + own_bytes; }
  };

  /// `capacity_bytes` UINT64_MAX is no limit.
  void open(Location at, std::uint64_t capacity_bytes);
  /// Books bytes that are about to be created. False, and nothing booked, if they exceed the
  /// capacity.
  bool claim(Location at, std::uint64_t size_bytes, Use use);
  void unclaim(Location at, std::uint64_t size_bytes, Use use);
  void shift(Location at, std::uint64_t size_bytes, Use from, Use to);
  Account account(Location at) const;

  /// I5: counts and logs what the driver would not take back. `what` names it and the reason.
  void leaked(const std::string& what) noexcept;
  std::uint64_t leaks() const { return leaks_->load(); }
  /// The same count; outlives the ledger, for what is given back last.
  std::shared_ptr<const std::atomic<std::uint64_t>> leak_count() const { return leaks_; }

 private:
  static std::uint64_t& field(Account& account, Use use);

  mutable Mutex mutex_;
  std::map<Location, Account> accounts_ VMART_GUARDED_BY(mutex_);
  const std::shared_ptr<std::atomic<std::uint64_t>> leaks_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
};

}  // namespace vma
