/* Graphs of fills that are updated after they were instantiated. */
#include "program.hpp"

#include <stdio.h>
#include <stdlib.h>

static CUgraphExec exec;
static CUgraphNode nodes[buffers];

static CUDA_MEMSET_NODE_PARAMS fill_of(int buffer, unsigned value) {
  CUDA_MEMSET_NODE_PARAMS what;
  memset(&what, 0, sizeof what);
  what.dst = memory[buffer];
  what.value = value;
  what.elementSize = 1;
  what.width = buffer_bytes;
  what.height = 1;
  return what;
}

static CUgraph build(unsigned value, CUgraphNode *made) {
  CUgraph graph = NULL;
  check(cuGraphCreate(&graph, 0), "cuGraphCreate");
  for (int i = 0; i < buffers; ++i) {
    const CUDA_MEMSET_NODE_PARAMS what = fill_of(i, value);
    check(cuGraphAddMemsetNode(&made[i], graph, NULL, 0, &what, NULL), "cuGraphAddMemsetNode");
  }
  return graph;
}

static void launch_and_check(unsigned value, const char *what) {
  int right = 1;
  CALL(cuGraphLaunch, exec, streams[0]);
  for (int i = 0; i < buffers; ++i) {
    CALL(cuMemcpyDtoHAsync, bytes, memory[i], buffer_bytes, streams[0]);
    CALL(cuStreamSynchronize, streams[0]);
    for (size_t k = 0; k < buffer_bytes; ++k) right &= bytes[k] == (unsigned char)value;
  }
  printf("%s: %s\n", what, right ? "right" : "wrong");
}

void instantiate_graph(void) {
  if (!is_work("updates") && !is_work("nodes")) return;
  CALL(cuGraphInstantiateWithFlags, &exec, build(1, nodes), 0);
}

void update_graph(void) {
  CUgraphNode others[buffers];
  if (is_work("updates")) {
    const CUgraph graph = build(3, others);
    CUgraphExecUpdateResultInfo info;
    CUcontext context = NULL;
    CALL(cuCtxPopCurrent, &context); /* An update needs none. */
    check(cuGraphExecUpdate(exec, graph, &info), "cuGraphExecUpdate");
    CALL(cuCtxSetCurrent, context);
    launch_and_check(3, "an update of the graph");
  }
  if (is_work("nodes")) {
    for (int i = 0; i < buffers; ++i) {
      const CUDA_MEMSET_NODE_PARAMS what = fill_of(i, 2);
      check(cuGraphExecMemsetNodeSetParams(exec, nodes[i], &what, NULL),
            "cuGraphExecMemsetNodeSetParams");
    }
    launch_and_check(2, "an update of nodes");
  }
}
