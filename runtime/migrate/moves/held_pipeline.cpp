#include "migrate/moves/held_pipeline.hpp"

#include "base/nvtx.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>

namespace vma {
namespace {

using State = Transaction::State;

/// Slots that show their targets while the chunks before them are still copied: the hold is dark
/// until the last of them is complete.
constexpr std::size_t shown_early_max = 64;
/// No link between GPUs is faster: kernels that copy for as long as the switches take, at this
/// rate, copy for long enough on any link.
constexpr std::uint64_t link_bytes_per_ns = 400;

}  // namespace

HeldPipeline::HeldPipeline(MigrationParts& parts, const std::vector<HeldStep>& order,
                           AheadCopies& ahead, const MigrateOptions& options)
    : parts_(parts),
      clock_(parts.memory.driver().clock()),
      order_(order),
      ahead_(ahead),
      options_(options),
      under_(options.nothing_runs ? CopyUnder::nothing : CopyUnder::hold) {}

template <typename Body>
void HeldPipeline::attempt(std::size_t place, Body&& body) noexcept {
  const auto& [range, transaction] = order_[place];
  try {
    body();
  } catch (const std::exception&) {
    range->end = std::min(range->end, place);
    range->fail(*transaction, std::current_exception());
  }
}

void HeldPipeline::begin(StoppedWork* hold) noexcept {
  dark_.emplace(hold, parts_.memory.chunks().keepers(), clock_);
  begun_ = clock_.now();
}

void HeldPipeline::run(StoppedWork* hold) noexcept {
  begin(hold);
  try {
    plan_kernels();
  } catch (const std::exception&) {  // Copy engines copy all.
    kernel_bytes_.clear();
  }
  std::size_t started = 0, shown = 0;
  for (std::size_t next = 0; next < order_.size(); ++next) {
    for (; started < std::min(order_.size(), next + copies_in_flight_max); ++started) {
      if (goes_on(started)) attempt(started, [&] { start(order_[started]); });
      dark_->alive();
    }
    for (; shown < std::min(started, shown_early_max); ++shown) {
      if (goes_on(shown) && uses_kernels(order_[shown])) show_beside_copy(shown);
    }
    if (goes_on(next) && order_[next].range->to.kind == Place::Kind::host) {
      show_beside_copy(next);
    }
    const bool arriving = order_[next].transaction->state() == State::arriving;
    if (arriving || goes_on(next)) attempt(next, [&] { finish(order_[next]); });
    if (arriving && --arriving_ == 0) dark_->end();
  }
  settle_all();
}

// --- With importers

void HeldPipeline::run_with(ExporterMove& importers, StoppedWork* hold, CopyUnder under) noexcept {
  begin(hold);
  under_ = under;
  kernel_bytes_.clear();  // Nothing is unmapped beside a copy.
  copy_all();
  if (show_all() && decide(importers)) {
    for (const HeldStep& turn : order_) turn.transaction->keep_target();
  } else {
    take_all_back();
  }
  dark_->end();
  for (const HeldStep& turn : order_) {
    if (turn.transaction->state() == State::switched) turn.range->tell_progress(*parts_.callbacks);
  }
}

void HeldPipeline::copy_all() noexcept {
  std::size_t started = 0;
  for (std::size_t next = 0; next < order_.size() && goes_on(next); ++next) {
    for (; started < std::min(order_.size(), next + copies_in_flight_max); ++started) {
      if (goes_on(started)) attempt(started, [&] { start(order_[started]); });
    }
    attempt(next, [&] {
      await_copy(order_[next]);
      if (order_[next].transaction->state() == State::copying) {
        order_[next].transaction->finish_copy();
      }
    });
    order_[next].range->report.phases.copy = clock_.now() - begun_;
  }
}

/// False if any slot does not show its target.
bool HeldPipeline::show_all() noexcept {
  for (std::size_t place = 0; place < order_.size(); ++place) {
    if (!goes_on(place)) return false;
    attempt(place, [&] {
      dark_->begin();
      order_[place].transaction->show_target(order_[place].range->report.phases);
    });
  }
  return goes_on(order_.size() - 1);
}

bool HeldPipeline::decide(ExporterMove& importers) noexcept {
  if (importers.decide()) return true;
  attempt(0, [] {
    throw Error(ErrorKind::busy, "vma::migrate",
                "a process that has imported the memory called the move off, because it took too "
                "long or because that process ends. Migrate again");
  });
  return false;
}

void HeldPipeline::take_all_back() noexcept {
  for (std::size_t place = 0; place < order_.size(); ++place) {
    const auto& [range, transaction] = order_[place];
    if (transaction->state() != State::shown) continue;
    attempt(place, [&] { transaction->take_back(range->report.phases); });
  }
}

// --- Steps of both

bool HeldPipeline::goes_on(std::size_t place) const noexcept {
  const HeldRange& range = *order_[place].range;
  return place < range.end && !range.unwanted();
}

/// The first chunks of each route between GPUs are copied by kernels, for as long as it takes to
/// switch all slots: an unmap would wait for a copy engine (driver 580).
void HeldPipeline::plan_kernels() {
  kernel_bytes_.clear();
  if (!dark_->runs_kernels()) return;
  std::chrono::nanoseconds switches{0};
  for (const HeldStep& turn : order_) {
    const Route route{turn.transaction->from(), turn.range->to};
    if (!parts_.engine.has_kernel(route.first, route.second, CopyUnder::hold)) continue;
    switches += parts_.forecast.switch_time(turn.transaction->planned_switch());
    kernel_bytes_[route] = 0;
  }
  for (auto& [route, bytes] : kernel_bytes_) {
    bytes = static_cast<std::uint64_t>(switches.count()) * link_bytes_per_ns;
  }
}

bool HeldPipeline::uses_kernels(const HeldStep& turn) const {
  return kernel_bytes_.contains({turn.transaction->from(), turn.range->to});
}

void HeldPipeline::start(HeldStep turn) {
  auto& [range, transaction] = turn;
  if (ahead_.used()) return ahead_.require_started(turn);
  if (transaction->state() == State::planned) {
    if (range->no_target) std::rethrow_exception(range->no_target);
    const TimePoint begin = clock_.now();
    transaction->take_target(ChunkStore::Turn::held);
    range->report.phases.cache += clock_.now() - begin;
  }
  if (transaction->target_clean()) return transaction->note_clean();  // Under `operations()`.
  CopyBy by = CopyBy::engine;
  if (const auto left = kernel_bytes_.find({transaction->from(), range->to});
      left != kernel_bytes_.end() && left->second != 0) {
    by = CopyBy::kernel;
    left->second -= std::min(left->second, transaction->size_bytes());
  }
  transaction->start_copy(under_, never, by);
}

void HeldPipeline::show_beside_copy(std::size_t place) noexcept {
  Transaction& transaction = *order_[place].transaction;
  if (!dark_->any_stopped() || transaction.state() != State::copying) return;
  attempt(place, [&] {
    dark_->begin();
    transaction.show_target(order_[place].range->report.phases);
    dark_->granted();
  });
  if (transaction.state() == State::arriving) ++arriving_;
  if (arriving_ == 0) dark_->end();
}

void HeldPipeline::finish(HeldStep turn) {
  auto& [range, transaction] = turn;
  const NvtxRange nvtx([&] {
    return fmt::format("vmart move {:#x} to {}",
                       to_integer(range->allocation.slot_begin(transaction->slot())),
                       to_string(range->to));
  });
  if (transaction->state() == State::arriving) {
    complete(turn);
    range->report.phases.copy = clock_.now() - begun_;
  } else {
    await_copy(turn);
    if (transaction->state() == State::copying) transaction->finish_copy();
    range->report.phases.copy = clock_.now() - begun_;
    // Throws for every chunk once another thread has opened the hold.
    dark_->during([&] { transaction->switch_slot(range->report.phases); });
  }
  range->tell_progress(*parts_.callbacks);
}

void HeldPipeline::complete(HeldStep turn) {
  Transaction& transaction = *turn.transaction;
  try {
    await_copy(turn);
    transaction.finish_copy();
  } catch (...) {
    transaction.end_copy(clock_.now());
    if (transaction.state() == State::shown) return transaction.keep_target();  // It just ended.
    throw;
  }
  transaction.keep_target();
}

/// Whatever kept a shown slot from being completed in its turn.
void HeldPipeline::settle_all() noexcept {
  constexpr std::chrono::seconds patience(2);
  for (const HeldStep& turn : order_) {
    if (turn.transaction->state() != State::arriving) continue;
    turn.transaction->end_copy(clock_.now() + patience);
    if (turn.transaction->state() == State::shown) turn.transaction->keep_target();
  }
  dark_->end();
}

/// Waits for the copy, and meanwhile probes regularly that the driver lets grants return, so that
/// the last probe is recent when the slot goes dark. A copy that takes longer than a driver call
/// may is given up: held work continues, and the chunk stays where it is. Those behind it then get
/// no time of their own, so that many copies that do not end hold the work no longer than one.
void HeldPipeline::await_copy(HeldStep turn) {
  const std::chrono::nanoseconds limit = parts_.limits.of_hold(options_).patience;
  const TimePoint deadline = clock_.now() + (patience_is_over_ ? TimePoint(0) : limit);
  while (true) {
    if (turn.transaction->copy_done_by(std::min(dark_->ask(), deadline))) return;
    if (clock_.now() < deadline) continue;
    patience_is_over_ = true;
    if (ahead_.used()) parts_.engine.distrust_ahead();
    throw Error(
        ErrorKind::busy, "vma::migrate",
        fmt::format(
            "the copy of the chunk at offset {} did not end within {} ms. The chunk stays where it "
            "is, and the held work continues. Set a longer MigrateOptions::deadline",
            turn.transaction->slot() * turn.range->allocation.geometry().chunk_bytes,
            limit / std::chrono::milliseconds(1)));
  }
}

}  // namespace vma
