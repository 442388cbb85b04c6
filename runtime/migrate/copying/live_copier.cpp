#include "migrate/copying/live_copier.hpp"

#include "base/check.hpp"
#include "base/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>

namespace vma {
namespace {

constexpr std::uint64_t counters_bytes = 2 * sizeof(std::uint64_t);

std::uint64_t bay_bytes(std::uint64_t granule_bytes, const LiveTuning& tuning) {
  const std::uint64_t tile_bytes = granule_bytes / tuning.tiles_per_granule;
  return largest_chunk_bytes(gpu(0), granule_bytes) / tile_bytes * digest_bytes + counters_bytes;
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
  return round_up(bays * bay_bytes(granule_bytes, tuning), granule_bytes);
}

void LiveCopier::make() {
  const std::uint64_t granule = memory_.topology().granularity();
  make_table(table_bytes(granule, tuning_));  // First, since it is the step most likely to fail.
  words_ = std::make_unique<PinnedWords>(driver_, context_, memory_.chunks().ledger());
  copy_stream_ = driver_.create_stream(context_, StreamKind::non_blocking);
  settle_stream_ =
      driver_.create_stream(context_, StreamKind::urgent);  // The application is stopped.
  copy_kernel_ = driver_.load_kernel(context_, copy_digest_kernel());
  settle_kernel_ = driver_.load_kernel(context_, settle_kernel());
  paranoid_kernel_ = driver_.load_kernel(context_, paranoid_settle_kernel());
  driver_.fill(copy_stream_, table_.staging(), std::byte{0}, table_.size_bytes());
  driver_.wait_stream(copy_stream_, never);
  const std::uint64_t each = bay_bytes(granule, tuning_);
  for (std::size_t i = 0; i < bays; ++i) {
    make_bay(bays_[i], table_.staging() + i * each, each - counters_bytes);
  }
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
                fmt::format("the capacity of {} leaves no room for {} bytes of digests",
                            to_string(at), size_bytes));
  }
  try {
    table_ = Chunk(driver_, ledger, at, size_bytes, memory_.topology().readers(at));
  } catch (...) {
    ledger.unclaim(at, size_bytes, Ledger::Use::own);
    throw;
  }
}

void LiveCopier::make_bay(Bay& bay, Address table, std::uint64_t digest_bytes_max) {
  bay.go = std::make_unique<StopWord>(*words_);
  bay.copied = words_->take();
  bay.settled = words_->take();
  bay.dirty = words_->take();
  bay.digests = table;
  bay.counters = table + digest_bytes_max;
  bay.tiling = Tiling::of(tile_bytes_, tile_bytes_);  // Any value: an update precedes every launch.
  bay.copying = driver_.make_chain(context_, copy_steps(bay));
  bay.settling = driver_.make_chain(context_, settle_steps(bay, false));
  bay.settling_paranoid = driver_.make_chain(context_, settle_steps(bay, true));
}

void LiveCopier::release() noexcept {
  Ledger& ledger = memory_.chunks().ledger();
  for (Bay& bay : bays_) {
    if (bay.go) bay.go->open(bay.epoch);  // Leaves no stopped work behind.
  }
  bool ended = true;
  for (const BoundStream stream : {copy_stream_, settle_stream_}) {
    if (is_none(stream.handle)) continue;
    ended &= ledger.undo("a stream of live copies", [&] { driver_.wait_stream(stream, never); });
    ledger.undo("a stream of live copies", [&] { driver_.destroy_stream(stream); });
  }
  for (Bay& bay : bays_) {
    for (const ExecGraphHandle chain : {bay.copying, bay.settling, bay.settling_paranoid}) {
      if (is_none(chain)) continue;
      ledger.undo("a chain of live copies", [&] { driver_.destroy_exec_graph(chain); });
    }
    bay.go.reset();
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

std::array<ChainStep, 2> LiveCopier::copy_steps(const Bay& bay) const {
  ChainStep copy;
  copy.kernel = copy_kernel_;
  copy.shape = tile_shape(bay.tiling, tuning_.copy_blocks);
  copy.arguments = copy_digest_arguments(bay.target, bay.source, bay.digests, bay.tiling, bay.key);
  ChainStep done;
  done.words = {write_word(bay.copied, bay.epoch)};
  return {copy, done};
}

std::array<ChainStep, 3> LiveCopier::settle_steps(const Bay& bay, bool paranoid) const {
  const auto multiprocessors =
      static_cast<unsigned>(memory_.topology().info(device_).multiprocessors);
  ChainStep wait;
  wait.words = {bay.go->wait_for(bay.epoch)};
  ChainStep settle;
  settle.kernel = paranoid ? paranoid_kernel_ : settle_kernel_;
  settle.shape = tile_shape(bay.tiling, tuning_.settle_blocks_per_multiprocessor * multiprocessors);
  settle.arguments = settle_arguments(bay.target, bay.source, bay.digests, bay.counters,
                                      address_of(bay.dirty), bay.tiling, bay.key);
  ChainStep done;
  done.words = {write_word(bay.settled, bay.epoch)};
  return {wait, settle, done};
}

/// Work that was given up for taking too long may have ended since.
void LiveCopier::require_idle(Bay& bay) const {
  if (load(bay.copied) >= bay.epoch || load(bay.settled) >= bay.epoch) bay.busy = false;
  if (!bay.busy) return;
  throw Error(ErrorKind::driver_failure, "vma::migrate_async",
              fmt::format("work of an earlier live copy from gpu({}) has failed or does not end",
                          index(device_)));
}

void LiveCopier::start_copy(std::size_t bay_index, const Chunk& source, const Chunk& target) {
  Bay& bay = bays_[bay_index];
  require_idle(bay);
  bay.source = source.staging();
  bay.target = target.staging();
  bay.tiling = Tiling::of(source.size_bytes(), tile_bytes_);
  bay.key = DigestKey::random();
  bay.epoch = next_epoch();
  driver_.update_chain(bay.copying, copy_steps(bay));
  driver_.launch_graph(copy_stream_, bay.copying);
  bay.busy = true;
}

/// The word shows that the work has ended, the stream that it has failed.
bool LiveCopier::await(const std::uint64_t* word, Bay& bay, BoundStream stream,
                       TimePoint deadline) {
  constexpr std::chrono::microseconds look_period(200);
  Clock& clock = driver_.clock();
  const Measuring measuring(clock);
  const auto written = [&] { return load(word) >= bay.epoch; };
  while (!poll_until(clock, std::min(deadline, clock.now() + look_period), written)) {
    driver_.query_stream(stream);
    if (clock.now() >= deadline) {
      if (!written()) return false;  // It may have been written during the query of the stream.
      break;
    }
  }
  bay.busy = false;
  return true;
}

bool LiveCopier::copied_by(std::size_t bay, TimePoint deadline) {
  return await(bays_[bay].copied, bays_[bay], copy_stream_, deadline);
}

bool LiveCopier::under_way(std::size_t bay) {
  if (!bays_[bay].busy) return false;
  const TimePoint now = driver_.clock().now();
  return !copied_by(bay, now) && !settled_by(bay, now);
}

void LiveCopier::arm(std::size_t bay_index, bool paranoid) {
  Bay& bay = bays_[bay_index];
  require_idle(bay);
  bay.epoch = next_epoch();
  const ExecGraphHandle chain = paranoid ? bay.settling_paranoid : bay.settling;
  driver_.update_chain(chain, settle_steps(bay, paranoid));
  driver_.launch_graph(settle_stream_, chain);
  bay.busy = true;
}

void LiveCopier::go(std::size_t bay) noexcept {
  bays_[bay].go->open(bays_[bay].epoch);
}

bool LiveCopier::settled_by(std::size_t bay, TimePoint deadline) {
  return await(bays_[bay].settled, bays_[bay], settle_stream_, deadline);
}

std::uint64_t LiveCopier::dirty_tiles(std::size_t bay) const noexcept {
  return load(bays_[bay].dirty);
}

}  // namespace vma
