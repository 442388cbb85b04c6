#include "telemetry/use_log.hpp"

#include "base/check.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

namespace vma {
namespace {

constexpr int refused = -1;

/// Increments a number that only one thread writes.
void count_one(std::atomic<std::uint64_t>& number) noexcept {
  number.store(number.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

/// Derives a nonzero state from the seed: xorshift never leaves zero.
std::uint64_t spread(std::uint64_t seed) {
  return ((seed + 1) * 0x9E3779B97F4A7C15u) | 1;
}

/// The ring that the calling thread used last, so that a use costs one comparison. Log numbers are
/// unique, so the entry of a destroyed log never matches another one.
struct LastRing {
  std::uint64_t log = 0;
  UseRing* ring = nullptr;
};
// Does not use the initial-exec model. That would save a call, but a process whose other libraries
// have used up the space for it could not load this library.
constinit thread_local LastRing last_ring;

/// The rings that one thread writes, by the unique number of their log. A thread may outlive its
/// logs and a log its threads, so both keep the ring alive. When the thread ends, it marks its
/// rings as ended.
class ThreadRings {
 public:
  /// Null if the calling thread is ending and its list has been destroyed.
  static ThreadRings* mine() noexcept;

  ~ThreadRings();

  /// Null if there is none.
  UseRing* find(std::uint64_t log) const noexcept;
  /// Drops the rings of destroyed logs and reserves space for one more. Throws: std::bad_alloc.
  void make_room();
  /// Requires: `make_room` was called, and this log has no ring yet.
  void add(std::uint64_t log, std::shared_ptr<UseRing> ring) noexcept;
  std::size_t size() const noexcept { return rings_.size(); }

 private:
  ThreadRings() = default;
  std::vector<std::pair<std::uint64_t, std::shared_ptr<UseRing>>> rings_;
};

/// Stays readable after the list is destroyed: other objects of the thread may still record uses.
constinit thread_local bool list_is_gone = false;

ThreadRings* ThreadRings::mine() noexcept {
  if (list_is_gone) return nullptr;
  static thread_local ThreadRings rings;
  return &rings;
}

ThreadRings::~ThreadRings() {
  list_is_gone = true;
  last_ring = {};
  for (const auto& [log, ring] : rings_) ring->end();
}

UseRing* ThreadRings::find(std::uint64_t log) const noexcept {
  for (const auto& [number, ring] : rings_) {
    if (number == log) return ring.get();
  }
  return nullptr;
}

void ThreadRings::make_room() {
  std::erase_if(rings_, [](const auto& entry) { return entry.second->orphaned(); });
  rings_.reserve(rings_.size() + 1);
}

void ThreadRings::add(std::uint64_t log, std::shared_ptr<UseRing> ring) noexcept {
  rings_.emplace_back(log, std::move(ring));
}

std::atomic<std::uint64_t> last_id{0};

void add(UseLog::Counters& counters, const UseRing& ring) {
  counters.recorded += ring.kept();
  counters.sampled_away += ring.sampled_away();
  counters.lost += ring.lost();
}

}  // namespace

UseRing::UseRing(std::size_t entries, std::uint64_t seed)
    : mask_(entries - 1),
      half_(entries / 2),
      // Zeroed, so that its pages exist before the first use is recorded.
      entries_(std::make_unique<Entry[]>(entries)),
      random_(spread(seed)) {
  VMART_CHECK(std::has_single_bit(entries) && entries >= 4, "a place is found by masking");
}

/// Returns log2 of the next use's weight, or `refused` if the use is not kept.
int UseRing::admit(std::uint64_t head) noexcept {
  tail_seen_ = tail_.load(std::memory_order_acquire);
  const std::uint64_t held = head - tail_seen_;
  if (held < half_) return 0;
  if (held > mask_) {
    count_one(lost_);
    return refused;
  }
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  const int bits = held < half_ + half_ / 2 ? 2 : 4;
  // The high bits of xorshift are of better quality.
  if (random_ >> (64 - bits) != 0) {
    count_one(sampled_away_);
    return refused;
  }
  return bits;
}

std::size_t UseRing::take(std::vector<LoggedUse>& out, std::size_t max) {
  const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  const std::uint64_t head = head_.load(std::memory_order_acquire);
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(head - tail, max));
  const std::size_t first = out.size();
  out.resize(first + count);
  for (std::size_t i = 0; i < count; ++i) {
    const Entry& entry = entries_[(tail + i) & mask_];
    out[first + i] = {Address{entry.address}, entry.bytes,
                      DeviceId{entry.device}, entry.kind,
                      entry.passes,           std::uint32_t{1} << entry.weight_bits,
                      TimePoint(entry.at_ns), false};
  }
  tail_.store(tail + count, std::memory_order_release);
  return count;
}

bool UseRing::empty() const noexcept {
  return tail_.load(std::memory_order_relaxed) == head_.load(std::memory_order_acquire);
}

void HintQueue::push(const AdvisedRange& advised) {
  MutexLock lock(mutex_);
  hints_.push_back(advised);
  if (hints_.size() > max_) {
    hints_.pop_front();
    ++dropped_;
  }
  const std::shared_ptr<const std::function<void()>> wake = wake_;
  if (!wake) return;
  ++calling_;
  lock.unlock();
  (*wake)();
  lock.lock();
  if (--calling_ == 0) called_.notify_all();
}

void HintQueue::take(std::vector<AdvisedRange>& out) {
  const MutexLock lock(mutex_);
  out.insert(out.end(), hints_.begin(), hints_.end());
  hints_.clear();
}

void HintQueue::wake_with(std::function<void()> wake) {
  std::shared_ptr<const std::function<void()>> next;
  if (wake) next = std::make_shared<const std::function<void()>>(std::move(wake));
  MutexLock lock(mutex_);
  wake_ = nullptr;
  called_.wait(lock, [this]() VMART_REQUIRES(mutex_) { return calling_ == 0; });
  wake_ = std::move(next);
}

std::uint64_t HintQueue::dropped() const {
  const MutexLock lock(mutex_);
  return dropped_;
}

UseLog::UseLog(const Clock& clock, const UseLogLimits& limits)
    : id_(last_id.fetch_add(1) + 1),
      clock_(clock),
      limits_(limits),
      process_(getpid()),
      hints_(limits.hints_max) {}

UseLog::~UseLog() {
  const MutexLock lock(mutex_);
  for (const std::shared_ptr<UseRing>& ring : rings_) ring->orphan();
}

void UseLog::record(std::span<const Use> uses) noexcept {
  const Mode mode = mode_.load(std::memory_order_relaxed);
  if (mode == Mode::closed) return;
  UseRing* const mine = ring();
  if (mine == nullptr) {
    lost_without_ring_.fetch_add(uses.size(), std::memory_order_relaxed);
    return;
  }
  const TimePoint at(mode == Mode::stamped ? clock_.stamp() : 0);
  for (const Use& use : uses) mine->push(use, at);
}

inline UseRing* UseLog::ring() noexcept {
  const LastRing& last = last_ring;
  return last.log == id_ ? last.ring : find_ring();
}

UseRing* UseLog::find_ring() noexcept {
  const ThreadRings* mine = ThreadRings::mine();
  if (mine == nullptr) return nullptr;
  UseRing* found = mine->find(id_);
  if (found == nullptr) found = make_ring();
  if (found != nullptr) last_ring = {id_, found};
  return found;
}

/// Returns null at the maximum number of rings, if there is no memory for one, or in a forked
/// child, where a lock that another thread of the parent held is never released.
UseRing* UseLog::make_ring() noexcept try {
  if (rings_count_.load(std::memory_order_relaxed) >= limits_.rings_max) return nullptr;
  if (getpid() != process_) return nullptr;
  ThreadRings& mine = *ThreadRings::mine();
  mine.make_room();
  std::shared_ptr<UseRing> made;
  {
    const MutexLock lock(mutex_);
    if (rings_.size() >= limits_.rings_max) return nullptr;
    made = std::make_shared<UseRing>(limits_.ring_entries, limits_.seed + rings_made_);
    rings_.push_back(made);
    ++rings_made_;
    rings_count_.store(rings_.size(), std::memory_order_relaxed);
  }
  UseRing* const ring = made.get();
  mine.add(id_, std::move(made));
  return ring;
} catch (const std::exception&) {
  return nullptr;
}

void UseLog::advise(const AdvisedRange& advised) {
  if (mode_.load(std::memory_order_relaxed) != Mode::closed) hints_.push(advised);
}

void UseLog::timestamps(bool on) noexcept {
  Mode expected = on ? Mode::plain : Mode::stamped;  // A closed log stays closed.
  mode_.compare_exchange_strong(expected, on ? Mode::stamped : Mode::plain);
}

void UseLog::stop_accepting() noexcept {
  mode_.store(Mode::closed);
}

std::size_t UseLog::collect(std::vector<LoggedUse>& out, std::size_t max) {
  {
    const MutexLock lock(mutex_);
    collecting_ = rings_;
  }
  std::size_t count = 0;
  // Rotates, because `max` may leave nothing for the last rings.
  const std::size_t first = turn_++;
  for (std::size_t i = 0; i < collecting_.size(); ++i) {
    const std::shared_ptr<UseRing>& ring = collecting_[(first + i) % collecting_.size()];
    // Read first: once it is set, the ring's last use is in the ring.
    const bool ended = ring->ended();
    const std::size_t old = out.size();
    count += ring->take(out, max - count);
    put_times(std::span(out).subspan(old));
    if (ended && ring->empty()) let_go(ring);
  }
  collecting_.clear();
  return count;
}

/// Converts the stamps that rings contain to times.
void UseLog::put_times(std::span<LoggedUse> uses) noexcept {
  if (std::ranges::all_of(uses, [](const LoggedUse& use) { return use.at == TimePoint(0); }))
    return;
  clock_.compare();
  for (LoggedUse& use : uses) {
    if (use.at != TimePoint(0)) use.at = clock_.time_of(use.at.count());
  }
}

void UseLog::let_go(const std::shared_ptr<UseRing>& ring) {
  const MutexLock lock(mutex_);
  add(ended_, *ring);
  std::erase(rings_, ring);
  rings_count_.store(rings_.size(), std::memory_order_relaxed);
}

UseLog::Counters UseLog::counters() const {
  const std::uint64_t hints_dropped = hints_.dropped();  // Takes its own lock.
  const MutexLock lock(mutex_);
  Counters counters = ended_;
  for (const std::shared_ptr<UseRing>& ring : rings_) add(counters, *ring);
  counters.lost += lost_without_ring_.load(std::memory_order_relaxed);
  counters.hints_dropped = hints_dropped;
  counters.threads = rings_.size();
  return counters;
}

}  // namespace vma
