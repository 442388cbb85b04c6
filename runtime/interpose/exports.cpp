// The symbols that the program finds instead of the driver's, each a jump to its hook. A C++
// function cannot be defined from a typedef, so the jumps are assembly. They begin with the landing
// pads that processors with control-flow checks require.
#include "interpose/driver_library.hpp"
#include "interpose/hooks.hpp"

#if defined(__x86_64__)
#define VMART_RUN_JUMP(symbol) "  endbr64\n  jmp *vmart_run_hook_" #symbol "(%rip)\n"
#elif defined(__aarch64__)
#define VMART_RUN_JUMP(symbol)                      \
  "  hint #34\n  adrp x16, vmart_run_hook_" #symbol \
  "\n  ldr x16, [x16, #:lo12:vmart_run_hook_" #symbol "]\n  br x16\n"
#else
#error "vmart run has no jumps for this processor"
#endif

#define VMART_RUN_EXPORT(symbol, type, hook)                                                      \
  extern "C" __attribute__((visibility("hidden"), used)) const type vmart_run_hook_##symbol =     \
      hook;                                                                                       \
  asm(".pushsection .text\n.globl " #symbol "\n.type " #symbol ",@function\n.p2align 4\n" #symbol \
      ":\n" VMART_RUN_JUMP(symbol) ".size " #symbol ", .-" #symbol "\n.popsection\n");

namespace vma::interpose {

#define ROW(symbol, type) VMART_RUN_EXPORT(symbol, type, &hook_##symbol)
VMART_RUN_HOOKS(ROW)
#undef ROW
#define ROW(symbol, type) VMART_RUN_EXPORT(symbol, type, &EnqueueHook<EntryPoint::symbol>::call)
VMART_RUN_ENQUEUES(ROW)
#undef ROW
#define ROW(symbol, type) VMART_RUN_EXPORT(symbol, type, &LookupHook<EntryPoint::symbol>::call)
VMART_RUN_LOOKUPS(ROW)
#undef ROW
#define ROW(symbol, type) VMART_RUN_EXPORT(symbol, type, &LookupHook<EntryPoint::symbol>::call)
VMART_RUN_ROOM_CALLS(ROW)
#undef ROW

}  // namespace vma::interpose
