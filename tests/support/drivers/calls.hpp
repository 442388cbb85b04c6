#pragma once

#include <string_view>

/// Every call of the driver interface, one row each: what the decorators count, fail and trace by.
// clang-format would repack the rows.
// clang-format off
#define VMART_DRIVER_CALLS(ROW)                                                             \
  ROW(device_info) ROW(can_access_peer) ROW(link_info) ROW(host_node_count)                 \
  ROW(granularity) ROW(free_bytes) ROW(reserve) ROW(unreserve) ROW(create) ROW(release)     \
  ROW(map) ROW(unmap) ROW(grant) ROW(access) ROW(retain_handle) ROW(address_range)          \
  ROW(pointer_info) ROW(context_active) ROW(retain_primary) ROW(release_primary)            \
  ROW(create_context) ROW(create_green_context) ROW(create_own_context)                     \
  ROW(destroy_context) ROW(current_context) ROW(set_current_context)                        \
  ROW(context_device) ROW(synchronize_context) ROW(record_context) ROW(hold_context)        \
  ROW(create_stream) ROW(destroy_stream) ROW(stream_context) ROW(stream_id)                 \
  ROW(stream_kind) ROW(is_capturing) ROW(stream_now) ROW(query_stream) ROW(wait_stream)     \
  ROW(stream_wait_event) ROW(create_event) ROW(destroy_event) ROW(record) ROW(query_event)  \
  ROW(wait_event) ROW(batch) ROW(copy) ROW(fill) ROW(load_kernel) ROW(load_kernels)         \
  ROW(unload_kernel)                                                                        \
  ROW(launch) ROW(begin_capture) ROW(end_capture) ROW(at_graph_end) ROW(instantiate)        \
  ROW(launch_graph)                                                                         \
  ROW(destroy_graph) ROW(destroy_exec_graph) ROW(make_chain) ROW(update_chain) ROW(stop)    \
  ROW(export_types) ROW(create_exportable) ROW(export_chunk) ROW(import_chunk)              \
  ROW(context_id) ROW(kernel_parameters) ROW(has_parameters)                                \
  ROW(allocate_pinned) ROW(free_pinned) ROW(allocate_plain) ROW(free_plain)                 \
  ROW(suspend) ROW(suspend_everything) ROW(resume)
// clang-format on

namespace vma {

enum class Call {
#define ROW(name) name,
  VMART_DRIVER_CALLS(ROW)
#undef ROW
};

constexpr std::string_view call_names[] = {
#define ROW(name) #name,
    VMART_DRIVER_CALLS(ROW)
#undef ROW
};
constexpr int call_count = static_cast<int>(std::size(call_names));

constexpr std::string_view to_string(Call call) {
  return call_names[static_cast<int>(call)];
}

}  // namespace vma
