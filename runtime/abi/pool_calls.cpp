// The C calls of pools.
#include "abi/boundary.hpp"
#include "abi/migration_values.hpp"

#include "runtime/runtime_parts.hpp"

#include <vma/vma.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

using vma::at_boundary;
using vma::require_argument;

namespace vma {
namespace {

constexpr std::size_t pool_options_bytes_min = 48;
constexpr std::size_t pool_stats_bytes_min = 48;
static_assert(offsetof(vmart_pool_options, exportable) == pool_options_bytes_min);
static_assert(sizeof(vmart_pool_stats) == pool_stats_bytes_min);

PoolOptions pool_options_of(const vmart_pool_options* given, const char* tag, const char* call) {
  PoolOptions options;
  if (tag != nullptr) options.tag = tag;
  if (given == nullptr) return options;
  const auto known =
      known_part(given, pool_options_bytes_min, offsetof(vmart_pool_options, reserved), call);
  options.release_threshold = known.release_threshold;
  options.max_bytes = known.max_bytes;
  options.chunk_bytes = known.chunk_bytes;
  options.reuse.event_dependencies = known.no_event_dependencies == 0;
  options.reuse.opportunistic = known.no_opportunistic == 0;
  options.reuse.internal_dependencies = known.no_internal_dependencies == 0;
  options.streams_last = known.streams_last != 0;
  options.exportable = known.exportable != 0;
  return options;
}

const Pool& pool_of(const vmart_pool* pool, const char* call) {
  require_argument(pool, call, "pool");
  return pool->pool;
}

/// Hands a pool out.
void give(vmart_pool** out, Pool pool) {
  *out = std::make_unique<vmart_pool>(vmart_pool{std::move(pool)}).release();
}

}  // namespace
}  // namespace vma

vmart_status vmart_pool_create(vmart_place at, const char* tag, const vmart_pool_options* options,
                               vmart_pool** out) {
  constexpr const char* call = "vmart_pool_create";
  return at_boundary([&] {
    require_argument(out, call, "out");
    vma::give(out,
              vma::make_pool(vma::to_place(at, call), vma::pool_options_of(options, tag, call)));
  });
}

vmart_status vmart_pool_default(vmart_place at, vmart_pool** out) {
  constexpr const char* call = "vmart_pool_default";
  return at_boundary([&] {
    require_argument(out, call, "out");
    vma::give(out, vma::default_pool(vma::to_place(at, call)));
  });
}

vmart_status vmart_pool_current(vmart_place at, vmart_pool** out) {
  constexpr const char* call = "vmart_pool_current";
  return at_boundary([&] {
    require_argument(out, call, "out");
    vma::give(out, vma::current_pool(vma::to_place(at, call)));
  });
}

vmart_status vmart_pool_set_current(const vmart_pool* pool) {
  return at_boundary([&] { vma::set_current_pool(vma::pool_of(pool, "vmart_pool_set_current")); });
}

vmart_status vmart_pool_allocate(const vmart_pool* pool, size_t size_bytes, size_t alignment,
                                 vmart_stream stream, void** out) {
  constexpr const char* call = "vmart_pool_allocate";
  return at_boundary([&] {
    require_argument(out, call, "out");
    *out = vma::pool_of(pool, call).allocate(size_bytes, stream, alignment == 0 ? 256 : alignment);
  });
}

vmart_status vmart_pool_deallocate(const vmart_pool* pool, void* pointer, vmart_stream stream) {
  return at_boundary(
      [&] { vma::pool_of(pool, "vmart_pool_deallocate").deallocate(pointer, stream); });
}

vmart_status vmart_alloc_async(size_t size_bytes, vmart_stream stream, void** out) {
  return at_boundary([&] {
    require_argument(out, "vmart_alloc_async", "out");
    *out = vma::alloc_async(size_bytes, stream);
  });
}

vmart_status vmart_pool_order(const vmart_pool* pool, vmart_stream after, vmart_stream before) {
  return at_boundary([&] { vma::pool_of(pool, "vmart_pool_order").order(after, before); });
}

vmart_status vmart_pool_trim(const vmart_pool* pool, size_t keep_bytes, size_t* out_bytes) {
  return at_boundary([&] {
    const size_t bytes = vma::pool_of(pool, "vmart_pool_trim").trim(keep_bytes);
    if (out_bytes != nullptr) *out_bytes = bytes;
  });
}

vmart_status vmart_pool_synchronize(const vmart_pool* pool) {
  return at_boundary([&] { vma::pool_of(pool, "vmart_pool_synchronize").synchronize(); });
}

vmart_status vmart_pool_stats_get(const vmart_pool* pool, vmart_pool_stats* stats) {
  constexpr const char* call = "vmart_pool_stats_get";
  return at_boundary([&] {
    require_argument(stats, call, "stats");
    vma::require_struct_size(stats->size_bytes, vma::pool_stats_bytes_min, call,
                             "stats->size_bytes");
    const vma::PoolStats now = vma::pool_of(pool, call).stats();
    vmart_pool_stats filled{};
    filled.size_bytes = std::min(stats->size_bytes, sizeof filled);
    filled.reserved_bytes = now.reserved_bytes;
    filled.reserved_high_bytes = now.reserved_high_bytes;
    filled.used_bytes = now.used_bytes;
    filled.used_high_bytes = now.used_high_bytes;
    filled.pending_bytes = now.pending_bytes;
    std::memcpy(stats, &filled, filled.size_bytes);
  });
}

vmart_status vmart_pool_reset_high_marks(const vmart_pool* pool) {
  return at_boundary([&] { vma::pool_of(pool, "vmart_pool_reset_high_marks").reset_high_marks(); });
}

vmart_status vmart_pool_set_release_threshold(const vmart_pool* pool, size_t size_bytes) {
  return at_boundary([&] {
    vma::pool_of(pool, "vmart_pool_set_release_threshold").set_release_threshold(size_bytes);
  });
}

vmart_status vmart_pool_set_reuse(const vmart_pool* pool, const vmart_pool_options* options) {
  constexpr const char* call = "vmart_pool_set_reuse";
  return at_boundary([&] {
    require_argument(options, call, "options");
    vma::pool_of(pool, call).set_reuse(vma::pool_options_of(options, nullptr, call).reuse);
  });
}

vmart_status vmart_pool_forget_stream(vmart_stream stream) {
  constexpr const char* call = "vmart_pool_forget_stream";
  return at_boundary([&] {
    constexpr vma::StreamHandle of_thread{2};  // CU_STREAM_PER_THREAD.
    const auto handle = vma::handle_of(stream);
    if (handle == of_thread) {
      throw vma::Error(vma::ErrorKind::invalid_argument, call,
                       "the stream of a thread ends with its thread");
    }
    const vma::RuntimeParts::Entry entry(parts_of(vma::runtime()), call);
    entry->pools.destroy_stream(handle, [] {});  // By the caller.
  });
}

vmart_status vmart_pool_migrate(const vmart_pool* pool, vmart_place to,
                                const vmart_migrate_options* options) {
  constexpr const char* call = "vmart_pool_migrate";
  return at_boundary([&] {
    vma::migrate(vma::pool_of(pool, call), vma::to_place(to, call), vma::options_of(options, call));
  });
}

vmart_status vmart_pool_destroy(const vmart_pool* pool) {
  return at_boundary([&] {
    vma::Pool destroyed = vma::pool_of(pool, "vmart_pool_destroy");
    destroyed.destroy();
  });
}

void vmart_pool_release(vmart_pool* pool) {
  at_boundary([&] { delete pool; });
}
