#include "sharing/sharing.hpp"

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/process_exit.hpp"
#include "control/own_folder.hpp"
#include "migrate/migration/exporter_moves.hpp"
#include "sharing/memory_export.hpp"
#include "sharing/exporter_move_state.hpp"

#include <vma/error.hpp>

#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vma {

/// Leads the importers of one allocation, by whichever of its exports they came, through one move.
class ServedExporterMove final : public ExporterMove {
 public:
  using Exports = std::vector<std::shared_ptr<MemoryExport>>;

  /// The thread does not end before this object. `at_end` is called by the destructor.
  ServedExporterMove(ShareThread& thread, Exports exports, const ExporterMoves::Limits& limits,
                     std::function<void()> at_end);
  ~ServedExporterMove() override;
  ServedExporterMove(const ServedExporterMove&) = delete;
  ServedExporterMove& operator=(const ServedExporterMove&) = delete;

  void prepare(std::span<const ExporterChunk> chunks) override;
  void stop() override;
  bool decide() noexcept override;
  Account await_end() noexcept override;

 private:
  void tell_all(TimePoint deadline);
  std::string tell_or_name_busy();

  ShareThread& thread_;
  const Exports exports_;
  const ExporterMoves::Limits limits_;
  const std::function<void()> at_end_;
  SteadyClock clock_;
  std::shared_ptr<ExporterMoveState> offer_;
};

ServedExporterMove::ServedExporterMove(ShareThread& thread, Exports exports,
                                       const ExporterMoves::Limits& limits,
                                       std::function<void()> at_end)
    : thread_(thread), exports_(std::move(exports)), limits_(limits), at_end_(std::move(at_end)) {}

ServedExporterMove::~ServedExporterMove() {
  if (offer_) {
    offer_->decision().decide(SharedDecision::Value::stay);
    offer_->withdraw();
  }
  at_end_();
}

void ServedExporterMove::prepare(std::span<const ExporterChunk> chunks) {
  const auto limit = std::chrono::ceil<std::chrono::milliseconds>(limits_.answer);
  const TimePoint deadline = later(clock_.now(), import_time(limit, chunks.size()));
  offer_ = std::make_shared<ExporterMoveState>(chunks, limits_);
  tell_all(deadline);
  offer_->await(ExporterMoveState::Stage::ready, deadline);
}

/// Those that are about to import have time to end that, and so have those that have not answered a
/// move before: they were stopped, for example.
void ServedExporterMove::tell_all(TimePoint deadline) {
  Poll poll;
  while (true) {
    ProcessExit::hold_back();
    const std::string busy = tell_or_name_busy();
    if (busy.empty()) return;
    if (clock_.now() >= deadline) throw Error(ErrorKind::busy, "vma::migrate", busy);
    poll.pause();
  }
}

std::string ServedExporterMove::tell_or_name_busy() {
  std::string busy;
  thread_.run_there([&] {
    for (const auto& shared : exports_) {
      if (busy.empty()) busy = shared->why_not_moving();
    }
    if (!busy.empty()) return;
    for (const auto& shared : exports_) shared->join(offer_);
  });
  return busy;
}

void ServedExporterMove::stop() {
  thread_.run_there([&] {
    for (const auto& shared : exports_) shared->ask_to_stop();
  });
  offer_->await(ExporterMoveState::Stage::stopped, later(clock_.now(), limits_.answer));
}

bool ServedExporterMove::decide() noexcept {
  return offer_->decision().decide(SharedDecision::Value::move) == SharedDecision::Value::move;
}

ExporterMove::Account ServedExporterMove::await_end() noexcept {
  try {
    offer_->await(ExporterMoveState::Stage::ended, later(clock_.now(), limits_.answer));
  } catch (const std::exception& error) {
    log(LogLevel::debug, "an importer has yet to switch: {}", error.what());
  }
  return offer_->account();
}

ShareThread::ShareThread() : task_(threads_.spawn("vmart share", [this] { run(); })) {}

ShareThread::~ShareThread() {
  end();
}

void ShareThread::end() noexcept {
  if (!task_) return;
  context_.stop();
  task_->join();
  task_.reset();
}

/// An exception from a handler loses that handler, and neither the thread nor the process.
void ShareThread::run() noexcept {
  while (!context_.stopped()) {
    try {
      context_.run();
    } catch (const std::exception& error) {
      log(LogLevel::error, "sharing continues after an error: {}", error.what());
    }
    ProcessExit::hold_back();
  }
}

void ShareThread::run_there(const std::function<void()>& body) {
  Mutex mutex;
  Condition ended;
  bool done = false;
  std::exception_ptr failure;
  boost::asio::post(context_, [&] {
    try {
      body();
    } catch (...) {
      failure = std::current_exception();
    }
    const MutexLock lock(mutex);
    done = true;
    ended.notify_all();
  });
  MutexLock lock(mutex);
  ended.wait(lock, [&] { return done; });
  if (failure) std::rethrow_exception(failure);
}

namespace asio = boost::asio;

Sharing::Sharing(Memory& memory, Migrator& migrator)
    : memory_(memory), migrator_(migrator), places_(memory.driver(), memory.topology()) {
  migrator_.lead_importers(this);
}

Sharing::~Sharing() {
  finish();
  migrator_.lead_importers(nullptr);
}

ShareThread& Sharing::thread() {
  if (!thread_) thread_ = std::make_unique<ShareThread>();
  return *thread_;
}

std::string Sharing::new_path() {
  const SocketName name = SocketName::own(key_text(random_key("vma::export_allocation")));
  return fmt::format("{}/{}", own_folder(), name.stem());
}

std::shared_ptr<MemoryExport> Sharing::open(std::shared_ptr<Allocation> allocation,
                                            ExportRequest request) {
  if (Stepper::current() != nullptr) {
    throw Error(ErrorKind::unsupported, "vma::export_allocation",
                "a stepped machine has no time in which other processes could take part");
  }
  if (request.path.empty()) request.path = new_path() + ".sock";
  const MutexLock lock(mutex_);
  exports_.reserve(exports_.size() + 1);
  auto made = std::make_shared<MemoryExport>(
      thread().context(), ExportParts{memory_, migrator_, places_}, std::move(allocation), request);
  asio::post(thread_->context(), [made] { made->start(); });
  exports_.push_back(made);
  return made;
}

void Sharing::close(const std::shared_ptr<MemoryExport>& shared) noexcept {
  MutexLock lock(mutex_);
  if (std::erase(exports_, shared) == 0) return;
  try {
    thread_->run_there([&] { shared->close(); });
  } catch (const std::exception& error) {  // Out of memory: the thread has to stand still for it.
    log(LogLevel::warn, "closes all exports, since there is no memory to close one: {}",
        error.what());
    moves_ended_.wait(lock, [this]() VMART_NO_THREAD_ANALYSIS { return moves_ == 0; });
    if (thread_) thread_->end();
    shared->close();
    close_all();
  }
}

/// Requires: the thread has ended.
void Sharing::close_all() noexcept {
  for (const auto& shared : exports_) shared->close();
  exports_.clear();
  thread_.reset();
}

std::unique_ptr<ExporterMove> Sharing::begin(const Allocation& allocation, const Limits& limits) {
  const MutexLock lock(mutex_);
  ServedExporterMove::Exports exports;
  for (const auto& shared : exports_) {
    if (&shared->allocation() == &allocation) exports.push_back(shared);
  }
  auto move = std::make_unique<ServedExporterMove>(thread(), std::move(exports), limits,
                                                   [this] { move_ended(); });
  ++moves_;
  return move;
}

void Sharing::move_ended() noexcept {
  const MutexLock lock(mutex_);
  --moves_;
  moves_ended_.notify_all();
}

std::shared_ptr<Allocation> Sharing::import(const ImportRequest& request) {
  MutexLock lock(mutex_);
  const ShareStop& stop = import_stop();
  ImportFollower& followed = follower();
  lock.unlock();
  return MemoryImport(memory_, places_, stop, followed).run(request);
}

const ShareStop& Sharing::import_stop() {
  if (!stop_) {
    auto made = std::make_unique<ShareStop>();
    if (imports_refused_) made->raise();
    stop_ = std::move(made);
  }
  return *stop_;
}

ImportFollower& Sharing::follower() {
  if (!follower_) follower_ = std::make_unique<ImportFollower>(memory_, migrator_, places_, *stop_);
  return *follower_;
}

void Sharing::stop_accepting() noexcept {
  const MutexLock lock(mutex_);
  imports_refused_ = true;
  if (stop_) stop_->raise();
}

void Sharing::finish() noexcept {
  std::unique_ptr<ImportFollower> followed;
  {
    const MutexLock lock(mutex_);
    if (stop_) stop_->raise();
    followed = std::move(follower_);
  }
  followed.reset();  // Without the lock: it may be in the middle of a move.
  const MutexLock lock(mutex_);
  if (!thread_) return;
  thread_->end();
  close_all();
}

void Sharing::remove_paths() noexcept {
  // A thread that is inside `open` or `close` stands still for ever.
  if (!mutex_.try_lock()) return;
  for (const auto& shared : exports_) shared->remove_path();
  mutex_.unlock();
}

}  // namespace vma
