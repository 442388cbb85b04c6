// Wrong calls, whose codes are the driver's.
#include "world.hpp"

#include <algorithm>

namespace fuzz {
namespace {

constexpr CUdeviceptr nowhere = 0x1234;
constexpr std::size_t far_away = std::size_t{1} << 45;

void free_wrongly(World& world) {
  const std::size_t number = world.any_buffer(static_cast<int>(world.random.below(2)), true);
  switch (world.random.below(5)) {
    case 0: world.note(driver.f_cuMemFree(0), "cuMemFree of null"); return;
    case 1: world.note(driver.f_cuMemFree(nowhere), "cuMemFree again"); return;
    case 2: world.note(driver.f_cuMemFreeAsync(nowhere, nullptr), "cuMemFreeAsync again"); return;
    case 3:
      world.note(driver.f_cuMemFree(reinterpret_cast<CUdeviceptr>(world.source.data())),
                 "cuMemFree of host memory");
      return;
    default: break;
  }
  if (number == Buffer::none || world.buffers[number].bytes < 2) return;
  const std::size_t offset = 1 + world.random.below(world.buffers[number].bytes - 1);
  const CUdeviceptr inside = world.buffers[number].begin + offset;
  const std::string name = world.name_of(number, offset);
  if (world.random.one_in(2)) {
    world.note(driver.f_cuMemFree(inside), "cuMemFree %s", name.c_str());
  } else {
    world.note(driver.f_cuMemFreeAsync(inside, nullptr), "cuMemFreeAsync %s", name.c_str());
  }
}

void allocate_wrongly(World& world) {
  CUdeviceptr out = 0;
  std::size_t pitch = 0;
  switch (world.random.below(8)) {
    case 0: world.note(driver.f_cuMemAlloc(&out, 0), "cuMemAlloc 0"); return;
    case 1: world.note(driver.f_cuMemAlloc(nullptr, 4 << 20), "cuMemAlloc to null"); return;
    case 2: world.note(driver.f_cuMemAlloc(&out, far_away), "cuMemAlloc far too large"); return;
    case 3: world.note(driver.f_cuMemAlloc(&out, SIZE_MAX), "cuMemAlloc of the most"); return;
    case 4:
      world.note(driver.f_cuMemAllocPitch(&out, &pitch, 0, 100, 4), "cuMemAllocPitch 0 x 100");
      return;
    case 5:
      world.note(driver.f_cuMemAllocPitch(&out, &pitch, 5000, 0, 4), "cuMemAllocPitch 5000 x 0");
      return;
    case 6:
      world.note(driver.f_cuMemAllocPitch(&out, nullptr, 5000, 1000, 4),
                 "cuMemAllocPitch without a pitch");
      return;
    default: world.note(driver.f_cuMemAllocAsync(&out, 0, nullptr), "cuMemAllocAsync 0"); return;
  }
}

void ask_wrongly(World& world) {
  CUdeviceptr begin = 0;
  std::size_t bytes = 0;
  unsigned type = 9;
  const CUdeviceptr address =
      world.random.one_in(3) ? reinterpret_cast<CUdeviceptr>(world.source.data()) : nowhere;
  switch (world.random.below(4)) {
    case 0:
      world.note(driver.f_cuMemGetAddressRange(&begin, &bytes, address), "cuMemGetAddressRange");
      return;
    case 1:
      world.note(driver.f_cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address),
                 "cuPointerGetAttribute of nothing");
      return;
    case 2: {
      CUpointer_attribute wanted = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
      void* out = &type;
      world.note(driver.f_cuPointerGetAttributes(1, &wanted, &out, address),
                 "cuPointerGetAttributes of nothing");
      world.say("type %u", type);
      return;
    }
    default: break;
  }
  const std::size_t number = world.any_buffer(0, true);
  if (number == Buffer::none) return;
  world.note(driver.f_cuPointerGetAttribute(nullptr, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                            world.buffers[number].begin),
             "cuPointerGetAttribute to null");
}

void enqueue_wrongly(World& world, std::size_t context) {
  const std::size_t stream = world.any_stream(context);
  const CUstream on = world.streams[stream].handle;
  const std::size_t number = world.any_buffer(world.contexts[context].device, true);
  unsigned char byte = 0;
  world.enter(context);
  switch (world.random.below(7)) {
    case 0: world.note(driver.f_cuMemsetD8Async(nowhere, 1, 100, on), "a fill of nothing"); return;
    case 1:
      world.note(driver.f_cuMemcpyDtoHAsync(&byte, nowhere, 1, on), "a copy of nothing");
      return;
    case 2: world.note(driver.f_cuMemcpyHtoD(nowhere, &byte, 1), "a copy to nothing"); return;
    case 3: world.note(driver.f_cuMemcpyDtoD(nowhere, nowhere, 1), "a copy of nowhere"); return;
    case 4: {
      // Their numbers are not used again by the simulated driver.
      if (world.stale_streams.empty() || number == Buffer::none) return;
      const CUstream gone = world.random.of(world.stale_streams);
      world.note(driver.f_cuMemsetD8Async(world.buffers[number].begin, 1, 1, gone),
                 "a fill on a stream that is gone");
      world.note(driver.f_cuStreamSynchronize(gone), "cuStreamSynchronize of one that is gone");
      if (world.random.one_in(3)) {
        world.note(driver.f_cuStreamDestroy(gone), "cuStreamDestroy of one that is gone");
      }
      return;
    }
    case 5:
      if (number == Buffer::none) return;
      world.note(driver.f_cuMemsetD8Async(world.buffers[number].begin, 1, far_away, on),
                 "a fill beyond the end");
      return;
    default:
      if (number == Buffer::none || world.buffers[number].bytes < 8) return;
      world.note(driver.f_cuMemsetD32Async(world.buffers[number].begin + 1, 1, 1, on),
                 "a fill that is not aligned");
  }
}

void use_no_context(World& world) {
  CUdeviceptr out = 0;
  std::size_t bytes = 0;
  const std::size_t number = world.any_buffer(0, true);
  world.note(driver.f_cuCtxSetCurrent(nullptr), "cuCtxSetCurrent none");
  world.note(driver.f_cuMemAlloc(&out, 4 << 20), "cuMemAlloc without a context");
  world.note(driver.f_cuMemGetInfo(&bytes, &bytes), "cuMemGetInfo without a context");
  if (number != Buffer::none) {
    const Buffer& buffer = world.buffers[number];
    world.note(driver.f_cuMemsetD8(buffer.begin, 1, 1), "cuMemsetD8 without a context");
    world.note(driver.f_cuMemGetAddressRange(&out, &bytes, buffer.begin),
               "cuMemGetAddressRange without a context");
  }
  world.enter(world.any_context());
}

}  // namespace

void misuse_freed(World& world, CUdeviceptr freed, std::size_t context) {
  const std::size_t stream = world.any_stream(context);
  const CUstream on = world.streams[stream].handle;
  CUdeviceptr begin = 0;
  std::size_t bytes = 0;
  unsigned type = 9;
  world.enter(context);
  // Not by work: it may run when the memory is gone for good.
  switch (world.random.below(4)) {
    case 0: world.note(driver.f_cuMemFree(freed), "cuMemFree again"); return;
    case 1: world.note(driver.f_cuMemFreeAsync(freed, on), "cuMemFreeAsync again"); return;
    case 2:
      world.note(driver.f_cuMemGetAddressRange(&begin, &bytes, freed),
                 "cuMemGetAddressRange of freed memory");
      return;
    default:
      world.note(driver.f_cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, freed),
                 "cuPointerGetAttribute of freed memory");
  }
}

void misuse(World& world) {
  const std::size_t context = world.any_context();
  world.enter(context);
  switch (world.random.below(6)) {
    case 0: return free_wrongly(world);
    case 1: return allocate_wrongly(world);
    case 2: return ask_wrongly(world);
    case 3: return enqueue_wrongly(world, context);
    case 4: return misuse_in_capture(world);
    default: return use_no_context(world);
  }
}

}  // namespace fuzz
