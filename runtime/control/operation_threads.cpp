#include "control/operation_threads.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <exception>
#include <new>
#include <utility>

namespace vma {

OperationThreads::OperationThreads(Executor& executor, Clock& clock,
                                   std::shared_ptr<EventFeed> feed)
    : executor_(executor), clock_(clock), feed_(std::move(feed)) {}

OperationThreads::~OperationThreads() {
  stop();
}

std::uint64_t OperationThreads::start(const std::string& name, Place at,
                                      std::function<bool(ControlEvent&)> body) {
  std::erase_if(threads_, [](const auto& thread) {
    if (!thread->ended) return false;
    thread->task->join();
    return true;
  });
  if (threads_.size() >= threads_max) {
    throw Error(ErrorKind::busy, "vma::control",
                fmt::format("{} drains and changes of capacities are already running; wait for one "
                            "to end",
                            threads_.size()));
  }
  const std::uint64_t operation = feed_->next_operation();
  threads_.push_back(std::make_unique<Thread>());
  Thread& started = *threads_.back();
  try {
    started.task = executor_.spawn(name, [this, operation, at, body = std::move(body), &started] {
      perform(operation, at, body);
      started.ended = true;
    });
  } catch (...) {
    threads_.pop_back();
    throw;
  }
  return operation;
}

void OperationThreads::perform(std::uint64_t operation, Place at,
                               const std::function<bool(ControlEvent&)>& body) noexcept try {
  ControlEvent event;
  event.operation = operation;
  event.from = at;
  event.kind = ControlEvent::Kind::operation_failed;
  const TimePoint begin = clock_.now();
  try {
    if (body(event)) event.kind = ControlEvent::Kind::operation_done;
  } catch (const std::exception& error) {
    event.text = error.what();
  }
  event.at = clock_.now();
  event.took = event.at - begin;
  feed_->add(std::move(event));
} catch (const std::bad_alloc&) {  // The event is lost.
}

void OperationThreads::stop() noexcept {
  for (const auto& thread : threads_) thread->task->join();
  threads_.clear();
}

}  // namespace vma
