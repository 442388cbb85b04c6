#include "sharing/memory_import.hpp"

#include "control/control_socket.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace vma {
namespace {

Error unexpected(const char* what) {
  return Error(ErrorKind::peer_failure, import_call, fmt::format("the exporter sent {}", what));
}

}  // namespace

MemoryImport::MemoryImport(Memory& memory, const PlaceNames& places, const ShareStop& stop,
                           ImportFollower& follower)
    : memory_(memory), places_(places), chunks_(memory, places), stop_(stop), follower_(follower) {}

std::shared_ptr<Allocation> MemoryImport::run(const ImportRequest& request) {
  const SteadyClock clock;
  const TimePoint start = clock.now();
  deadline_ = later(start, import_time(request.limit, 1));
  channel_ = std::make_shared<ShareChannel>(ShareChannel::connect(request.path, deadline_, &stop_));
  const std::shared_ptr<FollowedImport> followed = follower_.add(channel_);
  ImportTerms terms{request.tag, check_exporter(request), followed};
  const ShareMessage offer =
      ask({.kind = ShareKind::hello, .gpus = places_.gpus()}, ShareKind::offer);
  check_offer(offer);
  if (terms.tag.empty()) terms.tag = offer.tag;
  deadline_ = later(start, import_time(request.limit, offer.geometry.slots));
  std::vector<Chunk> chunks;
  try {
    chunks.reserve(offer.geometry.slots);
    while (chunks.size() < offer.geometry.slots) take_chunks(offer.geometry, chunks);
    // The exporter may have given up, and moved the memory, while this process was about to be
    // ready.
    ask({.kind = ShareKind::ready}, ShareKind::done);
  } catch (...) {
    const MutexLock turn(memory_.chunks().slow_calls().turn());
    chunks.clear();
    throw;
  }
  std::shared_ptr<Allocation> allocation = memory_.import(offer.geometry, std::move(chunks), terms);
  followed->begin(allocation);
  return allocation;
}

/// The kernel reports the process and user that made the socket. Memory of another user could be
/// read and changed by that user.
std::string MemoryImport::check_exporter(const ImportRequest& request) const {
  const ucred& exporter = channel_->peer().credentials();
  if (!may_control(exporter, geteuid()) && !std::ranges::count(request.users, exporter.uid)) {
    throw Error(ErrorKind::not_permitted, import_call,
                fmt::format("the memory at {} belongs to user {}; name that user in "
                            "ImportOptions::users to trust it",
                            request.path, exporter.uid));
  }
  return fmt::format("process {}", exporter.pid);
}

ShareMessage MemoryImport::ask(const ShareMessage& question, ShareKind expected) {
  stop_.check();  // An exporter that is fast leaves nothing to wait for.
  try {
    channel_->send(question, deadline_);
  } catch (const Error& error) {
    // The exporter has hung up. It may have said why, which is there to be received.
    if (error.kind() != ErrorKind::peer_failure) throw;
  }
  ShareMessage message =
      channel_->receive(deadline_, expected == ShareKind::chunks ? ShareChannel::Takes::descriptors
                                                                 : ShareChannel::Takes::bytes);
  if (message.kind == ShareKind::refusal) {
    throw Error(message.error, import_call, "the exporter refused: " + message.text);
  }
  if (message.kind != expected) throw unexpected("another message than asked for");
  return message;
}

void MemoryImport::check_offer(const ShareMessage& offer) const {
  const std::uint64_t granule = memory_.topology().granularity();
  if (offer.geometry.chunk_bytes % granule != 0 || offer.geometry.tail_bytes % granule != 0) {
    throw Error(ErrorKind::unsupported, import_call,
                fmt::format("the exporter's chunks have {} bytes, which is no multiple of the {} "
                            "of this machine",
                            offer.geometry.chunk_bytes, granule));
  }
}

void MemoryImport::take_chunks(const Geometry& geometry, std::vector<Chunk>& chunks) {
  const ShareMessage answered =
      ask({.kind = ShareKind::ask, .first = chunks.size()}, ShareKind::chunks);
  if (answered.first != chunks.size() || answered.chunks.size() > geometry.slots - chunks.size()) {
    throw unexpected("other chunks than asked for");
  }
  for (std::size_t i = 0; i < answered.chunks.size(); ++i) {
    if (answered.chunks[i].size_bytes != geometry.slot_bytes(chunks.size())) {
      throw unexpected("a chunk of another size than offered");
    }
    chunks.push_back(chunks_.take(answered.chunks[i], answered.descriptors[i].get()));
  }
}

}  // namespace vma
