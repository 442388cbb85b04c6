#include "sharing/import_follower.hpp"

#include "base/log.hpp"
#include "base/process_exit.hpp"
#include "sharing/followed_move.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace vma {

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

ImportFollower::ImportFollower(Memory& memory, Mover& mover, const PlaceNames& places,
                               const ShareStop& stop)
    : memory_(memory),
      mover_(mover),
      chunks_(memory, places),
      stop_(stop),
      imports_(std::make_shared<FollowedImports>()),
      task_(threads_.spawn("vmart follow", [this] { run(); })) {
  FollowedMove::no_memory();
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
  FollowedMove(memory_, mover_, chunks_, stop_, *entry.channel, allocation, std::move(*message),
               [&entry] { return entry.left.load(); })
      .run();
}

}  // namespace vma
