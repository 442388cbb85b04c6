#pragma once

#include "driver/driver.hpp"
#include "memory/ledger.hpp"
#include "migrate/gates/backlog.hpp"
#include "migrate/gates/gate_plan.hpp"
#include "migrate/stops/stop_words.hpp"
#include "migrate/stops/watchdog.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace vma {

/// What the gates of one runtime use to stop streams: the word that opens them and, for each
/// stream, its arrived word, the chain that stops it, and the observed backlog.
///
/// One gate at a time, and one thread, which the caller ensures. Epochs keep gates apart: a late
/// write of an old gate neither opens a gate nor counts as an arrival.
class GatePost {
 public:
  /// What is known about one stream.
  struct StreamState {
    std::uint64_t* arrived = nullptr;
    std::uint64_t asked = 0;  ///< The last epoch that the stream was told to write there.
    ExecGraphHandle chain{};  ///< For `Driver::stop`; none without graphs, or in a broken context.
    Backlog backlog;
    std::uint64_t context_id = 0;  ///< Of the context that the chain belongs to.
    std::optional<int> gpu;        ///< The stream's, for messages; none in a broken context.
    std::uint64_t prepared = 0;    ///< The number of the last `prepare` that included it.
  };

  GatePost(Driver& driver, Watchdog& watchdog, Ledger& ledger);
  /// Requires: no gate is closed.
  ~GatePost();
  GatePost(const GatePost&) = delete;
  GatePost& operator=(const GatePost&) = delete;

  /// A probe, which stops nothing, needs the stream's word alone.
  enum class Use { probes, stops };
  /// Allocates the open word, and what each stop of the plan needs. Throws: Error. Blocks: in the
  /// driver, for probes once, and for stops at the first gate of each stream, where the driver may
  /// wait for what runs in the context; so nothing may be stopped.
  void prepare(const GatePlan& plan, Use use = Use::stops);
  /// Releases what belongs to streams that have not been stopped for long. Requires: nothing is
  /// stopped.
  void prune();
  /// Called before contexts are given up. Requires: no gate will be closed.
  void drop_chains() noexcept;
  /// Requires: prepared, and not retired since.
  StopWord& open_word() noexcept { return *open_word_; }
  /// Requires: prepared for a plan with that stop.
  StreamState& state_of(const GateStop& stop) { return streams_.at(key(stop)); }
  /// The stream's word for "arrived".
  WordOperation arrival(const StreamState& state, std::uint64_t epoch) const noexcept;
  /// What the stream does at the gate of this epoch: writes that it has arrived, and waits.
  std::array<WordOperation, 2> words_of_stop(const StreamState& state, const StopWord& open,
                                             std::uint64_t epoch) const noexcept;
  /// A graph may have captured the arrived words of the plan, and perhaps the open word: they are
  /// never used again, and their memory is not given back. Each such capture costs a cache line for
  /// each of them. Requires: the gate is open.
  void retire_words(const GatePlan& plan, bool also_open) noexcept;

  Watchdog& watchdog() noexcept { return watchdog_; }

 private:
  using Key = std::pair<ContextHandle, StreamHandle>;
  static Key key(const GateStop& stop) { return {stop.stream.context, stop.stream.handle}; }
  void choose_context(const GatePlan& plan);
  void make_chain(const Key& key, StreamState& state);
  bool has_context(const Key& key, const StreamState& state);
  void drop_chain(const Key& key, StreamState& state) noexcept;
  std::uint64_t* take_word();
  std::optional<int> gpu_of(const GateStop& stop) noexcept;

  Driver& driver_;
  Watchdog& watchdog_;
  Ledger& ledger_;
  std::optional<DeviceId> retained_;  // Its primary context, `context_`, owns the words.
  ContextHandle context_{};
  std::unique_ptr<PinnedWords> words_;
  std::unique_ptr<StopWord> open_word_;
  std::map<Key, StreamState> streams_;
  std::vector<std::uint64_t*> spare_;  // From streams that have not been stopped for long.
  std::uint64_t prepared_ = 0;
};

}  // namespace vma
