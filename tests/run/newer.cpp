/* Work by calls that drivers have since CUDA 13.1, which the program's own header may lack. */
#include "program.hpp"

#include "entry_points/newer_types.hpp"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

using namespace vma;

static LaunchHostFuncWithMode launch_host_func;
static AddNodeOfUnion add_node;
static SetNodeOfUnion set_node;
static PFN_cuGraphCreate_v10000 create_graph;
#if CUDA_VERSION >= 12080
static MemcpyWithAttributes copy;
static Memcpy3DWithAttributes copy_rows;
#endif

/* As the other calls are found. */
static void *find_call(const char *name) {
  static void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  void *found = NULL;
  if (strcmp(way, "resolver") == 0 || strcmp(way, "per_thread") == 0) {
    const cuuint64_t flags = strcmp(way, "per_thread") == 0
                                 ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                 : CU_GET_PROC_ADDRESS_DEFAULT;
    PFN_cuGetProcAddress_v12000 resolve =
        (PFN_cuGetProcAddress_v12000)dlsym(library, "cuGetProcAddress_v2");
    check(resolve(name, &found, 13050, flags, NULL), name);
  } else {
    found = dlsym(strcmp(way, "linked") == 0 ? RTLD_DEFAULT : library, name);
  }
  if (found != NULL) return found;
  printf("the driver lacks %s\n", name);
  exit(1);
}

static void find_calls(void) {
  if (launch_host_func != NULL) return;
  launch_host_func = (LaunchHostFuncWithMode)find_call("cuLaunchHostFunc_v2");
  add_node = (AddNodeOfUnion)find_call("cuGraphAddNode_v3");
  set_node = (SetNodeOfUnion)find_call("cuGraphNodeSetParams_v2");
  create_graph = (PFN_cuGraphCreate_v10000)find_call("cuGraphCreate");
#if CUDA_VERSION >= 12080
  copy = (MemcpyWithAttributes)find_call("cuMemcpyWithAttributesAsync");
  copy_rows = (Memcpy3DWithAttributes)find_call("cuMemcpy3DWithAttributesAsync");
#endif
}

/* A fill of half of the buffer, set after it was added, and a copy of it to the other half. */
static void fill_by_nodes(int buffer, unsigned char value, CUstream stream) {
  CUgraph graph = NULL;
  CUgraphExec exec = NULL;
  CUgraphNode fill = NULL;
  CUgraphNode copied = NULL;
  CUgraphNodeParams what;
  memset(&what, 0, sizeof what);
  what.type = CU_GRAPH_NODE_TYPE_MEMSET;
  what.memset.dst = memory[buffer];
  what.memset.elementSize = 1;
  what.memset.width = buffer_bytes / 2;
  what.memset.height = 1;
  check(create_graph(&graph, 0), "cuGraphCreate");
  check(add_node(&fill, graph, NULL, NULL, 0, &what), "cuGraphAddNode_v3");
  what.memset.value = value;
  check(set_node(fill, &what), "cuGraphNodeSetParams_v2");
  memset(&what, 0, sizeof what);
  what.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  CUDA_MEMCPY3D *rows = &what.memcpy.copyParams;
  rows->srcMemoryType = rows->dstMemoryType = CU_MEMORYTYPE_DEVICE;
  rows->srcDevice = memory[buffer];
  rows->dstDevice = memory[buffer] + buffer_bytes / 2;
  rows->WidthInBytes = buffer_bytes / 2;
  rows->Height = rows->Depth = 1;
  check(add_node(&copied, graph, &fill, NULL, 1, &what), "cuGraphAddNode_v3");
  CALL(cuGraphInstantiateWithFlags, &exec, graph, 0);
  CALL(cuGraphLaunch, exec, stream);
  CALL(cuStreamSynchronize, stream);
  CALL(cuGraphExecDestroy, exec);
  CALL(cuGraphDestroy, graph);
}

#if CUDA_VERSION >= 12080
static void fill_by_copies(int buffer, unsigned char value, CUstream stream) {
  const size_t row = buffer_bytes / 8;
  CUmemcpyAttributes attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  CALL(cuMemsetD8Async, memory[buffer], value, row, stream);
  check(copy(memory[buffer] + row, memory[buffer], row, &attributes, stream),
        "cuMemcpyWithAttributesAsync");
  for (size_t rows = 2; rows < 8; rows *= 2) {
    CUDA_MEMCPY3D_BATCH_OP what;
    memset(&what, 0, sizeof what);
    what.src.type = what.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    what.src.op.ptr.ptr = memory[buffer];
    what.dst.op.ptr.ptr = memory[buffer] + rows * row;
    what.extent.width = row;
    what.extent.height = rows;
    what.extent.depth = 1;
    what.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    check(copy_rows(&what, 0, stream), "cuMemcpy3DWithAttributesAsync");
  }
}
#endif

void fill_by_newer_calls(int buffer, unsigned char value, CUstream stream) {
  find_calls();
  check(launch_host_func(stream, work_a_while, NULL, 1), "cuLaunchHostFunc_v2");
#if CUDA_VERSION >= 12080
  if (buffer % 2 == 0) return fill_by_copies(buffer, value, stream);
#endif
  fill_by_nodes(buffer, value, stream);
}
