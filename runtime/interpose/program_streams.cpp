#include "interpose/program_streams.hpp"

#include "base/process_exit.hpp"
#include "interpose/waits/finished_work.hpp"
#include "interpose/waits/launch_pause.hpp"
#include "interpose/program_memory.hpp"
#include "interpose/program_pools.hpp"
#include "interpose/refusals.hpp"
#include "interpose/settings.hpp"
#include "interpose/standing.hpp"
#include "interpose/vmart_library.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

namespace vma::interpose {
namespace {

/// A stream that comes back so soon stays attached for so long.
constexpr std::chrono::seconds soon(1), stay(10);

const CUstream destroyed_mark = reinterpret_cast<CUstream>(1);

/// The null stream, and the names of the legacy and of the per-thread stream.
bool is_built_in(CUstream stream) noexcept {
  return reinterpret_cast<std::uintptr_t>(stream) <= 2;
}

/// A stopped stream holds one of the context's hardware queues; some are left for other work.
int attached_max() noexcept {
  return std::max(1, Settings::get().hardware_queues - 4);
}

}  // namespace

ProgramStreams& ProgramStreams::get() noexcept {
  static Immortal<ProgramStreams> streams([] { return ProgramStreams(); });
  return *streams;
}

bool ProgramStreams::captures(const DriverLibrary& driver, CUstream stream) noexcept {
  return capturing(driver, stream) != Capturing::no;
}

bool ProgramStreams::current(CUcontext& context, int& device) noexcept {
  const DriverLibrary* const driver = DriverLibrary::get();
  CUdevice ordinal = 0;
  if (driver == nullptr || driver->cuCtxGetCurrent_plain(&context) != CUDA_SUCCESS ||
      context == nullptr || driver->cuCtxGetDevice_plain(&ordinal) != CUDA_SUCCESS) {
    return false;
  }
  device = ordinal;
  return true;
}

// --- Enqueuing

ProgramStreams::Enqueue::Enqueue(CUstream stream) noexcept : stream_(stream) {
  if (is_forked_child()) return;
  LaunchPause::get().await_end();
  ProgramStreams& all = get();
  if (all.begun() && all.unattached_.load(std::memory_order_relaxed) != 0) {
    all.attach_current(false);
  }
  if (is_built_in(stream)) {
    users_ = &all.built_in_users();
    all.enter(*users_);
    return;
  }
  // Counted also before vmart has memory, since it may get that on another thread meanwhile.
  Stream* const known = all.find_or_insert(stream);
  if (known == nullptr) {
    all.give_up("the program has more streams than can be followed");
    return;
  }
  users_ = &known->users;
  all.enter(*users_);  // Before the state is read: see `detach_idle`.
  if (known->state.load() != State::attached) all.attach_if_needed(*known);
}

ProgramStreams::Enqueue::~Enqueue() {
  if (users_ != nullptr) users_->fetch_sub(1, std::memory_order_release);
  if (is_forked_child()) return;
  ProgramStreams& all = get();
  all.note_enqueued(stream_);
  if (all.begun() && all.unattached_.load(std::memory_order_relaxed) != 0) {
    all.attach_current(true);
  }
}

std::atomic<int>& ProgramStreams::built_in_users() noexcept {
  static std::atomic<unsigned> threads = 0;
  thread_local const unsigned number = threads.fetch_add(1);
  return built_in_users_[number % built_in_users_.size()].threads;
}

/// Counts the thread as a user, of which a standstill knows then, or waits for that first.
void ProgramStreams::enter(std::atomic<int>& users) noexcept {
  while (true) {
    users.fetch_add(1);
    const int standstills = standstills_.load();
    if (standstills == 0) return;
    users.fetch_sub(1);
    standstills_.wait(standstills);
  }
}

ProgramStreams::Standstill::Standstill(std::chrono::nanoseconds limit) noexcept
    : end_(std::chrono::steady_clock::now() + limit),
      reached_((get().standstills_.fetch_add(1), await_all_work(end_ - limit / 2))) {}

ProgramStreams::Standstill::~Standstill() {
  get().standstills_.fetch_sub(1);
  get().standstills_.notify_all();
}

bool ProgramStreams::Standstill::await_all_work(Time until) const noexcept try {
  const DriverLibrary& driver = *DriverLibrary::get();
  ProgramStreams& streams = get();
  const auto none = [](const auto& users) { return users.load() == 0; };
  while (!std::ranges::all_of(streams.built_in_users_, none, &Enqueuing::threads) ||
         !std::ranges::all_of(streams.streams_, none, &Stream::users)) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  std::vector<CUcontext> all;
  {
    const std::lock_guard lock(streams.mutex_);
    for (const Context& context : streams.contexts_) all.push_back(context.handle);
  }
  if (Refusals::get().any_capture()) return false;  // A wait would end it.
  for (CUcontext const context : all) {
    const PushedContext pushed(driver, context);
    const CUresult result =
        pushed ? driver.real<EntryPoint::cuCtxSynchronize>()() : CUDA_ERROR_INVALID_CONTEXT;
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_CONTEXT_IS_DESTROYED) return false;
  }
  return std::chrono::steady_clock::now() < until;
} catch (const std::exception&) {
  return false;
}

FinishedWork::StreamName ProgramStreams::name_of(CUstream stream) noexcept {
  FinishedWork::StreamName name{stream, nullptr};
  const DriverLibrary* const driver = DriverLibrary::get();
  if (!is_built_in(stream) || driver == nullptr) return name;
  if (stream == nullptr) name.stream = CU_STREAM_LEGACY;
  driver->cuCtxGetCurrent_plain(&name.context);
  return name;
}

void ProgramStreams::note_enqueued(CUstream stream) noexcept {
  if (begun()) FinishedWork::get().note_enqueued(name_of(stream));
}

std::size_t ProgramStreams::first_place(CUstream stream) noexcept {
  const auto number = reinterpret_cast<std::uintptr_t>(stream) >> 4;
  return (number * 0x9E3779B97F4A7C15ULL) >> 51;  // 13 bits: see `streams_max`.
}

ProgramStreams::Stream* ProgramStreams::find(CUstream stream) noexcept {
  std::size_t at = first_place(stream);
  for (std::size_t tries = 0; tries < streams_max; ++tries, at = (at + 1) % streams_max) {
    const CUstream known = streams_[at].handle.load(std::memory_order_acquire);
    if (known == stream) return &streams_[at];
    if (known == nullptr) return nullptr;
  }
  return nullptr;
}

ProgramStreams::Stream* ProgramStreams::find_or_insert(CUstream stream) noexcept {
  if (Stream* const known = find(stream)) return known;
  const std::lock_guard lock(mutex_);
  if (Stream* const known = find(stream)) return known;
  std::size_t at = first_place(stream);
  for (std::size_t tries = 0; tries < streams_max; ++tries, at = (at + 1) % streams_max) {
    const CUstream known = streams_[at].handle.load(std::memory_order_relaxed);
    if (known != nullptr && known != destroyed_mark) continue;
    streams_[at].state = State::unknown;
    streams_[at].context = nullptr;
    streams_[at].left_at = streams_[at].stays_until = Time();
    streams_[at].handle.store(stream, std::memory_order_release);
    return &streams_[at];
  }
  return nullptr;
}

void ProgramStreams::attach_if_needed(Stream& stream) noexcept {
  if (!begun()) return;
  // One that leaves is being queried, which a capture must not begin beside.
  if (ProgramMemory::get().stays() && stream.state != State::leaving) return;
  if (stream.state == State::blocking && unattached_.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard lock(mutex_);
  if (ProgramMemory::get().stays()) return;
  if (stream.state == State::unknown && !query_kind(stream)) return;
  Context* const context = context_of(stream.context);
  if (context == nullptr) return give_up("there is no memory for the list of contexts");
  if (stream.state == State::blocking) {
    if (context->attached) return;
    const PushedContext pushed(*DriverLibrary::get(), stream.context);
    if (pushed && attach_legacy(*context)) return;
    return give_up(last_error());
  }
  if (stream.state != State::detached) return;
  if (context->streams >= attached_max()) detach_idle(*context);
  const Attached attached = attach(stream.handle);
  if (attached == Attached::no) give_up(last_error());
  if (attached != Attached::yes) return;
  const auto now = std::chrono::steady_clock::now();
  if (stream.left_at != Time() && now < stream.left_at + soon) stream.stays_until = now + stay;
  stream.state = State::attached;
  ++context->streams;
}

/// Work is about to run that no move would wait for.
void ProgramStreams::give_up(const char* why) noexcept {
  if (begun()) ProgramMemory::get().keep_in_place(why);
}

/// Asks the driver about a stream whose creation was not seen. Returns false while the stream
/// captures: the question would end the capture, and captured work runs in another stream.
bool ProgramStreams::query_kind(Stream& stream) noexcept {
  const DriverLibrary& driver = *DriverLibrary::get();
  unsigned flags = CU_STREAM_NON_BLOCKING;
  if (captures(driver, stream.handle)) return false;
  driver.cuStreamGetFlags_plain(stream.handle, &flags);  // If it fails, as if non-blocking.
  driver.cuStreamGetCtx_plain(stream.handle, &stream.context);
  stream.state = (flags & CU_STREAM_NON_BLOCKING) != 0 ? State::detached : State::blocking;
  return true;
}

/// Requires: the caller holds `mutex_`.
void ProgramStreams::detach_idle(Context& context) noexcept {
  const DriverLibrary& driver = *DriverLibrary::get();
  const RelaxedCaptures relaxed(driver);
  for (Stream& stream : streams_) {
    if (context.streams <= attached_max() * 3 / 4) return;
    if (stream.state != State::attached || stream.context != context.handle) continue;
    detach_if_idle(stream, context);
  }
}

/// Requires: it is attached, captures are relaxed, and the caller holds `mutex_`.
void ProgramStreams::detach_if_idle(Stream& stream, Context& context) noexcept {
  const DriverLibrary& driver = *DriverLibrary::get();
  // A thread that begins to enqueue from here on sees this state and waits for the lock. One that
  // began before is counted as a user, and so is one that begins or joins a capture.
  stream.state = State::leaving;
  if (stream.users != 0 || captures(driver, stream.handle) ||
      driver.real<EntryPoint::cuStreamQuery>()(stream.handle) != CUDA_SUCCESS ||
      !try_detach(stream.handle)) {
    stream.state = State::attached;
    return;
  }
  --context.streams;
  stream.left_at = std::chrono::steady_clock::now();
  stream.state = State::detached;
}

/// Does not wait for a thread that attaches: that may wait for the move which asks for this.
void ProgramStreams::detach_unused() noexcept {
  if (is_forked_child() || ProgramMemory::get().stays()) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  const auto has_streams = [](const Context& context) { return context.streams > 0; };
  if (std::ranges::none_of(contexts_, has_streams)) return;
  const RelaxedCaptures relaxed(*DriverLibrary::get());
  const auto now = std::chrono::steady_clock::now();
  for (Stream& stream : streams_) {
    if (stream.state != State::attached || now < stream.stays_until) continue;
    if (Context* const context = context_of(stream.context)) detach_if_idle(stream, *context);
  }
  // Those that come back often stay only as long as there are hardware queues for them: beside a
  // move, more than that may have come.
  for (Context& context : contexts_) {
    if (context.streams > attached_max()) detach_idle(context);
  }
}

// --- Streams that come and go

void ProgramStreams::created(CUstream handle, unsigned flags) noexcept {
  if (is_forked_child()) return;
  Stream* const stream = find_or_insert(handle);
  if (stream == nullptr) return;  // Its first work gives up.
  const std::lock_guard lock(mutex_);
  detach_from(*stream);  // A handle that returned without a destruction that was seen.
  DriverLibrary::get()->cuStreamGetCtx_plain(handle, &stream->context);
  stream->state = (flags & CU_STREAM_NON_BLOCKING) != 0 ? State::detached : State::blocking;
}

/// Requires: the caller holds `mutex_`.
void ProgramStreams::detach_from(Stream& stream) noexcept {
  if (stream.state != State::attached) return;
  detach(stream.handle);
  if (Context* const context = context_of(stream.context)) --context->streams;
  stream.state = State::detached;
}

/// Detaches it and frees its place. Requires: the caller holds `mutex_`.
void ProgramStreams::forget(Stream& stream) noexcept {
  Refusals::get().forget(stream.handle.load());
  ProgramPools::forget_stream(stream.handle);
  detach_from(stream);
  stream.state = State::unknown;
  stream.context = nullptr;
  stream.handle.store(destroyed_mark, std::memory_order_release);
}

void ProgramStreams::before_destruction(CUstream handle) noexcept {
  if (is_forked_child() || is_built_in(handle)) return;
  Stream* const stream = find(handle);
  if (stream == nullptr) {
    Refusals::get().forget(handle);
    return ProgramPools::forget_stream(handle);
  }
  const std::lock_guard lock(mutex_);
  if (begun()) keep_work_of(*stream, "a stream was destroyed whose work cannot be followed");
  forget(*stream);
}

/// The driver destroys a stream at once, and a stream that captures cannot be asked, but the
/// stream's work goes on. Makes another stream wait for that work. Does not wait itself: the work
/// may need another thread, which may need the lock.
void ProgramStreams::keep_work_of(Stream& stream, const char* if_it_cannot) noexcept {
  if (ProgramMemory::get().stays()) return;
  const DriverLibrary& driver = *DriverLibrary::get();
  const RelaxedCaptures relaxed(driver);
  // What is captured does not run, and what came before was handed over (`before_capture`). Without
  // an answer, the stream, its context or the driver has ended, or a broken kernel has ended all
  // work.
  if (capturing(driver, stream.handle) != Capturing::no) return;
  Context* const context = context_of(stream.context);
  if (context != nullptr) {
    const PushedContext pushed(driver, stream.context);
    const CUresult state = driver.real<EntryPoint::cuStreamQuery>()(stream.handle);
    if (state != CUDA_ERROR_NOT_READY) return;
    if (pushed && hand_over(stream, *context)) return;
  }
  give_up(if_it_cannot);
}

void ProgramStreams::before_capture(CUstream handle) noexcept {
  if (is_forked_child() || !begun() || is_built_in(handle)) return;
  Stream* const stream = find(handle);
  if (stream == nullptr) return;
  const std::lock_guard lock(mutex_);
  keep_work_of(*stream, "a stream captures whose earlier work cannot be followed");
}

/// Requires: the context is current, and the caller holds `mutex_`.
bool ProgramStreams::hand_over(Stream& stream, Context& context) noexcept {
  const DriverLibrary& driver = *DriverLibrary::get();
  const auto create = driver.real<EntryPoint::cuStreamCreate>();
  const auto record = driver.real<EntryPoint::cuEventRecord>();
  const auto wait = driver.real<EntryPoint::cuStreamWaitEvent>();
  if (context.successor == nullptr) {
    CUstream successor = nullptr;
    if (create(&successor, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) return false;
    if (attach(successor) != Attached::yes) {
      driver.real<EntryPoint::cuStreamDestroy_v2>()(successor);
      return false;
    }
    context.successor = successor;
  }
  CUevent event = nullptr;
  if (driver.cuEventCreate_plain(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) return false;
  const bool waits = record(event, stream.handle) == CUDA_SUCCESS &&
                     wait(context.successor, event, 0) == CUDA_SUCCESS;
  driver.cuEventDestroy_v2_plain(event);
  return waits;
}

// --- Contexts

/// Inserts it if it is unknown; null without memory. Requires: the caller holds `mutex_`.
ProgramStreams::Context* ProgramStreams::context_of(CUcontext handle) noexcept try {
  const auto known = std::ranges::find(contexts_, handle, &Context::handle);
  if (known != contexts_.end()) return &*known;
  contexts_.push_back({.handle = handle});
  ++unattached_;
  return &contexts_.back();
} catch (const std::exception&) {
  return nullptr;
}

void ProgramStreams::begin() noexcept {
  CUcontext context = nullptr;
  int device = 0;
  if (current(context, device)) note_current(context);
  if (begun()) return;
  const std::lock_guard lock(mutex_);
  if (const VmartLibrary* const vmart = VmartLibrary::loaded()) {
    vmart->vmart_before_stops([](void*) { get().detach_unused(); }, nullptr);
    vmart->vmart_pause_launches(
        [](std::int64_t limit_ns, void*) { LaunchPause::get().change(limit_ns); }, nullptr);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // Or that capture finds vmart loaded.
    vmart->vmart_captures_will_be_told(Refusals::has_captured() ? 1 : 0);
  }
  begun_.store(true, std::memory_order_release);
  for (Context& known : contexts_) {
    const PushedContext pushed(*DriverLibrary::get(), known.handle);
    if (pushed && !known.attached) attach_legacy(known);
  }
}

void ProgramStreams::note_current(CUcontext handle) noexcept {
  thread_local CUcontext last = nullptr;
  thread_local unsigned last_generation = 0;
  if (handle == nullptr || is_forked_child()) return;
  const unsigned generation = generation_.load(std::memory_order_relaxed);
  if (handle == last && generation == last_generation) return;
  last = handle;
  last_generation = generation;
  note_driver_is_used();
  const std::lock_guard lock(mutex_);
  Context* const context = context_of(handle);
  if (context == nullptr) return give_up("there is no memory for the list of contexts");
  if (begun() && !context->attached) attach_legacy(*context);
}

void ProgramStreams::created(CUcontext handle) noexcept {
  if (is_forked_child()) return;
  note_current(handle);
  const std::lock_guard lock(mutex_);
  if (Context* const context = context_of(handle)) context->created = true;
}

bool ProgramStreams::owns(CUcontext handle) noexcept {
  if (is_forked_child()) return false;
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find(contexts_, handle, &Context::handle);
  return known != contexts_.end() && known->created;
}

/// Attaches the calling thread's context. Its first work may be what makes it usable.
void ProgramStreams::attach_current(bool work_is_enqueued) noexcept {
  thread_local CUcontext last_attached = nullptr;
  thread_local unsigned last_generation = 0;
  CUcontext handle = nullptr;
  if (ProgramMemory::get().stays() ||
      DriverLibrary::get()->cuCtxGetCurrent_plain(&handle) != CUDA_SUCCESS || handle == nullptr) {
    return;
  }
  const unsigned generation = generation_.load(std::memory_order_relaxed);
  if (handle == last_attached && generation == last_generation) return;
  const std::lock_guard lock(mutex_);
  Context* const context = context_of(handle);
  if (context == nullptr) return give_up("there is no memory for the list of contexts");
  if (!context->attached && !attach_legacy(*context) && work_is_enqueued) give_up(last_error());
  if (!context->attached) return;
  last_attached = handle;
  last_generation = generation;
}

/// Returns false if work may be missed; one that is not usable yet stays unattached. Requires: the
/// context is current, and the caller holds `mutex_`.
bool ProgramStreams::attach_legacy(Context& context) noexcept {
  const Attached attached = attach(nullptr);
  if (attached == Attached::yes) {
    context.attached = true;
    --unattached_;
  }
  return attached != Attached::no;
}

void ProgramStreams::before_destruction(CUcontext handle) noexcept {
  if (is_forked_child() || DriverLibrary::get() == nullptr) return;
  const DriverLibrary& driver = *DriverLibrary::get();
  const PushedContext pushed(driver, handle);
  if (pushed && begun()) driver.real<EntryPoint::cuCtxSynchronize>()();
  const std::lock_guard lock(mutex_);
  ++generation_;
  const auto known = std::ranges::find(contexts_, handle, &Context::handle);
  if (known == contexts_.end()) return;
  for (Stream& stream : streams_) {
    if (stream.context != handle || is_built_in(stream.handle)) continue;
    forget(stream);
  }
  if (known->successor != nullptr) detach(known->successor);  // Destroyed with its context.
  if (known->attached && pushed) detach(nullptr);
  for (CUstream legacy : {CUstream{nullptr}, CU_STREAM_LEGACY}) ProgramPools::forget_stream(legacy);
  if (!known->attached) --unattached_;
  contexts_.erase(known);
}

void ProgramStreams::destroy_streams_of(CUcontext handle) noexcept {
  const std::lock_guard lock(mutex_);
  for (Stream& stream : streams_) {
    const CUstream native = stream.handle;
    if (stream.context != handle || is_built_in(native)) continue;
    forget(stream);
    DriverLibrary::get()->real<EntryPoint::cuStreamDestroy_v2>()(native);
  }
}

}  // namespace vma::interpose
