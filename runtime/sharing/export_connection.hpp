#pragma once

#include "memory/memory.hpp"
#include "sharing/exporter_move_state.hpp"
#include "sharing/importer_reach.hpp"
#include "sharing/share_protocol.hpp"
#include "sharing/share_channel.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace vma {

/// Waits on a descriptor that it does not own; never closes it. One thread.
class DescriptorWatch {
 public:
  /// -1: waits for nothing. Throws: boost::system::system_error.
  DescriptorWatch(boost::asio::io_context& context, int descriptor) : watched_(context) {
    if (descriptor >= 0) watched_.assign(descriptor);
  }
  ~DescriptorWatch() { release(); }
  DescriptorWatch(const DescriptorWatch&) = delete;
  DescriptorWatch& operator=(const DescriptorWatch&) = delete;

  /// Calls `handler(error)` once it is readable, or with an error once released.
  template <typename Handler>
  void async_wait(Handler&& handler) {
    using boost::asio::posix::descriptor_base;
    if (watched_.is_open())
      watched_.async_wait(descriptor_base::wait_read, std::forward<Handler>(handler));
  }
  void release() noexcept {
    try {
      if (watched_.is_open()) watched_.release();
    } catch (const std::exception&) {  // It is released all the same.
    }
  }

 private:
  boost::asio::posix::stream_descriptor watched_;
};

/// The time that one import may take. One thread.
class ImportLimit {
 public:
  explicit ImportLimit(boost::asio::io_context& context) : timer_(context) {}

  /// Counts from now.
  void start(std::chrono::milliseconds limit) noexcept {
    started_ = std::chrono::steady_clock::now();
    limit_ = limit;
  }
  /// Calls `handler(error)` once so many slots should be imported, or with an error if cancelled or
  /// replaced by another wait.
  template <typename Handler>
  void async_wait(std::size_t slots, Handler&& handler) {
    timer_.expires_at(started_ + import_time(limit_, slots));
    timer_.async_wait(std::forward<Handler>(handler));
  }
  bool passed() const { return std::chrono::steady_clock::now() >= timer_.expiry(); }
  /// Whoever waits for something answers then, before the importer gives up: it may have the same
  /// limit.
  bool half_passed() const {
    return std::chrono::steady_clock::now() - started_ >= import_time(limit_, 1) / 2;
  }
  void cancel() { timer_.cancel(); }

 private:
  boost::asio::steady_timer timer_;
  std::chrono::steady_clock::time_point started_{};
  std::chrono::milliseconds limit_{0};
};

/// How many processes may have one export imported. One thread.
class ImportPlaces {
 public:
  explicit ImportPlaces(std::size_t most) : most_(most) {}
  std::size_t most() const noexcept { return most_; }
  bool take() noexcept { return taken_ < most_ && ++taken_ > 0; }
  void give_back() noexcept { --taken_; }

 private:
  const std::size_t most_;
  std::size_t taken_ = 0;
};

/// One process that imports an allocation: answers its questions, then stands for its import until
/// it ends. From its first question until the end, it has a place, and the process is in the
/// allocation's `ImporterList`: so the runtime moves the memory no more by itself. What lies on a
/// GPU that the process does not use is moved away from there before the first answer. The end is
/// that of the connection or of the process, whichever is seen first. Passes on what an
/// `ExporterMoveState` and the process have to tell each other.
///
/// Runs on the thread of its context. What would have to wait, for a move or for the turn for slow
/// calls, is retried instead. Exceptions end at its handlers: the process is told, and the
/// connection ends, or the move in which it takes part fails.
/// One owner: one process, and what it has of the allocation; when it ends, all of that does.
class ExportConnection : public std::enable_shared_from_this<ExportConnection> {
 public:
  /// Requires: the parts outlive it, and `places` does until it is closed.
  ExportConnection(boost::asio::io_context& context, const ExportParts& parts, ImportPlaces& places,
                   std::shared_ptr<Allocation> allocation, ShareChannel channel);
  ~ExportConnection();

  /// The process has until `limit` from now to ask its first question, and `import_time` to import.
  void start(std::chrono::milliseconds limit);
  /// Whether it has asked and was not refused.
  bool has_place() const noexcept { return placed_; }
  /// Why the process cannot follow a move at this moment; empty if it can, or if it has nothing of
  /// the memory.
  std::string why_not_moving() const;
  bool has_imported() const noexcept { return state_ == State::imported; }
  /// The process takes part in the move, until it says that it has ended. Requires: it can.
  void join(std::shared_ptr<ExporterMoveState> move) noexcept;
  /// Does nothing if it takes part in none.
  void ask_to_stop() noexcept;
  /// The process is not counted any more. Idempotent.
  void close() noexcept;
  bool closed() const noexcept { return state_ == State::closed; }

 private:
  enum class State { greeting, offered, imported, closed };

  /// Tells the process why it gets nothing, and ends.
  void refuse(ErrorKind kind, std::string_view text) noexcept;
  void fail(ErrorKind kind, const char* text) noexcept;
  template <typename Body>
  void at_wall(Body&& body) noexcept;
  void wait_for_limit(std::size_t slots);
  void wait_to_read();
  void read();
  void handle(const ShareMessage& message);
  void handle_of_move(const ShareMessage& message);
  void until_done(std::function<bool()> attempt);
  bool take_place();
  bool admit();
  void check_exportable() const;
  bool export_chunks(std::uint64_t first);
  bool export_targets(std::uint64_t first);
  bool send_chunks(std::uint64_t first, std::uint64_t count,
                   const std::function<ExporterChunk(std::uint64_t)>& chunk_at);
  void send(const ShareMessage& message);

  Memory& memory_;
  const PlaceNames& names_;
  ImportPlaces& places_;
  const std::shared_ptr<Allocation> allocation_;
  ShareChannel channel_;
  ImportingProcess who_;
  DescriptorWatch messages_, death_;  // Of the channel's socket; of the process.
  ImportLimit limit_;
  boost::asio::steady_timer retry_;
  State state_ = State::greeting;
  bool placed_ = false;
  std::uint64_t importer_ = 0;  // In the list; 0 for none.
  bool reading_ = false;        // A handler waits for a message.
  ImporterReach reach_;
  std::shared_ptr<ExporterMoveState> move_;  // Null while it takes part in none.
  std::size_t member_ = 0;                   // Of the move.
};

}  // namespace vma
