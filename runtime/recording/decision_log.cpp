#include "recording/decision_log.hpp"

#include "base/check.hpp"
#include "recording/decision_json.hpp"

#include <algorithm>
#include <utility>

namespace vma {
namespace {

constexpr std::size_t block_bytes = std::size_t{64} << 10;

}  // namespace

DecisionLog::DecisionLog(Executor& executor, const DecisionLogOptions& options)
    : decisions_max_(options.decisions_max), flush_period_(options.flush_period) {
  VMART_CHECK(decisions_max_ > 0, "the log keeps at least one entry");
  if (options.file.empty()) return;
  file_ = std::make_unique<DecisionFile>(options.file, options.file_bytes_max);
  queue_ = std::make_unique<BlockQueue>(executor, "vmart decisions", *file_, options.blocks_max);
}

DecisionLog::DecisionLog(Executor& executor, const DecisionLogOptions& options, BlockSink& sink)
    : decisions_max_(options.decisions_max),
      flush_period_(options.flush_period),
      queue_(std::make_unique<BlockQueue>(executor, "vmart decisions", sink, options.blocks_max)) {
  VMART_CHECK(decisions_max_ > 0, "the log keeps at least one entry");
}

DecisionLog::~DecisionLog() {
  const MutexLock lock(mutex_);
  hand_over();
}

std::uint64_t DecisionLog::add(Decision& decision) {
  clip(decision);
  const MutexLock lock(mutex_);
  decision.sequence = ++last_;
  keep(decision);
  if (queue_) add_line(decision);
  return decision.sequence;
}

void DecisionLog::keep(const Decision& decision) {
  const bool refused = decision.kind == DecisionKind::refused;
  if (refused) {
    const std::optional<std::uint64_t> number = refusals_.entry_of(decision);
    const auto known =
        number ? std::ranges::lower_bound(kept_, *number, {}, &Decision::sequence) : kept_.end();
    if (known != kept_.end() && known->sequence == *number) {
      ++known->times;
      known->last_time = decision.time;
      known->wish = decision.wish;
      known->reason = decision.reason;
      known->value = decision.value;
      return;
    }
    refusals_.begin(decision, decision.sequence);
  } else {
    refusals_.end(decision);
  }
  kept_.push_back(decision);
  if (kept_.size() > decisions_max_) kept_.pop_front();
}

void DecisionLog::add_line(const Decision& decision) {
  const std::string line = to_json_line(decision);
  if (lines_.bytes.size() + line.size() + 1 > block_bytes) hand_over();
  lines_.bytes.insert(lines_.bytes.end(), line.begin(), line.end());
  lines_.bytes.push_back('\n');
  ++lines_.records;
}

void DecisionLog::hand_over() noexcept {
  if (lines_.records > 0) queue_->offer(std::exchange(lines_, DiskBlock{}));
}

void DecisionLog::flush(Time now) noexcept {
  const MutexLock lock(mutex_);
  if (now - flushed_ < flush_period_) return;
  flushed_ = now;
  hand_over();
}

bool DecisionLog::write_all(TimePoint deadline) noexcept {
  {
    const MutexLock lock(mutex_);
    hand_over();
  }
  return !queue_ || queue_->drain_until(deadline);
}

std::vector<Decision> DecisionLog::since(std::uint64_t sequence, std::size_t decisions_max) const {
  const MutexLock lock(mutex_);
  const auto from = std::ranges::lower_bound(kept_, sequence, {}, &Decision::sequence);
  const auto count =
      std::min<std::size_t>(decisions_max, static_cast<std::size_t>(kept_.end() - from));
  return {from, from + static_cast<std::ptrdiff_t>(count)};
}

std::vector<Decision> DecisionLog::about(std::uint64_t allocation,
                                         std::optional<std::uint32_t> slot,
                                         std::size_t decisions_max) const {
  std::vector<Decision> found;
  const MutexLock lock(mutex_);
  for (auto at = kept_.rbegin(); at != kept_.rend() && found.size() < decisions_max; ++at) {
    const bool is_about =
        at->chunk && at->chunk->allocation == allocation && (!slot || at->chunk->slot == *slot);
    if (is_about) found.push_back(*at);
  }
  std::reverse(found.begin(), found.end());
  return found;
}

DecisionLogStats DecisionLog::stats() const {
  DecisionLogStats stats;
  if (queue_) stats.lines_lost = queue_->dropped().records;
  if (file_) {
    stats.lines_lost += file_->lines_lost();
    stats.write_failures = file_->failures();
  }
  const MutexLock lock(mutex_);
  stats.decisions = last_;
  return stats;
}

}  // namespace vma
