#include "scheduling/use_intake.hpp"

#include <algorithm>
#include <utility>

namespace vma {
namespace {

constexpr std::size_t uses_at_once = 65'536;

}  // namespace

UseIntake::UseIntake(UseLog& log, Memory& memory, const ChunkRoster& roster, DecisionPath& path,
                     DecisionJournal& journal, std::function<void()> catch_up)
    : log_(log),
      roster_(roster),
      path_(path),
      journal_(journal),
      catch_up_(std::move(catch_up)),
      starts_(memory.registry()),
      summary_(memory.registry(), memory.topology()),
      limit_(path.snapshot().costs()) {}

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
    const std::size_t count = log_.collect(raw_uses_, uses_at_once);
    if (count == 0) break;
    uses_ += count;
    starts_.complete(raw_uses_, path_.books().now());
    summary_.add(raw_uses_);
    std::erase_if(raw_uses_, [&](const LoggedUse& use) { return !summary_.makes_sense(use); });
    // Memory that was allocated and used since the roster was brought up to date.
    if (std::ranges::any_of(summary_.rows(), unknown)) catch_up_();
    report_rows(reports);
    journal_.record_uses(raw_uses_);
    if (count < uses_at_once) break;  // Later reports are for the next call.
  }
  path_.fold_uses(reports.uses);
}

/// Takes what the limit leaves of guesses, in the rows and in the uses that they sum up.
void UseIntake::report_rows(UseReports& reports) {
  claims_.clear();
  const std::size_t first = reports.uses.size();
  for (const UseSummary::Row& row : summary_.rows()) {
    const ChunkRoster::Entry* entry = roster_.find(row.begin);
    if (entry == nullptr || row.slot >= entry->slots) continue;  // Freed since.
    const ChunkId chunk = entry->chunk(row.slot);
    const ChunkRow& known = path_.snapshot().chunk(chunk);
    if (known.dropped) continue;  // No kernel can have used it.
    const PlaceId device = roster_.place_of(gpu(index(row.device)));
    claims_.push_back({device, known.at, row.bytes_read + row.bytes_written, row.guessed_read,
                       row.guessed_written});
    reports.uses.push_back({chunk, device, row.bytes_read, row.bytes_written, nullptr});
  }
  summary_.clear();
  const std::span<const double> kept =
      limit_.fit(claims_, path_.snapshot().costs(), path_.books().now());
  for (std::size_t i = 0; i < claims_.size(); ++i) {
    UseEvent& use = reports.uses[first + i];
    use.bytes_read += kept[index(use.device)] * claims_[i].guessed_read;
    use.bytes_written += kept[index(use.device)] * claims_[i].guessed_written;
  }
  if (std::ranges::all_of(kept, [](double part) { return part == 1; })) return;
  for (LoggedUse& use : raw_uses_) {
    if (!use.guessed) continue;
    use.passes *= static_cast<float>(kept[index(roster_.place_of(gpu(index(use.device))))]);
  }
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
