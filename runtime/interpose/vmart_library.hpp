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
  ROW(vmart_context_created)        \
  ROW(vmart_context_destroyed)      \
  ROW(vmart_hold_enqueues)          \
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

}  // namespace vma::interpose
