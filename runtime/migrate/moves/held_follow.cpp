#include "migrate/moves/held_follow.hpp"

#include "migrate/migration/migration_error.hpp"
#include "migrate/moves/gated_stop.hpp"
#include "migrate/stops/copy_scopes.hpp"

#include <vma/error.hpp>

#include <algorithm>
#include <exception>
#include <utility>

namespace vma {
namespace {

constexpr const char* follow_call = "vma::import_allocation";

}  // namespace

HeldFollow::HeldFollow(const MoveParts& parts, Allocation& allocation,
                       const MigrateOptions& options, LedMove& leader)
    : parts_(parts), allocation_(allocation), options_(options), leader_(leader) {}

MigrationReport HeldFollow::run(std::span<LedChunk> chunks) {
  plan(chunks);
  stop_and_switch();
  report_.outcome = report_.chunks_moved == 0 ? Outcome::cancelled : Outcome::done;
  for (Transaction& transaction : transactions_) transaction.give_source_up(options_, MoveTerms());
  return report_;
}

void HeldFollow::stop_and_switch() {
  const HoldLimits limits = parts_.limits.of_hold(options_);
  HeldTimes times;
  const auto body = [this](StoppedWork& stopped) { switch_all(stopped); };
  const bool may_suspend = std::ranges::all_of(transactions_, [&](const Transaction& transaction) {
    return parts_.stops.may_suspend(transaction.from(), transaction.target().at());
  });
  // Also before a suspension, which the driver may refuse: nothing is prepared after `ready`.
  const bool attached = parts_.stops.attached().any(allocation_.begin());
  BoundStream stream;
  if (!attached) stream = parts_.engine.stream_of_hold(transactions_.front().from());
  leader_.ready();
  if (may_suspend && !parts_.stops.suspend_while(limits, report_, times, body)) return;
  if (attached) {
    return GatedStop(parts_, allocation_, {limits.rest_limit, limits.patience})
        .run(report_, times, body);
  }
  parts_.stops.hold_while(stream, limits, report_, times, body);
}

void HeldFollow::plan(std::span<LedChunk> chunks) {
  require_no_loss(allocation_, follow_call);
  if (allocation_.being_freed) {
    throw Error(ErrorKind::cancelled, follow_call, "the importer frees the memory");
  }
  if (const std::string why = allocation_.why_kept(); !why.empty()) {
    throw Error(ErrorKind::pinned, follow_call, "the imported memory " + why);
  }
  CopyScopes::process().require_guards(follow_call);
  for (LedChunk& led : chunks) {
    Transaction& transaction = transactions_.emplace_back(parts_.memory, parts_.engine, allocation_,
                                                          led.slot, led.chunk.at());
    transaction.take_target(std::move(led.chunk));
    transaction.note_copied();  // By the exporter, before it decides.
  }
  report_.chunks = static_cast<int>(transactions_.size());
}

void HeldFollow::switch_all(StoppedWork& stopped) {
  DarkTimes dark(&stopped, parts_.memory.chunks().keepers(), parts_.memory.driver().clock());
  dark.during([this] {
    std::exception_ptr failure;
    bool switches = false;
    try {
      show_all();
      switches = leader_.stopped();
    } catch (...) {
      failure = std::current_exception();
    }
    if (switches) {
      for (Transaction& transaction : transactions_) transaction.keep_target();
      report_.chunks_moved = report_.chunks;
    } else {
      take_all_back(failure);
    }
    if (failure) std::rethrow_exception(failure);
  });
}

void HeldFollow::show_all() {
  for (Transaction& transaction : transactions_) transaction.show_target(report_.phases);
}

/// Each, whatever becomes of the others.
void HeldFollow::take_all_back(std::exception_ptr& failure) noexcept {
  for (Transaction& transaction : transactions_) {
    if (transaction.state() != Transaction::State::shown) continue;
    try {
      transaction.take_back(report_.phases);
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
}

}  // namespace vma
