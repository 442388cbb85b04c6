#include "interpose/work/finished_work.hpp"

#include <algorithm>

namespace vma::interpose {
namespace {

struct Wait {
  std::uint64_t number = 0;
  FinishedWork::StreamName name;
  CUcontext all_of = nullptr;  ///< All streams of the context, and not only that one.
};

/// The last waits of the thread.
struct Waits {
  std::array<Wait, 8> last;
  std::size_t next = 0;
};
thread_local Waits waits;

/// What the thread noted last: noting it once more would change nothing.
struct Noted {
  FinishedWork::StreamName name;
  std::uint64_t waits = 0;
};
thread_local Noted noted;

void keep(const Wait& ended) noexcept {
  waits.last[waits.next] = ended;
  waits.next = (waits.next + 1) % waits.last.size();
}

}  // namespace

/// The built-in streams of a context share a place: which of them a null handle means depends on
/// the call. Their key is odd, which no handle of a stream is.
FinishedWork::Place& FinishedWork::place_of(const StreamName& name) noexcept {
  constexpr std::size_t tries_max = 64;
  constexpr std::uint64_t spread = 0x9E3779B97F4A7C15;
  const auto key = name.context != nullptr ? reinterpret_cast<std::uintptr_t>(name.context) | 1
                                           : reinterpret_cast<std::uintptr_t>(name.stream);
  std::size_t at = (key * spread) >> 51;  // 13 bits: see `places_count`.
  for (std::size_t tries = 0; tries < tries_max; ++tries, at = (at + 1) % places_count) {
    Place& place = places_[at];
    std::uint64_t known = place.key.load(std::memory_order_acquire);
    if (known == 0 && place.key.compare_exchange_strong(known, key)) return place;
    if (known == key) return place;
  }
  return shared_;
}

void FinishedWork::note_enqueued(const StreamName& name) noexcept {
  const std::uint64_t begun = waits_.load(std::memory_order_acquire);
  if (noted.waits == begun && noted.name == name) return;
  std::atomic<std::uint64_t>& last = place_of(name).last_work;
  std::uint64_t known = last.load(std::memory_order_relaxed);
  while (known < begun && !last.compare_exchange_weak(known, begun, std::memory_order_release)) {
  }
  noted = {name, begun};
}

void FinishedWork::end_wait(std::uint64_t number, const StreamName& name) noexcept {
  keep({number, name, nullptr});
}

void FinishedWork::end_wait_for(std::uint64_t number, CUcontext context) noexcept {
  keep({number, {}, context});
}

bool FinishedWork::is_all_work_of(const StreamName& name, CUcontext context) noexcept {
  const std::uint64_t last = place_of(name).last_work.load(std::memory_order_acquire);
  return std::ranges::any_of(waits.last, [&](const Wait& wait) {
    if (wait.number <= last) return false;
    return wait.all_of != nullptr ? wait.all_of == context : wait.name == name;
  });
}

}  // namespace vma::interpose
