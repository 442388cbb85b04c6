// Calls that enqueue, for streams and for captures.
#include "world.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace fuzz {
namespace {

constexpr std::size_t no_limit = SIZE_MAX;

Part any_part(World& world, int device, bool local, std::size_t unit, std::size_t bytes_max) {
  return part_of(world, world.any_buffer(device, local), unit, bytes_max);
}

Piece fill(World& world, int device) {
  Piece piece;
  const std::size_t width = std::array<std::size_t, 3>{1, 2, 4}[world.random.below(3)];
  const Part part = any_part(world, device, true, width, no_limit);
  if (part.bytes == 0) return piece;
  const auto value = static_cast<unsigned>(world.random.next());
  piece.text = "cuMemsetD" + std::to_string(8 * width) + "Async " + part.name;
  piece.buffers = {part.buffer};
  piece.run = [=](CUstream on) {
    const std::size_t count = part.bytes / width;
    if (width == 1) return driver.f_cuMemsetD8Async(part.at, value & 0xFF, count, on);
    if (width == 2) return driver.f_cuMemsetD16Async(part.at, value & 0xFFFF, count, on);
    return driver.f_cuMemsetD32Async(part.at, value, count, on);
  };
  return piece;
}

Piece fill_rows(World& world, int device) {
  Piece piece;
  const Part part = any_part(world, device, true, 4, no_limit);
  if (part.bytes < 4096 || driver.f_cuMemsetD2D8Async == nullptr ||
      driver.f_cuMemsetD2D32Async == nullptr) {
    return piece;
  }
  const std::size_t pitch = 512;
  const std::size_t width = 4 * (1 + world.random.below(100));
  const std::size_t height = 1 + world.random.below(std::min<std::size_t>(part.bytes / pitch, 64));
  const auto value = static_cast<unsigned>(world.random.next());
  const bool words = world.random.one_in(2);
  piece.text = std::string("cuMemsetD2D") + (words ? "32" : "8") + "Async " + part.name;
  piece.buffers = {part.buffer};
  piece.run = [=](CUstream on) {
    return words ? driver.f_cuMemsetD2D32Async(part.at, pitch, value, width / 4, height, on)
                 : driver.f_cuMemsetD2D8Async(part.at, pitch, value & 0xFF, width, height, on);
  };
  return piece;
}

/// Two parts of the same size that do not overlap.
bool any_pair(World& world, int device, Part& target, Part& source) {
  target = any_part(world, device, false, 1, no_limit);
  if (target.bytes == 0) return false;
  source = any_part(world, device, false, 1, target.bytes);
  if (source.bytes == 0 || source.buffer == target.buffer) return false;
  target.bytes = source.bytes = std::min(source.bytes, target.bytes);
  return true;
}

Piece copy(World& world, int device) {
  Piece piece;
  Part target;
  Part source;
  if (!any_pair(world, device, target, source)) return piece;
  const std::size_t way = world.random.below(3);
  constexpr std::array names = {"cuMemcpyDtoDAsync ", "cuMemcpyAsync ", "cuMemcpyPeerAsync "};
  const auto context_on = [&](std::size_t buffer) {  // The primary ones are the first.
    return world.contexts[static_cast<std::size_t>(world.buffers[buffer].device)].handle;
  };
  const CUcontext to = context_on(target.buffer);
  const CUcontext from = context_on(source.buffer);
  piece.text = names[way] + target.name + " from " + source.name;
  piece.buffers = {target.buffer, source.buffer};
  piece.run = [=](CUstream on) {
    const std::size_t bytes = source.bytes;
    if (way == 0) return driver.f_cuMemcpyDtoDAsync(target.at, source.at, bytes, on);
    if (way == 1) return driver.f_cuMemcpyAsync(target.at, source.at, bytes, on);
    return driver.f_cuMemcpyPeerAsync(target.at, to, source.at, from, bytes, on);
  };
  return piece;
}

/// Rows of 100 to 1 000 bytes; or layers of them.
Piece copy_rows(World& world, int device) {
  Piece piece;
  Part target;
  Part source;
  if (!any_pair(world, device, target, source) || source.bytes < 65536) return piece;
  const std::size_t pitch = 1024;
  const std::size_t width = 100 + world.random.below(pitch - 100);
  const std::size_t rows = 1 + world.random.below(std::min<std::size_t>(source.bytes / pitch, 48));
  const bool layers = driver.f_cuMemcpy3DAsync != nullptr && world.random.one_in(2);
  const auto type = world.random.one_in(2) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_UNIFIED;
  piece.text = std::string(layers ? "cuMemcpy3DAsync " : "cuMemcpy2DAsync ") + target.name +
               " from " + source.name;
  piece.buffers = {target.buffer, source.buffer};
  piece.run = [=](CUstream on) {
    if (!layers) {
      CUDA_MEMCPY2D what{};
      what.srcMemoryType = what.dstMemoryType = type;
      what.srcDevice = source.at;
      what.dstDevice = target.at;
      what.srcPitch = what.dstPitch = pitch;
      what.WidthInBytes = width;
      what.Height = rows;
      return driver.f_cuMemcpy2DAsync(&what, on);
    }
    CUDA_MEMCPY3D what{};
    what.srcMemoryType = what.dstMemoryType = type;
    what.srcDevice = source.at;
    what.dstDevice = target.at;
    what.srcPitch = what.dstPitch = pitch;
    what.srcHeight = what.dstHeight = std::max<std::size_t>(rows / 2, 1);
    what.WidthInBytes = width;
    what.Height = what.srcHeight;
    what.Depth = rows >= 2 ? 2 : 1;
    return driver.f_cuMemcpy3DAsync(&what, on);
  };
  return piece;
}

Piece copy_from_host(World& world, int device) {
  Piece piece;
  const Part part = any_part(world, device, false, 1, world.source.size());
  if (part.bytes == 0) return piece;
  const unsigned char* const from =
      &world.source[world.random.below(world.source.size() - part.bytes + 1)];
  const bool by_address = world.random.one_in(2);
  piece.text = std::string(by_address ? "cuMemcpyAsync" : "cuMemcpyHtoDAsync") + " " + part.name +
               " from the host";
  piece.buffers = {part.buffer};
  piece.run = [=](CUstream on) {
    return by_address ? driver.f_cuMemcpyAsync(part.at, reinterpret_cast<CUdeviceptr>(from),
                                               part.bytes, on)
                      : driver.f_cuMemcpyHtoDAsync(part.at, from, part.bytes, on);
  };
  return piece;
}

/// Adds to each word, or fills words with numbers.
Piece launch_kernel(World& world, std::size_t context) {
  Piece piece;
  constexpr std::size_t word = 8;
  const Part part = any_part(world, world.contexts[context].device, true, word, no_limit);
  if (part.bytes == 0) return piece;
  const bool adds = world.random.one_in(2);
  const CUfunction function = adds ? world.contexts[context].add : world.contexts[context].fill;
  const std::uint64_t value = world.random.next();
  piece.text = std::string("cuLaunchKernel ") + (adds ? "add " : "fill ") + part.name;
  piece.buffers = {part.buffer};
  piece.run = [=](CUstream on) {
    CUdeviceptr words = part.at;
    std::uint64_t count = part.bytes / word;
    std::uint64_t number = value;
    void* parameters[] = {&words, &count, &number};
    return driver.f_cuLaunchKernel(function, 4, 1, 1, 64, 1, 1, 0, on, parameters, nullptr);
  };
  return piece;
}

Piece write_word(World& world, int device) {
  Piece piece;
  Part part = any_part(world, device, true, 8, 8);
  if (part.bytes == 0) return piece;
  const std::uint64_t value = world.random.next();
  piece.text = "cuStreamWriteValue64 " + part.name;
  piece.buffers = {part.buffer};
  piece.run = [=](CUstream on) { return driver.f_cuStreamWriteValue64(on, part.at, value, 0); };
  return piece;
}

}  // namespace

Part part_of(World& world, std::size_t number, std::size_t unit, std::size_t bytes_max) {
  Part part;
  part.buffer = number;
  if (number == Buffer::none) return part;
  const Buffer& buffer = world.buffers[number];
  const std::size_t units = buffer.bytes / unit;
  if (units == 0) return part;
  if (!world.random.one_in(4)) part.offset = world.random.below(units) * unit;
  const std::size_t most =
      std::min(units - part.offset / unit, std::max(bytes_max / unit, std::size_t{1}));
  part.bytes = (world.random.one_in(4) ? most : 1 + world.random.below(most)) * unit;
  part.at = buffer.begin + part.offset;
  part.name = world.name_of(number, part.offset) + " " + std::to_string(part.bytes);
  return part;
}

Piece wait_a_while(World& world) {
  Piece piece;
  const std::size_t nanoseconds = 20000 + world.random.below(900000);
  piece.text = "cuLaunchHostFunc";
  piece.run = [=](CUstream on) {
    return driver.f_cuLaunchHostFunc(on, work_a_while, reinterpret_cast<void*>(nanoseconds));
  };
  return piece;
}

Piece any_piece(World& world, std::size_t context, bool in_graph) {
  const int device = world.contexts[context].device;
  switch (world.random.below(in_graph ? 9 : 11)) {
    case 0:
    case 1: return fill(world, device);
    case 2:
    case 3: return copy(world, device);
    case 4: return copy_from_host(world, device);
    case 5:
    case 6: return launch_kernel(world, context);
    case 7: return copy_rows(world, device);
    case 8: return wait_a_while(world);
    case 9: return fill_rows(world, device);
    default: return write_word(world, device);
  }
}

/// Copies that name no stream: they are work of the null stream.
void copy_now(World& world) {
  const std::size_t context = world.any_context();
  const int device = world.contexts[context].device;
  const std::size_t stream = world.contexts[context].null_stream;
  Part target;
  Part source;
  Piece piece;
  if (!any_pair(world, device, target, source)) return;
  const std::size_t bytes = source.bytes;
  const auto number = world.random.next();
  const unsigned char* const host = &world.source[number % (world.source.size() - 65536)];
  piece.buffers = {target.buffer};
  switch (world.random.below(6)) {
    case 0:
      piece.text = "cuMemcpyHtoD " + target.name;
      piece.run = [=](CUstream) {
        return driver.f_cuMemcpyHtoD(target.at, host, std::min<std::size_t>(bytes, 65536));
      };
      break;
    case 1:
      if (world.buffers[target.buffer].device != device) return;
      piece.text = "cuMemsetD8 " + target.name;
      piece.run = [=](CUstream) { return driver.f_cuMemsetD8(target.at, number & 0xFF, bytes); };
      break;
    case 2:
      if (world.buffers[target.buffer].device != device || target.offset % 4 != 0) return;
      piece.text = "cuMemsetD32 " + target.name;
      piece.run = [=](CUstream) {
        return driver.f_cuMemsetD32(target.at, number >> 32, bytes / 4);
      };
      break;
    case 3:
      piece.text = "cuMemcpy " + target.name + " from " + source.name;
      piece.buffers.push_back(source.buffer);
      piece.run = [=](CUstream) { return driver.f_cuMemcpy(target.at, source.at, bytes); };
      break;
    case 4:
      piece.text = "cuMemcpyPeer " + target.name + " from " + source.name;
      piece.buffers.push_back(source.buffer);
      piece.run =
          [=,
           to =
               world.contexts[static_cast<std::size_t>(world.buffers[target.buffer].device)].handle,
           from = world.contexts[static_cast<std::size_t>(world.buffers[source.buffer].device)]
                      .handle](CUstream) {
            return driver.f_cuMemcpyPeer(target.at, to, source.at, from, bytes);
          };
      break;
    default:
      piece.text = "cuMemcpyDtoD " + target.name + " from " + source.name;
      piece.buffers.push_back(source.buffer);
      piece.run = [=](CUstream) { return driver.f_cuMemcpyDtoD(target.at, source.at, bytes); };
  }
  world.enqueue(piece, stream);
}

void use_streams(World& world) {
  const std::size_t context = world.any_context();
  std::vector<std::size_t> own;
  for (std::size_t i = 0; i < world.streams.size(); ++i) {
    if (world.streams[i].alive && !world.streams[i].built_in) own.push_back(i);
  }
  const std::size_t most = world.random.one_in(20) ? 64 : 10;
  if (own.size() > 4 && world.random.one_in(2)) {
    return world.destroy_stream(world.random.of(own));
  }
  do {
    const std::size_t made = world.create_stream(context);
    const CUstream handle = world.streams[made].handle;
    CUcontext of = nullptr;
    unsigned flags = 9;
    int priority = 9;
    world.note(driver.f_cuStreamGetCtx(handle, &of), "cuStreamGetCtx s%zu", made);
    world.note(driver.f_cuStreamGetFlags(handle, &flags), "cuStreamGetFlags s%zu", made);
    world.note(driver.f_cuStreamGetPriority(handle, &priority), "cuStreamGetPriority s%zu", made);
    world.say("context %s, flags %u, priority %d",
              of == world.contexts[context].handle ? "its own" : "another", flags, priority);
    if (most > 10) world.enqueue(wait_a_while(world), made);
    own.push_back(made);
  } while (own.size() < most && most > 10);
}

}  // namespace fuzz
