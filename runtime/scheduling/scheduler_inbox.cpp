#include "scheduling/scheduler_inbox.hpp"

#include "memory/allocation.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

namespace vma {
namespace {

constexpr std::size_t uses_at_once = 65'536;

}  // namespace

void SchedulerInbox::post(Event event) noexcept {
  try {
    const MutexLock lock(mutex_);
    events_.push_back(std::move(event));
  } catch (const std::exception&) {
    missed_ = true;
  }
}

void SchedulerInbox::made(const std::shared_ptr<Allocation>& allocation) noexcept {
  post({Event::Kind::made, allocation->begin(), allocation, {}});
}

void SchedulerInbox::freed(Address begin) noexcept {
  post({Event::Kind::freed, begin, {}, {}});
}

void SchedulerInbox::changed(const Allocation& allocation) noexcept {
  post({Event::Kind::changed, allocation.begin(), {}, {}});
}

void SchedulerInbox::stepped(const ChunkStep& step) noexcept {
  using Kind = ChunkStep::Kind;
  const bool moved = step.kind == Kind::moved || step.kind == Kind::restored;
  if (step.kind != Kind::stopped && (!moved || step.by_policy)) return;
  // Without the reason, so that copying cannot throw.
  post({Event::Kind::step, step.address, {}, step});
}

void SchedulerInbox::wake() noexcept {
  const MutexLock lock(wake_mutex_);
  if (wake_) wake_();
}

void SchedulerInbox::wake_with(std::function<void()> wake) {
  const MutexLock lock(wake_mutex_);
  wake_ = std::move(wake);
}

void SchedulerInbox::take(std::vector<Event>& events) {
  const MutexLock lock(mutex_);
  events.reserve(events.size() + events_.size());
  std::ranges::move(events_, std::back_inserter(events));
  events_.clear();
}

UseIntake::UseIntake(UseLog& log, Memory& memory, const ChunkRoster& roster, DecisionPath& path,
                     DecisionJournal& journal, std::function<void()> catch_up)
    : log_(log),
      roster_(roster),
      path_(path),
      journal_(journal),
      catch_up_(std::move(catch_up)),
      summary_(memory.registry(), memory.topology()) {}

std::uint64_t UseIntake::uses_unknown() const noexcept {
  return summary_.ignored().unknown_uses + summary_.ignored().bad_uses;
}

std::uint64_t UseIntake::reported() const {
  const UseLog::Counters counters = log_.counters();
  return counters.recorded + counters.sampled_away + counters.lost;
}

void UseIntake::take_uses(UseReports& reports) {
  const auto unknown = [this](const UseSummary::Row& row) {
    return roster_.find(row.begin) == nullptr;
  };
  while (true) {
    raw_uses_.clear();
    log_.collect(raw_uses_, uses_at_once);
    if (raw_uses_.empty()) break;
    uses_ += raw_uses_.size();
    summary_.add(raw_uses_);
    // Memory that was allocated and used since the roster was brought up to date.
    if (std::ranges::any_of(summary_.rows(), unknown)) catch_up_();
    journal_.record_uses(raw_uses_);
    if (raw_uses_.size() < uses_at_once) break;  // Later reports are for the next call.
  }
  for (const UseSummary::Row& row : summary_.rows()) {
    const ChunkRoster::Entry* entry = roster_.find(row.begin);
    if (entry == nullptr || row.slot >= entry->slots) continue;  // Freed since.
    const ChunkId chunk = entry->chunk(row.slot);
    if (path_.snapshot().chunk(chunk).dropped) continue;  // No kernel can have used it.
    const PlaceId device = roster_.place_of(gpu(index(row.device)));
    reports.uses.push_back({chunk, device, row.bytes_read, row.bytes_written, nullptr});
  }
  path_.fold_uses(reports.uses);
  summary_.clear();
}

void UseIntake::take_hints(UseReports& reports) {
  std::vector<AdvisedRange> advised;
  log_.collect_hints(advised);
  for (const AdvisedRange& range : advised) {
    const ChunkRoster::Entry* entry = roster_.around(range.address);
    if (entry == nullptr) continue;
    ++hints_;
    journal_.record_hint(range, *entry);
    const std::uint64_t begin = range.address - entry->begin;
    const std::uint64_t end = std::min(begin + range.bytes, entry->size_bytes);
    for (std::uint64_t slot = begin / entry->chunk_bytes; slot * entry->chunk_bytes < end; ++slot) {
      const ChunkId chunk = entry->chunk(slot);
      if (path_.snapshot().chunk(chunk).dropped) continue;  // As for a use of it.
      path_.take_hint(chunk, roster_.place_of(range.hint.device), range.hint, range.at, reports);
    }
  }
}

}  // namespace vma
