#include "bench/placement/settling.hpp"

#include "bench/placement/cases.hpp"

#include <algorithm>

namespace vma {
namespace {

/// A second if cases take three.
std::chrono::nanoseconds quiet_time() {
  const std::chrono::duration<double> time(std::min(1.0, case_seconds() / 3));
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time);
}

}  // namespace

Settling::Settling(Runtime& runtime) : runtime_(runtime), quiet_(quiet_time()) {
  look();
}

bool Settling::look() {
  const SchedulerStats stats = runtime_.scheduler_stats();
  const std::uint64_t ended = stats.moves_done + stats.moves_failed;
  const bool moves =
      stats.moves_started != started_ || ended != ended_ || stats.moves_started > ended;
  started_ = stats.moves_started;
  ended_ = ended;
  const std::chrono::nanoseconds now = watch_.elapsed();
  if (moves) moved_ = now;
  return now - moved_ >= quiet_;
}

bool Settling::await(Readers& readers, std::chrono::duration<double> least,
                     std::chrono::duration<double> most) {
  constexpr int looks = 20;  // Number of looks within the quiet time.
  for (;;) {
    const bool quiet = look();
    const std::chrono::nanoseconds now = watch_.elapsed();
    if ((quiet && now >= least) || now >= most) return quiet;
    readers.rate(quiet_ / looks);
  }
}

}  // namespace vma
