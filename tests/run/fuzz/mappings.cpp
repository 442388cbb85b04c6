// Memory that the program maps itself.
#include "world.hpp"

#include <algorithm>
#include <unistd.h>

namespace fuzz {
namespace {

constexpr std::size_t slot_bytes = Reservation::slot_bytes;
constexpr std::size_t regions_max = 4;

CUdeviceptr address_of(const World& world, std::size_t slot) {
  return world.reservation.begin + slot * slot_bytes;
}

std::vector<std::size_t> regions(const World& world, bool mapped) {
  std::vector<std::size_t> found;
  const auto& all = world.reservation.regions;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].alive && (all[i].at != Region::none) == mapped) found.push_back(i);
  }
  return found;
}

bool is_free(const World& world, std::size_t first, std::size_t count) {
  return std::ranges::none_of(world.reservation.regions, [&](const Region& region) {
    return region.alive && region.at != Region::none && region.at < first + count &&
           first < region.at + region.slots;
  });
}

void create_region(World& world) {
  Region made;
  made.slots = 1 + world.random.below(3);
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, world.reservation.device};
  if (world.random.one_in(2)) {
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  }
  const std::size_t number = world.reservation.regions.size();
  const CUresult result =
      driver.f_cuMemCreate(&made.handle, made.slots * slot_bytes, &properties, 0);
  if (world.note(result, "cuMemCreate r%zu of %zu slots", number, made.slots) != CUDA_SUCCESS)
    return;
  Buffer buffer;
  buffer.bytes = made.slots * slot_bytes;
  buffer.device = world.reservation.device;
  buffer.kind = Kind::mapped;
  buffer.everywhere = false;
  made.buffer = world.add_buffer(buffer);
  world.reservation.regions.push_back(made);
}

void set_access(World& world, std::size_t first, std::size_t slots) {
  std::vector<CUmemAccessDesc> entries(2);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    entries[i].location = {CU_MEM_LOCATION_TYPE_DEVICE, static_cast<int>(i)};
    entries[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  world.note(driver.f_cuMemSetAccess(address_of(world, first), slots * slot_bytes, entries.data(),
                                     entries.size()),
             "cuMemSetAccess of %zu slots", slots);
}

void map_region(World& world, std::size_t number) {
  Region& region = world.reservation.regions[number];
  const std::size_t slot = world.random.below(Reservation::slots - region.slots + 1);
  if (!is_free(world, slot, region.slots)) {
    if (is_free(world, slot, 1)) return;  // What it would hit first depends on the driver.
    world.note(
        driver.f_cuMemMap(address_of(world, slot), region.slots * slot_bytes, 0, region.handle, 0),
        "cuMemMap r%zu where memory is", number);
    return;
  }
  const CUresult result =
      driver.f_cuMemMap(address_of(world, slot), region.slots * slot_bytes, 0, region.handle, 0);
  if (world.note(result, "cuMemMap r%zu at %zu", number, slot) != CUDA_SUCCESS) return;
  region.at = slot;
  Buffer& buffer = world.buffers[region.buffer];
  buffer.begin = address_of(world, slot);
  buffer.everywhere = true;
  set_access(world, slot, region.slots);
  if (!region.fresh) return;
  region.fresh = false;
  std::vector<std::size_t> near;
  for (std::size_t i = 0; i < world.contexts.size(); ++i) {
    if (world.contexts[i].alive && world.contexts[i].device == buffer.device) near.push_back(i);
  }
  world.fill_all(region.buffer, world.any_stream(world.random.of(near)));
}

void unmap_region(World& world, std::size_t number) {
  Region& region = world.reservation.regions[number];
  Buffer& buffer = world.buffers[region.buffer];
  if (buffer.graphs != 0) return;
  if (buffer.last != Buffer::none) world.wait_for(buffer.last);
  buffer.last = Buffer::none;
  if (region.slots > 1 && world.random.one_in(6)) {
    world.note(driver.f_cuMemUnmap(buffer.begin, slot_bytes), "cuMemUnmap of a part of r%zu",
               number);
  }
  if (world.random.one_in(8)) {
    world.note(driver.f_cuMemFree(buffer.begin), "cuMemFree of r%zu", number);
  }
  world.note(driver.f_cuMemUnmap(buffer.begin, region.slots * slot_bytes), "cuMemUnmap r%zu",
             number);
  region.at = Region::none;
  buffer.begin = 0;
  if (!region.released) return;
  region.alive = buffer.alive = false;
}

/// The mapping keeps it, if there is one.
void release_region(World& world, std::size_t number) {
  Region& region = world.reservation.regions[number];
  Buffer& buffer = world.buffers[region.buffer];
  if (!region.released) {
    world.note(driver.f_cuMemRelease(region.handle), "cuMemRelease r%zu", number);
    region.released = true;
  }
  if (region.at == Region::none) region.alive = buffer.alive = false;
}

void retain_region(World& world, std::size_t number) {
  Region& region = world.reservation.regions[number];
  const CUdeviceptr inside = address_of(world, region.at) + world.random.below(slot_bytes);
  CUmemGenericAllocationHandle handle = 0;
  CUmemAllocationProp properties{};
  const CUresult result =
      driver.f_cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(inside));
  if (world.note(result, "cuMemRetainAllocationHandle r%zu", number) != CUDA_SUCCESS) return;
  world.note(driver.f_cuMemGetAllocationPropertiesFromHandle(&properties, handle),
             "cuMemGetAllocationPropertiesFromHandle");
  world.say("type %d, device %d", static_cast<int>(properties.type), properties.location.id);
  if (region.released && world.random.one_in(2)) {
    region.handle = handle;
    region.released = false;
    return;
  }
  world.note(driver.f_cuMemRelease(handle), "cuMemRelease of what was retained");
}

void ask_mapping(World& world, std::size_t number) {
  const Region& region = world.reservation.regions[number];
  const CUdeviceptr inside = address_of(world, region.at) + world.random.below(slot_bytes);
  for (int device = 0; device < 2; ++device) {
    unsigned long long flags = 9;
    const CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    world.note(driver.f_cuMemGetAccess(&flags, &location, inside), "cuMemGetAccess r%zu", number);
    world.say("access %llu", flags);
  }
}

void misuse_mapping(World& world) {
  unsigned long long flags = 9;
  const CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const std::size_t slot = world.random.below(Reservation::slots);
  CUmemGenericAllocationHandle handle = 0;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  switch (world.random.below(6)) {
    case 0:
      if (!is_free(world, slot, 1)) return;
      world.note(driver.f_cuMemUnmap(address_of(world, slot), slot_bytes), "cuMemUnmap of nothing");
      return;
    case 1:
      if (!is_free(world, slot, 1)) return;
      world.note(driver.f_cuMemGetAccess(&flags, &location, address_of(world, slot)),
                 "cuMemGetAccess of nothing");
      return;
    case 2:
      world.note(driver.f_cuMemCreate(&handle, (3 << 20) + 1, &properties, 0),
                 "cuMemCreate of no multiple");
      return;
    case 3:
      properties.location.id = 7;
      world.note(driver.f_cuMemCreate(&handle, slot_bytes, &properties, 0),
                 "cuMemCreate on no device");
      return;
    case 4:
      world.note(driver.f_cuMemCreate(&handle, std::size_t{1} << 44, &properties, 0),
                 "cuMemCreate far too large");
      return;
    default:
      if (regions(world, true).empty()) return;
      world.note(
          driver.f_cuMemAddressFree(world.reservation.begin, Reservation::slots * slot_bytes),
          "cuMemAddressFree in use");
  }
}

void share_region(World& world, std::size_t number) {
  const Region& region = world.reservation.regions[number];
  int descriptor = -1;
  if (region.released) return;
  const CUresult result = driver.f_cuMemExportToShareableHandle(
      &descriptor, region.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (world.note(result, "cuMemExportToShareableHandle r%zu", number) == CUDA_SUCCESS) {
    close(descriptor);
  }
}

}  // namespace

void use_mappings(World& world) {
  world.enter(world.any_context());
  if (world.reservation.begin == 0) {
    world.reservation.device = static_cast<int>(world.random.below(2));
    world.note(driver.f_cuMemAddressReserve(&world.reservation.begin,
                                            Reservation::slots * slot_bytes, 0, 0, 0),
               "cuMemAddressReserve");
  }
  const std::vector<std::size_t> mapped = regions(world, true);
  const std::vector<std::size_t> unmapped = regions(world, false);
  if (mapped.size() + unmapped.size() < regions_max && world.random.one_in(2))
    return create_region(world);
  if (!unmapped.empty() && world.random.one_in(2))
    return map_region(world, world.random.of(unmapped));
  if (world.random.one_in(10)) return misuse_mapping(world);
  if (!unmapped.empty() && world.random.one_in(6))
    return release_region(world, world.random.of(unmapped));
  if (mapped.empty()) return;
  const std::size_t number = world.random.of(mapped);
  switch (world.random.below(8)) {
    case 0: return release_region(world, number);
    case 1: return retain_region(world, number);
    case 2: return ask_mapping(world, number);
    case 3:
      if (world.random.one_in(4)) share_region(world, number);
      return;
    default: return unmap_region(world, number);
  }
}

void end_mappings(World& world) {
  if (world.reservation.begin == 0) return;
  for (const std::size_t number : regions(world, true)) unmap_region(world, number);
  for (std::size_t i = 0; i < world.reservation.regions.size(); ++i) {
    if (world.reservation.regions[i].alive) release_region(world, i);
  }
  world.note(driver.f_cuMemAddressFree(world.reservation.begin, Reservation::slots * slot_bytes),
             "cuMemAddressFree");
}

}  // namespace fuzz
