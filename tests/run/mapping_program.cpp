/* A CUDA program that maps memory itself, and knows nothing of vmart. It prints the same under
 * `vmart run --vmm` as without, wherever its memory is moved meanwhile.
 *
 *   mapping_program linked WORK
 *
 * The first argument is as that of program.cpp. WORK is whose calls it imitates, again and again
 * until a line arrives on standard input or that is closed: regions, as XLA's allocator maps one
 * handle over each reservation; segments, as PyTorch's expandable ones, which have many; sleep, as
 * vLLM takes memory away and brings it back; or handles, which nobody but a test would use so.
 */
#include "mapping_calls.hpp"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <vector>

namespace {

/* --- One handle over each reservation. */

struct Region {
  CUdeviceptr begin = 0;
  size_t bytes = 0;
};

/* Asks for the types that the driver may not have, and for fewer if it refuses. */
Region create_region(size_t bytes) {
  Region region;
  CUmemGenericAllocationHandle handle = 0;
  CUresult result = CUDA_ERROR_UNKNOWN;
  for (int types : {CU_MEM_HANDLE_TYPE_FABRIC | CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                    (int)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0}) {
    const CUmemAllocationProp properties = properties_for(types);
    size_t granularity = 0;
    CALL(cuMemGetAllocationGranularity(&granularity, &properties,
                                       CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    region.bytes = (bytes + granularity - 1) / granularity * granularity;
    result = cuMemCreate(&handle, region.bytes, &properties, 0);
    printf("types %d: %d\n", types, (int)result);
    if (result == CUDA_SUCCESS) break;
  }
  check(result, "cuMemCreate", __LINE__);
  region.begin = reserve(region.bytes);
  CALL(cuMemMap(region.begin, region.bytes, 0, handle, 0));
  for (int device = 0; device < 2; ++device) {
    int reaches = 1;
    if (device != 0) CALL(cuDeviceCanAccessPeer(&reaches, device, 0));
    if (reaches != 0) set_access(region.begin, region.bytes, device);
  }
  CALL(cuMemRelease(handle)); /* The mapping keeps the memory. */
  return region;
}

void destroy_region(const Region &region) {
  CUmemGenericAllocationHandle handle = 0;
  CALL(cuMemRetainAllocationHandle(&handle, (void *)region.begin));
  CALL(cuMemUnmap(region.begin, region.bytes));
  CALL(cuMemRelease(handle));
  CALL(cuMemAddressFree(region.begin, region.bytes));
}

void work_in_regions(const std::vector<Region> &regions, unsigned value) {
  constexpr size_t part = 2 * mib;
  for (size_t i = 0; i < regions.size(); ++i) {
    const Region &region = regions[i];
    fill(region.begin, part, value + (unsigned)i);
    fill(region.begin + region.bytes - part, part, value + (unsigned)i + 1);
  }
  for (size_t i = 0; i < regions.size(); ++i) {
    const Region &region = regions[i];
    expect_filled(region.begin, part, value + (unsigned)i, "a region");
    expect_filled(region.begin + region.bytes - part, part, value + (unsigned)i + 1, "its end");
  }
}

/* --- Many handles in a reservation. */

struct Segments {
  explicit Segments(size_t segment_bytes, size_t slots) : bytes(segment_bytes), handles(slots) {
    size_t total = 0;
    CALL(cuDeviceTotalMem(&total, 0));
    reserved = (total + total / 8 + bytes - 1) / bytes * bytes;
    begin = reserve(reserved);
  }
  CUdeviceptr at(size_t slot) const { return begin + slot * bytes; }

  /* As many handles as asked for are created first, then mapped one by one. */
  void grow(size_t first, size_t end) {
    for (size_t slot = first; slot < end; ++slot) {
      handles[slot] = create(bytes, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    }
    for (size_t slot = first; slot < end; ++slot) {
      CALL(cuMemMap(at(slot), bytes, 0, handles[slot], 0));
    }
    set_access(at(first), (end - first) * bytes, 0);
    /* One piece of work may go through several. */
    const unsigned value = next_random();
    fill(at(first), (end - first) * bytes, value);
    values.resize(handles.size());
    for (size_t slot = first; slot < end; ++slot) values[slot] = value;
  }
  void shrink(size_t first, size_t end) {
    CALL(cuStreamSynchronize(stream));
    for (size_t slot = first; slot < end; ++slot) {
      CALL(cuMemUnmap(at(slot), bytes));
      CALL(cuMemRelease(handles[slot]));
      handles[slot] = 0;
    }
  }
  void work() {
    const size_t slot = next_random() % handles.size();
    if (handles[slot] == 0) {
      size_t end = slot + 1;
      while (end < handles.size() && handles[end] == 0) ++end;
      return grow(slot, end);
    }
    expect_filled(at(slot), bytes, values[slot], "a segment");
    if (next_random() % 2 == 0) return shrink(slot, slot + 1);
    fill(at(slot), bytes, values[slot] = next_random());
  }
  void end() {
    for (size_t slot = 0; slot < handles.size(); ++slot) {
      if (handles[slot] == 0) continue;
      expect_filled(at(slot), bytes, values[slot], "a segment in the end");
      shrink(slot, slot + 1);
    }
    CALL(cuMemAddressFree(begin, reserved));
  }

  const size_t bytes;
  size_t reserved = 0;
  CUdeviceptr begin = 0;
  std::vector<CUmemGenericAllocationHandle> handles;
  std::vector<unsigned> values;
};

/* --- Memory that sleeps. */

struct Sleeper {
  CUdeviceptr begin = 0;
  size_t bytes = 0;
  CUmemGenericAllocationHandle handle = 0;
  std::vector<unsigned char> backup{};

  void wake() {
    handle = create(bytes);
    map(begin, bytes, handle);
    if (!backup.empty()) CALL(cuMemcpyHtoD(begin, backup.data(), bytes));
  }
  void sleep() {
    backup.resize(bytes);
    CALL(cuMemcpyDtoH(backup.data(), begin, bytes));
    CALL(cuCtxSynchronize());
    CALL(cuMemUnmap(begin, bytes));
    CALL(cuMemRelease(handle));
  }
};

Sleeper left_over;

/* When the program exits. */
void clean_up() {
  if (left_over.begin == 0) return;
  const CUresult unmapped = cuMemUnmap(left_over.begin, left_over.bytes);
  const CUresult released = cuMemRelease(left_over.handle);
  const CUresult freed = cuMemAddressFree(left_over.begin, left_over.bytes);
  printf("in the end: unmapped %d, released %d, freed %d\n", unmapped, released, freed);
}

/* --- Unusual handles. */

void describe(CUdeviceptr pointer) {
  CUdeviceptr begin = 0;
  size_t size = 0;
  int device = -1;
  unsigned type = 0;
  unsigned long long own = 9;
  unsigned long long other = 9;
  CUmemLocation location = {};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CALL(cuMemGetAddressRange(&begin, &size, pointer + 5));
  CALL(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer + 5));
  CALL(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer + 5));
  CALL(cuMemGetAccess(&own, &location, pointer));
  location.id = 1;
  CALL(cuMemGetAccess(&other, &location, pointer));
  printf("range %s, %zu bytes; type %u, device %d, access %llu and %llu\n",
         begin == pointer ? "begins there" : "differs", size, type, device, own, other);
}

/* The memory behind a descriptor has these bytes. */
void expect_exported(CUmemGenericAllocationHandle handle, size_t bytes, unsigned value) {
  int descriptor = -1;
  CUmemGenericAllocationHandle imported = 0;
  CALL(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                    0));
  CALL(cuMemImportFromShareableHandle(&imported, (void *)(size_t)descriptor,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  const CUdeviceptr view = reserve(bytes);
  map(view, bytes, imported);
  expect_filled(view, bytes, value, "the export");
  CALL(cuMemUnmap(view, bytes));
  CALL(cuMemRelease(imported));
  CALL(cuMemAddressFree(view, bytes));
  close(descriptor);
}

void use_handles_once() {
  constexpr size_t bytes = 4 * mib;
  constexpr int exportable = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  const CUdeviceptr range = reserve(8 * bytes);
  /* Exported before it is mapped, after that, and while it is not mapped. */
  CUmemGenericAllocationHandle handles[3];
  for (CUmemGenericAllocationHandle &handle : handles) handle = create(bytes, exportable);
  int descriptor = -1;
  CALL(cuMemExportToShareableHandle(&descriptor, handles[0],
                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  close(descriptor);
  for (unsigned i = 0; i < 3; ++i) {
    map(range + i * bytes, bytes, handles[i]);
    fill(range + i * bytes, bytes, 40 + i);
    describe(range + i * bytes);
  }
  CALL(cuStreamSynchronize(stream));
  expect_exported(handles[0], bytes, 40);
  expect_exported(handles[1], bytes, 41);
  CALL(cuMemUnmap(range + 2 * bytes, bytes));
  expect_exported(handles[2], bytes, 42);
  map(range + 3 * bytes, bytes, handles[2]);
  expect_filled(range + 3 * bytes, bytes, 42, "memory that was mapped again");
  /* Mapped twice: both show what is written to either. */
  CUmemGenericAllocationHandle twice = create(bytes);
  map(range + 4 * bytes, bytes, twice);
  CUmemGenericAllocationHandle retained = 0;
  CALL(cuMemRetainAllocationHandle(&retained, (void *)(range + 4 * bytes + 1)));
  CALL(cuMemRelease(retained));
  printf("half of it %d", (int)cuMemUnmap(range + 4 * bytes, bytes / 2));
  printf(", by free %d\n", (int)cuMemFree(range + 4 * bytes));
  map(range + 5 * bytes, bytes, twice);
  fill(range + 4 * bytes, bytes, 50);
  expect_filled(range + 5 * bytes, bytes, 50, "the second mapping");
  fill(range + 5 * bytes, bytes, 51);
  expect_filled(range + 4 * bytes, bytes, 51, "the first mapping");
  /* Refused as by the driver. */
  CUmemGenericAllocationHandle plain = create(bytes);
  CUmemAllocationProp properties = {};
  CALL(cuMemGetAllocationPropertiesFromHandle(&properties, plain));
  printf("device %d, types %d\n", properties.location.id, (int)properties.requestedHandleTypes);
  printf("with an offset %d", (int)cuMemMap(range + 6 * bytes, bytes / 2, bytes / 2, plain, 0));
  printf(", not mapped %d", (int)cuMemUnmap(range + 6 * bytes, bytes));
  printf(", where memory is %d", (int)cuMemMap(range, bytes, 0, plain, 0));
  map(range + 6 * bytes, bytes, plain);
  printf(", in use %d\n", (int)cuMemAddressFree(range, 8 * bytes));
  /* Rights that vmart does not grant by itself. */
  CUmemGenericAllocationHandle guarded = create(bytes);
  CUmemAccessDesc entry = {};
  entry.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  entry.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
  CALL(cuMemMap(range + 7 * bytes, bytes, 0, guarded, 0));
  CALL(cuMemSetAccess(range + 7 * bytes, bytes, &entry, 1));
  describe(range + 7 * bytes);
  /* All of them at once, whosever they are. */
  set_access(range + 3 * bytes, 4 * bytes, 0);
  CALL(cuMemUnmap(range + 3 * bytes, 5 * bytes));
  CALL(cuMemUnmap(range, 2 * bytes));
  for (CUmemGenericAllocationHandle handle : handles) CALL(cuMemRelease(handle));
  for (CUmemGenericAllocationHandle handle : {twice, plain, guarded}) CALL(cuMemRelease(handle));
  CUmemGenericAllocationHandle too_large = 0;
  properties = properties_for(0);
  const size_t huge = size_t{1} << 40;
  printf("too large %d, ", (int)cuMemCreate(&too_large, huge, &properties, 0));
  printf("released twice %d\n", (int)cuMemRelease(plain));
  CALL(cuMemAddressFree(range, 8 * bytes));
}

/* Memory that is there for a while and then shared, wherever it lies by then. */
struct Visitor {
  static constexpr size_t bytes = 2 * mib;
  CUdeviceptr range = reserve(2 * bytes);
  CUmemGenericAllocationHandle handle = 0;
  unsigned value = 0;

  void come() {
    handle = create(bytes, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    map(range, bytes, handle);
    fill(range, bytes, ++value);
  }
  void go() {
    if (value % 2 == 0) {
      CALL(cuStreamSynchronize(stream));
      expect_exported(handle, bytes, value);
      CALL(cuMemUnmap(range, bytes));
    } else {
      map(range + bytes, bytes, handle);
      expect_filled(range + bytes, bytes, value, "the visitor");
      CALL(cuMemUnmap(range, 2 * bytes));
    }
    CALL(cuMemRelease(handle));
  }
};

/* Each handle wanders through its reservation, and keeps its bytes. */
struct Wanderers {
  enum { count = 4 };
  CUdeviceptr range = reserve(4 * count * mib * 2);
  CUmemGenericAllocationHandle handles[count] = {};
  CUmemGenericAllocationHandle small = create(mib * 2, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  unsigned values[count] = {};
  size_t at[count] = {};

  void work() {
    for (unsigned i = 0; i < count; ++i) {
      if (handles[i] == 0) {
        handles[i] = create(4 * mib);
      } else {
        expect_filled(range + at[i], 4 * mib, values[i], "a wanderer");
        if (next_random() % 2 == 0) fill(range + at[i], 4 * mib, values[i] = next_random());
        CALL(cuStreamSynchronize(stream));
        CALL(cuMemUnmap(range + at[i], 4 * mib));
      }
      const bool fresh = values[i] == 0;
      at[i] = (i * 2 + next_random() % 2) * 4 * mib;
      map(range + at[i], 4 * mib, handles[i]);
      if (fresh) fill(range + at[i], 4 * mib, values[i] = 7 + i);
    }
  }
  void end() {
    for (unsigned i = 0; i < count; ++i) {
      expect_filled(range + at[i], 4 * mib, values[i], "a wanderer in the end");
      CALL(cuMemRelease(handles[i]));
      CALL(cuMemUnmap(range + at[i], 4 * mib));
    }
    CALL(cuMemRelease(small));
    CALL(cuMemAddressFree(range, 4 * count * mib * 2));
  }
};

bool told_to_end() {
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, 0) == 1;
}

size_t free_between; /* While the program has its memory. */

/* Work until told to end. */
template <typename Work>
void repeat(Work work) {
  for (int i = 0; i < 3; ++i) work();
  size_t total = 0;
  CALL(cuMemGetInfo(&free_between, &total));
  printf("ready\n");
  fflush(stdout);
  while (!told_to_end()) work();
}

void run_regions() {
  std::vector<Region> regions;
  for (size_t bytes : {6 * mib, 5 * mib - 100, 258 * mib + 1}) {
    regions.push_back(create_region(bytes));
  }
  unsigned value = 0;
  repeat([&] { work_in_regions(regions, ++value); });
  for (const Region &region : regions) destroy_region(region);
}

void run_segments() {
  Segments small(2 * mib, 10);
  Segments large(20 * mib, 3);
  small.grow(0, 3);
  large.grow(0, 2);
  repeat([&] {
    small.work();
    if (next_random() % 4 == 0) large.work();
  });
  small.end();
  large.end();
}

void run_sleep() {
  std::vector<Sleeper> sleepers;
  for (size_t bytes : {4 * mib, 6 * mib, 2 * mib, 4 * mib}) {
    sleepers.push_back({reserve(bytes), bytes});
    sleepers.back().wake();
  }
  const size_t sleeping = sleepers.size() - 1; /* The last one stays awake. */
  unsigned value = 0;
  repeat([&] {
    ++value;
    for (Sleeper &one : sleepers) fill(one.begin, one.bytes, value);
    for (Sleeper &one : sleepers) expect_filled(one.begin, one.bytes, value, "before the sleep");
    if (value % 8 != 0) return;
    for (size_t i = 0; i < sleeping; ++i) sleepers[i].sleep();
    for (size_t i = 0; i < sleeping; ++i) sleepers[i].wake();
    for (Sleeper &one : sleepers) expect_filled(one.begin, one.bytes, value, "after the sleep");
  });
  for (size_t i = 0; i < sleeping; ++i) {
    sleepers[i].sleep();
    CALL(cuMemAddressFree(sleepers[i].begin, sleepers[i].bytes));
  }
  left_over = sleepers.back();
}

void run_handles() {
  use_handles_once();
  Wanderers wanderers;
  int descriptor = -1;
  CALL(cuMemExportToShareableHandle(&descriptor, wanderers.small,
                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  close(descriptor);
  Visitor visitor;
  repeat([&] {
    visitor.come();
    wanderers.work();
    visitor.go();
  });
  wanderers.end();
  CALL(cuMemAddressFree(visitor.range, 2 * Visitor::bytes));
}

}  // namespace

int main(int argc, char **argv) {
  const char *work = argc > 2 ? argv[2] : "segments";
  CUcontext context;
  size_t free_after, total;
  CALL(cuInit(0));
  CALL(cuDevicePrimaryCtxRetain(&context, 0));
  CALL(cuCtxSetCurrent(context));
  CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  atexit(clean_up); /* Before vmart's handler is there, so it comes after that. */
  if (strcmp(work, "regions") == 0) {
    run_regions();
  } else if (strcmp(work, "segments") == 0) {
    run_segments();
  } else if (strcmp(work, "sleep") == 0) {
    run_sleep();
  } else if (strcmp(work, "handles") == 0) {
    run_handles();
  } else {
    return 2;
  }
  printf("done\n");
  CALL(cuStreamDestroy(stream));
  CALL(cuMemGetInfo(&free_after, &total));
  printf("freed: %s\n", free_after > free_between ? "yes" : "no");
  return 0;
}
