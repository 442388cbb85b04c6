#include "migrate/copying/live_copier.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/printable.hpp"
#include "base/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <exception>
#include <utility>

namespace vma {
namespace {

constexpr std::uint64_t counters_bytes = 2 * sizeof(std::uint64_t);

std::uint64_t digests_of(std::uint64_t size_bytes, std::uint64_t tile_bytes) {
  return round_up(size_bytes, tile_bytes) / tile_bytes * digest_bytes;
}

std::uint64_t load(const std::uint64_t* word) {
  return std::atomic_ref<const std::uint64_t>(*word).load(std::memory_order_acquire);
}

WordOperation write_word(std::uint64_t* word, std::uint64_t value) {
  return {WordOperation::Kind::write, address_of(word), value};
}

/// Few numbers of steps occur, so that few chains are created: the others are filled up with steps
/// that do nothing, behind those of the bays.
std::size_t settled_together(std::size_t bays) {
  constexpr std::size_t many = 16;
  return bays < many ? std::bit_ceil(bays) : round_up(bays, many);
}

}  // namespace

LiveCopier::LiveCopier(Memory& memory, DeviceId device, ContextHandle context,
                       const LiveTuning& tuning)
    : memory_(memory),
      driver_(memory.driver()),
      device_(device),
      context_(context),
      tuning_(tuning),
      tile_bytes_(memory.topology().granularity() / tuning.tiles_per_granule) {
  try {
    make();
  } catch (...) {
    release();
    throw;
  }
}

LiveCopier::~LiveCopier() {
  release();
}

std::uint64_t LiveCopier::table_bytes(std::uint64_t granule_bytes, const LiveTuning& tuning) {
  const std::uint64_t chunk_max = largest_chunk_bytes(gpu(0), granule_bytes);
  const std::uint64_t digests = digests_of(chunk_max, granule_bytes / tuning.tiles_per_granule);
  return round_up((bays + 1) * counters_bytes + 2 * digests, granule_bytes);
}

void LiveCopier::make() {
  const std::uint64_t granule = memory_.topology().granularity();
  make_table(table_bytes(granule, tuning_));  // First, since it is the step most likely to fail.
  words_ = std::make_unique<PinnedWords>(driver_, context_, memory_.chunks().ledger());
  go_ = std::make_unique<StopWord>(*words_);
  copy_stream_ = driver_.create_stream(context_, StreamKind::non_blocking);
  settle_stream_ =
      driver_.create_stream(context_, StreamKind::urgent);  // The application is stopped.
  digest_stream_ = driver_.create_stream(context_, StreamKind::non_blocking);
  engine_done_ = driver_.create_event(context_);
  const std::array kernels{&copy_digest_kernel(), &digest_kernel(), &settle_kernel(),
                           &paranoid_settle_kernel()};
  const auto loaded = driver_.load_kernels(context_, kernels, digest_kernels_image());
  copy_kernel_ = loaded[0];
  digest_kernel_ = loaded[1];
  settle_kernel_ = loaded[2];
  paranoid_kernel_ = loaded[3];
  make_bay(padding_, bays);
  padding_.tiling = {tile_bytes_, 0};
  padding_.source = padding_.target = padding_.digests = table_.staging();
  driver_.fill(copy_stream_, table_.staging(), std::byte{0}, table_.size_bytes());
  driver_.wait_stream(copy_stream_, never);
}

/// Releases cached chunks and clean copies there to make room for digests: without digests each
/// move off the place stops the program for a whole copy.
void LiveCopier::make_table(std::uint64_t size_bytes) {
  const Place at = gpu(index(device_));
  while (true) {
    try {
      return claim_table(size_bytes);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory) throw;
      const bool in_vain = memory_.chunks().room_bytes(at) < size_bytes;
      if (in_vain || memory_.chunks().give_room(at, size_bytes) == 0) throw;
    }
  }
}

void LiveCopier::claim_table(std::uint64_t size_bytes) {
  const Place at = gpu(index(device_));
  Ledger& ledger = memory_.chunks().ledger();
  if (!ledger.claim(at, size_bytes, Ledger::Use::own)) {
    throw Error(ErrorKind::out_of_memory, "vma::migrate",
                fmt::format("the capacity of {} leaves no room for {} of digests", to_string(at),
                            bytes_text(size_bytes)));
  }
  try {
    table_ = Chunk(driver_, ledger, at, size_bytes, memory_.topology().readers(at));
  } catch (...) {
    ledger.unclaim(at, size_bytes, Ledger::Use::own);
    throw;
  }
}

/// When a chunk first needs it: most moves need few. What a failed try has made stays.
void LiveCopier::make_bay(Bay& bay, std::size_t index) {
  bay.counters = table_.staging() + index * counters_bytes;  // Zero, and zero after each use.
  for (std::uint64_t** const word : {&bay.copied, &bay.settled, &bay.dirty}) {
    if (*word == nullptr) *word = words_->take();
  }
  bay.made = true;
}

void LiveCopier::let_all_go() noexcept {
  if (go_) go(last_settling_);
}

bool LiveCopier::await_end() noexcept {
  Ledger& ledger = memory_.chunks().ledger();
  if (std::exchange(awaited_, true)) return ended_;
  let_all_go();
  for (const BoundStream stream : {copy_stream_, settle_stream_, digest_stream_}) {
    if (is_none(stream.handle)) continue;
    ended_ &= ledger.undo("a stream of live copies", [&] { driver_.wait_stream(stream, never); });
  }
  return ended_;
}

void LiveCopier::release() noexcept {
  Ledger& ledger = memory_.chunks().ledger();
  const bool ended = await_end();
  for (const BoundStream stream : {copy_stream_, settle_stream_, digest_stream_}) {
    if (is_none(stream.handle)) continue;
    ledger.undo("a stream of live copies", [&] { driver_.destroy_stream(stream); });
  }
  if (!is_none(engine_done_)) {
    ledger.undo("an event of live copies", [&] { driver_.destroy_event(engine_done_); });
  }
  for (const auto& [kind, chain] : chains_) {
    ledger.undo("a chain of live copies",
                [&, handle = chain.handle] { driver_.destroy_exec_graph(handle); });
  }
  go_.reset();
  for (const KernelHandle kernel :
       {copy_kernel_, digest_kernel_, settle_kernel_, paranoid_kernel_}) {
    if (is_none(kernel)) continue;
    if (!ended) {
      ledger.leaked("a kernel of live copies: it may still run");
      continue;
    }
    ledger.undo("a kernel of live copies", [&] { driver_.unload_kernel(kernel); });
  }
  release_memory(ended);
}

/// Work that was not seen to end may still write to the digests and to the words.
void LiveCopier::release_memory(bool ended) noexcept {
  Ledger& ledger = memory_.chunks().ledger();
  if (words_ && !ended) words_->keep_for_good();
  words_.reset();
  if (!table_) return;
  if (ended) {
    ledger.unclaim(table_.at(), table_.size_bytes(), Ledger::Use::own);
    table_ = Chunk();
    return;
  }
  ledger.shift(table_.at(), table_.size_bytes(), Ledger::Use::own, Ledger::Use::allocated);
  memory_.chunks().quarantine(std::move(table_), "work of live copies may still touch it");
}

std::vector<ChainStep> LiveCopier::settle_steps(std::span<const std::size_t> bays, bool paranoid,
                                                std::uint64_t epoch) const {
  const auto multiprocessors =
      static_cast<unsigned>(memory_.topology().info(device_).multiprocessors);
  const std::size_t settlings = settled_together(bays.size());
  std::vector<ChainStep> steps(1 + 2 * settlings);
  steps[0].words = {go_->wait_for(epoch)};
  for (std::size_t i = 0; i < settlings; ++i) {
    const Bay& bay = i < bays.size() ? bays_[bays[i]] : padding_;
    ChainStep& settle = steps[1 + 2 * i];
    settle.kernel = paranoid ? paranoid_kernel_ : settle_kernel_;
    settle.shape =
        tile_shape(bay.tiling, tuning_.settle_blocks_per_multiprocessor * multiprocessors);
    settle.arguments = settle_arguments(bay.target, bay.source, bay.digests, bay.counters,
                                        address_of(bay.dirty), bay.tiling, bay.key);
    steps[2 + 2 * i].words = {write_word(bay.settled, epoch)};
  }
  return steps;
}

/// Work that was given up for taking too long may have ended since.
void LiveCopier::require_idle(Bay& bay) const {
  if (load(bay.copied) >= bay.epoch || load(bay.settled) >= bay.epoch) bay.busy = false;
  if (!bay.busy && !bay.lost) return;
  throw Error(ErrorKind::driver_failure, "vma::migrate_async",
              fmt::format("work of an earlier live copy from gpu({}) has failed or does not end",
                          index(device_)));
}

void LiveCopier::take_up(Bay& bay, const Chunk& source, const Chunk& target) {
  if (!bay.made) make_bay(bay, static_cast<std::size_t>(&bay - bays_.data()));
  require_idle(bay);
  bay.source = source.staging();
  bay.target = target.staging();
  bay.tiling = Tiling::of(source.size_bytes(), tile_bytes_);
  bay.key = DigestKey::random();
  bay.epoch = next_epoch();
  bay.digested_on = {};
}

void LiveCopier::start_copy(std::size_t bay_index, const Chunk& source, const Chunk& target,
                            int share_percent) {
  Bay& bay = bays_[bay_index];
  take_up(bay, source, target);
  const unsigned blocks =
      std::max(1u, tuning_.copy_blocks * static_cast<unsigned>(share_percent) / 100);
  const WordOperation done = write_word(bay.copied, bay.epoch);
  driver_.launch(copy_stream_, copy_kernel_, tile_shape(bay.tiling, blocks),
                 copy_digest_arguments(bay.target, bay.source, bay.digests, bay.tiling, bay.key));
  try {
    driver_.batch(copy_stream_, {&done, 1});
  } catch (...) {
    if (!ends_unmarked(copy_stream_)) {
      source.mark_busy();
      target.mark_busy();
    }
    throw;
  }
  bay.busy = true;
}

/// The digest is that of the bytes that have arrived: what the program writes while they are copied
/// shows when the chunk settles (I6).
void LiveCopier::start_copy_by_engine(std::size_t bay_index, const Chunk& source,
                                      const Chunk& target, int share_percent, LiveCopier& there) {
  Bay& bay = bays_[bay_index];
  take_up(bay, source, target);
  const auto blocks_max =
      tuning_.settle_blocks_per_multiprocessor *
      static_cast<unsigned>(memory_.topology().info(there.device_).multiprocessors);
  const unsigned blocks = std::max(1u, blocks_max * static_cast<unsigned>(share_percent) / 100);
  const WordOperation done = write_word(bay.copied, bay.epoch);
  bool digests = false;
  try {
    driver_.copy(copy_stream_, bay.target, bay.source, source.size_bytes());
    driver_.record(engine_done_, copy_stream_);
    driver_.stream_wait_event(there.digest_stream_, engine_done_);
    digests = true;
    driver_.launch(there.digest_stream_, there.digest_kernel_, tile_shape(bay.tiling, blocks),
                   digest_arguments(bay.target, bay.digests, bay.tiling, bay.key));
    driver_.batch(there.digest_stream_, {&done, 1});
  } catch (...) {
    bay.lost = bay.lost || (digests && !ends_unmarked(there.digest_stream_));
    if (bay.lost || !ends_unmarked(copy_stream_)) {
      source.mark_busy();
      target.mark_busy();
    }
    throw;
  }
  bay.digested_on = there.digest_stream_;
  bay.busy = true;
}

/// It tells nothing of one that failed: whoever waits for the bay learns that.
void LiveCopier::await_engine(TimePoint deadline) noexcept {
  try {
    driver_.wait_event(engine_done_, deadline);
  } catch (const std::exception& error) {
    log(LogLevel::debug, "a copy by an engine cannot be waited for: {}", error.what());
  }
}

/// Waits for a copy whose end no word will show. Copies that are started later run after it, so
/// that its bay can be used again even if it does not end in time.
bool LiveCopier::ends_unmarked(BoundStream stream) noexcept {
  constexpr std::chrono::seconds patience(2);
  try {
    return driver_.wait_stream(stream, driver_.clock().now() + patience);
  } catch (const std::exception& error) {
    log(LogLevel::warn, "a live copy cannot be waited for: {}", error.what());
    return false;
  }
}

/// The word shows that the work has ended, the streams that it has failed.
bool LiveCopier::await(const std::uint64_t* word, Bay& bay,
                       std::initializer_list<BoundStream> streams, TimePoint deadline) {
  constexpr std::chrono::microseconds look_period(200);
  Clock& clock = driver_.clock();
  const Measuring measuring(clock);
  const auto written = [&] { return load(word) >= bay.epoch; };
  while (!poll_until(clock, std::min(deadline, clock.now() + look_period), written)) {
    for (const BoundStream stream : streams) {
      if (!is_none(stream.handle)) driver_.query_stream(stream);
    }
    if (clock.now() >= deadline) {
      if (!written()) return false;  // It may have been written during the query of the stream.
      break;
    }
  }
  bay.busy = false;
  return true;
}

bool LiveCopier::settled(std::size_t bay) const noexcept {
  return load(bays_[bay].settled) >= bays_[bay].epoch;
}

bool LiveCopier::copied_by(std::size_t bay, TimePoint deadline) {
  return await(bays_[bay].copied, bays_[bay], {copy_stream_, bays_[bay].digested_on}, deadline);
}

/// Whether the bay's copy or settling has not ended yet, even if given up. All bays share their
/// streams, so it delays the work of other bays. Throws: what it failed with.
bool LiveCopier::under_way(std::size_t bay) {
  if (!bays_[bay].busy) return false;
  const TimePoint now = driver_.clock().now();
  return !copied_by(bay, now) && !settled_by(bay, now);
}

std::optional<std::size_t> LiveCopier::take_bay(std::uint64_t size_bytes) {
  for (std::size_t bay = 0; bay < bays; ++bay) {
    if (bays_[bay].taken || !under_way(bay)) continue;
    throw Error(ErrorKind::busy, "vma::migrate_async",
                fmt::format("an abandoned live copy from gpu({}) is still running; wait for the "
                            "kernels that delay it, or move with Mode::stopped",
                            index(device_)));
  }
  const auto found = std::ranges::find(bays_, false, &Bay::taken);
  const std::uint64_t digests_bytes = digests_of(size_bytes, tile_bytes_);
  const std::optional<Address> digests = room_for_digests(digests_bytes);
  if (found == bays_.end() || !digests) return std::nullopt;
  found->taken = true;
  found->digests = *digests;
  found->digests_bytes = digests_bytes;
  return static_cast<std::size_t>(found - bays_.begin());
}

bool LiveCopier::has_bay_for(std::uint64_t size_bytes) const {
  return !std::ranges::all_of(bays_, &Bay::taken) &&
         room_for_digests(digests_of(size_bytes, tile_bytes_));
}

/// Behind the counters or behind the digests of a bay, wherever nothing lies.
std::optional<Address> LiveCopier::room_for_digests(std::uint64_t digests_bytes) const {
  const Address end = table_.staging() + table_.size_bytes();
  const auto is_free = [&](Address begin) {
    return begin + digests_bytes <= end && std::ranges::none_of(bays_, [&](const Bay& bay) {
             return bay.taken && bay.digests < begin + digests_bytes &&
                    begin < bay.digests + bay.digests_bytes;
           });
  };
  const Address first = table_.staging() + (bays + 1) * counters_bytes;
  if (is_free(first)) return first;
  for (const Bay& bay : bays_) {
    const Address behind = bay.digests + bay.digests_bytes;
    if (bay.taken && is_free(behind)) return behind;
  }
  return std::nullopt;
}

/// A launch behind one that waits in the same graph would block the caller until that has ended,
/// and with it the gates behind the first one.
LiveCopier::Chain& LiveCopier::chain_of(std::span<const ChainStep> steps, bool paranoid) {
  const std::pair key{steps.size(), paranoid};
  const auto [first, last] = chains_.equal_range(key);
  const auto idle =
      std::find_if(first, last, [&](const auto& known) { return gone(known.second.last); });
  if (idle == last) return chains_.insert({key, {driver_.make_chain(context_, steps), {}}})->second;
  driver_.update_chain(idle->second.handle, steps);
  return idle->second;
}

LiveCopier::Settling LiveCopier::arm(std::span<const std::size_t> bays, bool paranoid) {
  for (const std::size_t bay : bays) require_idle(bays_[bay]);
  const std::uint64_t epoch = next_epoch();
  Chain& chain = chain_of(settle_steps(bays, paranoid, epoch), paranoid);
  driver_.launch_graph(settle_stream_, chain.handle);
  chain.last = {epoch};
  last_settling_ = {epoch};
  for (const std::size_t bay : bays) {
    bays_[bay].epoch = epoch;
    bays_[bay].busy = true;
  }
  return last_settling_;
}

bool LiveCopier::settled_by(std::size_t bay, TimePoint deadline) {
  return await(bays_[bay].settled, bays_[bay], {settle_stream_}, deadline);
}

std::uint64_t LiveCopier::dirty_tiles(std::size_t bay) const noexcept {
  return load(bays_[bay].dirty);
}

}  // namespace vma
