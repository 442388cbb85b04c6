#include "model/books.hpp"

#include <algorithm>

namespace vma {

void Books::add(Place at, std::uint64_t size_bytes) {
  const MutexLock lock(mutex_);
  accounts_[at].allocated_bytes += size_bytes;
}

void Books::take(Place at, std::uint64_t size_bytes) {
  const MutexLock lock(mutex_);
  accounts_[at].allocated_bytes -= size_bytes;
}

void Books::move(Place from, Place to, std::uint64_t size_bytes) {
  const MutexLock lock(mutex_);
  accounts_[from].allocated_bytes -= size_bytes;
  accounts_[to].allocated_bytes += size_bytes;
}

void Books::leave(Place at, std::uint64_t size_bytes) {
  const MutexLock lock(mutex_);
  accounts_[at].allocated_bytes -= size_bytes;
  accounts_[at].leaving_bytes += size_bytes;
}

void Books::all_left() {
  const MutexLock lock(mutex_);
  for (auto& [at, account] : accounts_) account.leaving_bytes = 0;
}

Books::Account Books::account(Place at) const {
  const MutexLock lock(mutex_);
  const auto known = accounts_.find(at);
  return known == accounts_.end() ? Account() : known->second;
}

bool Books::anything_leaving() const {
  const MutexLock lock(mutex_);
  return std::ranges::any_of(accounts_, [](const auto& it) { return it.second.leaving_bytes > 0; });
}

}  // namespace vma
