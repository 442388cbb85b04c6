// Memory that the program allocates and frees in the order of streams, and its pools.
#include "interpose/driver_library.hpp"
#include "interpose/hooks/hook.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace vma::interpose {
namespace {

/// For the driver, a free is work of its stream: on the legacy stream, blocking streams wait for
/// it, and it waits for them. A pool of vmart enqueues nothing, so an event takes the place of that
/// work.
void order_legacy(const DriverLibrary& driver, CUstream stream) noexcept {
  CUevent event = nullptr;
  if ((stream != nullptr && stream != CU_STREAM_LEGACY) ||
      driver.cuEventCreate_plain(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
    return;
  }
  driver.cuEventRecord_plain(event, stream);
  driver.cuEventDestroy_v2_plain(event);
}

/// `named` is the stream's name for vmart: see `of_thread`.
template <EntryPoint entry, typename... Pool>
CUresult allocate(CUdeviceptr* out, std::size_t bytes, CUstream stream, CUstream named,
                  const void* caller, Pool... pool) noexcept {
  if (out != nullptr && program().refusals.of_current_context() == CUDA_SUCCESS) {
    bool full = false;
    if (const CUdeviceptr made = program().pools.allocate(bytes, named, caller, {pool...}, full)) {
      *out = made;
      return CUDA_SUCCESS;
    }
    if (full) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  RoomNeed need = RoomNeed::on_stream(stream, bytes);
  ((need.pool = pool), ...);
  return enqueue_with_room<entry>(stream, need, out, bytes, pool..., stream);
}

template <EntryPoint entry>
CUresult free_in_order(CUdeviceptr pointer, CUstream stream, CUstream named) noexcept {
  const auto in_driver = [&] {
    const ProgramStreams::Enqueue enqueue(program().streams);
    return call_driver<entry>(pointer, stream);
  };
  const auto memory = program().memory.find(pointer);
  const DriverLibrary* const driver = DriverLibrary::get();
  // The driver refuses to free in a capture what was not allocated there.
  if (!memory || driver == nullptr || ProgramStreams::captures(*driver, named) ||
      program().refusals.of_current_context() != CUDA_SUCCESS) {
    return in_driver();
  }
  if (memory->pool != nullptr) order_legacy(*driver, named);
  return program().memory.free_in_order(pointer, named) ? CUDA_SUCCESS : in_driver();
}

}  // namespace

CUresult hook_cuMemAllocAsync(CUdeviceptr* out, std::size_t bytes, CUstream stream) {
  return allocate<EntryPoint::cuMemAllocAsync>(out, bytes, stream, stream,
                                               __builtin_return_address(0));
}

CUresult hook_cuMemAllocAsync_ptsz(CUdeviceptr* out, std::size_t bytes, CUstream stream) {
  return allocate<EntryPoint::cuMemAllocAsync_ptsz>(out, bytes, stream, of_thread(stream),
                                                    __builtin_return_address(0));
}

CUresult hook_cuMemAllocFromPoolAsync(CUdeviceptr* out, std::size_t bytes, CUmemoryPool pool,
                                      CUstream stream) {
  return allocate<EntryPoint::cuMemAllocFromPoolAsync>(out, bytes, stream, stream,
                                                       __builtin_return_address(0), pool);
}

CUresult hook_cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* out, std::size_t bytes, CUmemoryPool pool,
                                           CUstream stream) {
  return allocate<EntryPoint::cuMemAllocFromPoolAsync_ptsz>(out, bytes, stream, of_thread(stream),
                                                            __builtin_return_address(0), pool);
}

CUresult hook_cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
  return free_in_order<EntryPoint::cuMemFreeAsync>(pointer, stream, stream);
}

CUresult hook_cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream) {
  return free_in_order<EntryPoint::cuMemFreeAsync_ptsz>(pointer, stream, of_thread(stream));
}

// --- Pools

CUresult hook_cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* properties) {
  const CUresult result = call_driver<EntryPoint::cuMemPoolCreate>(out, properties);
  if (result == CUDA_SUCCESS) program().pools.created(*out, *properties);
  return result;
}

CUresult hook_cuMemPoolDestroy(CUmemoryPool pool) {
  // First, because the handle may name another pool as soon as the driver has destroyed this one.
  const auto beside = program().pools.take(pool);
  const CUresult result = call_driver<EntryPoint::cuMemPoolDestroy>(pool);
  if (beside == nullptr) return result;
  if (result == CUDA_SUCCESS) {
    program().pools.destroyed(beside);
  } else {
    program().pools.put_back(pool, beside);
  }
  return result;
}

CUresult hook_cuMemPoolTrimTo(CUmemoryPool pool, std::size_t keep_bytes) {
  std::uint64_t drivers_bytes = 0;
  const auto beside = program().pools.find(pool);
  if (beside != nullptr &&
      call_driver<EntryPoint::cuMemPoolGetAttribute>(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
                                                     &drivers_bytes) == CUDA_SUCCESS) {
    // Both together keep that much.
    const std::uint64_t kept =
        beside->trim(keep_bytes > drivers_bytes ? keep_bytes - drivers_bytes : 0);
    keep_bytes = keep_bytes > kept ? keep_bytes - kept : 0;
  }
  return call_driver<EntryPoint::cuMemPoolTrimTo>(pool, keep_bytes);
}

CUresult hook_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  const CUresult result = call_driver<EntryPoint::cuMemPoolSetAttribute>(pool, attribute, value);
  const auto beside = result == CUDA_SUCCESS ? program().pools.find(pool) : nullptr;
  if (beside == nullptr) return result;
  if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH ||
      attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) {
    beside->reset(attribute);
  } else {
    beside->follow();
  }
  return result;
}

CUresult hook_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  const CUresult result = call_driver<EntryPoint::cuMemPoolGetAttribute>(pool, attribute, value);
  const auto beside = result == CUDA_SUCCESS ? program().pools.find(pool) : nullptr;
  const std::uint64_t counted = beside != nullptr ? beside->counted(attribute) : 0;
  if (counted != 0) *static_cast<cuuint64_t*>(value) += counted;
  return result;
}

}  // namespace vma::interpose
