// PyTorch's pluggable allocator. A torch.cuda.MemPool requests segments here and splits them
// itself. PyTorch's allocator holds its lock during these calls, so nothing here calls back into
// it.
//
// A free waits like cudaFree, and not only for `stream`, because PyTorch relies on that when it
// returns segments: those of a captured graph come with the stream that captured, while replays may
// still run on any other stream.
//
// A free ends no capture, but memory freed during a capture may belong to its graph, so nothing is
// freed while a capture is known. PyTorch frees no segment of a GPU while it captures there itself.
// A capture by other code cannot be detected if its stream is neither `stream`, nor attached, nor
// blocking.
#include "abi/boundary.hpp"
#include "abi/deferred_frees.hpp"

#include "base/log.hpp"
#include "runtime/runtime_parts.hpp"

#include <vma/vma.hpp>

#include <exception>

namespace vma {
namespace {

enum class Capturing { not_known_of, elsewhere, here };

/// Never destroyed, because PyTorch frees memory until the process ends.
DeferredFrees& deferred_frees() {
  static DeferredFrees* const late = new DeferredFrees();
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
  const AttachedStreams::Use use(entry->mover.attached(), address_of(pointer));
  for (const auto& attached : use.streams()) {
    if (captures(driver, attached.bound)) return Capturing::elsewhere;
  }
  return Capturing::not_known_of;
}

void* alloc_segment(std::size_t size_bytes, int device, Stream stream) {
  AllocOptions options;
  options.tag = "torch";
  try {
    return runtime().alloc(size_bytes, gpu(device), options);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory || deferred_frees().count() == 0) throw;
  }
  if (what_captures(nullptr, stream) == Capturing::not_known_of)
    deferred_frees().free_all(runtime());
  return runtime().alloc(size_bytes, gpu(device), options);
}

void free_segment(void* pointer, Stream stream) {
  switch (what_captures(pointer, stream)) {
    case Capturing::here:
      log(LogLevel::warn, "{} was freed while its stream captures, and is kept for the graph",
          fmt::ptr(pointer));
      return;
    case Capturing::elsewhere: return deferred_frees().keep(pointer);
    case Capturing::not_known_of:
      deferred_frees().free_all(runtime());
      return free_or_keep(runtime(), pointer, deferred_frees());
  }
}

}  // namespace
}  // namespace vma

void* vmart_torch_malloc(size_t size_bytes, int device, vmart_stream stream) {
  if (size_bytes == 0) return nullptr;
  void* pointer = nullptr;
  vma::at_boundary([&] { pointer = vma::alloc_segment(size_bytes, device, stream); });
  if (pointer == nullptr) vma::log(vma::LogLevel::info, "{}", vmart_last_error());
  return pointer;
}

void vmart_torch_free(void* pointer, size_t, int, vmart_stream stream) {
  if (pointer == nullptr || vma::ProcessExit::begun()) return;
  const vmart_status status = vma::at_boundary([&] { vma::free_segment(pointer, stream); });
  if (status != VMART_OK) vma::log(vma::LogLevel::warn, "{}", vmart_last_error());
}
