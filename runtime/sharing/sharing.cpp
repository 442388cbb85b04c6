#include "sharing/sharing.hpp"

#include "base/log.hpp"
#include "base/process_exit.hpp"
#include "base/stepper.hpp"
#include "control/control_socket.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace vma {

namespace asio = boost::asio;

/// The thread that serves importers.
struct Sharing::Service {
  Service() : task(threads.spawn("vmart share", [this] { run(); })) {}
  ~Service() { end(); }
  void run() noexcept;
  /// No handler runs afterwards.
  void end() noexcept {
    if (!task) return;
    context.stop();
    task->join();
    task.reset();
  }
  /// Runs `body` on the thread and waits for it.
  void run_there(const std::function<void()>& body);

  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  ThreadedExecutor threads;
  std::unique_ptr<Task> task;  // Last: it uses all of the above.
};

/// An exception from a handler loses that handler, and neither the thread nor the process.
void Sharing::Service::run() noexcept {
  while (!context.stopped()) {
    try {
      context.run();
    } catch (const std::exception& error) {
      log(LogLevel::error, "sharing continues after an error: {}", error.what());
    }
    ProcessExit::hold_back();
  }
}

void Sharing::Service::run_there(const std::function<void()>& body) {
  Mutex mutex;
  Condition ended;
  bool done = false;
  asio::post(context, [&] {
    body();
    const MutexLock lock(mutex);
    done = true;
    ended.notify_all();
  });
  MutexLock lock(mutex);
  ended.wait(lock, [&] { return done; });
}

Sharing::Sharing(Memory& memory) : memory_(memory), places_(memory.driver(), memory.topology()) {}

Sharing::~Sharing() {
  stop();
}

Sharing::Service& Sharing::service() {
  if (!service_) service_ = std::make_unique<Service>();
  return *service_;
}

std::string Sharing::new_path() {
  return fmt::format("{}/{}-{}", control_folder(), ProcessExit::process(), ++last_path_);
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
  auto made = std::make_shared<MemoryExport>(service().context, memory_, places_,
                                             std::move(allocation), request);
  asio::post(service_->context, [made] { made->start(); });
  exports_.push_back(made);
  return made;
}

void Sharing::close(const std::shared_ptr<MemoryExport>& shared) noexcept {
  const MutexLock lock(mutex_);
  if (std::erase(exports_, shared) == 0) return;
  try {
    service_->run_there([&] { shared->close(); });
  } catch (const std::exception& error) {  // Out of memory: the thread has to stand still for it.
    log(LogLevel::warn, "closes all exports, since there is no memory to close one: {}",
        error.what());
    service_->end();
    shared->close();
    for (const auto& other : exports_) other->close();
    exports_.clear();
    service_.reset();
  }
}

std::shared_ptr<Allocation> Sharing::import(const ImportRequest& request) {
  return MemoryImport(memory_, places_, import_stop()).run(request);
}

const ShareStop& Sharing::import_stop() {
  const MutexLock lock(mutex_);
  if (!stop_) {
    auto made = std::make_unique<ShareStop>();
    if (imports_refused_) made->raise();
    stop_ = std::move(made);
  }
  return *stop_;
}

void Sharing::refuse_imports() noexcept {
  const MutexLock lock(mutex_);
  imports_refused_ = true;
  if (stop_) stop_->raise();
}

void Sharing::stop() noexcept {
  const MutexLock lock(mutex_);
  if (!service_) return;
  service_->end();
  for (const auto& shared : exports_) shared->close();
  exports_.clear();
  service_.reset();
}

void Sharing::remove_paths() noexcept {
  // A thread that is inside `open` or `close` stands still for ever.
  if (!mutex_.try_lock()) return;
  for (const auto& shared : exports_) shared->remove_path();
  mutex_.unlock();
}

}  // namespace vma
