#include "interpose/program_streams.hpp"

#include "interpose/process.hpp"
#include "interpose/vmart_library.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <thread>

namespace vma::interpose {
namespace {

thread_local int enqueues = 0;  // Scopes that the thread is in.

/// The null stream, and the names of the legacy and of the per-thread stream.
bool is_built_in(CUstream stream) noexcept {
  return reinterpret_cast<std::uintptr_t>(stream) <= 2;
}

}  // namespace

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

std::optional<int> ProgramStreams::device_of(CUstream stream) noexcept {
  CUcontext context = nullptr;
  CUcontext of_stream = nullptr;
  int device = 0;
  if (!current(context, device)) return std::nullopt;
  const DriverLibrary& driver = *DriverLibrary::get();
  if (driver.cuStreamGetCtx_plain(stream, &of_stream) != CUDA_SUCCESS) return std::nullopt;
  if (of_stream == context) return device;
  const PushedContext pushed(driver, of_stream);
  return pushed && current(context, device) ? std::optional(device) : std::nullopt;
}

// --- Enqueuing

ProgramStreams::Enqueue::Enqueue(ProgramStreams& streams) noexcept
    : streams_(streams), counted_(!is_forked_child()) {
  if (counted_ && enqueues++ == 0) streams_.enter(streams_.threads_here());
}

ProgramStreams::Enqueue::~Enqueue() {
  if (counted_ && --enqueues == 0) {
    streams_.threads_here().fetch_sub(1, std::memory_order_release);
  }
}

std::atomic<int>& ProgramStreams::threads_here() noexcept {
  static std::atomic<unsigned> threads = 0;
  thread_local const unsigned number = threads.fetch_add(1);
  return enqueuing_[number % enqueuing_.size()].threads;
}

/// Counts the thread, which whoever holds threads back then waits for, or waits for them first.
void ProgramStreams::enter(std::atomic<int>& threads) noexcept {
  while (true) {
    threads.fetch_add(1);
    const int held_back = held_back_.load();
    if (held_back == 0) return;
    threads.fetch_sub(1);
    held_back_.wait(held_back);
  }
}

/// False, with nothing held back, if a thread stays inside a call.
bool ProgramStreams::hold_back(Time until) noexcept {
  held_back_.fetch_add(1);
  const auto none = [](const auto& threads) { return threads.load() == 0; };
  while (!std::ranges::all_of(enqueuing_, none, &Enqueuing::threads)) {
    if (std::chrono::steady_clock::now() > until) {
      let_go();
      return false;
    }
    std::this_thread::yield();
  }
  return true;
}

void ProgramStreams::let_go() noexcept {
  held_back_.fetch_sub(1);
  held_back_.notify_all();
}

/// For `vmart_hold_enqueues`.
const char* ProgramStreams::hold_enqueues(std::int64_t limit_ns) noexcept {
  if (has_green_contexts_) {
    return "the program has green contexts, whose work cannot be held";
  }
  const Time until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(limit_ns);
  if (!hold_back(until)) {
    return "a thread of the program is inside a call that enqueues work";
  }
  if (!refusals_.any_capture()) return nullptr;
  let_go();
  return "a stream captures, and a hold of its context would end the capture";
}

ProgramStreams::Standstill::Standstill(ProgramStreams& streams,
                                       std::chrono::nanoseconds limit) noexcept
    : streams_(streams),
      end_(std::chrono::steady_clock::now() + limit),
      held_(streams.hold_back(end_ - limit / 2)),
      reached_(held_ && await_all_work(end_ - limit / 2)) {}

ProgramStreams::Standstill::~Standstill() {
  if (held_) streams_.let_go();
}

bool ProgramStreams::Standstill::await_all_work(Time until) const noexcept try {
  const DriverLibrary& driver = *DriverLibrary::get();
  if (streams_.refusals_.any_capture()) return false;  // A wait would end it.
  for (CUcontext const context : streams_.contexts()) {
    const PushedContext pushed(driver, context);
    const CUresult result =
        pushed ? driver.real<EntryPoint::cuCtxSynchronize>()() : CUDA_ERROR_INVALID_CONTEXT;
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_CONTEXT_IS_DESTROYED) return false;
  }
  return std::chrono::steady_clock::now() < until;
} catch (const std::exception&) {
  return false;
}

// --- Streams

void ProgramStreams::created(CUstream stream) noexcept try {
  if (is_forked_child()) return;
  CUcontext context = nullptr;
  DriverLibrary::get()->cuStreamGetCtx_plain(stream, &context);
  const std::lock_guard lock(mutex_);
  streams_[stream] = context;
} catch (const std::exception&) {  // A reset of its context leaves it.
}

void ProgramStreams::before_destruction(CUstream stream) noexcept {
  if (is_forked_child() || is_built_in(stream)) return;
  refusals_.forget(stream);
  stream_ends_(stream);
  const std::lock_guard lock(mutex_);
  streams_.erase(stream);
}

void ProgramStreams::destroy_streams_of(CUcontext context) noexcept try {
  std::vector<CUstream> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [stream, of] : streams_) {
      if (of == context) all.push_back(stream);
    }
  }
  for (const CUstream stream : all) {
    before_destruction(stream);
    DriverLibrary::get()->real<EntryPoint::cuStreamDestroy_v2>()(stream);
  }
} catch (const std::exception&) {
}

// --- Contexts

void ProgramStreams::begin() noexcept {
  CUcontext context = nullptr;
  int device = 0;
  if (current(context, device)) note_current(context);
  if (begun()) return;
  const std::lock_guard lock(mutex_);
  if (begun()) return;
  if (const RunTable* const vmart = VmartLibrary::loaded()) {
    vmart->vmart_hold_enqueues(
        [](std::int64_t limit_ns, void* streams) {
          return static_cast<ProgramStreams*>(streams)->hold_enqueues(limit_ns);
        },
        [](void* streams) { static_cast<ProgramStreams*>(streams)->let_go(); }, this);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // Or that capture finds vmart loaded.
    vmart->vmart_captures_will_be_told(Refusals::has_captured() ? 1 : 0);
    vmart->vmart_unloads_will_be_told();
    for (const auto& [known, created] : contexts_) {
      if (created) vmart->vmart_context_created(known);
    }
  }
  begun_.store(true, std::memory_order_release);
}

std::vector<CUcontext> ProgramStreams::contexts() {
  std::vector<CUcontext> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [context, created] : contexts_) all.push_back(context);
  return all;
}

void ProgramStreams::note_current(CUcontext context) noexcept try {
  thread_local CUcontext last = nullptr;
  thread_local unsigned last_generation = 0;
  if (context == nullptr || is_forked_child()) return;
  const unsigned generation = generation_.load(std::memory_order_relaxed);
  if (context == last && generation == last_generation) return;
  note_driver_is_used();
  {
    const std::lock_guard lock(mutex_);
    contexts_.try_emplace(context, false);
  }
  last = context;
  last_generation = generation;
} catch (const std::exception&) {  // Noted again at the next call.
}

bool ProgramStreams::created(CUcontext context) noexcept try {
  if (is_forked_child()) return true;
  note_current(context);
  const std::lock_guard lock(mutex_);
  contexts_[context] = true;
  const RunTable* const vmart = begun() ? VmartLibrary::loaded() : nullptr;
  if (vmart != nullptr) vmart->vmart_context_created(context);
  return true;
} catch (const std::exception&) {
  return false;
}

bool ProgramStreams::owns(CUcontext context) noexcept {
  if (is_forked_child()) return false;
  const std::lock_guard lock(mutex_);
  const auto known = contexts_.find(context);
  return known != contexts_.end() && known->second;
}

void ProgramStreams::before_destruction(CUcontext context) noexcept {
  if (is_forked_child() || DriverLibrary::get() == nullptr) return;
  const DriverLibrary& driver = *DriverLibrary::get();
  {
    const PushedContext pushed(driver, context);
    if (pushed && begun()) driver.real<EntryPoint::cuCtxSynchronize>()();
  }
  if (const RunTable* const vmart = VmartLibrary::loaded()) {
    vmart->vmart_context_destroyed(context);
  }
  for (CUstream legacy : {CUstream{nullptr}, CU_STREAM_LEGACY}) stream_ends_(legacy);
  const std::lock_guard lock(mutex_);
  ++generation_;
  contexts_.erase(context);
  for (auto stream = streams_.begin(); stream != streams_.end();) {
    if (stream->second != context) {
      ++stream;
      continue;
    }
    refusals_.forget(stream->first);
    stream_ends_(stream->first);
    stream = streams_.erase(stream);
  }
}

}  // namespace vma::interpose
