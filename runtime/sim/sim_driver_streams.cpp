// SimDriver's calls on streams and events.
#include "driver/native_codes.hpp"
#include "sim/sim_driver.hpp"
#include "sim/sim_machine.hpp"

#include <utility>

namespace vma {
namespace {

void forbid_captured(const SimEvent& event, const char* call) {
  const auto capture = event.capture.lock();
  if (capture == nullptr) return;
  capture->invalid = true;
  throw driver_error(native_captured_event, call, "the event was captured");
}

/// Handles a wait for an event of a capture: the stream joins the capture, or another stream's
/// branch joins the stream's. Returns false if neither the event nor the stream belongs to a
/// capture.
bool wait_in_capture(SimStream& stream, const SimEvent& event, const char* call) {
  const auto capture = event.capture.lock();
  if (capture == nullptr && stream.capture == nullptr) return false;
  if (capture == nullptr || (stream.capture != nullptr && stream.capture != capture)) {
    stream.capture->invalid = true;
    if (capture != nullptr) capture->invalid = true;
    throw driver_error(native_stream_capture_unsupported, call,
                       "the event belongs to no such capture");
  }
  if (stream.capture == nullptr) {
    stream.capture = capture;
    capture->unjoined.try_emplace(&stream, 0);
  }
  if (event.captured_on != &stream) capture->unjoined.erase(event.captured_on);
  return true;
}

}  // namespace

BoundStream SimDriver::create_stream(ContextHandle context, StreamKind kind) {
  constexpr auto call = "cuStreamCreateWithPriority";
  const CallTime time(*machine_, machine_->costs.parameters().create_stream_us);
  MutexLock lock(machine_->progress.mutex);
  machine_->reap(lock);
  SimContext& owner = machine_->context(context, call);
  machine_->wait_for_frees(lock, owner);
  machine_->progress.check_fault(call);
  const bool blocking = kind == StreamKind::blocking;  // Priorities have no effect here.
  if (blocking && owner.shared != nullptr) {
    throw driver_error(native_invalid_value, call,
                       "the simulator has only non-blocking streams in green contexts");
  }
  return {context,
          machine_->make_stream(owner, blocking ? kind : StreamKind::non_blocking).handle()};
}

void SimDriver::destroy_stream(BoundStream stream) {
  constexpr auto call = "cuStreamDestroy";
  MutexLock lock(machine_->progress.mutex);
  if (static_cast<std::uint64_t>(stream.handle) <= 2) {
    throw driver_error(native_invalid_handle, call, "the stream is built in");
  }
  SimStream& destroyed = machine_->stream(stream, call);
  machine_->retired.reserve(machine_->retired.size() + 1);
  if (const auto capture = destroyed.capture) {
    // A stream that has only joined may go. NCCL joins one to learn what a capture depends on.
    const auto joined = capture->unjoined.find(&destroyed);
    const bool has_works = joined != capture->unjoined.end() && joined->second > 0;
    if (capture->origin == &destroyed || has_works) capture->invalid = true;
    if (joined != capture->unjoined.end()) capture->unjoined.erase(joined);
    destroyed.capture.reset();
  }
  destroyed.close(false);
  auto entry = machine_->streams.extract(stream.handle);
  machine_->retired.push_back(std::move(entry.mapped()));
  machine_->reap(lock);
}

ContextHandle SimDriver::stream_context(StreamHandle stream) {
  const MutexLock lock(machine_->progress.mutex);
  if (static_cast<std::uint64_t>(stream) <= 2) {
    return machine_->context(current_context(), "cuStreamGetCtx").handle;
  }
  return machine_->stream({{}, stream}, "cuStreamGetCtx").context().handle;
}

std::uint64_t SimDriver::stream_id(BoundStream stream) {
  const MutexLock lock(machine_->progress.mutex);
  SimStream& asked = machine_->stream(stream, "cuStreamGetId");
  machine_->forbid_capture(asked, "cuStreamGetId");
  return asked.id();
}

StreamKind SimDriver::stream_kind(BoundStream stream) {
  const MutexLock lock(machine_->progress.mutex);
  SimStream& asked = machine_->stream(stream, "cuStreamGetFlags");
  machine_->forbid_capture(asked, "cuStreamGetFlags");
  return asked.kind();
}

bool SimDriver::query_stream(BoundStream stream) {
  constexpr auto call = "cuStreamQuery";
  const CallTime time(*machine_, machine_->costs.parameters().query_us);
  MutexLock lock(machine_->progress.mutex);
  SimStream& asked = machine_->stream(stream, call);
  machine_->progress.check_fault(call);
  machine_->forbid_capture(asked, call);
  const CompletionPtr last = asked.last();
  const bool done = machine_->progress.query(lock, last);
  machine_->progress.check_fault(call);
  return done;
}

bool SimDriver::wait_stream(BoundStream stream, TimePoint deadline) {
  constexpr auto call = "cuStreamSynchronize";
  const CallTime time(*machine_, machine_->costs.parameters().query_us);
  MutexLock lock(machine_->progress.mutex);
  SimStream& asked = machine_->stream(stream, call);
  machine_->progress.check_fault(call);
  machine_->forbid_capture(asked, call);
  const CompletionPtr last = asked.last();
  const bool done = machine_->progress.await(lock, last, deadline);
  machine_->progress.check_fault(call);
  return done;
}

void SimDriver::stream_wait_event(BoundStream stream, EventHandle event) {
  constexpr auto call = "cuStreamWaitEvent";
  const CallTime time(*machine_, machine_->costs.parameters().wait_us);
  const MutexLock lock(machine_->progress.mutex);
  SimStream& waiter = machine_->stream(stream, call);
  const SimEvent& awaited = machine_->event(event, call);
  machine_->progress.check_fault(call);
  if (wait_in_capture(waiter, awaited, call)) return;
  machine_->submit(waiter, MarkerWork{}, call, {awaited.completion});
}

EventHandle SimDriver::create_event(ContextHandle context) {
  constexpr auto call = "cuEventCreate";
  const CallTime time(*machine_, machine_->costs.parameters().create_event_us);
  MutexLock lock(machine_->progress.mutex);
  SimContext& owner = machine_->context(context, call);
  machine_->wait_for_frees(lock, owner);
  machine_->progress.check_fault(call);
  const auto handle = machine_->next_handle<EventHandle>();
  SimEvent& made = machine_->events[handle];
  made.context = context;
  made.completion = Progress::joined({});
  return handle;
}

void SimDriver::destroy_event(EventHandle event) {
  const MutexLock lock(machine_->progress.mutex);
  machine_->event(event, "cuEventDestroy");
  machine_->events.erase(event);
}

void SimDriver::record(EventHandle event, BoundStream stream) {
  constexpr auto call = "cuEventRecord";
  const CallTime time(*machine_, machine_->costs.parameters().record_us);
  const MutexLock lock(machine_->progress.mutex);
  SimStream& recorder = machine_->stream(stream, call);
  SimEvent& recorded = machine_->event(event, call);
  machine_->progress.check_fault(call);
  if (recorded.context != recorder.context().handle) {
    throw driver_error(native_invalid_handle, call,
                       "event and stream belong to different contexts");
  }
  if (recorder.capture != nullptr) {
    if (recorder.capture->invalid) throw driver_error(native_stream_capture_invalidated, call);
    recorded.capture = recorder.capture;
    recorded.captured_on = &recorder;
    return;
  }
  recorded.completion = machine_->submit(recorder, MarkerWork{}, call);
  recorded.capture.reset();
}

bool SimDriver::query_event(EventHandle event) {
  constexpr auto call = "cuEventQuery";
  const CallTime time(*machine_, machine_->costs.parameters().query_us);
  MutexLock lock(machine_->progress.mutex);
  const SimEvent& asked = machine_->event(event, call);
  machine_->progress.check_fault(call);
  forbid_captured(asked, call);
  const CompletionPtr completion = asked.completion;
  const bool done = machine_->progress.query(lock, completion);
  machine_->progress.check_fault(call);
  return done;
}

bool SimDriver::wait_event(EventHandle event, TimePoint deadline) {
  constexpr auto call = "cuEventSynchronize";
  const CallTime time(*machine_, machine_->costs.parameters().query_us);
  MutexLock lock(machine_->progress.mutex);
  const SimEvent& asked = machine_->event(event, call);
  machine_->progress.check_fault(call);
  forbid_captured(asked, call);
  const CompletionPtr completion = asked.completion;
  const bool done = machine_->progress.await(lock, completion, deadline);
  machine_->progress.check_fault(call);
  return done;
}

}  // namespace vma
