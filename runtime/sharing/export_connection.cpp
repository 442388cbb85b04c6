#include "sharing/export_connection.hpp"

#include "base/log.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

namespace vma {

namespace asio = boost::asio;

namespace {

constexpr std::chrono::milliseconds retry_pause(1);

/// Holds a mutex that was acquired by `try_lock`.
class TriedLock {
 public:
  explicit TriedLock(Mutex& mutex) : mutex_(mutex), held_(mutex.try_lock()) {}
  ~TriedLock() VMART_NO_THREAD_ANALYSIS {
    if (held_) mutex_.unlock();
  }
  TriedLock(const TriedLock&) = delete;
  TriedLock& operator=(const TriedLock&) = delete;
  explicit operator bool() const noexcept { return held_; }

 private:
  Mutex& mutex_;
  const bool held_;
};

}  // namespace

ExportConnection::ExportConnection(asio::io_context& context, const ExportParts& parts,
                                   ImportPlaces& places, std::shared_ptr<Allocation> allocation,
                                   ShareChannel channel)
    : memory_(parts.memory),
      names_(parts.names),
      places_(places),
      allocation_(std::move(allocation)),
      channel_(std::move(channel)),
      who_{channel_.peer().credentials().pid, channel_.peer().credentials().uid},
      messages_(context, channel_.native()),
      death_(context, channel_.peer().watch()),
      limit_(context),
      retry_(context),
      reach_(parts, allocation_, who_) {}

ExportConnection::~ExportConnection() {
  close();
}

void ExportConnection::close() noexcept {
  if (std::exchange(state_, State::closed) == State::closed) return;
  messages_.release();
  death_.release();
  try {
    limit_.cancel();
    retry_.cancel();
  } catch (const std::exception&) {  // Their handlers will find the connection closed.
  }
  channel_ = ShareChannel();
  if (move_) std::exchange(move_, nullptr)->gone(member_);
  if (std::exchange(placed_, false)) places_.give_back();
  if (importer_ == 0) return;
  allocation_->importers().remove(importer_);
  memory_.tell_changed(*allocation_);
}

void ExportConnection::refuse(ErrorKind kind, std::string_view text) noexcept {
  if (closed()) return;
  messages_.release();  // Before the channel closes the socket.
  channel_.refuse(kind, text);
  close();
}

/// No exception passes it: the process is told and disconnected.
template <typename Body>
void ExportConnection::at_wall(Body&& body) noexcept {
  if (closed()) return;
  try {
    body();
  } catch (const Error& error) {
    fail(error.kind(), error.what());
  } catch (const std::exception& error) {
    fail(ErrorKind::out_of_memory, error.what());
  }
}

/// What fails here during a move fails the move, and not the import.
void ExportConnection::fail(ErrorKind kind, const char* text) noexcept {
  if (!move_ || kind == ErrorKind::peer_failure) {
    log(LogLevel::debug, "an import by process {} ended: {}", who_.process, text);
    return refuse(kind, text);
  }
  move_->refused(member_, kind, text);
  try {
    if (!reading_) wait_to_read();
  } catch (const std::exception& error) {
    refuse(ErrorKind::out_of_memory, error.what());
  }
}

void ExportConnection::start(std::chrono::milliseconds limit) {
  // Its end may be past being watched.
  if (channel_.peer().ended()) return close();
  limit_.start(limit);
  at_wall([this] {
    wait_for_limit(1);
    // Forked children of a process that has ended may keep the connection open.
    death_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
      const auto self = weak.lock();
      if (!error && self) self->close();
    });
    wait_to_read();
  });
}

/// Instead of the limit before.
void ExportConnection::wait_for_limit(std::size_t slots) {
  limit_.async_wait(slots, [weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (error || !self || self->state_ == State::imported) return;
    // One that was replaced may have expired before.
    if (!self->limit_.passed()) return;
    self->refuse(ErrorKind::busy,
                 !self->reach_.under_way()
                     ? "the import took longer than ExportOptions::import_limit"
                     : "the memory is still on its way to where the importer can use it, after "
                       "ExportOptions::import_limit; import it again");
  });
}

void ExportConnection::wait_to_read() {
  messages_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    self->reading_ = false;
    if (!error) self->at_wall([&] { self->read(); });
  });
  reading_ = true;
}

/// One message, so that connections take turns.
void ExportConnection::read() {
  if (const std::optional<ShareMessage> message = channel_.try_receive()) return handle(*message);
  wait_to_read();
}

void ExportConnection::handle(const ShareMessage& message) {
  if (move_) return handle_of_move(message);
  if (message.kind == ShareKind::hello && state_ == State::greeting) {
    if (!message.gpus.empty()) who_.gpus = names_.find_gpus(message.gpus);
    return until_done([this] { return admit(); });
  }
  if (message.kind == ShareKind::ask && state_ == State::offered) {
    return until_done([this, first = message.first] { return export_chunks(first); });
  }
  if (message.kind == ShareKind::ready && state_ == State::offered) {
    // The limit has not ended the connection, and from here on does not. Only this answer says so.
    state_ = State::imported;
    limit_.cancel();
    send({.kind = ShareKind::done});
    return wait_to_read();
  }
  throw Error(ErrorKind::peer_failure, export_call, "the importer sent a message out of turn");
}

/// After a move was called off, the process may answer what it was asked before it knew.
void ExportConnection::handle_of_move(const ShareMessage& message) {
  using Stage = ExporterMoveState::Stage;
  const bool stale = move_->withdrawn();
  switch (message.kind) {
    case ShareKind::ended:
      std::exchange(move_, nullptr)->ended(member_, message.stall);
      return wait_to_read();
    case ShareKind::refusal:
      move_->refused(member_, message.error, message.text);
      return wait_to_read();
    case ShareKind::ask:
      return until_done([this, first = message.first] { return export_targets(first); });
    case ShareKind::ready:
      if (stale || move_->reached(member_, Stage::ready)) return wait_to_read();
      break;
    case ShareKind::stopped:
      if (stale || move_->reached(member_, Stage::stopped)) return wait_to_read();
      break;
    default: break;
  }
  throw Error(ErrorKind::peer_failure, export_call, "the importer sent a message out of turn");
}

/// Retries until `attempt` returns true or the limit ends the connection. Then reads on.
void ExportConnection::until_done(std::function<bool()> attempt) {
  if (attempt()) return wait_to_read();
  retry_.expires_after(retry_pause);
  retry_.async_wait([self = shared_from_this(),
                     attempt = std::move(attempt)](const boost::system::error_code& error) mutable {
    if (!error) self->at_wall([&] { self->until_done(std::move(attempt)); });
  });
}

/// False while there is none.
bool ExportConnection::take_place() {
  if (!placed_ && !places_.take()) {
    // A process that has just freed it may not be seen to have done so.
    if (!limit_.half_passed()) return false;
    throw Error(ErrorKind::busy, export_call,
                fmt::format("{} processes have imported it, as many as "
                            "ExportOptions::importers_max",
                            places_.most()));
  }
  placed_ = true;
  return true;
}

/// From here on the allocation moves only as its importers allow. False while a chunk of it is
/// being switched, or lies where this importer cannot map it.
bool ExportConnection::admit() {
  if (!take_place() || !reach_.ended()) return false;
  std::vector<SlotRange> beyond;
  {
    const TriedLock operations(allocation_->operations());
    if (!operations) return false;
    check_exportable();
    if (importer_ == 0) importer_ = allocation_->importers().add(who_);
    beyond = reach_.beyond();
    if (beyond.empty()) allocation_->share();
  }
  memory_.tell_changed(*allocation_);
  if (!beyond.empty()) {
    reach_.bring(beyond, limit_.half_passed());
    return false;
  }
  memory_.chunks().drop_copies(*allocation_);
  ShareMessage offer{.kind = ShareKind::offer};
  offer.geometry = allocation_->geometry();
  offer.tag = allocation_->tag;
  send(offer);
  state_ = State::offered;
  wait_for_limit(offer.geometry.slots);
  return true;
}

void ExportConnection::check_exportable() const {
  const auto refuse_with = [this](ErrorKind kind, const std::string& why) {
    throw Error(kind, export_call,
                fmt::format("the allocation at {:#x} {}", to_integer(allocation_->begin()), why));
  };
  if (allocation_->being_freed) refuse_with(ErrorKind::unknown_pointer, "is being freed");
  if (allocation_->poisoned()) refuse_with(ErrorKind::poisoned, "has lost a chunk");
  if (allocation_->any_dropped(0, allocation_->geometry().slots)) {
    refuse_with(ErrorKind::dropped, "has no contents while it is parked");
  }
  memory_.chunks().export_terms().require_descriptors(*allocation_, export_call);
}

/// False while a hold or another slow call has the driver.
bool ExportConnection::export_chunks(std::uint64_t first) {
  const std::uint64_t slots = allocation_->geometry().slots;
  return send_chunks(first, slots, [this](std::uint64_t slot) {
    const Chunk& chunk = allocation_->chunk(slot);  // It stays: this process has not imported yet.
    return ExporterChunk{slot, chunk.handle(), chunk.at(), chunk.size_bytes()};
  });
}

/// As above. Nothing is left to answer once the move was called off.
bool ExportConnection::export_targets(std::uint64_t first) {
  if (!move_) return true;
  return move_->with_chunks([&](std::span<const ExporterChunk> chunks) {
    return send_chunks(first, chunks.size(), [&](std::uint64_t at) { return chunks[at]; });
  });
}

bool ExportConnection::send_chunks(std::uint64_t first, std::uint64_t count,
                                   const std::function<ExporterChunk(std::uint64_t)>& chunk_at) {
  if (first >= count) {
    throw Error(ErrorKind::peer_failure, export_call,
                fmt::format("the importer asks for chunk {} of {}", first, count));
  }
  ShareMessage message{.kind = ShareKind::chunks, .first = first};
  message.descriptors.reserve(chunks_in_message_max);  // So that none is lost.
  {
    const TriedLock turn(memory_.chunks().slow_calls().turn());
    if (!turn) return false;
    const std::uint64_t end = std::min<std::uint64_t>(count, first + chunks_in_message_max);
    for (std::uint64_t at = first; at < end; ++at) {
      const ExporterChunk chunk = chunk_at(at);
      message.descriptors.emplace_back(memory_.driver().export_chunk(chunk.handle));
      message.chunks.push_back({names_.name(chunk.at), chunk.size_bytes, chunk.slot});
    }
  }
  send(message);
  return true;
}

std::string ExportConnection::why_not_moving() const {
  if (closed() || state_ == State::greeting) return {};  // It has no chunk yet.
  if (state_ != State::imported) {
    return fmt::format("process {} has begun to import the memory, and not ended it", who_.process);
  }
  if (!move_) return {};
  return fmt::format(
      "process {}, which has imported the memory, has not answered a move before; "
      "it may be stopped. It moves once that process goes on, or the "
      "ExportedAllocation is closed",
      who_.process);
}

/// Each announcement that is sent has an end, and nothing else has.
void ExportConnection::join(std::shared_ptr<ExporterMoveState> move) noexcept {
  std::optional<std::size_t> member;
  bool gone = false;
  try {
    const ShareMessage announcement = move->announcement();
    member = move->add(who_);
    send(announcement);
    member_ = *member;
    move_ = std::move(move);
    return;
  } catch (const Error& error) {
    gone = error.kind() == ErrorKind::peer_failure;
    if (gone) refuse(error.kind(), error.what());
  } catch (const std::exception&) {  // There is no memory to tell it.
  }
  if (member) move->gone(*member);
  if (!gone) move->call_off();  // Without the process, nobody moves.
}

void ExportConnection::ask_to_stop() noexcept {
  if (move_) at_wall([this] { send({.kind = ShareKind::stop}); });
}

/// There is one answer for each question, so only a process that does not read has no room for it.
void ExportConnection::send(const ShareMessage& message) {
  if (channel_.try_send(message)) return;
  throw Error(ErrorKind::peer_failure, export_call, "the importer does not read the answers");
}

}  // namespace vma
