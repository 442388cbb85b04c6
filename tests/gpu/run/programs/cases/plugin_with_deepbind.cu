// A host program and a plugin, each with CUDA's runtime linked statically; the plugin is opened
// with RTLD_DEEPBIND, so that its own symbols win over preloaded ones. Memory crosses the border:
// the plugin copies, computes on, queries and frees what the program allocated, and the other way
// around. The argument "plain" leaves RTLD_DEEPBIND out.
#include "runtime_case.cuh"
#include <dlfcn.h>
#include <unistd.h>

#include <string>

__global__ void add(unsigned* data, size_t n, unsigned by) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
       i += (size_t)gridDim.x * blockDim.x)
    data[i] += by;
}

#ifdef PLUGIN
/* Each returns an error of the runtime. */
extern "C" int plugin_allocate(unsigned** data, size_t bytes) {
  return (int)cudaMalloc(data, bytes);
}
extern "C" int plugin_free(unsigned* data) {
  return (int)cudaFree(data);
}
extern "C" int plugin_add(unsigned* data, size_t bytes, unsigned by) {
  add<<<64, 256>>>(data, bytes / 4, by);
  return (int)cudaGetLastError();
}
extern "C" int plugin_copy(unsigned* to, const unsigned* from, size_t bytes) {
  return (int)cudaMemcpy(to, from, bytes, cudaMemcpyDefault);
}
extern "C" int plugin_device_of(const unsigned* data, int* device, int* type) {
  cudaPointerAttributes attributes;
  const cudaError_t error = cudaPointerGetAttributes(&attributes, data);
  *device = attributes.device;
  *type = attributes.type;
  return (int)error;
}
#else
template <typename F>
static F find(void* library, const char* name) {
  F found = (F)dlsym(library, name);
  NEED(found != nullptr, "no %s in the plugin", name);
  return found;
}
static void no_error(int error, const char* what, int round) {
  NEED(error == 0, "round %d: %s: %s", round, what, cudaGetErrorString((cudaError_t)error));
}

int main(int argc, char** argv) {
  const double end = now() + limit_s();
  const bool plain = argc > 1 && std::strcmp(argv[1], "plain") == 0;
  char self[4096] = {};
  NEED(readlink("/proc/self/exe", self, sizeof self - 1) > 0, "no /proc");
  void* library = dlopen((std::string(self) + ".plugin.so").c_str(),
                         RTLD_NOW | RTLD_LOCAL | (plain ? 0 : RTLD_DEEPBIND));
  if (library == nullptr) return skip(dlerror());
  const auto allocate = find<int (*)(unsigned**, size_t)>(library, "plugin_allocate");
  const auto release = find<int (*)(unsigned*)>(library, "plugin_free");
  const auto plugin_add = find<int (*)(unsigned*, size_t, unsigned)>(library, "plugin_add");
  const auto copy = find<int (*)(unsigned*, const unsigned*, size_t)>(library, "plugin_copy");
  const auto device_of = find<int (*)(const unsigned*, int*, int*)>(library, "plugin_device_of");
  constexpr size_t bytes = 8 * mib, count = bytes / 4;
  RT(cudaSetDevice(0));
  unsigned *kept, *host = (unsigned*)std::malloc(bytes);
  RT(cudaMalloc(&kept, bytes));
  RT(cudaMemset(kept, 0, bytes));
  unsigned expected = 0;
  int rounds = 0;
  for (; now() < end || rounds < 4; ++rounds) {
    unsigned *ours, *theirs;
    RT(cudaMalloc(&ours, bytes));
    no_error(allocate(&theirs, bytes), "its allocation", rounds);
    RT(cudaMemset(ours, 1, bytes));
    add<<<64, 256>>>(ours, count, 5);
    no_error(plugin_add(ours, bytes, 6), "its kernel on our memory", rounds);
    no_error(copy(theirs, ours, bytes), "its copy", rounds);
    add<<<64, 256>>>(theirs, count, 7);  // Our kernel on its memory.
    no_error(copy(host, theirs, bytes), "its copy to the host", rounds);
    for (size_t i = 0; i < count; i += 1021)
      NEED(host[i] == 0x01010101u + 18, "round %d: word %zu is %x", rounds, i, host[i]);
    no_error(plugin_add(kept, bytes, 1), "its kernel on memory that we keep", rounds);
    ++expected;
    int device = -1, type = -1;
    no_error(device_of(ours, &device, &type), "its query", rounds);
    NEED(device == 0 && type == cudaMemoryTypeDevice,
         "our memory is on device %d, of type %d for it", device, type);
    cudaPointerAttributes attributes;
    RT(cudaPointerGetAttributes(&attributes, theirs));
    NEED(attributes.type == cudaMemoryTypeDevice, "its memory is of type %d for us",
         attributes.type);
    no_error(release(ours), "its free of our memory", rounds);
    RT(cudaFree(theirs));
  }
  RT(cudaMemcpy(host, kept, bytes, cudaMemcpyDefault));
  for (size_t i = 0; i < count; i += 1021)
    NEED(host[i] == expected, "kept word %zu is %u, not %u", i, host[i], expected);
  std::fprintf(stderr, "%d rounds\n", rounds);
  std::printf("OK\n");
  return 0;
}
#endif
