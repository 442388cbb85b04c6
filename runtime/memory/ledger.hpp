#pragma once

#include "base/mutex.hpp"

#include <vma/place.hpp>

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace vma {

/// How many bytes are in use where and for what, and what could not be given back. Any thread.
class Ledger {
 public:
  /// `copies` are clean copies of chunks. `leaked` bytes have no owner any more, but the driver has
  /// not taken them back.
  enum class Use { allocated, cached, copies, own, leaked };

  struct Account {
    std::uint64_t capacity_bytes = 0;
    std::uint64_t allocated_bytes = 0;
    std::uint64_t cached_bytes = 0;
    std::uint64_t copies_bytes = 0;
    std::uint64_t own_bytes = 0;
    std::uint64_t leaked_bytes = 0;
    std::uint64_t most_bytes =
        0;  ///< No more can be booked: the capacity, or what was when it fell.
    std::uint64_t total() const {
      return allocated_bytes + cached_bytes + copies_bytes + own_bytes + leaked_bytes;
    }
    /// What is released as soon as the room is needed.
    std::uint64_t spare_bytes() const { return cached_bytes + copies_bytes; }
  };

  /// `capacity_bytes` UINT64_MAX means no limit. May be called again at any time: if more is
  /// already booked, nothing is taken back, and nothing more can be claimed until usage falls below
  /// the limit.
  void open(Place at, std::uint64_t capacity_bytes);
  /// Books bytes that are about to be created. False if they exceed the capacity; then nothing is
  /// booked.
  bool claim(Place at, std::uint64_t size_bytes, Use use);
  void unclaim(Place at, std::uint64_t size_bytes, Use use);
  void shift(Place at, std::uint64_t size_bytes, Use from, Use to);
  /// Books bytes that their owner is about to unclaim, though the driver still has them.
  void leak_bytes(Place at, std::uint64_t size_bytes) noexcept;
  Account account(Place at) const;

  /// I5: counts and logs what the driver refused to take back. `what` names it and the reason.
  void leaked(std::string_view what) noexcept;
  /// I5: counts and logs what is never given back because the program may still name it. Nothing
  /// failed, so it is not a leak.
  void kept(std::string_view what) noexcept;
  /// Like `leaked` above, for when there may be no memory for the message.
  template <typename... Args>
  void leaked(fmt::format_string<Args...> format, Args&&... args) noexcept
    requires(sizeof...(Args) > 0);
  /// Gives something back to the driver; a refusal is counted as a leak of `what`. Returns whether
  /// it succeeded.
  template <typename Body>
  bool undo(std::string_view what, Body&& body) noexcept;

  std::uint64_t leaks() const { return leaks_->load(); }
  /// The leak count; outlives the ledger, for what is given back last.
  std::shared_ptr<const std::atomic<std::uint64_t>> leak_count() const { return leaks_; }
  /// The same for what was kept.
  std::shared_ptr<const std::atomic<std::uint64_t>> kept_count() const { return kept_; }

 private:
  static std::uint64_t& field(Account& account, Use use);

  mutable Mutex mutex_;
  std::map<Place, Account> accounts_ VMART_GUARDED_BY(mutex_);
  const std::shared_ptr<std::atomic<std::uint64_t>> leaks_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  const std::shared_ptr<std::atomic<std::uint64_t>> kept_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
};

template <typename... Args>
void Ledger::leaked(fmt::format_string<Args...> format, Args&&... args) noexcept
  requires(sizeof...(Args) > 0)
{
  std::string what;
  try {
    what = fmt::format(format, std::forward<Args>(args)...);
  } catch (const std::exception&) {  // The leak is counted all the same.
  }
  leaked(std::string_view(what));
}

template <typename Body>
bool Ledger::undo(std::string_view what, Body&& body) noexcept {
  try {
    body();
    return true;
  } catch (const std::exception& error) {
    leaked("{}: {}", what, error.what());
    return false;
  }
}

}  // namespace vma
