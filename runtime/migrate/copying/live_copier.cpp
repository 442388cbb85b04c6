#include "migrate/copying/live_copier.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/printable.hpp"
#include "base/units.hpp"
#include "migrate/gates/stop_word.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>

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
  return round_up(bays * counters_bytes + 2 * digests, granule_bytes);
}

void LiveCopier::make() {
  const std::uint64_t granule = memory_.topology().granularity();
  make_table(table_bytes(granule, tuning_));  // First, since it is the step most likely to fail.
  words_ = std::make_unique<PinnedWords>(driver_, context_, memory_.chunks().ledger());
  copy_stream_ = driver_.create_stream(context_, StreamKind::non_blocking);
  settle_stream_ =
      driver_.create_stream(context_, StreamKind::urgent);  // The application is stopped.
  const std::array kernels{&copy_digest_kernel(), &settle_kernel(), &paranoid_settle_kernel()};
  const auto loaded = driver_.load_kernels(context_, kernels, digest_kernels_image());
  copy_kernel_ = loaded[0];
  settle_kernel_ = loaded[1];
  paranoid_kernel_ = loaded[2];
  driver_.fill(copy_stream_, table_.staging(), std::byte{0}, table_.size_bytes());
  driver_.wait_stream(copy_stream_, never);
}

/// Releases cached chunks and clean copies there to make room for digests: without digests each
/// move off the place stops the program for a whole copy.
void LiveCopier::make_table(std::uint64_t size_bytes) {
  const Location at = gpu(index(device_));
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
  const Location at = gpu(index(device_));
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
  for (std::uint64_t** const word : {&bay.done, &bay.dirty}) {
    if (*word == nullptr) *word = words_->take();
  }
  bay.made = true;
}

void LiveCopier::release() noexcept {
  Ledger& ledger = memory_.chunks().ledger();
  bool ended = true;
  for (const BoundStream stream : {copy_stream_, settle_stream_}) {
    if (is_none(stream.handle)) continue;
    ended &= ledger.undo("a stream of live copies", [&] { driver_.wait_stream(stream, never); });
    ledger.undo("a stream of live copies", [&] { driver_.destroy_stream(stream); });
  }
  for (const KernelHandle kernel : {copy_kernel_, settle_kernel_, paranoid_kernel_}) {
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

/// Work that was given up for taking too long may have ended since.
void LiveCopier::require_idle(Bay& bay) const {
  if (load(bay.done) >= bay.epoch) bay.busy = false;
  if (!bay.busy) return;
  throw Error(ErrorKind::driver_failure, "vma::migrate_async",
              fmt::format("work of an earlier live copy from gpu({}) has failed or does not end",
                          index(device_)));
}

void LiveCopier::start_copy(std::size_t bay_index, const Chunk& source, const Chunk& target,
                            int share_percent) {
  Bay& bay = bays_[bay_index];
  if (!bay.made) make_bay(bay, bay_index);
  require_idle(bay);
  bay.source = source.staging();
  bay.target = target.staging();
  bay.tiling = Tiling::of(source.size_bytes(), tile_bytes_);
  bay.key = DigestKey::random();
  bay.epoch = next_epoch();
  bay.stream = copy_stream_;
  const unsigned blocks =
      std::max(1u, tuning_.copy_blocks * static_cast<unsigned>(share_percent) / 100);
  const WordOperation done = write_word(bay.done, bay.epoch);
  driver_.launch(copy_stream_, copy_kernel_, tile_shape(bay.tiling, blocks),
                 copy_digest_arguments(bay.target, bay.source, bay.digests, bay.tiling, bay.key));
  try {
    driver_.batch(copy_stream_, {&done, 1});
  } catch (...) {
    if (!ends_unmarked()) {
      source.mark_busy();
      target.mark_busy();
    }
    throw;
  }
  bay.busy = true;
}

/// Waits for a copy whose end no word will show. Copies that are started later run after it, so
/// that its bay can be used again even if it does not end in time.
bool LiveCopier::ends_unmarked() noexcept {
  constexpr std::chrono::seconds patience(2);
  try {
    return driver_.wait_stream(copy_stream_, driver_.clock().now() + patience);
  } catch (const std::exception& error) {
    log(LogLevel::warn, "a live copy cannot be waited for: {}", error.what());
    return false;
  }
}

void LiveCopier::settle(std::size_t bay_index, bool paranoid) {
  Bay& bay = bays_[bay_index];
  require_idle(bay);
  const auto multiprocessors =
      static_cast<unsigned>(memory_.topology().info(device_).multiprocessors);
  driver_.launch(settle_stream_, paranoid ? paranoid_kernel_ : settle_kernel_,
                 tile_shape(bay.tiling, tuning_.settle_blocks_per_multiprocessor * multiprocessors),
                 settle_arguments(bay.target, bay.source, bay.digests, bay.counters,
                                  address_of(bay.dirty), bay.tiling, bay.key));
  bay.epoch = next_epoch();
  bay.stream = settle_stream_;
  bay.busy = true;
  const WordOperation done = write_word(bay.done, bay.epoch);
  driver_.batch(settle_stream_, {&done, 1});
}

bool LiveCopier::ended(std::size_t bay) const noexcept {
  return load(bays_[bay].done) >= bays_[bay].epoch;
}

/// The word shows that the work has ended, the stream that it has failed, or that it has ended
/// though the word could not be enqueued.
bool LiveCopier::ended_by(std::size_t bay_index, TimePoint deadline) {
  constexpr std::chrono::microseconds look_period(200);
  Bay& bay = bays_[bay_index];
  Clock& clock = driver_.clock();
  const Measuring measuring(clock);
  const auto written = [&] { return ended(bay_index); };
  while (!poll_until(clock, std::min(deadline, clock.now() + look_period), written)) {
    if (driver_.query_stream(bay.stream)) break;
    if (clock.now() < deadline) continue;
    if (!written()) return false;  // It may have been written during the query of the stream.
    break;
  }
  bay.busy = false;
  return true;
}

/// Whether the bay's copy or settling has not ended yet, even if given up. All bays share their
/// streams, so it delays the work of other bays. Throws: what it failed with.
bool LiveCopier::under_way(std::size_t bay) {
  return bays_[bay].busy && !ended_by(bay, driver_.clock().now());
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
  const Address first = table_.staging() + bays * counters_bytes;
  if (is_free(first)) return first;
  for (const Bay& bay : bays_) {
    const Address behind = bay.digests + bay.digests_bytes;
    if (bay.taken && is_free(behind)) return behind;
  }
  return std::nullopt;
}

std::uint64_t LiveCopier::dirty_tiles(std::size_t bay) const noexcept {
  return load(bays_[bay].dirty);
}

}  // namespace vma
