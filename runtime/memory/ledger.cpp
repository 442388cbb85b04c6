#include "memory/ledger.hpp"

#include "base/check.hpp"
#include "base/log.hpp"

#include <algorithm>

namespace vma {

std::uint64_t& Ledger::field(Account& account, Use use) {
  switch (use) {
    case Use::allocated: return account.allocated_bytes;
    case Use::cached: return account.cached_bytes;
    case Use::copies: return account.copies_bytes;
    case Use::own: return account.own_bytes;
    case Use::leaked: break;
  }
  return account.leaked_bytes;
}

void Ledger::open(Place at, std::uint64_t capacity_bytes) {
  const MutexLock lock(mutex_);
  Account& account = accounts_[at];
  account.capacity_bytes = capacity_bytes;
  account.most_bytes = std::max(capacity_bytes, account.total());
}

bool Ledger::claim(Place at, std::uint64_t size_bytes, Use use) {
  const MutexLock lock(mutex_);
  Account& account = accounts_.at(at);
  if (size_bytes > account.capacity_bytes ||
      account.total() > account.capacity_bytes - size_bytes) {
    return false;
  }
  field(account, use) += size_bytes;
  return true;
}

void Ledger::unclaim(Place at, std::uint64_t size_bytes, Use use) {
  const MutexLock lock(mutex_);
  std::uint64_t& held = field(accounts_.at(at), use);
  VMART_CHECK(held >= size_bytes, "only claimed bytes are returned");
  held -= size_bytes;
}

void Ledger::shift(Place at, std::uint64_t size_bytes, Use from, Use to) {
  const MutexLock lock(mutex_);
  Account& account = accounts_.at(at);
  VMART_CHECK(field(account, from) >= size_bytes, "only claimed bytes change their use");
  field(account, from) -= size_bytes;
  field(account, to) += size_bytes;
}

void Ledger::leak_bytes(Place at, std::uint64_t size_bytes) noexcept {
  const MutexLock lock(mutex_);
  const auto account = accounts_.find(at);
  VMART_CHECK(account != accounts_.end(), "leaked bytes were booked before");
  account->second.leaked_bytes += size_bytes;
}

Ledger::Account Ledger::account(Place at) const {
  const MutexLock lock(mutex_);
  return accounts_.at(at);
}

void Ledger::leaked(std::string_view what) noexcept {
  ++*leaks_;
  log(LogLevel::error, "leaked: {}", what.empty() ? "no host memory to say what" : what);
}

void Ledger::kept(std::string_view what) noexcept {
  ++*kept_;
  log(LogLevel::info, "kept: {}", what);
}

}  // namespace vma
