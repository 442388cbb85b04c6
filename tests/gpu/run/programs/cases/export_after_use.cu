// Memory that has been in use for a while and is then exported as a descriptor, found by
// cuMemRetainAllocationHandle from an address within it, imported and mapped again: what
// all-reduces, UCX and symmetric memory do at registration. Small and large handles, as an engine's
// cache is one handle of gigabytes.
#include "case.cuh"

#include <unistd.h>

static void grant(CUdeviceptr at, size_t bytes) {
  CUmemAccessDesc access;
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = 0;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  DR(cuMemSetAccess(at, bytes, &access, 1));
}

static void run(size_t bytes, double seconds) {
  CUmemAllocationProp prop;
  std::memset(&prop, 0, sizeof prop);
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle handle, kept, imported;
  CUdeviceptr own, other;
  DR(cuMemCreate(&handle, bytes, &prop, 0));
  DR(cuMemAddressReserve(&own, bytes, 0, 0, 0));
  DR(cuMemAddressReserve(&other, bytes, 0, 0, 0));
  DR(cuMemMap(own, bytes, 0, handle, 0));
  DR(cuMemRelease(handle));
  grant(own, bytes);
  unsigned word = 5;
  int rounds = 0;
  for (const double end = now() + seconds / 2; now() < end; ++rounds) {  // It may move meanwhile.
    DR(cuMemsetD32(own, ++word, bytes / 4));
    DR(cuCtxSynchronize());
  }
  DR(cuMemRetainAllocationHandle(&kept, (void*)(own + bytes / 2)));
  int descriptor = -1;
  const CUresult exported =
      cuMemExportToShareableHandle(&descriptor, kept, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  NEED(exported == CUDA_SUCCESS, "%zu MiB: the export after use: %d", bytes / mib, (int)exported);
  DR(cuMemImportFromShareableHandle(&imported, (void*)(size_t)descriptor,
                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(descriptor);
  DR(cuMemMap(other, bytes, 0, imported, 0));
  grant(other, bytes);
  for (const double end = now() + seconds / 2; now() < end || rounds < 4; ++rounds) {
    unsigned shown = 0;
    DR(cuMemcpyDtoH(&shown, other + bytes - 4, 4));
    NEED(shown == word, "%zu MiB: the importer sees %u, not %u", bytes / mib, shown, word);
    DR(cuMemsetD32(other, ++word, bytes / 4));
    DR(cuCtxSynchronize());
    DR(cuMemcpyDtoH(&shown, own + bytes / 2, 4));
    NEED(shown == word, "%zu MiB: the owner sees %u, not %u", bytes / mib, shown, word);
  }
  DR(cuMemUnmap(other, bytes));
  DR(cuMemRelease(imported));
  DR(cuMemRelease(kept));
  DR(cuMemUnmap(own, bytes));
  DR(cuMemAddressFree(other, bytes));
  DR(cuMemAddressFree(own, bytes));
  std::fprintf(stderr, "%zu MiB: %d rounds\n", bytes / mib, rounds);
}

int main() {
  const double limit = limit_s();
  start();
  run(24 * mib, limit / 2);
  run(384 * mib, limit / 2);
  std::printf("OK\n");
  return 0;
}
