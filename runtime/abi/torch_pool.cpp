#include "abi/boundary.hpp"
#include "abi/migration_values.hpp"
#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/process_exit.hpp"
#include "runtime/runtime_parts.hpp"

#include <vma/device.hpp>
#include <vma/place.hpp>
#include <vma/options.hpp>
#include <vma/vma.hpp>
#include <vma/vmart_torch.h>

#include <cstddef>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

// PyTorch's pluggable allocators, in two ways. PyTorch's allocator holds its lock during these
// calls, so nothing here calls back into it.
//
// A torch.cuda.MemPool requests segments and splits them itself. A free of a segment waits like
// cudaFree, and not only for `stream`, because PyTorch relies on that when it returns segments:
// those of a captured graph come with the stream that captured, while replays may still run on any
// other stream. It ends no capture, but memory freed during a capture may belong to its graph, so
// nothing is freed while a capture is known. PyTorch frees no segment of a GPU while it captures
// there itself. A capture by other code cannot be detected if its stream is neither `stream`, nor
// attached, nor blocking.
//
// As the only allocator, PyTorch requests and frees each tensor, in the order of its stream. These
// are blocks of the default pool, whose frees wait for nothing.

namespace vma {
namespace {

/// How the calling thread wants segments of PyTorch's pools.
struct TorchSegments {
  AllocOptions options;
  std::optional<Place> at;  ///< None: the GPU that PyTorch names.
  std::size_t large_bytes = 0;
  Place large_at;

  /// What `vmart_torch_segments_begin` set last on this thread, or the defaults.
  static const TorchSegments& current();

  /// Memory for a GPU. Throws and blocks: as `Runtime::alloc` with the GPU as reader.
  void* alloc(std::size_t size_bytes, int device) const;
};

constexpr std::size_t segment_options_bytes_min = 56;

/// Of this thread, the innermost last.
std::vector<TorchSegments>& begun() {
  thread_local std::vector<TorchSegments> stack;
  return stack;
}

TorchSegments segments_of(const vmart_torch_segment_options* given) {
  constexpr const char* call = "vmart_torch_segments_begin";
  const auto known = known_part(given, segment_options_bytes_min,
                                offsetof(vmart_torch_segment_options, reserved), call);
  TorchSegments segments = TorchSegments();
  segments.options.tag = known.tag != nullptr ? known.tag : "torch";
  segments.options.chunk_bytes = known.chunk_bytes;
  if (known.elsewhere != 0) segments.at = to_place(known.at, call);
  segments.large_bytes = known.large_bytes;
  if (known.large_bytes != 0) segments.large_at = to_place(known.large_at, call);
  return segments;
}

const TorchSegments& TorchSegments::current() {
  static Immortal<TorchSegments> defaults([] {
    TorchSegments made;
    made.options.tag = "torch";
    return made;
  }());
  return begun().empty() ? *defaults : begun().back();
}

void* TorchSegments::alloc(std::size_t size_bytes, int device) const {
  const Place own = gpu(device);
  const Place where = large_bytes != 0 && size_bytes >= large_bytes ? large_at : at.value_or(own);
  if (where == own) return runtime().alloc(size_bytes, own, options);
  return runtime().alloc(size_bytes, where, std::span(&own, 1), options);
}

/// Memory whose free was postponed, because of a capture or because the runtime refused it. Any
/// thread.
class DeferredFrees {
 public:
  struct Free {
    void* pointer = nullptr;
    // Of a free in stream order.
    Stream stream = nullptr;
    int device = 0;
  };

  /// Never fails. If there is no memory to remember the pointer, leaks it and logs that.
  void keep(const Free& free) noexcept;
  /// All of them, which the caller frees or keeps again. Throws: nothing.
  std::vector<Free> take_all() noexcept;
  std::size_t count();

 private:
  Mutex mutex_;
  std::vector<Free> kept_ VMART_GUARDED_BY(mutex_);
};

void DeferredFrees::keep(const Free& free) noexcept {
  try {
    const MutexLock lock(mutex_);
    kept_.push_back(free);
  } catch (const std::exception& error) {
    log(LogLevel::error, "{} is never freed: {}", fmt::ptr(free.pointer), error.what());
  }
}

std::vector<DeferredFrees::Free> DeferredFrees::take_all() noexcept {
  const MutexLock lock(mutex_);
  return std::exchange(kept_, {});
}

std::size_t DeferredFrees::count() {
  const MutexLock lock(mutex_);
  return kept_.size();
}

enum class Capturing { not_known_of, elsewhere, here };

// Never destroyed, because PyTorch frees memory until the process ends.
DeferredFrees& late_segments() noexcept {
  static Immortal<DeferredFrees> late;
  return *late;
}
DeferredFrees& late_tensors() noexcept {
  static Immortal<DeferredFrees> late;
  return *late;
}

/// Also false if the stream cannot be queried: its context is destroyed, and so are its captures.
bool captures(Driver& driver, BoundStream stream) noexcept try {
  return driver.is_capturing(stream);
} catch (const std::exception& error) {
  log(LogLevel::debug, "cannot query whether a stream captures: {}", error.what());
  return false;
}

/// The known captures that may use `pointer`.
Capturing what_captures(void* pointer, Stream stream) {
  constexpr StreamHandle legacy{1};
  RuntimeParts& parts = parts_of(runtime());
  const RuntimeParts::Entry entry(parts, "vmart_torch_free");
  Driver& driver = *parts.driver;
  try {
    const BoundStream own = entry->launcher.bind(stream);
    if (!is_built_in(own.handle) && captures(driver, own)) return Capturing::here;
  } catch (const Error& error) {
    log(LogLevel::debug, "vmart_torch_free: the stream no longer exists: {}", error.what());
  }
  for (const ContextHandle context : entry->memory.contexts().list()) {
    if (captures(driver, {context, legacy})) return Capturing::elsewhere;
  }
  const AttachedStreams::Use use(entry->migrator.attached(), address_of(pointer));
  for (const auto& attached : use.streams()) {
    if (captures(driver, attached.bound)) return Capturing::elsewhere;
  }
  return Capturing::not_known_of;
}

// --- Segments

/// Frees the segment, or keeps it for later if the free is refused now. Blocks: like
/// `Runtime::free`.
void free_or_keep(void* pointer) noexcept {
  try {
    runtime().free(pointer);
  } catch (const Error& error) {
    const bool for_good =
        error.kind() == ErrorKind::unknown_pointer || error.kind() == ErrorKind::driver_gone;
    log(for_good ? LogLevel::error : LogLevel::warn, "vmart_torch_free: {}", error.what());
    if (!for_good) late_segments().keep({pointer});
  } catch (const std::exception& error) {
    log(LogLevel::warn, "vmart_torch_free: {}", error.what());
    late_segments().keep({pointer});
  }
}

void free_late_segments() noexcept {
  for (const DeferredFrees::Free& late : late_segments().take_all()) free_or_keep(late.pointer);
}

void* alloc_segment(std::size_t size_bytes, int device, Stream stream) {
  const TorchSegments& segments = TorchSegments::current();
  try {
    return segments.alloc(size_bytes, device);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory || late_segments().count() == 0) throw;
  }
  if (what_captures(nullptr, stream) == Capturing::not_known_of) free_late_segments();
  return segments.alloc(size_bytes, device);
}

void free_segment(void* pointer, Stream stream) {
  switch (what_captures(pointer, stream)) {
    case Capturing::here:
      log(LogLevel::warn, "{} was freed while its stream captures, and is kept for the graph",
          fmt::ptr(pointer));
      return;
    case Capturing::elsewhere: return late_segments().keep({pointer});
    case Capturing::not_known_of: free_late_segments(); return free_or_keep(pointer);
  }
}

// --- Tensors

/// The GPU's primary context is current while this exists, if there is one: PyTorch names the
/// default stream of any GPU by the handle of the current context's.
class OnGpu {
 public:
  explicit OnGpu(int device)
      : entry_(parts_of(runtime()), "vmart_torch_free_async"),
        driver_(*parts_of(runtime()).driver),
        before_(driver_.current_context()) {
    const ContextHandle context = entry_->memory.contexts().primary(DeviceId{device});
    if (!is_none(context)) driver_.set_current_context(context);
  }
  ~OnGpu() {
    try {
      driver_.set_current_context(before_);
    } catch (const std::exception& error) {
      log(LogLevel::warn, "the context of a thread was not restored: {}", error.what());
    }
  }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

  bool captures(Stream stream) noexcept try {
    return vma::captures(driver_, entry_->launcher.bind(stream));
  } catch (const std::exception&) {  // Destroyed, and its captures with it.
    return false;
  }

 private:
  const RuntimeParts::Entry entry_;
  Driver& driver_;
  const ContextHandle before_;
};

/// In the order of its stream, or after all work if the stream no longer exists.
void free_late_tensor(const DeferredFrees::Free& late) noexcept {
  try {
    OnGpu on(late.device);
    if (on.captures(late.stream)) return late_tensors().keep(late);
    try {
      return runtime().free_async(late.pointer, late.stream);
    } catch (const Error& error) {
      log(LogLevel::debug, "vmart_torch_free_async: {}", error.what());
    }
    runtime().default_pool(gpu(late.device)).synchronize();
    runtime().free(late.pointer);
  } catch (const std::exception& error) {
    log(LogLevel::warn, "vmart_torch_free_async: {}", error.what());
    late_tensors().keep(late);
  }
}

void free_late_tensors() noexcept {
  for (const DeferredFrees::Free& late : late_tensors().take_all()) free_late_tensor(late);
}

void* alloc_tensor(std::size_t size_bytes, int device, Stream stream) {
  const Pool pool = runtime().default_pool(gpu(device));
  OnGpu on(device);
  try {
    return pool.allocate(size_bytes, stream);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory || late_tensors().count() == 0) throw;
  }
  free_late_tensors();
  return pool.allocate(size_bytes, stream);
}

/// What cannot be freed now, since the stream captures for example, is freed by a later call.
void free_tensor(const DeferredFrees::Free& free) {
  OnGpu on(free.device);
  if (late_tensors().count() > 0 && !on.captures(free.stream)) free_late_tensors();
  try {
    runtime().free_async(free.pointer, free.stream);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::unknown_pointer || error.kind() == ErrorKind::driver_gone) throw;
    log(LogLevel::debug, "vmart_torch_free_async: {}", error.what());
    late_tensors().keep(free);
  }
}

}  // namespace

}  // namespace vma
namespace {

/// Null after an error, which `vmart_last_error` has.
template <typename Body>
void* null_if_refused(Body&& body) {
  void* pointer = nullptr;
  vma::at_boundary([&] { pointer = body(); });
  if (pointer == nullptr) vma::log(vma::LogLevel::info, "{}", vmart_last_error());
  return pointer;
}

template <typename Body>
void logging_errors(Body&& body) {
  if (vma::at_boundary(body) != VMART_OK) vma::log(vma::LogLevel::warn, "{}", vmart_last_error());
}

}  // namespace

void* vmart_torch_malloc(size_t size_bytes, int device, vmart_stream stream) {
  if (size_bytes == 0) return nullptr;
  return null_if_refused([&] { return vma::alloc_segment(size_bytes, device, stream); });
}

void vmart_torch_free(void* pointer, size_t, int, vmart_stream stream) {
  if (pointer == nullptr || vma::ProcessExit::begun()) return;
  logging_errors([&] { vma::free_segment(pointer, stream); });
}

void* vmart_torch_malloc_async(size_t size_bytes, int device, vmart_stream stream) {
  if (size_bytes == 0) return nullptr;
  return null_if_refused([&] { return vma::alloc_tensor(size_bytes, device, stream); });
}

void vmart_torch_free_async(void* pointer, size_t, int device, vmart_stream stream) {
  if (pointer == nullptr || vma::ProcessExit::begun()) return;
  logging_errors([&] { vma::free_tensor({pointer, stream, device}); });
}

vmart_status vmart_torch_segments_begin(const vmart_torch_segment_options* options) {
  return vma::at_boundary([&] { vma::begun().push_back(vma::segments_of(options)); });
}

vmart_status vmart_torch_segments_end() {
  return vma::at_boundary([] {
    if (vma::begun().empty()) {
      throw vma::Error(vma::ErrorKind::invalid_argument, "vmart_torch_segments_end",
                       "this thread has not called vmart_torch_segments_begin, or has ended it");
    }
    vma::begun().pop_back();
  });
}
