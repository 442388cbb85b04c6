#include "sharing/export_connection.hpp"

#include "base/log.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
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

ExportConnection::ExportConnection(asio::io_context& context, Memory& memory,
                                   const PlaceNames& places, std::shared_ptr<Allocation> allocation,
                                   Descriptor socket, const ImportingProcess& who)
    : memory_(memory),
      places_(places),
      allocation_(std::move(allocation)),
      who_(who),
      channel_(std::move(socket)),
      watched_(context, channel_.native()),
      limit_(context),
      retry_(context) {}

ExportConnection::~ExportConnection() {
  close();
}

void ExportConnection::close() noexcept {
  if (std::exchange(closed_, true)) return;
  try {
    limit_.cancel();
    retry_.cancel();
    watched_.release();  // Ends the wait; the channel closes the socket.
  } catch (...) {        // Their handlers will find the connection closed.
  }
  channel_ = ShareChannel(Descriptor());
  if (importer_ == 0) return;
  allocation_->importers().remove(importer_);
  memory_.tell_changed(*allocation_);
}

void ExportConnection::refuse(ErrorKind kind, const std::string& text) noexcept {
  if (closed_) return;
  try {
    ShareMessage refusal{.kind = ShareKind::refusal};
    refusal.error = kind;
    refusal.text = text;
    channel_.try_send(refusal);      // What was sent arrives although the socket is closed.
  } catch (const std::exception&) {  // It is gone, too.
  }
  close();
}

/// No exception passes it: the process is told and disconnected.
template <typename Body>
void ExportConnection::at_wall(Body&& body) noexcept {
  if (closed_) return;
  try {
    body();
  } catch (const Error& error) {
    log(LogLevel::debug, "an import by process {} ended: {}", who_.process, error.what());
    refuse(error.kind(), error.what());
  } catch (const std::exception& error) {
    refuse(ErrorKind::out_of_memory, error.what());
  }
}

void ExportConnection::start(std::chrono::milliseconds limit, std::optional<Error> verdict) {
  verdict_ = std::move(verdict);
  limit_.expires_after(limit);
  limit_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (error || !self || self->state_ == State::imported) return;
    self->refuse(ErrorKind::busy, "the import took longer than ExportOptions::import_limit");
  });
  at_wall([this] { wait_to_read(); });
}

void ExportConnection::wait_to_read() {
  watched_.async_wait(asio::posix::stream_descriptor::wait_read,
                      [self = shared_from_this()](const boost::system::error_code& error) {
                        if (!error) self->at_wall([&] { self->read(); });
                      });
}

/// One message, so that connections take turns.
void ExportConnection::read() {
  if (const std::optional<ShareMessage> message = channel_.try_receive()) return handle(*message);
  wait_to_read();
}

void ExportConnection::handle(const ShareMessage& message) {
  if (verdict_) throw Error(*verdict_);
  if (message.kind == ShareKind::hello && state_ == State::greeting) {
    return until_done([this] { return admit(); });
  }
  if (message.kind == ShareKind::ask && state_ == State::offered) {
    return until_done([this, first = message.first] { return export_chunks(first); });
  }
  if (message.kind == ShareKind::ready && state_ == State::offered) {
    state_ = State::imported;
    limit_.cancel();
    return wait_to_read();
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

/// From here on the allocation stays where it is. False while a chunk of it is being switched.
bool ExportConnection::admit() {
  {
    const TriedLock operations(allocation_->operations());
    if (!operations) return false;
    check_exportable();
    importer_ = allocation_->importers().add(who_);
    allocation_->share();
  }
  memory_.chunks().drop_copies(*allocation_);
  memory_.tell_changed(*allocation_);
  ShareMessage offer{.kind = ShareKind::offer};
  offer.geometry = allocation_->geometry();
  offer.tag = allocation_->tag;
  send(offer);
  state_ = State::offered;
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
  if (first >= slots) {
    throw Error(ErrorKind::peer_failure, export_call,
                fmt::format("the importer asks for chunk {} of {}", first, slots));
  }
  ShareMessage message{.kind = ShareKind::chunks, .first = first};
  {
    const TriedLock turn(memory_.chunks().slow_calls().turn());
    if (!turn) return false;
    const std::uint64_t end = std::min<std::uint64_t>(slots, first + chunks_in_message_max);
    for (std::uint64_t slot = first; slot < end; ++slot) {
      const Chunk& chunk = allocation_->chunk(slot);  // It stays: this process is in the list.
      message.descriptors.emplace_back(memory_.driver().export_chunk(chunk.handle()));
      message.chunks.push_back({places_.name(chunk.at()), chunk.size_bytes()});
    }
  }
  send(message);
  return true;
}

/// There is one answer for each question, so only a process that does not read has no room for it.
void ExportConnection::send(const ShareMessage& message) {
  if (channel_.try_send(message)) return;
  throw Error(ErrorKind::peer_failure, export_call, "the importer does not read the answers");
}

}  // namespace vma
