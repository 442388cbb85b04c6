// Allocations, and what the driver answers about them.
#include "world.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace fuzz {
namespace {

constexpr std::size_t buffers_max = 14;
constexpr std::size_t mib = std::size_t{1} << 20;

std::vector<std::size_t> living(const World& world) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < world.buffers.size(); ++i) {
    if (world.buffers[i].alive && world.buffers[i].kind != Kind::mapped) found.push_back(i);
  }
  return found;
}

void allocate_plain(World& world, std::size_t context) {
  Buffer made;
  made.context = context;
  made.device = world.contexts[context].device;
  const std::size_t number = world.buffers.size();
  CUresult result = CUDA_SUCCESS;
  if (world.random.one_in(4)) {
    const std::size_t width = 1 + world.random.below(9000);
    const std::size_t height = 1 + world.random.below(800);
    const unsigned element = world.random.one_in(12) ? 3 : 4u << world.random.below(3);
    std::size_t pitch = 0;
    result = driver.f_cuMemAllocPitch(&made.begin, &pitch, width, height, element);
    world.note(result, "cuMemAllocPitch b%zu %zu x %zu of %u: pitch %zu", number, width, height,
               element, pitch);
    made.bytes = pitch * height;
  } else {
    made.bytes = any_size(world.random);
    result = driver.f_cuMemAlloc(&made.begin, made.bytes);
    world.note(result, "cuMemAlloc b%zu %zu", number, made.bytes);
  }
  if (result != CUDA_SUCCESS) return;
  world.add_buffer(made);
  world.fill_all(number, world.any_stream(context));
}

void ask_range(World& world, std::size_t number, std::size_t offset) {
  const Buffer& buffer = world.buffers[number];
  CUdeviceptr begin = 0;
  std::size_t bytes = 0;
  const bool only_size = world.random.one_in(5);
  world.note(
      driver.f_cuMemGetAddressRange(only_size ? nullptr : &begin, &bytes, buffer.begin + offset),
      "cuMemGetAddressRange %s", world.name_of(number, offset).c_str());
  world.say("begins %s, %zu bytes", only_size || begin == buffer.begin ? "there" : "elsewhere",
            bytes);
}

/// What an attribute of eight bytes says, in words that do not depend on addresses.
void say_attribute(World& world, std::size_t number, std::size_t offset,
                   CUpointer_attribute attribute, unsigned long long word) {
  Buffer& buffer = world.buffers[number];
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: {
      std::size_t found = 0;
      while (found < world.contexts.size() &&
             reinterpret_cast<CUcontext>(word) != world.contexts[found].handle) {
        ++found;
      }
      return word == 0 ? world.say("no context") : world.say("context c%zu", found);
    }
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return world.say("itself %d", word == buffer.begin + offset);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return world.say("begins there %d", word == buffer.begin);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: {
      if (buffer.id == 0) buffer.id = word;
      return world.say("numbered %d, as before %d", word != 0, word == buffer.id);
    }
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: {
      const bool its_own = buffer.kind == Kind::pooled &&
                           reinterpret_cast<CUmemoryPool>(word) == world.pools[buffer.pool].handle;
      return world.say("pool %s", word == 0 ? "none" : its_own ? "its own" : "another");
    }
    default: return world.say("%llu", word);
  }
}

const std::vector<CUpointer_attribute> attributes = {
    CU_POINTER_ATTRIBUTE_CONTEXT,
    CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
    CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
    CU_POINTER_ATTRIBUTE_HOST_POINTER,
    CU_POINTER_ATTRIBUTE_BUFFER_ID,
    CU_POINTER_ATTRIBUTE_IS_MANAGED,
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
    CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
    CU_POINTER_ATTRIBUTE_RANGE_SIZE,
    CU_POINTER_ATTRIBUTE_MAPPED,
    CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
    CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
    CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
    CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES};

void ask_attribute(World& world, std::size_t number, std::size_t offset) {
  const CUpointer_attribute attribute = world.random.of(attributes);
  unsigned long long word = 0;
  const CUresult result =
      driver.f_cuPointerGetAttribute(&word, attribute, world.buffers[number].begin + offset);
  world.note(result, "cuPointerGetAttribute %d %s", static_cast<int>(attribute),
             world.name_of(number, offset).c_str());
  if (result == CUDA_SUCCESS) say_attribute(world, number, offset, attribute, word);
}

void ask_attributes(World& world, std::size_t number, std::size_t offset) {
  std::array<CUpointer_attribute, 4> wanted{};
  std::array<unsigned long long, 4> words{};
  std::array<void*, 4> out{};
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    wanted[i] = world.random.of(attributes);
    out[i] = &words[i];
  }
  const CUresult result = driver.f_cuPointerGetAttributes(wanted.size(), wanted.data(), out.data(),
                                                          world.buffers[number].begin + offset);
  world.note(result, "cuPointerGetAttributes %s", world.name_of(number, offset).c_str());
  if (result != CUDA_SUCCESS) return;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    world.say("attribute %d", static_cast<int>(wanted[i]));
    say_attribute(world, number, offset, wanted[i], words[i]);
  }
}

/// The handle is the same for the whole allocation, and not to be opened by its own process.
void ask_handle(World& world, std::size_t number, std::size_t offset) {
  const CUdeviceptr begin = world.buffers[number].begin;
  const std::string name = world.name_of(number, offset);
  CUipcMemHandle handle{};
  CUipcMemHandle again{};
  CUdeviceptr out = 0;
  const CUresult result = driver.f_cuIpcGetMemHandle(&handle, begin + offset);
  if (world.note(result, "cuIpcGetMemHandle %s", name.c_str()) != CUDA_SUCCESS) return;
  world.note(driver.f_cuIpcGetMemHandle(&again, begin), "cuIpcGetMemHandle again");
  world.say("the same %d", std::memcmp(&handle, &again, sizeof handle) == 0);
  world.note(driver.f_cuIpcOpenMemHandle(&out, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
             "cuIpcOpenMemHandle of its own");
  world.note(driver.f_cuIpcCloseMemHandle(begin), "cuIpcCloseMemHandle of what is not opened");
}

/// Between what this thread has there and that with room for what the other threads have and what
/// the driver needs.
void ask_info(World& world) {
  const std::size_t context = world.any_context();
  const int device = world.contexts[context].device;
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  std::size_t own = 0;
  for (const Buffer& buffer : world.buffers) {
    if (buffer.alive && buffer.device == device) own += buffer.bytes;
  }
  world.enter(context);
  world.note(driver.f_cuMemGetInfo(&free_bytes, &total), "cuMemGetInfo");
  const std::size_t used = total - free_bytes;
  world.say("total %zu, uses what it has %d, not much more %d", total, used >= own,
            used < own + 1536 * mib);
}

}  // namespace

void allocate(World& world) {
  if (living(world).size() >= buffers_max) return free_some(world);
  const std::size_t context = world.any_context();
  world.enter(context);
  allocate_plain(world, context);
}

void free_buffer(World& world, std::size_t number) {
  Buffer& buffer = world.buffers[number];
  if (buffer.graphs != 0 || buffer.kind == Kind::mapped) return;
  const bool plain = buffer.kind == Kind::plain;
  const bool in_order = world.random.one_in(plain ? 8 : 2);
  std::vector<std::size_t> near;
  for (std::size_t i = 0; i < world.contexts.size(); ++i) {
    if (world.contexts[i].alive && world.contexts[i].device == buffer.device) near.push_back(i);
  }
  const std::size_t context = plain ? buffer.context : world.random.of(near);
  buffer.alive = false;
  if (in_order) {
    const std::size_t stream = world.any_stream(context);
    if (plain && buffer.last != Buffer::none) world.wait_for(buffer.last);
    if (!plain) world.order({number}, stream);
    world.enter(context);
    world.note(driver.f_cuMemFreeAsync(buffer.begin, world.streams[stream].handle),
               "cuMemFreeAsync b%zu on s%zu", number, stream);
    return;
  }
  // The call waits for the context itself, and for memory of a pool for nothing.
  const bool waits = plain && buffer.last != Buffer::none &&
                     world.streams[buffer.last].context == context && world.random.one_in(2);
  if (!waits && buffer.last != Buffer::none) world.wait_for(buffer.last);
  world.enter(context);
  world.note(driver.f_cuMemFree(buffer.begin), "cuMemFree b%zu", number);
  // Later, or beside other threads, somebody else may have the address.
  if (world.alone() && world.random.one_in(4)) misuse_freed(world, buffer.begin, context);
}

void free_some(World& world) {
  const std::vector<std::size_t> found = living(world);
  if (!found.empty()) free_buffer(world, world.random.of(found));
}

void ask(World& world) {
  const std::size_t number = world.any_buffer(static_cast<int>(world.random.below(2)), true);
  if (number == Buffer::none || world.random.one_in(4)) return ask_info(world);
  const Buffer& buffer = world.buffers[number];
  const std::size_t offset = world.random.one_in(3)   ? 0
                             : world.random.one_in(2) ? buffer.bytes - 1
                                                      : world.random.below(buffer.bytes);
  world.enter(world.any_context());
  switch (world.random.below(7)) {
    case 0:
      // The first handle of memory may be refused beside the capture of another thread.
      if (world.alone()) ask_handle(world, number, offset);
      return;
    case 1:
    case 2: return ask_range(world, number, offset);
    case 3:
    case 4: return ask_attribute(world, number, offset);
    default: return ask_attributes(world, number, offset);
  }
}

}  // namespace fuzz
