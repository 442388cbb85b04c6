#pragma once

#include "driver/driver.hpp"
#include "memory/ledger.hpp"
#include "migrate/gates/backlog.hpp"
#include "migrate/gates/gate_plan.hpp"
#include "migrate/gates/stop_word.hpp"
#include "migrate/gates/watchdog.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace vma {

/// Where the gates of one runtime stand: the word that they open, and of each stream its arrived
/// word, the chain that stops it, and what was seen of its backlog.
///
/// One gate at a time, and the caller sees to it. Epochs keep gates apart: so a late write of an
/// old gate neither opens one nor counts as an arrival.
class GatePost {
 public:
  /// What is known of one stream.
  struct Stand {
    std::uint64_t* arrived = nullptr;
    std::uint64_t asked = 0;  ///< The last epoch that the stream was asked to write there.
    ExecGraphHandle chain{};  ///< Of one step; none without graphs, or in a broken context.
    Backlog backlog;
    std::uint64_t context_id = 0;  ///< Whose the chain is.
    std::optional<int> gpu;        ///< Of the stream, for messages; none in a broken context.
    std::uint64_t prepared = 0;    ///< Which `prepare` was the last for it.
  };

  GatePost(Driver& driver, Watchdog& watchdog, Ledger& ledger);
  /// Requires: no gate is closed.
  ~GatePost();
  GatePost(const GatePost&) = delete;
  GatePost& operator=(const GatePost&) = delete;

  /// Has a word to open, and what each stop of the plan takes. Throws: Error. Blocks: in the
  /// driver, at the first gate of each stream; so nothing may be stopped.
  void prepare(const GatePlan& plan);
  /// Lets go of what belongs to streams that have not been stopped for long. Requires: nothing is
  /// stopped.
  void prune();
  /// Before contexts are given up. Requires: no gate will be closed.
  void drop_chains() noexcept;
  /// Requires: prepared.
  StopWord& open_word() noexcept { return *open_word_; }
  /// Requires: prepared for a plan with that stop.
  Stand& stand(const GateStop& stop) { return stands_.at(key(stop)); }
  /// What the stream does at the gate of this epoch: says that it has arrived, and waits.
  ChainStep step_of(const Stand& stand, std::uint64_t epoch) const;
  /// A graph may have captured the words of the plan: they are never used again, and their memory
  /// is not given back. Requires: no gate is closed.
  void retire_words(const GatePlan& plan) noexcept;

  Watchdog& watchdog() noexcept { return watchdog_; }

 private:
  using Key = std::pair<ContextHandle, StreamHandle>;
  static Key key(const GateStop& stop) { return {stop.stream.context, stop.stream.handle}; }
  void choose_context(const GatePlan& plan);
  void make_chain(const Key& key, Stand& stand);
  bool has_context(const Key& key, const Stand& stand);
  void drop_chain(const Key& key, Stand& stand) noexcept;
  std::uint64_t* take_word();
  std::optional<int> gpu_of(const GateStop& stop) noexcept;

  Driver& driver_;
  Watchdog& watchdog_;
  Ledger& ledger_;
  std::optional<DeviceId> retained_;  // Its primary context has the words.
  std::unique_ptr<PinnedWords> words_;
  std::unique_ptr<StopWord> open_word_;
  std::map<Key, Stand> stands_;
  std::vector<std::uint64_t*> spare_;  // Of streams that have not been stopped for long.
  std::uint64_t prepared_ = 0;
};

}  // namespace vma
