#include "sharing/memory_import.hpp"

#include "control/control_socket.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace vma {
namespace {

Error unexpected(const char* what) {
  return Error(ErrorKind::peer_failure, import_call, fmt::format("the exporter sent {}", what));
}

}  // namespace

MemoryImport::MemoryImport(Memory& memory, const PlaceNames& places)
    : memory_(memory), places_(places) {}

std::shared_ptr<Allocation> MemoryImport::run(const ImportRequest& request) {
  const SteadyClock clock;
  deadline_ = later(clock.now(), request.limit);
  channel_ = std::make_shared<ShareChannel>(ShareChannel::connect(request.path, deadline_));
  const std::string exporter = check_exporter(request);
  channel_->send({.kind = ShareKind::hello}, deadline_);
  const ShareMessage offer = answer(ShareKind::offer);
  check_offer(offer);
  std::vector<Chunk> chunks;
  try {
    chunks.reserve(offer.geometry.slots);
    while (chunks.size() < offer.geometry.slots) take_chunks(offer.geometry, chunks);
    channel_->send({.kind = ShareKind::ready}, deadline_);
  } catch (...) {
    const MutexLock turn(memory_.chunks().slow_calls().turn());
    chunks.clear();
    throw;
  }
  return memory_.import(offer.geometry, std::move(chunks),
                        {request.tag.empty() ? offer.tag : request.tag, exporter, channel_});
}

/// The kernel reports the process and user that made the socket. Memory of another user could be
/// read and changed by that user.
std::string MemoryImport::check_exporter(const ImportRequest& request) const {
  const std::optional<ucred> exporter = peer_of(channel_->native());
  if (!exporter) throw unexpected("no credentials");
  if (!may_control(*exporter, geteuid()) && !std::ranges::count(request.users, exporter->uid)) {
    throw Error(ErrorKind::not_permitted, import_call,
                fmt::format("the memory at {} belongs to user {}; name that user in "
                            "ImportOptions::users to trust it",
                            request.path, exporter->uid));
  }
  return fmt::format("process {}", exporter->pid);
}

ShareMessage MemoryImport::answer(ShareKind expected) {
  ShareMessage message = channel_->receive(deadline_);
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
  channel_->send({.kind = ShareKind::ask, .first = chunks.size()}, deadline_);
  const ShareMessage answered = answer(ShareKind::chunks);
  if (answered.first != chunks.size() || answered.chunks.size() > geometry.slots - chunks.size()) {
    throw unexpected("other chunks than asked for");
  }
  for (std::size_t i = 0; i < answered.chunks.size(); ++i) {
    if (answered.chunks[i].size_bytes != geometry.slot_bytes(chunks.size())) {
      throw unexpected("a chunk of another size than offered");
    }
    chunks.push_back(take_chunk(answered.chunks[i], answered.descriptors[i].get()));
  }
}

Chunk MemoryImport::take_chunk(const SharedChunk& shared, int descriptor) {
  const std::optional<Location> at = places_.find(shared.at);
  if (!at) {
    throw Error(ErrorKind::unreachable, import_call,
                fmt::format("the memory lies at {}, which this process does not use; check "
                            "CUDA_VISIBLE_DEVICES and VMART_DEVICES",
                            shared.at.gpu.empty() ? fmt::format("host node {}", shared.at.node)
                                                  : "GPU " + shared.at.gpu));
  }
  Driver& driver = memory_.driver();
  const MutexLock turn(memory_.chunks().slow_calls().turn());
  const ChunkHandle handle = driver.import_chunk(descriptor);
  return Chunk(driver, memory_.chunks().ledger(),
               ChunkMemory{handle, *at, shared.size_bytes, {}, true},
               memory_.topology().readers(*at));
}

}  // namespace vma
