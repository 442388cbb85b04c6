#include "sim/sim_stream.hpp"

#include "sim/sim_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vma {
namespace {

/// How often all streams together poll words in threaded mode, because words change without notice.
/// The first stream that sees a change wakes the others.
constexpr TimePoint word_poll = std::chrono::microseconds(50);

std::uint64_t load_word(const std::uint64_t* word) {
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/// Whether the work runs on the multiprocessors, and so needs a hardware queue.
bool needs_queue(const Work& work) {
  return !std::holds_alternative<MarkerWork>(work) && !std::holds_alternative<CopyWork>(work);
}

bool all_done(const std::vector<CompletionPtr>& completions) {
  return std::all_of(completions.begin(), completions.end(),
                     [](const CompletionPtr& it) { return Progress::is_done(*it); });
}

}  // namespace

std::vector<CompletionPtr> SimContext::standing_holds() {
  std::erase_if(holds, [this](const CompletionPtr& hold) {
    if (!Progress::is_done(*hold)) return false;
    knows.join(hold->knows);
    held_until = std::max(held_until, hold->at);
    return true;
  });
  if (shared == nullptr) return holds;
  std::vector<CompletionPtr> all = shared->standing_holds();
  knows.join(shared->knows);
  held_until = std::max(held_until, shared->held_until);
  all.insert(all.end(), holds.begin(), holds.end());
  return all;
}

SimStream::SimStream(StreamHandle handle, std::uint64_t id, SimContext& context, StreamKind kind,
                     Progress& progress, WorkRunner& runner)
    : handle_(handle),
      id_(id),
      context_(context),
      kind_(kind),
      progress_(progress),
      runner_(runner),
      last_(std::make_shared<Completion>()) {
  last_->done = true;
}

SimStream::~SimStream() = default;

std::string SimStream::name() const {
  return fmt::format("gpu{} stream {}", index(context_.device), id_);
}

void SimStream::start(Executor& executor) {
  task_ = executor.spawn(name(), [this] { run(); });
}

void SimStream::close(bool drop) {
  closing_ = true;
  dropping_ |= drop;
  wake();
}

CompletionPtr SimStream::enqueue(Work work, std::vector<CompletionPtr> dependencies) {
  Operation operation;
  operation.work = std::move(work);
  operation.dependencies = std::move(dependencies);
  operation.completion = std::make_shared<Completion>();
  operation.completion->stream = this;
  operation.submitted = std::max(progress_.clock().now(), context_.held_until);
  operation.number = ++context_.enqueued;
  if (progress_.races() != nullptr) {
    operation.knows = progress_.races()->host_knows();
    operation.knows.join(context_.knows);
  }
  CompletionPtr completion = operation.completion;
  queue_.push_back(std::move(operation));
  last_ = std::move(completion);
  wake();
  return last_;
}

bool SimStream::given_up() const VMART_NO_THREAD_ANALYSIS {
  return dropping_ || progress_.fault() != 0;
}

void SimStream::run() VMART_NO_THREAD_ANALYSIS {
  MutexLock lock(progress_.mutex);
  for (;;) {
    wake_.wait(lock, [this] { return closing_ || !queue_.empty(); });
    if (queue_.empty()) break;
    run_head(lock);
  }
  ended_ = true;
  progress_.announce();
}

void SimStream::run_head(MutexLock& lock) VMART_NO_THREAD_ANALYSIS {
  Operation& operation = queue_.front();  // The reference stays valid while others push behind it.
  TimePoint end{0};
  if (wait_for_dependencies(lock, operation)) has_queue_ = take_queue(lock, operation);
  const TimePoint went_on = stand(lock);
  if (given_up()) {
    end = progress_.clock().now();
  } else {
    TimePoint start = std::max({free_at_, operation.submitted, went_on});
    for (const CompletionPtr& dependency : operation.dependencies) {
      start = std::max(start, dependency->at);
    }
    ++works_;
    if (progress_.races() != nullptr) {
      knows_.join(operation.knows);
      for (const CompletionPtr& dependency : operation.dependencies) knows_.join(dependency->knows);
      knows_.advance(id_, works_);
    }
    head_ = Head::running;
    under_way_ = true;
    lock.unlock();
    DeviceFault fault(0, "");
    try {
      end = runner_.run(operation.work, context_.device, start, *this);
    } catch (const DeviceFault& thrown) {
      fault = thrown;
    }
    lock.lock();
    if (fault.native() != 0) progress_.set_fault(fault.native(), fault.what());
    end = std::max(end, stand(lock));
    under_way_ = false;
  }
  if (std::exchange(has_queue_, false)) ++context_.free_queues;
  finish_head(end);
}

void SimStream::finish_head(TimePoint at) VMART_NO_THREAD_ANALYSIS {
  Completion& completion = *queue_.front().completion;
  completion.done = true;
  completion.at = at;
  completion.stream = nullptr;
  completion.knows = knows_;
  free_at_ = std::max(free_at_, at);
  head_ = Head::none;
  queue_.pop_front();
  progress_.announce();
}

template <typename Ready>
void SimStream::sleep_as(Head head, MutexLock& lock, Ready ready) VMART_NO_THREAD_ANALYSIS {
  if (ready()) return;
  const Head before = std::exchange(head_, head);
  progress_.add_sleeper(this);
  progress_.announce();  // Threads that wait for this stream may now find that it is stuck.
  wake_.wait(lock, ready);
  progress_.remove_sleeper(this);
  head_ = before;
}

/// Waits while the work is suspended. Returns when it went on; zero if it did not stand.
TimePoint SimStream::stand(MutexLock& lock) VMART_NO_THREAD_ANALYSIS {
  if (!suspended() || given_up()) return TimePoint(0);
  sleep_as(Head::suspended, lock, [&] { return given_up() || !suspended(); });
  return progress_.clock().now();
}

/// Says that it accesses before it looks whether it may, so that a suspension that does not see it
/// is seen.
void SimStream::begin_access() VMART_NO_THREAD_ANALYSIS {
  for (;;) {
    accessing_ = true;
    if (!suspended()) return;
    end_access();
    MutexLock lock(progress_.mutex);
    stand(lock);
    if (!given_up()) continue;
    accessing_ = true;
    return;
  }
}

void SimStream::end_access() noexcept {
  accessing_ = false;
  if (!suspended()) return;
  const MutexLock lock(progress_.mutex);
  progress_.changed.notify_all();
}

TimePoint SimStream::suspended_time() const noexcept {
  return context_.runlist->off_time(progress_.clock().now());
}

void SimStream::was_suspended() {
  if (progress_.races() != nullptr) progress_.races()->host_learns(knows_);
}

void SimStream::will_go_on() {
  if (progress_.races() == nullptr) return;
  knows_.join(progress_.races()->host_knows());
  if (under_way_) knows_.advance(id_, ++works_);
}

bool SimStream::wait_for_dependencies(MutexLock& lock, Operation& operation) {
  sleep_as(Head::on_dependencies, lock,
           [&] { return given_up() || all_done(operation.dependencies); });
  return !given_up();
}

/// Whether the stream's next work waits only for a queue, and was enqueued before work `number`.
bool SimStream::claims_queue_before(std::uint64_t number) const {
  if (queue_.empty() || has_queue_ || head_ == Head::running || head_ == Head::on_word) {
    return false;
  }
  const Operation& next = queue_.front();
  return next.number < number && needs_queue(next.work) && all_done(next.dependencies);
}

/// Assigns queues in the order in which the works were enqueued, as a GPU does, regardless of the
/// order in which the threads of the streams arrive.
bool SimStream::take_queue(MutexLock& lock, const Operation& operation) {
  if (!needs_queue(operation.work)) return false;
  sleep_as(Head::on_queue, lock, [&] {
    if (given_up()) return true;
    const auto before = std::count_if(
        context_.streams.begin(), context_.streams.end(), [&](const SimStream* stream) {
          return stream != this && stream->claims_queue_before(operation.number);
        });
    return context_.free_queues > before;
  });
  if (given_up()) return false;
  --context_.free_queues;
  return true;
}

/// The runner calls this without the lock, while work is in progress.
bool SimStream::wait_word(const std::uint64_t* word, std::uint64_t value) VMART_NO_THREAD_ANALYSIS {
  const auto ready = [&] { return given_up() || load_word(word) >= value; };
  const auto seen = [&] {
    // The word was stored by the host, or by a stream, whose store the host has observed.
    if (progress_.races() != nullptr) knows_.join(progress_.races()->host_knows());
    return !given_up();
  };
  MutexLock lock(progress_.mutex);
  if (ready()) return seen();
  head_ = Head::on_word;
  word_ = word;
  word_value_ = value;
  progress_.add_sleeper(this);
  progress_.announce();
  if (progress_.clock().stepped() != nullptr) {
    wake_.wait(lock, ready);
  } else {
    SteadyClock real;
    while (!wake_.wait_until(lock, real, real.now() + word_poll * progress_.sleepers(), ready)) {
    }
  }
  progress_.remove_sleeper(this);
  word_ = nullptr;
  head_ = Head::running;
  progress_.announce();
  return seen();
}

void SimStream::wrote_word() {
  if (progress_.races() != nullptr) progress_.races()->host_learns(knows_);
}

void SimStream::touches(const SimSegment& segment, std::uint64_t size_bytes, Touch touch) {
  if (progress_.races() == nullptr || segment.chunk == nullptr) return;
  progress_.races()->touch(segment.chunk->handle(), segment.offset, segment.offset + size_bytes,
                           touch, id_, works_, knows_);
}

bool SimStream::head_is_stuck(int depth) {
  if (given_up()) return false;
  switch (head_) {
    case Head::none:
    case Head::running: return false;
    case Head::on_word: return load_word(word_) < word_value_;
    case Head::suspended: return suspended();
    case Head::on_dependencies: {
      const auto& dependencies = queue_.front().dependencies;
      return std::any_of(dependencies.begin(), dependencies.end(),
                         [&](const CompletionPtr& it) { return Progress::is_stuck(*it, depth); });
    }
    case Head::on_queue:
      // A queue becomes free once any of its holders continues, so all of them must wait for words.
      return context_.free_queues == 0 &&
             std::none_of(context_.streams.begin(), context_.streams.end(),
                          [](const SimStream* stream) { return stream->head_ == Head::running; });
  }
  return false;
}

CompletionPtr everything_of(SimContext& context) {
  std::vector<CompletionPtr> parts = context.standing_holds();
  for (SimStream* stream : context.streams) parts.push_back(stream->last());
  for (SimContext* green : context.greens) parts.push_back(everything_of(*green));
  return Progress::joined(std::move(parts));
}

}  // namespace vma
