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
  kept_.push_back(decision);
  if (kept_.size() > decisions_max_) kept_.pop_front();
  if (queue_) add_line(decision);
  return decision.sequence;
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
  const std::uint64_t first = last_ - kept_.size() + 1;
  const std::uint64_t skipped =
      std::min<std::uint64_t>(sequence > first ? sequence - first : 0, kept_.size());
  const auto from = kept_.begin() + static_cast<std::ptrdiff_t>(skipped);
  const auto count = std::min<std::uint64_t>(decisions_max, kept_.size() - skipped);
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
