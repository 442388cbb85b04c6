#pragma once

#include "entry_points/newer_types.hpp"

#include <cuda.h>

#include <algorithm>
#include <cstddef>
#include <type_traits>

namespace vma::interpose {

/// What a copy or a fill touches at one of its operands.
struct MemoryRange {
  CUdeviceptr begin = 0;
  std::size_t bytes = 0;
  float passes = 1;  ///< Below one for rows with gaps between them.
  bool writes = false;
};

/// From the first byte to the last one of rows that lie `pitch` apart, and layers of so many rows.
inline MemoryRange range_of_rows(CUdeviceptr begin, std::size_t row_bytes, std::size_t rows,
                                 std::size_t layers, std::size_t pitch, std::size_t layer_rows,
                                 bool writes) noexcept {
  if (row_bytes == 0 || rows == 0 || layers == 0) return {};
  const std::size_t last_row = (layers - 1) * std::max(layer_rows, rows) + rows - 1;
  const std::size_t span = last_row * std::max(pitch, row_bytes) + row_bytes;
  const float touched = static_cast<float>(row_bytes) * static_cast<float>(rows * layers);
  return {begin, span, std::min(1.0f, touched / static_cast<float>(span)), writes};
}

inline bool is_address(CUmemorytype type) noexcept {
  return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
}

/// Calls `take` with each range of a copy of rows: CUDA_MEMCPY2D, CUDA_MEMCPY3D and that of peers.
/// Throws: what `take` throws.
template <typename Copy, typename Take>
void ranges_of_copy(const Copy& copy, Take&& take) {
  std::size_t layers = 1, source_at = copy.srcY, target_at = copy.dstY;  // In rows.
  std::size_t source_rows = 0, target_rows = 0;
  if constexpr (requires { copy.Depth; }) {
    layers = copy.Depth;
    source_rows = copy.srcHeight;
    target_rows = copy.dstHeight;
    source_at += copy.srcZ * source_rows;
    target_at += copy.dstZ * target_rows;
  }
  if (is_address(copy.srcMemoryType)) {
    take(range_of_rows(copy.srcDevice + source_at * copy.srcPitch + copy.srcXInBytes,
                       copy.WidthInBytes, copy.Height, layers, copy.srcPitch, source_rows, false));
  }
  if (is_address(copy.dstMemoryType)) {
    take(range_of_rows(copy.dstDevice + target_at * copy.dstPitch + copy.dstXInBytes,
                       copy.WidthInBytes, copy.Height, layers, copy.dstPitch, target_rows, true));
  }
}

/// The range of a fill of rows, whose elements have so many bytes.
inline MemoryRange range_of_fill(CUdeviceptr begin, std::size_t pitch, std::size_t element_bytes,
                                 std::size_t width, std::size_t height) noexcept {
  return range_of_rows(begin, width * element_bytes, height, 1, pitch, 0, true);
}

// --- The arguments of calls

/// Bytes of an element, if the argument is the value of a fill.
template <typename Arg>
constexpr std::size_t element_bytes =
    std::is_same_v<Arg, unsigned char> || std::is_same_v<Arg, unsigned short> ||
            std::is_same_v<Arg, unsigned>
        ? sizeof(Arg)
        : 1;

template <typename Arg>
constexpr bool describes_copy =
    std::is_same_v<Arg, const CUDA_MEMCPY2D*> || std::is_same_v<Arg, const CUDA_MEMCPY3D*> ||
    std::is_same_v<Arg, const CUDA_MEMCPY3D_PEER*>;

/// Fills of rows: the address, the pitch, the value, the width and the height.
template <typename Value, typename Take, typename... Rest>
  requires(element_bytes<Value> == sizeof(Value) && std::is_unsigned_v<Value>)
void ranges_among(Take&& take, CUdeviceptr begin, std::size_t pitch, Value, std::size_t width,
                  std::size_t height, Rest...) noexcept {
  take(range_of_fill(begin, pitch, sizeof(Value), width, height));
}

/// Batches of copies: targets, sources, sizes, and how many.
template <typename Take, typename... Rest>
void ranges_among(Take&& take, CUdeviceptr* targets, CUdeviceptr* sources, std::size_t* sizes,
                  std::size_t count, Rest...) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    take(MemoryRange{sources[i], sizes[i], 1, false});
    take(MemoryRange{targets[i], sizes[i], 1, true});
  }
}

#if CUDA_VERSION >= 12080
/// Batches of copies of rows.
template <typename Take, typename... Rest>
void ranges_among(Take&& take, std::size_t count, CUDA_MEMCPY3D_BATCH_OP* copies,
                  Rest...) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    const CUextent3D& size = copies[i].extent;
    const auto take_side = [&](const CUmemcpy3DOperand& side, bool writes) {
      if (side.type != CU_MEMCPY_OPERAND_TYPE_POINTER) return;
      const auto& rows = side.op.ptr;
      take(range_of_rows(rows.ptr, size.width, size.height, size.depth, rows.rowLength,
                         rows.layerHeight, writes));
    };
    take_side(copies[i].src, false);
    take_side(copies[i].dst, true);
  }
}

/// One copy of rows, with its attributes.
template <typename Take, typename... Rest>
void ranges_among(Take&& take, CUDA_MEMCPY3D_BATCH_OP* copy, Rest...) noexcept {
  if (copy != nullptr) ranges_among(take, std::size_t{1}, copy);
}
#endif

/// Batches of copies over a fabric, whose operands in endpoints lie elsewhere.
template <typename Take, typename... Rest>
void ranges_among(Take&& take, std::size_t count, FabricCopy* copies, Rest...) noexcept {
  const auto take_side = [&](const FabricOperand& side, std::size_t bytes, bool writes) {
    if (side.type == FabricOperand::pointer) take(MemoryRange{side.op.ptr.ptr, bytes, 1, writes});
  };
  for (std::size_t i = 0; i < count; ++i) {
    take_side(copies[i].src, copies[i].size, false);
    take_side(copies[i].dst, copies[i].size, true);
  }
}

/// Operations on words have their stream first, and no size: the word only looks like one.
template <typename Take, typename... Rest>
void ranges_among(Take&&, CUstream, Rest...) noexcept {}

/// Any other call. In copies and fills, the last size counts the bytes, or the elements of the
/// fill's value, at each address. Other calls have no ranges.
template <typename Take, typename... Args>
void ranges_among(Take&& take, Args... args) noexcept {
  if constexpr ((describes_copy<Args> || ...)) {
    const auto take_copy = [&](auto arg) {
      if constexpr (describes_copy<decltype(arg)>) {
        if (arg != nullptr) ranges_of_copy(*arg, take);
      }
    };
    (take_copy(args), ...);
  } else if constexpr ((std::is_same_v<Args, std::size_t> || ...) &&
                       (std::is_same_v<Args, CUdeviceptr> || ...)) {
    std::size_t count = 0;
    const auto take_size = [&](auto arg) {
      if constexpr (std::is_same_v<decltype(arg), std::size_t>) count = arg;
    };
    (take_size(args), ...);
    const std::size_t bytes = (count * ... * element_bytes<Args>);
    bool is_target = true;  // The first argument; later ones are sources.
    const auto take_address = [&](auto arg) {
      if constexpr (std::is_same_v<decltype(arg), CUdeviceptr>) {
        take(MemoryRange{arg, bytes, 1, is_target});
      }
      is_target = false;
    };
    (take_address(args), ...);
  }
}

}  // namespace vma::interpose
