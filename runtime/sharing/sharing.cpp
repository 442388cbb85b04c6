#include "sharing/sharing.hpp"

#include "base/log.hpp"
#include "base/process_exit.hpp"
#include "base/clock.hpp"
#include "control/own_folder.hpp"
#include "sharing/export_move.hpp"

#include <boost/asio/post.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace vma {

namespace asio = boost::asio;

Sharing::Sharing(Memory& memory, Mover& mover)
    : memory_(memory), mover_(mover), places_(memory.driver(), memory.topology()) {
  mover_.lead_importers(this);
}

Sharing::~Sharing() {
  stop();
  mover_.lead_importers(nullptr);
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
      thread().context(), ExportParts{memory_, mover_, places_}, std::move(allocation), request);
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

std::unique_ptr<ImportersMove> Sharing::begin(const Allocation& allocation, const Limits& limits) {
  const MutexLock lock(mutex_);
  ExportMove::Exports exports;
  for (const auto& shared : exports_) {
    if (&shared->allocation() == &allocation) exports.push_back(shared);
  }
  auto move =
      std::make_unique<ExportMove>(thread(), std::move(exports), limits, [this] { move_ended(); });
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
  if (!follower_) follower_ = std::make_unique<ImportFollower>(memory_, mover_, places_, *stop_);
  return *follower_;
}

void Sharing::refuse_imports() noexcept {
  const MutexLock lock(mutex_);
  imports_refused_ = true;
  if (stop_) stop_->raise();
}

void Sharing::stop() noexcept {
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
