#pragma once

#include <vma/vmart.h>
#include <vma/vmart_backing.h>
#include <vma/vmart_captures.h>
#include <vma/vmart_ipc.h>
#include <vma/vmart_room.h>
#include <vma/vmart_torch.h>
#include <vma/vmart_uses.h>

#include <cuda.h>

// What the hooks call of libvmart.
// clang-format off
#define VMART_RUN_CALLS(ROW)        \
  ROW(vmart_last_error)             \
  ROW(vmart_alloc_with)             \
  ROW(vmart_torch_free)             \
  ROW(vmart_free)                   \
  ROW(vmart_free_async)             \
  ROW(vmart_base)                   \
  ROW(vmart_held_bytes)             \
  ROW(vmart_capacity)               \
  ROW(vmart_make_room)              \
  ROW(vmart_trim)                   \
  ROW(vmart_where)                  \
  ROW(vmart_migrate)                \
  ROW(vmart_backing_create)         \
  ROW(vmart_backing_map)            \
  ROW(vmart_backing_unmap)          \
  ROW(vmart_backing_share)          \
  ROW(vmart_backing_release)        \
  ROW(vmart_backing_note_passed)    \
  ROW(vmart_attach)                 \
  ROW(vmart_detach)                 \
  ROW(vmart_try_detach)             \
  ROW(vmart_before_stops)           \
  ROW(vmart_pause_launches)         \
  ROW(vmart_copy_begin)             \
  ROW(vmart_copy_end)               \
  ROW(vmart_no_stops_begin)         \
  ROW(vmart_no_stops_end)           \
  ROW(vmart_captures_will_be_told)  \
  ROW(vmart_note_export)            \
  ROW(vmart_ipc_export)             \
  ROW(vmart_ipc_import)             \
  ROW(vmart_exported_release)       \
  ROW(vmart_pin_create)             \
  ROW(vmart_pin_release)            \
  ROW(vmart_pool_create)            \
  ROW(vmart_pool_destroy)           \
  ROW(vmart_pool_release)           \
  ROW(vmart_pool_allocate)          \
  ROW(vmart_pool_trim)              \
  ROW(vmart_pool_stats_get)         \
  ROW(vmart_pool_reset_high_marks)  \
  ROW(vmart_pool_set_reuse)         \
  ROW(vmart_pool_set_release_threshold) \
  ROW(vmart_pool_forget_stream)     \
  ROW(vmart_launch_uses)            \
  ROW(vmart_launch_block_uses)      \
  ROW(vmart_record_uses)            \
  ROW(vmart_uses_wanted)            \
  ROW(vmart_forget_kernels)
// clang-format on

namespace vma::interpose {

/// libvmart, which is loaded when the program first needs it, so that programs without a GPU do not
/// load it.
struct VmartLibrary {
#define ROW(call) decltype(&::call) call = nullptr;
  VMART_RUN_CALLS(ROW)
#undef ROW

  /// Null if it cannot be loaded; then this process stands aside. Any thread.
  static const VmartLibrary* load() noexcept;
  /// Null until `load` has succeeded, and in a child of fork.
  static const VmartLibrary* loaded() noexcept;
};

// --- Streams that moves wait for. Requires: vmart is loaded, or nothing is attached.

/// What came of attaching a stream. `later`: its context is not usable, so no work can be enqueued.
enum class Attached { yes, no, later };

/// `yes`, if no work can be missed: a stream of a GPU that is not vmart's (VMART_DEVICES) cannot
/// reach its memory, and once the process exits, nothing moves.
Attached attach(CUstream stream) noexcept;
void detach(CUstream stream) noexcept;
/// Returns false if a move uses the stream, or the runtime has ended. Does not wait for a move,
/// which may wait for a thread that waits for the caller's lock.
bool try_detach(CUstream stream) noexcept;
/// Why vmart has refused.
const char* last_error() noexcept;

}  // namespace vma::interpose
