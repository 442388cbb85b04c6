// Graphs that never need an update: physical memory of an allocator is mapped a second time, at
// addresses that a graph was captured with, for as long as the graph runs. Two sets of buffers take
// turns behind the same addresses.
#include "case.cuh"

struct Physical {
  CUmemGenericAllocationHandle handle;
  CUdeviceptr own;  // Where its allocator has it.
  unsigned low, high;
};

static void grant(CUdeviceptr at, size_t bytes) {
  CUmemAccessDesc access;
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = 0;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  DR(cuMemSetAccess(at, bytes, &access, 1));
}

static void run(size_t bytes, double seconds) {
  const size_t half = bytes / 2;
  CUmemAllocationProp prop;
  std::memset(&prop, 0, sizeof prop);
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.requestedHandleTypes =
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;  // As this allocator does for all memory.
  Physical sets[2];
  for (int s = 0; s < 2; ++s) {
    DR(cuMemCreate(&sets[s].handle, bytes, &prop, 0));
    DR(cuMemAddressReserve(&sets[s].own, bytes, 0, 0, 0));
    DR(cuMemMap(sets[s].own, bytes, 0, sets[s].handle, 0));
    grant(sets[s].own, bytes);
    sets[s].low = 70 + s;
    sets[s].high = 90 + s;
    DR(cuMemsetD32(sets[s].own, sets[s].low, half / 4));
    DR(cuMemsetD32(sets[s].own + half, sets[s].high, half / 4));
  }
  DR(cuCtxSynchronize());  // Fills of the NULL stream do not wait, nor does the stream below for
                           // them.
  CUdeviceptr alias, scratch;
  DR(cuMemAlloc(&scratch, half));
  DR(cuMemAddressReserve(&alias, bytes, 0, 0, 0));
  CUstream stream;
  DR(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  DR(cuMemMap(alias, bytes, 0, sets[0].handle, 0));
  grant(alias, bytes);
  DR(cuStreamBeginCapture(stream,
                          CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));  // The halves change places.
  DR(cuMemcpyDtoDAsync(scratch, alias, half, stream));
  DR(cuMemcpyDtoDAsync(alias, alias + half, half, stream));
  DR(cuMemcpyDtoDAsync(alias + half, scratch, half, stream));
  CUgraph graph;
  CUgraphExec exec;
  DR(cuStreamEndCapture(stream, &graph));
  DR(cuGraphInstantiate(&exec, graph, 0));
  DR(cuMemUnmap(alias, bytes));
  int rounds = 0;
  for (const double end = now() + seconds; now() < end || rounds < 4; ++rounds) {
    const int s = rounds % 3 == 2 ? 1 : 0;
    DR(cuMemMap(alias, bytes, 0, sets[s].handle, 0));
    grant(alias, bytes);
    DR(cuGraphLaunch(exec, stream));
    DR(cuStreamSynchronize(stream));
    DR(cuMemUnmap(alias, bytes));
    const unsigned low = sets[s].low;
    sets[s].low = sets[s].high;
    sets[s].high = low;
    for (int k = 0; k < 2; ++k) {  // Seen through the allocator's own addresses.
      unsigned first, last;
      DR(cuMemcpyDtoH(&first, sets[k].own + half - 4, 4));
      DR(cuMemcpyDtoH(&last, sets[k].own + bytes - 4, 4));
      NEED(first == sets[k].low && last == sets[k].high,
           "%zu MiB, round %d: set %d has %u and %u, not %u and %u", bytes / mib, rounds, k, first,
           last, sets[k].low, sets[k].high);
    }
  }
  DR(cuGraphExecDestroy(exec));
  DR(cuGraphDestroy(graph));
  DR(cuStreamDestroy(stream));
  DR(cuMemAddressFree(alias, bytes));
  for (Physical& one : sets) {
    DR(cuMemUnmap(one.own, bytes));
    DR(cuMemRelease(one.handle));
    DR(cuMemAddressFree(one.own, bytes));
  }
  DR(cuMemFree(scratch));
  std::fprintf(stderr, "%zu MiB: %d rounds\n", bytes / mib, rounds);
}

int main() {
  const double limit = limit_s();
  start();
  run(32 * mib, limit / 2);
  run(320 * mib, limit / 2);  // More than 256 MiB.
  std::printf("OK\n");
  return 0;
}
