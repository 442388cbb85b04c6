#include "migrate/moves/held_range.hpp"

#include "base/mapping_limit.hpp"
#include "migrate/migration/migration_error.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace vma {

HeldRange::HeldRange(Allocation& which, SlotRange slots, Location target, MigrationTask* how)
    : allocation(which), range(slots), to(target), task(how) {
  const Geometry& geometry = allocation.geometry();
  report.offset = range.first * geometry.chunk_bytes;
  for (std::size_t slot = range.first; slot < range.end; ++slot) {
    report.bytes_asked += geometry.slot_bytes(slot);
    ++report.chunks;
  }
  report.failures.reserve(2);  // For a failed chunk, and for one whose copy failed ahead of it.
}

bool HeldRange::unwanted() const noexcept {
  return allocation.being_freed || (task != nullptr && task->cancelled());
}

bool HeldRange::has_all() const noexcept {
  return std::ranges::all_of(transactions, [](const Transaction& transaction) {
    return transaction.state() == Transaction::State::switched;
  });
}

std::uint64_t HeldRange::missing_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const Transaction& transaction : transactions) {
    if (transaction.state() == Transaction::State::planned) bytes += transaction.size_bytes();
  }
  return bytes;
}

void HeldRange::refuse(std::exception_ptr why) noexcept {
  untold = false;  // It is not tried again.
  failure = std::move(why);
  report.outcome = Outcome::failed;
  transactions.clear();
}

void HeldRange::fail(const Transaction& transaction, std::exception_ptr why) noexcept {
  try {
    std::rethrow_exception(why);
  } catch (const std::exception& error) {
    const std::size_t offset = transaction.slot() * allocation.geometry().chunk_bytes;
    const bool poisoned = transaction.state() == Transaction::State::poisoned;
    try {
      report.failures.push_back({offset, {}, poisoned});
      report.failures.back().reason = error.what();
    } catch (const std::bad_alloc&) {  // Recorded without its reason; there is room for two.
    }
  }
  if (!failure) failure = std::move(why);
}

void HeldRange::summarise() noexcept {
  report.bytes_moved = report.bytes_remapped = 0;
  report.chunks_moved = 0;
  for (const Transaction& transaction : transactions) {
    report.dark_max = std::max(report.dark_max, transaction.dark());
    if (transaction.state() != Transaction::State::switched) continue;
    report.bytes_moved += transaction.size_bytes();
    if (transaction.remapped()) report.bytes_remapped += transaction.size_bytes();
    ++report.chunks_moved;
  }
  if (failure) {
    report.outcome = report.chunks_moved == 0 ? Outcome::failed : Outcome::partly;
  } else {
    report.outcome = has_all() ? Outcome::done : Outcome::cancelled;
  }
}

void HeldRange::tell_progress(Callbacks& callbacks) noexcept {
  if (task == nullptr && !on_progress) return;
  summarise();
  if (!has_all()) report.outcome = Outcome::partly;  // So far.
  if (task != nullptr) return task->tell(report);
  try {
    const MigrationProgress progress{report.chunks, report.chunks_moved, report.bytes_asked,
                                     report.bytes_moved};
    callbacks.post([call = on_progress, progress] { call(progress); });
  } catch (const std::exception&) {  // Lost, as a callback that throws would be.
    callbacks.count_failures(1);
  }
}

void HeldRange::word_failure() noexcept {
  if (!failure) return;
  try {
    try {
      naming_mapping_limit("vma::migrate", [&] { std::rethrow_exception(failure); });
    } catch (const Error& error) {
      throw migration_error(error, report, allocation);
    }
  } catch (...) {
    failure = std::current_exception();
  }
}

}  // namespace vma
