/* A CUDA program that shares memory by handles of cuIpcGetMemHandle and knows nothing of vmart. It
 * does what the lines of its standard input say, and answers each with one line, so that a test
 * plays several of them. A call that fails is answered with its name and its code. */
#include <cuda.h>
#include <cudaTypedefs.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <thread>
#include <vector>

struct Failed {
  const char *call;
  CUresult code;
};

static void check(CUresult result, const char *call) {
  if (result != CUDA_SUCCESS) throw Failed{call, result};
}
#define CALL(call, ...) check(call(__VA_ARGS__), #call)

static CUstream stream = NULL;
static CUdeviceptr memory = 0;
static size_t bytes = 0;

static void print_bytes(const char *kind, const void *data, size_t size) {
  printf("%s ", kind);
  for (size_t i = 0; i < size; ++i) printf("%02x", ((const unsigned char *)data)[i]);
  printf("\n");
}

static void print_handle(void) {
  CUipcMemHandle handle;
  CALL(cuIpcGetMemHandle, &handle, memory);
  print_bytes("handle", &handle, sizeof handle);
}

static void open_handle(const char *text) {
  CUipcMemHandle handle;
  for (size_t i = 0; i < sizeof handle; ++i) {
    sscanf(text + 2 * i, "%2hhx", (unsigned char *)&handle + i);
  }
  const CUdeviceptr before = memory;
  CALL(cuIpcOpenMemHandle_v2, &memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  printf("opened %s\n", memory == before ? "the same" : "another");
}

static void print_range(void) {
  CUdeviceptr begin = 0;
  CUcontext context = NULL;
  CUcontext current = NULL;
  unsigned type = 0;
  int device = -1;
  int capable = -1;
  CALL(cuMemGetAddressRange_v2, &begin, &bytes, memory + 7);
  CALL(cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory + 7);
  CALL(cuPointerGetAttribute, &device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory + 7);
  CALL(cuPointerGetAttribute, &context, CU_POINTER_ATTRIBUTE_CONTEXT, memory + 7);
  CALL(cuPointerGetAttribute, &capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, memory);
  CALL(cuCtxGetCurrent, &current);
  printf("range %zu at %zu, type %u, device %d, context %d, capable %d\n", bytes,
         (size_t)(memory - begin), type, device, context == current, capable);
}

static void check_bytes(unsigned char value) {
  unsigned char *here = (unsigned char *)malloc(bytes);
  const CUresult result = cuMemcpyDtoH_v2(here, memory, bytes);
  size_t wrong = 0;
  for (size_t i = 0; i < bytes; ++i) wrong += here[i] != value;
  free(here);
  check(result, "cuMemcpyDtoH");
  printf("wrong %zu\n", wrong);
}

/* A context of its own is current from now on. */
static CUresult push_context(void) {
  CUcontext context = NULL;
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  PFN_cuCtxCreate_v3020 create = (PFN_cuCtxCreate_v3020)dlsym(library, "cuCtxCreate_v2");
  return create(&context, 0, 0);
}

/* Handles of new memory, while another thread makes and destroys contexts. */
static void share_beside_ends(int count) {
  std::atomic<bool> done = false;
  std::atomic<bool> failed = false;
  std::atomic<int> ended = 0;
  int refused = 0;
  std::thread ends([&] {
    CUcontext context = NULL;
    while (!done && !failed) {
      failed = push_context() != CUDA_SUCCESS || cuCtxPopCurrent_v2(&context) != CUDA_SUCCESS ||
               cuCtxDestroy_v2(context) != CUDA_SUCCESS;
      ++ended;
    }
  });
  while (!failed && ended == 0) {
  }
  std::vector<CUdeviceptr> made((size_t)count);
  for (CUdeviceptr &each : made) failed = failed || cuMemAlloc_v2(&each, bytes) != CUDA_SUCCESS;
  for (const CUdeviceptr each : made) {
    CUipcMemHandle handle;
    refused += cuIpcGetMemHandle(&handle, each) != CUDA_SUCCESS;
  }
  for (const CUdeviceptr each : made) cuMemFree_v2(each);
  done = true;
  ends.join();
  if (failed) throw Failed{"a call beside", CUDA_ERROR_UNKNOWN};
  printf("refused %d\n", refused);
}

static void obey(char *line) {
  char *word = strtok(line, " \n");
  const char *argument = strtok(NULL, " \n");
  if (word == NULL) return;
  if (strcmp(word, "alloc") == 0) {
    bytes = (size_t)atoll(argument);
    CALL(cuMemAlloc_v2, &memory, bytes);
    printf("allocated\n");
  } else if (strcmp(word, "handle") == 0) {
    print_handle();
  } else if (strcmp(word, "open") == 0) {
    open_handle(argument);
  } else if (strcmp(word, "range") == 0) {
    print_range();
  } else if (strcmp(word, "fill") == 0) {
    CALL(cuMemsetD8_v2, memory, (unsigned char)atoi(argument), bytes);
    CALL(cuCtxSynchronize);
    printf("filled\n");
  } else if (strcmp(word, "work") == 0) {
    for (int i = 0; i < 200; ++i) {
      CALL(cuMemsetD8Async, memory, (unsigned char)(atoi(argument) + i), bytes, stream);
    }
    CALL(cuMemsetD8Async, memory, (unsigned char)atoi(argument), bytes, stream);
    printf("enqueued\n");
  } else if (strcmp(word, "wait") == 0) {
    CALL(cuStreamSynchronize, stream);
    printf("waited\n");
  } else if (strcmp(word, "check") == 0) {
    check_bytes((unsigned char)atoi(argument));
  } else if (strcmp(word, "close") == 0) {
    CALL(cuIpcCloseMemHandle, memory);
    printf("closed\n");
  } else if (strcmp(word, "free") == 0) {
    CALL(cuMemFree_v2, memory);
    printf("freed\n");
  } else if (strcmp(word, "context") == 0) {
    check(push_context(), "cuCtxCreate");
    printf("pushed\n");
  } else if (strcmp(word, "beside") == 0) {
    share_beside_ends(atoi(argument));
  } else if (strcmp(word, "destroy") == 0) {
    CUcontext context = NULL;
    CALL(cuCtxPopCurrent_v2, &context);
    CALL(cuCtxDestroy_v2, context);
    printf("destroyed\n");
  } else {
    printf("unknown %s\n", word);
  }
}

int main(void) {
  CUcontext context;
  char line[512];
  try {
    CALL(cuInit, 0);
    CALL(cuDevicePrimaryCtxRetain, &context, 0);
    CALL(cuCtxSetCurrent, context);
    CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  } catch (const Failed &failed) {
    printf("%s returned %d\n", failed.call, (int)failed.code);
    return 1;
  }
  printf("ready\n");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin) != NULL) {
    try {
      obey(line);
    } catch (const Failed &failed) {
      printf("%s returned %d\n", failed.call, (int)failed.code);
    }
    fflush(stdout);
  }
  return 0;
}
