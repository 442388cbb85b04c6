/* A CUDA program that opens a plugin with RTLD_DEEPBIND, whose symbols win over preloaded ones.
 * Each frees what the other one has allocated.
 *
 *   plugin_program PLUGIN
 */
#include <cuda.h>

#include <dlfcn.h>
#include <stdio.h>

static void show(const char *what, int result) {
  printf("%s: %d\n", what, result);
}

int main(int, char **argv) {
  constexpr size_t bytes = (size_t)4 << 20;
  CUcontext context = nullptr;
  show("init", cuInit(0));
  show("retain", cuDevicePrimaryCtxRetain(&context, 0));
  show("enter", cuCtxSetCurrent(context));
  void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (plugin == nullptr) {
    printf("%s\n", dlerror());
    return 1;
  }
  const auto allocate = (int (*)(CUdeviceptr *, size_t, int))dlsym(plugin, "plugin_allocate");
  const auto release = (int (*)(CUdeviceptr, int))dlsym(plugin, "plugin_free");
  for (int looks_up = 0; looks_up < 2; ++looks_up) {
    CUdeviceptr ours = 0, theirs = 0;
    show("allocates", cuMemAlloc(&ours, bytes));
    show("the plugin allocates", allocate(&theirs, bytes, looks_up));
    show("the plugin frees it", release(ours, looks_up));
    show("frees the plugin's", cuMemFree(theirs));
  }
  return 0;
}
