// Copies and fills, and operations on words.
#include "simcuda/graphs.hpp"
#include "simcuda/library.hpp"
#include "simcuda/memory.hpp"

#include <cstdint>
#include <cstring>
#include <vector>

namespace vma {
namespace {

// The zero stream: the legacy one, or the thread's own.
constexpr CUstream zero_stream = nullptr;

/// The legacy streams of other GPUs with which a copy in this one is ordered. The driver orders
/// copies between plain memory of two GPUs so, but not those between mapped memory (measured on
/// H200). Of copies between one and the other, nothing is assumed.
std::vector<BoundStream> other_gpus(BoundStream stream, Address target, Address source) {
  if (static_cast<std::uintptr_t>(stream.handle) >
      reinterpret_cast<std::uintptr_t>(CU_STREAM_LEGACY)) {
    return {};
  }
  std::vector<BoundStream> others;
  for (const Address operand : {target, source}) {
    ContextHandle owner{};
    try {
      if (!sim().pointer_info(operand).has_context) return {};
      owner = DeviceMemory::of_process().context_of(sim().address_range(operand).begin);
    } catch (const Error&) {  // Host memory that the simulator does not know.
    }
    if (is_none(owner)) return {};
    if (sim().context_device(owner) == sim().context_device(stream.context)) continue;
    others.push_back({owner, StreamHandle{}});
  }
  return others;
}

using LookUp = SimDriver::LookUp;

/// When what the calling thread enqueues looks its memory up: nodes of a graph do when they run.
thread_local LookUp operands_looked_up = LookUp::now;

/// What is enqueued in `later` from now on waits for what `earlier` has.
void let_wait(BoundStream later, BoundStream earlier) {
  const EventHandle event = sim().create_event(earlier.context);
  try {
    sim().record(event, earlier);
    sim().stream_wait_event(later, event);
  } catch (...) {
    sim().destroy_event(event);
    throw;
  }
  sim().destroy_event(event);
}

NodeContents copied(Address target, Address source, std::size_t bytes) {
  CUDA_MEMCPY3D rows{};
  rows.srcMemoryType = rows.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  rows.srcDevice = to_integer(source);
  rows.dstDevice = to_integer(target);
  rows.WidthInBytes = bytes;
  rows.Height = rows.Depth = 1;
  return rows;
}

void copy(Address target, Address source, std::size_t bytes, CUstream stream) {
  const BoundStream bound = stream_of(stream);
  const std::vector<BoundStream> others = other_gpus(bound, target, source);
  for (const BoundStream& other : others) let_wait(bound, other);
  sim().enqueue_copy(bound, target, source, bytes, operands_looked_up);
  note_captured(bound, CU_GRAPH_NODE_TYPE_MEMCPY, copied(target, source, bytes));
  for (const BoundStream& other : others) let_wait(other, bound);
}

void copy_and_wait(Address target, Address source, std::size_t bytes) {
  copy(target, source, bytes, zero_stream);
  finish(stream_of(zero_stream));
}

/// The simulator takes an address that it does not know for one of the host's own memory. Throws:
/// for such an address, where a call asks for device memory.
Address in_device(CUdeviceptr address) {
  sim().pointer_info(Address{address});
  return Address{address};
}

/// Enqueues a fill with a value of 1, 2 or 4 bytes.
void fill(CUdeviceptr begin, std::uint64_t value, std::size_t width, std::size_t count,
          CUstream stream) {
  if (begin % width != 0) refuse(CUDA_ERROR_INVALID_VALUE);
  const BoundStream bound = stream_of(stream);
  if (count == 0) return;
  if (operands_looked_up == LookUp::when_it_runs && !sim().knows(Address{begin}))
    refuse(CUDA_ERROR_INVALID_VALUE);
  if (width == 1) {
    sim().enqueue_fill(bound, Address{begin}, static_cast<std::byte>(value), count,
                       operands_looked_up);
  } else {
    launch_own(bound, OwnKernel::fill_pattern,
               KernelArguments::of(begin, value, std::uint64_t{width}, std::uint64_t{count}));
  }
  note_captured(bound, CU_GRAPH_NODE_TYPE_MEMSET,
                CUDA_MEMSET_NODE_PARAMS_v1{begin, 0, static_cast<unsigned>(value),
                                           static_cast<unsigned>(width), count, 1});
}

/// Fills of device memory do not block.
void fill_now(CUdeviceptr begin, std::uint64_t value, std::size_t width, std::size_t count) {
  fill(begin, value, width, count, zero_stream);
  if (count != 0 && sim().pointer_info(Address{begin}).at.kind == Place::Kind::host) {
    finish(stream_of(zero_stream));
  }
}

/// The first byte of one side of a copy of rows. Throws: for arrays, which the simulator lacks.
Address side(CUmemorytype type, const void* in_host, CUdeviceptr device, std::size_t x,
             std::size_t y, std::size_t pitch) {
  const std::size_t offset = y * pitch + x;
  switch (type) {
    case CU_MEMORYTYPE_HOST: return address_of(in_host) + offset;
    case CU_MEMORYTYPE_DEVICE:
      if (operands_looked_up == LookUp::now) return in_device(device) + offset;
      // It may be dark now, but not freed: then the host may have memory there.
      if (!sim().knows(Address{device})) refuse(CUDA_ERROR_INVALID_VALUE);
      return Address{device} + offset;
    case CU_MEMORYTYPE_UNIFIED: return Address{device} + offset;
    default: refuse(CUDA_ERROR_NOT_SUPPORTED);
  }
}

void copy_rows(const CUDA_MEMCPY2D* rows, CUstream stream) {
  const CUDA_MEMCPY2D& what = *required(rows);
  const Address source = side(what.srcMemoryType, what.srcHost, what.srcDevice, what.srcXInBytes,
                              what.srcY, what.srcPitch);
  const Address target = side(what.dstMemoryType, what.dstHost, what.dstDevice, what.dstXInBytes,
                              what.dstY, what.dstPitch);
  for (std::size_t row = 0; row < what.Height; ++row) {
    copy(target + row * what.dstPitch, source + row * what.srcPitch, what.WidthInBytes, stream);
  }
}

/// Layers of rows.
void copy_layers(const CUDA_MEMCPY3D* layers, CUstream stream) {
  const CUDA_MEMCPY3D& what = *required(layers);
  CUDA_MEMCPY2D rows{};
  rows.srcMemoryType = what.srcMemoryType;
  rows.srcHost = what.srcHost;
  rows.srcDevice = what.srcDevice;
  rows.srcXInBytes = what.srcXInBytes;
  rows.srcPitch = what.srcPitch;
  rows.dstMemoryType = what.dstMemoryType;
  rows.dstHost = what.dstHost;
  rows.dstDevice = what.dstDevice;
  rows.dstXInBytes = what.dstXInBytes;
  rows.dstPitch = what.dstPitch;
  rows.WidthInBytes = what.WidthInBytes;
  rows.Height = what.Height;
  for (std::size_t layer = 0; layer < what.Depth; ++layer) {
    rows.srcY = what.srcY + (what.srcZ + layer) * what.srcHeight;
    rows.dstY = what.dstY + (what.dstZ + layer) * what.dstHeight;
    copy_rows(&rows, stream);
  }
}

/// Rows of values of 1, 2 or 4 bytes.
void fill_rows(CUdeviceptr begin, std::size_t pitch, std::uint64_t value, std::size_t value_bytes,
               std::size_t width, std::size_t height, CUstream stream) {
  if (pitch < width * value_bytes && height > 1) refuse(CUDA_ERROR_INVALID_VALUE);
  for (std::size_t row = 0; row < height; ++row) {
    fill(begin + row * pitch, value, value_bytes, width, stream);
  }
}

WordOperation operation_of(const CUstreamBatchMemOpParams& params) {
  switch (params.operation) {
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return {WordOperation::Kind::write, Address{params.writeValue.address},
              params.writeValue.value64};
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      if (params.waitValue.flags != CU_STREAM_WAIT_VALUE_GEQ) refuse(CUDA_ERROR_NOT_SUPPORTED);
      return {WordOperation::Kind::wait_until_at_least, Address{params.waitValue.address},
              params.waitValue.value64};
    default: refuse(CUDA_ERROR_NOT_SUPPORTED);  // The simulator's words have 64 bits.
  }
}

void batch(CUstream stream, const WordOperation& operation) {
  sim().batch(stream_of(stream), {&operation, 1});
}

}  // namespace

void enqueue(const Transfer& what, CUstream stream) {
  operands_looked_up = LookUp::when_it_runs;
  struct End {
    ~End() { operands_looked_up = LookUp::now; }
  } const end;
  if (const auto* const copied = std::get_if<CUDA_MEMCPY3D>(&what)) {
    return copy_layers(copied, stream);
  }
  const auto& filled = std::get<CUDA_MEMSET_NODE_PARAMS_v1>(what);
  fill_rows(filled.dst, filled.pitch, filled.value, filled.elementSize, filled.width, filled.height,
            stream);
}

std::vector<WordOperation> word_operations(const CUstreamBatchMemOpParams* params,
                                           unsigned int count) {
  if (count == 0) refuse(CUDA_ERROR_INVALID_VALUE);
  std::vector<WordOperation> operations;
  for (unsigned int i = 0; i < count; ++i) operations.push_back(operation_of(required(params)[i]));
  return operations;
}

SIMCUDA_STREAM_CALL(cuMemcpy, _ptds, (CUdeviceptr target, CUdeviceptr source, std::size_t bytes),
                    (target, source, bytes)) {
  copy_and_wait(Address{target}, Address{source}, bytes);
}
SIMCUDA_STREAM_CALL(cuMemcpyPeer, _ptds,
                    (CUdeviceptr target, CUcontext, CUdeviceptr source, CUcontext,
                     std::size_t bytes),
                    (target, nullptr, source, nullptr, bytes)) {
  copy_and_wait(Address{target}, Address{source}, bytes);
}
SIMCUDA_STREAM_CALL(cuMemcpyHtoD_v2, _ptds,
                    (CUdeviceptr target, const void* source, std::size_t bytes),
                    (target, source, bytes)) {
  copy_and_wait(in_device(target), address_of(source), bytes);
}
SIMCUDA_STREAM_CALL(cuMemcpyDtoH_v2, _ptds, (void* target, CUdeviceptr source, std::size_t bytes),
                    (target, source, bytes)) {
  copy_and_wait(address_of(target), in_device(source), bytes);
}
SIMCUDA_STREAM_CALL(cuMemcpyDtoD_v2, _ptds,
                    (CUdeviceptr target, CUdeviceptr source, std::size_t bytes),
                    (target, source, bytes)) {
  copy_and_wait(in_device(target), in_device(source), bytes);
}
SIMCUDA_STREAM_CALL(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D* rows), (rows)) {
  copy_rows(rows, zero_stream);
  finish(stream_of(zero_stream));
}
SIMCUDA_STREAM_CALL(cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D* rows), (rows)) {
  copy_rows(rows, zero_stream);
  finish(stream_of(zero_stream));
}

SIMCUDA_STREAM_CALL(cuMemcpyAsync, _ptsz,
                    (CUdeviceptr target, CUdeviceptr source, std::size_t bytes, CUstream stream),
                    (target, source, bytes, stream)) {
  copy(Address{target}, Address{source}, bytes, stream);
}
SIMCUDA_STREAM_CALL(cuMemcpyPeerAsync, _ptsz,
                    (CUdeviceptr target, CUcontext, CUdeviceptr source, CUcontext,
                     std::size_t bytes, CUstream stream),
                    (target, nullptr, source, nullptr, bytes, stream)) {
  copy(Address{target}, Address{source}, bytes, stream);
}
SIMCUDA_STREAM_CALL(cuMemcpyHtoDAsync_v2, _ptsz,
                    (CUdeviceptr target, const void* source, std::size_t bytes, CUstream stream),
                    (target, source, bytes, stream)) {
  copy(in_device(target), address_of(source), bytes, stream);
}
SIMCUDA_STREAM_CALL(cuMemcpyDtoHAsync_v2, _ptsz,
                    (void* target, CUdeviceptr source, std::size_t bytes, CUstream stream),
                    (target, source, bytes, stream)) {
  copy(address_of(target), in_device(source), bytes, stream);
}
SIMCUDA_STREAM_CALL(cuMemcpyDtoDAsync_v2, _ptsz,
                    (CUdeviceptr target, CUdeviceptr source, std::size_t bytes, CUstream stream),
                    (target, source, bytes, stream)) {
  copy(in_device(target), in_device(source), bytes, stream);
}
SIMCUDA_STREAM_CALL(cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D* rows, CUstream stream),
                    (rows, stream)) {
  copy_rows(rows, stream);
}

SIMCUDA_STREAM_CALL(cuMemsetD8_v2, _ptds,
                    (CUdeviceptr begin, unsigned char value, std::size_t count),
                    (begin, value, count)) {
  fill_now(begin, value, 1, count);
}
SIMCUDA_STREAM_CALL(cuMemsetD16_v2, _ptds,
                    (CUdeviceptr begin, unsigned short value, std::size_t count),
                    (begin, value, count)) {
  fill_now(begin, value, 2, count);
}
SIMCUDA_STREAM_CALL(cuMemsetD32_v2, _ptds,
                    (CUdeviceptr begin, unsigned int value, std::size_t count),
                    (begin, value, count)) {
  fill_now(begin, value, 4, count);
}
SIMCUDA_STREAM_CALL(cuMemsetD8Async, _ptsz,
                    (CUdeviceptr begin, unsigned char value, std::size_t count, CUstream stream),
                    (begin, value, count, stream)) {
  fill(begin, value, 1, count, stream);
}
SIMCUDA_STREAM_CALL(cuMemsetD16Async, _ptsz,
                    (CUdeviceptr begin, unsigned short value, std::size_t count, CUstream stream),
                    (begin, value, count, stream)) {
  fill(begin, value, 2, count, stream);
}
SIMCUDA_STREAM_CALL(cuMemsetD32Async, _ptsz,
                    (CUdeviceptr begin, unsigned int value, std::size_t count, CUstream stream),
                    (begin, value, count, stream)) {
  fill(begin, value, 4, count, stream);
}

SIMCUDA_STREAM_CALL(cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D* layers), (layers)) {
  copy_layers(layers, zero_stream);
  finish(stream_of(zero_stream));
}
SIMCUDA_STREAM_CALL(cuMemcpy3DAsync_v2, _ptsz, (const CUDA_MEMCPY3D* layers, CUstream stream),
                    (layers, stream)) {
  copy_layers(layers, stream);
}

#if CUDA_VERSION >= 12080
// --- Copies with attributes, which have no effect in the simulator.
SIMCUDA_STREAM_CALL(cuMemcpyWithAttributesAsync, _ptsz,
                    (CUdeviceptr target, CUdeviceptr source, std::size_t bytes,
                     CUmemcpyAttributes* attributes, CUstream stream),
                    (target, source, bytes, attributes, stream)) {
  required(attributes);
  copy(Address{target}, Address{source}, bytes, stream);
}
SIMCUDA_STREAM_CALL(cuMemcpy3DWithAttributesAsync, _ptsz,
                    (CUDA_MEMCPY3D_BATCH_OP * what, unsigned long long flags, CUstream stream),
                    (what, flags, stream)) {
  const CUDA_MEMCPY3D_BATCH_OP& rows = *required(what);
  if (flags != 0) refuse(CUDA_ERROR_INVALID_VALUE);
  if (rows.src.type != CU_MEMCPY_OPERAND_TYPE_POINTER ||
      rows.dst.type != CU_MEMCPY_OPERAND_TYPE_POINTER) {
    refuse(CUDA_ERROR_NOT_SUPPORTED);
  }
  const auto& from = rows.src.op.ptr;
  const auto& to = rows.dst.op.ptr;
  CUDA_MEMCPY3D layers{};
  layers.srcMemoryType = layers.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  layers.srcDevice = from.ptr;
  layers.dstDevice = to.ptr;
  layers.WidthInBytes = rows.extent.width;
  layers.Height = rows.extent.height;
  layers.Depth = rows.extent.depth;
  // Zero: as many as are copied.
  layers.srcPitch = from.rowLength != 0 ? from.rowLength : rows.extent.width;
  layers.dstPitch = to.rowLength != 0 ? to.rowLength : rows.extent.width;
  layers.srcHeight = from.layerHeight != 0 ? from.layerHeight : rows.extent.height;
  layers.dstHeight = to.layerHeight != 0 ? to.layerHeight : rows.extent.height;
  copy_layers(&layers, stream);
}
#endif

// --- Fills of rows
#define SIMCUDA_ROW_CALLS(bits, Value)                                                            \
  SIMCUDA_STREAM_CALL(                                                                            \
      cuMemsetD2D##bits##_v2, _ptds,                                                              \
      (CUdeviceptr begin, std::size_t pitch, Value value, std::size_t width, std::size_t height), \
      (begin, pitch, value, width, height)) {                                                     \
    fill_rows(begin, pitch, value, sizeof value, width, height, zero_stream);                     \
  }                                                                                               \
  SIMCUDA_STREAM_CALL(cuMemsetD2D##bits##Async, _ptsz,                                            \
                      (CUdeviceptr begin, std::size_t pitch, Value value, std::size_t width,      \
                       std::size_t height, CUstream stream),                                      \
                      (begin, pitch, value, width, height, stream)) {                             \
    fill_rows(begin, pitch, value, sizeof value, width, height, stream);                          \
  }
SIMCUDA_ROW_CALLS(8, unsigned char)
SIMCUDA_ROW_CALLS(16, unsigned short)
SIMCUDA_ROW_CALLS(32, unsigned int)
#undef SIMCUDA_ROW_CALLS

// --- Words. The first version of each call has the same parameters.
#define SIMCUDA_WORD_CALLS(suffix)                                                                 \
  SIMCUDA_STREAM_CALL(                                                                             \
      cuStreamBatchMemOp##suffix, _ptsz,                                                           \
      (CUstream stream, unsigned int count, CUstreamBatchMemOpParams* params, unsigned int flags), \
      (stream, count, params, flags)) {                                                            \
    if (flags != 0) refuse(CUDA_ERROR_INVALID_VALUE);                                              \
    sim().batch(stream_of(stream), word_operations(params, count));                                \
  }                                                                                                \
  SIMCUDA_STREAM_CALL(cuStreamWriteValue64##suffix, _ptsz,                                         \
                      (CUstream stream, CUdeviceptr word, cuuint64_t value, unsigned int),         \
                      (stream, word, value, 0)) {                                                  \
    batch(stream, {WordOperation::Kind::write, Address{word}, value});                             \
  }                                                                                                \
  SIMCUDA_STREAM_CALL(cuStreamWaitValue64##suffix, _ptsz,                                          \
                      (CUstream stream, CUdeviceptr word, cuuint64_t value, unsigned int flags),   \
                      (stream, word, value, flags)) {                                              \
    if (flags != CU_STREAM_WAIT_VALUE_GEQ) refuse(CUDA_ERROR_NOT_SUPPORTED);                       \
    batch(stream, {WordOperation::Kind::wait_until_at_least, Address{word}, value});               \
  }
SIMCUDA_WORD_CALLS()
SIMCUDA_WORD_CALLS(_v2)
#undef SIMCUDA_WORD_CALLS

}  // namespace vma
