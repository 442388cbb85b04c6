#include "sharing/import_follower.hpp"

#include "base/log.hpp"
#include "base/process_exit.hpp"
#include "migrate/stops/copy_scopes.hpp"

#include <fmt/format.h>

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <exception>
#include <new>
#include <optional>
#include <utility>

namespace vma {
namespace {

using Value = SharedDecision::Value;

/// How often a thread that waits looks whether it is still wanted.
constexpr std::chrono::milliseconds follow_look_period(5);

Descriptor only_descriptor(ShareMessage& message) {
  return std::move(message.descriptors.front());
}

}  // namespace

Chunk ImportedChunks::take(const SharedChunk& shared, int descriptor) const {
  const std::optional<Place> at = places_.find(shared.at);
  if (!at) {
    throw Error(ErrorKind::unreachable, import_call,
                fmt::format("the memory lies at {}, which this process does not use; check "
                            "CUDA_VISIBLE_DEVICES and VMART_DEVICES",
                            shared.at.gpu.empty() ? fmt::format("host node {}", shared.at.node)
                                                  : "GPU " + shared.at.gpu));
  }
  Driver& driver = memory_.driver();
  const std::vector<Accessor>& readers = memory_.topology().readers(*at);
  const MutexLock turn(memory_.chunks().slow_calls().turn());
  const ChunkHandle handle = driver.import_chunk(descriptor);
  return Chunk(driver, memory_.chunks().ledger(),
               ChunkMemory{handle, *at, shared.size_bytes, {}, true}, readers);
}

FollowedImporterMove::FollowedImporterMove(Memory& memory, Migrator& migrator,
                                           const ImportedChunks& chunks, const ShareStop& stop,
                                           ShareChannel& channel,
                                           std::shared_ptr<Allocation> allocation,
                                           ShareMessage announcement, std::function<bool()> left)
    : memory_(memory),
      migrator_(migrator),
      imported_(chunks),
      stop_(stop),
      channel_(channel),
      allocation_(std::move(allocation)),
      offer_(std::move(announcement)),
      left_(std::move(left)),
      decision_(only_descriptor(offer_)) {
  // All importers answer twice before the decision; the slowest one decides how late it is.
  const std::chrono::milliseconds answers = 2 * import_time(offer_.limit, offer_.first);
  deadline_ = later(later(clock_.now(), answers), offer_.decision_limit);
}

void FollowedImporterMove::run() {
  std::optional<Error> why = attempt();
  {
    const MutexLock turn(memory_.chunks().slow_calls().turn());
    chunks_.clear();
  }
  if (why && leaves()) return;
  const TimePoint soon = later(clock_.now(), offer_.limit);
  // What the exporter knows already needs no words.
  if (why && decision_.value() == Value::open) refuse(*why, soon);
  decision_.decide(Value::stay);
  tell_end(soon);
}

/// Whatever happens: the exporter begins no other move before.
void FollowedImporterMove::tell_end(TimePoint deadline) {
  Poll poll;
  while (true) {
    try {
      return channel_.send({.kind = ShareKind::ended, .stall = stall_}, deadline);
    } catch (const std::bad_alloc&) {
      if (clock_.now() >= deadline) throw;
      poll.pause();
    }
  }
}

/// If the reason gets lost, the end that follows says enough.
void FollowedImporterMove::refuse(const Error& why, TimePoint deadline) noexcept {
  try {
    log(LogLevel::info, "cannot follow a move of imported memory: {}", why.what());
    ShareMessage refusal{.kind = ShareKind::refusal};
    refusal.error = why.kind();
    refusal.text = why.what();
    channel_.send(refusal, deadline);
  } catch (const std::exception&) {
  }
}

const Error& FollowedImporterMove::no_memory() {
  static const Error error(ErrorKind::out_of_memory, import_call, "out of host memory");
  return error;
}

/// What it failed with.
std::optional<Error> FollowedImporterMove::attempt() noexcept {
  try {
    CopyScopes::process().look();
    const MoveClaim claim = take_claim();
    take_chunks();
    MigrateOptions options;
    options.deadline = offer_.limit * 3 / 4;  // So that the exporter hears why before its limit.
    stall_ = migrator_.follow(*allocation_, chunks_, options, *this).stall.max;
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  } catch (const std::exception&) {
    return no_memory();
  }
}

MoveClaim FollowedImporterMove::take_claim() {
  Poll poll;
  while (true) {
    require_open();
    if (MoveClaim claim = MoveClaim::try_take(allocation_)) return claim;
    poll.pause();
  }
}

void FollowedImporterMove::take_chunks() {
  const Geometry& geometry = allocation_->geometry();
  chunks_.reserve(offer_.first);
  while (chunks_.size() < offer_.first) {
    channel_.send({.kind = ShareKind::ask, .first = chunks_.size()}, deadline_);
    const ShareMessage answered = await(ShareKind::chunks);
    if (answered.first != chunks_.size() ||
        answered.chunks.size() > offer_.first - chunks_.size()) {
      throw Error(ErrorKind::peer_failure, import_call, "the exporter sent other chunks");
    }
    for (std::size_t i = 0; i < answered.chunks.size(); ++i) {
      const SharedChunk& shared = answered.chunks[i];
      const bool in_order = chunks_.empty() || chunks_.back().slot < shared.slot;
      if (shared.slot >= geometry.slots || !in_order ||
          shared.size_bytes != geometry.slot_bytes(shared.slot)) {
        throw Error(ErrorKind::peer_failure, import_call, "the exporter sent a wrong chunk");
      }
      Chunk chunk = imported_.take(shared, answered.descriptors[i].get());
      chunks_.push_back({shared.slot, std::move(chunk)});
    }
  }
}

void FollowedImporterMove::ready() {
  channel_.send({.kind = ShareKind::ready}, deadline_);
  await(ShareKind::stop);
}

/// From its answer on, work that ran here could lose its writes, unless the move is decided.
bool FollowedImporterMove::stopped() noexcept {
  try {
    channel_.send({.kind = ShareKind::stopped}, deadline_);
  } catch (const std::exception&) {
    return decision_.decide(Value::stay) == Value::move;
  }
  const TimePoint decided_by = later(clock_.now(), offer_.decision_limit);
  while (true) {
    const Value value = decision_.await(follow_look_period);
    if (value != Value::open) return value == Value::move;
    if (clock_.now() >= decided_by || must_end() || channel_.hung_up()) {
      return decision_.decide(Value::stay) == Value::move;
    }
  }
}

bool FollowedImporterMove::must_end() const noexcept {
  return ProcessExit::begun() || stop_.raised();
}

ShareMessage FollowedImporterMove::await(ShareKind expected) {
  while (true) {
    require_open();
    const TimePoint look = later(clock_.now(), follow_look_period);
    std::optional<ShareMessage> message =
        channel_.try_receive_by(std::min(look, deadline_), ShareChannel::Takes::descriptors);
    if (!message) continue;
    if (message->kind == expected) return std::move(*message);
    throw Error(ErrorKind::peer_failure, import_call, "the exporter sent another message");
  }
}

void FollowedImporterMove::require_open() const {
  if (decision_.value() != Value::open) {
    throw Error(ErrorKind::cancelled, import_call, "the move was called off");
  }
  if (allocation_->being_freed) {
    throw Error(ErrorKind::cancelled, import_call, "this process frees the memory");
  }
  if (clock_.now() >= deadline_) {
    throw Error(ErrorKind::busy, import_call, "the exporter did not go on in time");
  }
  if (must_end()) throw Error(ErrorKind::driver_gone, import_call, "the process ends");
}

/// Whether this process gives the memory back, and has done so by the deadline: the end of the
/// connection will say so, once no work uses the memory any more. A move need not fail for that.
bool FollowedImporterMove::leaves() {
  Poll poll;
  while (decision_.value() == Value::open) {
    if (must_end() || left_()) return true;  // Nobody waits for this thread any longer than needed.
    if (!allocation_->being_freed || clock_.now() >= deadline_) return false;
    poll.pause();
  }
  return left_();
}

FollowedImports::FollowedImports() : woken_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!woken_) throw Error(ErrorKind::out_of_memory, import_call, "eventfd: no descriptors left");
}

void FollowedImports::add(std::shared_ptr<Entry> entry) {
  const MutexLock lock(mutex_);
  entries_.push_back(std::move(entry));
}

void FollowedImports::remove(const std::shared_ptr<Entry>& entry) noexcept {
  {
    const MutexLock lock(mutex_);
    std::erase(entries_, entry);
  }
  entry->left = true;
  wake();
}

FollowedImports::Entries FollowedImports::all() const {
  const MutexLock lock(mutex_);
  return entries_;
}

void FollowedImports::wake() noexcept {
  eventfd_write(woken_.get(), 1);
}

void FollowedImports::slept() noexcept {
  eventfd_t count = 0;
  eventfd_read(woken_.get(), &count);
}

FollowedImport::FollowedImport(std::shared_ptr<FollowedImports> imports,
                               std::shared_ptr<ShareChannel> channel)
    : imports_(std::move(imports)),
      entry_(std::make_shared<FollowedImports::Entry>(std::move(channel))) {
  imports_->add(entry_);
}

FollowedImport::~FollowedImport() {
  imports_->remove(entry_);
}

void FollowedImport::begin(const std::shared_ptr<Allocation>& allocation) noexcept {
  entry_->allocation = allocation;
  entry_->begun = true;
  imports_->wake();
}

ImportFollower::ImportFollower(Memory& memory, Migrator& migrator, const PlaceNames& places,
                               const ShareStop& stop)
    : memory_(memory),
      migrator_(migrator),
      chunks_(memory, places),
      stop_(stop),
      imports_(std::make_shared<FollowedImports>()),
      task_(threads_.spawn("vmart follow", [this] { run(); })) {
  FollowedImporterMove::no_memory();
}

ImportFollower::~ImportFollower() {
  ending_ = true;
  imports_->wake();
  task_->join();
}

std::shared_ptr<FollowedImport> ImportFollower::add(std::shared_ptr<ShareChannel> channel) {
  return std::make_shared<FollowedImport>(imports_, std::move(channel));
}

void ImportFollower::run() noexcept {
  while (!ending_) {
    try {
      look();
    } catch (const std::exception& error) {
      log(LogLevel::error, "imported memory is followed after an error: {}", error.what());
      Poll().pause();
    }
    ProcessExit::hold_back();
  }
}

/// Keeps the channels open that it waits for.
void ImportFollower::look() {
  FollowedImports::Entries entries = imports_->all();
  std::erase_if(entries, [](const auto& entry) { return !entry->begun || entry->ended; });
  std::vector<pollfd> waited{{imports_->native(), POLLIN, 0}};
  for (const auto& entry : entries) waited.push_back({entry->channel->native(), POLLIN, 0});
  if (::poll(waited.data(), waited.size(), -1) < 0) return;  // Interrupted.
  if (waited[0].revents != 0) imports_->slept();
  for (std::size_t i = 0; i < entries.size() && !ending_; ++i) {
    if (waited[i + 1].revents != 0 && !entries[i]->left) serve(*entries[i]);
  }
}

/// A connection that is of no more use has ended: the memory stays as it is. Without host memory,
/// a message is not received, and is there the next time; without descriptors left, it is lost.
void ImportFollower::serve(FollowedImports::Entry& entry) {
  try {
    try {
      follow(entry);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory) throw;
      ShareMessage refusal{.kind = ShareKind::refusal};
      refusal.error = error.kind();
      refusal.text = error.what();
      entry.channel->try_send(refusal);
      entry.channel->try_send({.kind = ShareKind::ended});
    }
  } catch (const Error& error) {
    log(LogLevel::debug, "imported memory follows its exporter no longer: {}", error.what());
    entry.ended = true;
  }
}

void ImportFollower::follow(FollowedImports::Entry& entry) {
  std::optional<ShareMessage> message =
      entry.channel->try_receive(ShareChannel::Takes::descriptors);
  if (!message) return;
  // The exporter may ask to stop for a move that it had not heard the end of.
  if (message->kind == ShareKind::stop || message->kind == ShareKind::chunks) return;
  if (message->kind != ShareKind::move) {
    throw Error(ErrorKind::peer_failure, import_call, "the exporter sent another message");
  }
  const std::shared_ptr<Allocation> allocation = entry.allocation.lock();
  if (!allocation) return;  // The connection is about to end.
  FollowedImporterMove(memory_, migrator_, chunks_, stop_, *entry.channel, allocation,
                       std::move(*message), [&entry] { return entry.left.load(); })
      .run();
}

}  // namespace vma
