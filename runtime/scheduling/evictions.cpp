#include "scheduling/evictions.hpp"

#include "base/clock.hpp"
#include "base/printable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace vma {
namespace {

constexpr std::chrono::seconds round_limit(2);
// Nothing has left for so long: what is left may not move, or finds no room. Chunks that have just
// arrived are left in peace for a while.
constexpr std::chrono::seconds patience(3);

Ledger::Account account(const Memory& memory, Place at) {
  return memory.chunks().ledger().account(at);
}

/// What allocations have above the capacity, which counts what the runtime itself has there too.
std::uint64_t bytes_over(const Memory& memory, Place at) {
  const Ledger::Account there = account(memory, at);
  const std::uint64_t held = there.total() - there.spare_bytes();
  return std::min(held - std::min(held, there.capacity_bytes), there.allocated_bytes);
}

std::uint64_t less(std::uint64_t bytes, std::uint64_t taken) {
  return bytes - std::min(bytes, taken);
}

/// Evicts until nothing is over, or until a round in which nothing has left and after which it does
/// not wait.
void evict(Clock& clock, Scheduler& scheduler, Place at, const std::function<std::uint64_t()>& over,
           const std::function<bool()>& waits) {
  for (std::uint64_t left = over(); left > 0;) {
    scheduler.make_room(at, left, clock.now() + round_limit);
    // Chunks that have left may still be on their way back to the cache.
    poll_until(clock, clock.now() + std::chrono::milliseconds(20), [&] { return over() < left; });
    const std::uint64_t now = over();
    if (now >= left && !waits()) return;
    left = now;
  }
}

}  // namespace

EvictionReport evict_above_capacity(Memory& memory, Scheduler& scheduler, Place at,
                                    const std::function<bool()>& may_go_on) {
  Clock& clock = memory.driver().clock();
  const Ledger::Account before = account(memory, at);
  TimePoint until = clock.now() + patience;
  std::uint64_t least = bytes_over(memory, at);
  evict(
      clock, scheduler, at, [&] { return may_go_on() ? bytes_over(memory, at) : 0; },
      [&] {
        const std::uint64_t over = bytes_over(memory, at);
        if (over < least) until = clock.now() + patience;
        least = std::min(least, over);
        return clock.now() < until;
      });
  if (account(memory, at).total() > before.capacity_bytes) memory.chunks().trim(at);
  const Ledger::Account after = account(memory, at);
  return {less(before.allocated_bytes, after.allocated_bytes), less(before.total(), after.total()),
          bytes_over(memory, at)};
}

std::uint64_t make_room(Memory& memory, Scheduler& scheduler, Place at, std::uint64_t bytes) {
  const std::uint64_t before = account(memory, at).allocated_bytes;
  const std::uint64_t wanted = less(before, bytes);
  const auto over = [&] { return less(account(memory, at).allocated_bytes, wanted); };
  evict(memory.driver().clock(), scheduler, at, over, [] { return false; });
  memory.chunks().trim(at);
  return less(before, account(memory, at).allocated_bytes);
}

std::string text_of(const EvictionReport& report, Place at) {
  std::string text =
      fmt::format("{} moved away from {}, {} went back to the driver",
                  bytes_text(report.bytes_moved), to_string(at), bytes_text(report.bytes_released));
  if (report.bytes_over > 0) {
    text += fmt::format(
        "; {} are still above the capacity: they may not move, or find no room elsewhere",
        bytes_text(report.bytes_over));
  }
  return text;
}

}  // namespace vma
