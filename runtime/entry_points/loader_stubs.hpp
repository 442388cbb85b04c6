#pragma once

namespace vma {

/// In two registers.
struct LoaderAnswer {
  const void* value;
  long given;  // 0: the next function is to answer.
};

}  // namespace vma

/// A function in the place of one of the system's loader, such as `dlsym`, whose answer depends on
/// who calls it. `name` calls `found` with the first two arguments and the address of its caller,
/// and returns the value of the `LoaderAnswer` that it returns; if none is given, it jumps to the
/// function at `next` as if the caller had called that. `found` and `next` have C linkage.
#if defined(__x86_64__)
#define VMART_LOADER_STUB(name, found, next)              \
  asm(".pushsection .text\n"                              \
      ".globl " #name "\n.hidden " #name "\n.type " #name \
      ",@function\n"                                      \
      ".p2align 4\n" #name                                \
      ":\n"                                               \
      "  .cfi_startproc\n"                                \
      "  endbr64\n"                                       \
      "  movq (%rsp), %rdx\n"                             \
      "  pushq %rdi\n  .cfi_adjust_cfa_offset 8\n"        \
      "  pushq %rsi\n  .cfi_adjust_cfa_offset 8\n"        \
      "  subq $8, %rsp\n  .cfi_adjust_cfa_offset 8\n"     \
      "  call " #found                                    \
      "\n"                                                \
      "  addq $8, %rsp\n  .cfi_adjust_cfa_offset -8\n"    \
      "  popq %rsi\n  .cfi_adjust_cfa_offset -8\n"        \
      "  popq %rdi\n  .cfi_adjust_cfa_offset -8\n"        \
      "  testq %rdx, %rdx\n  jne 1f\n"                    \
      "  jmp *" #next                                     \
      "(%rip)\n"                                          \
      "1: ret\n"                                          \
      "  .cfi_endproc\n"                                  \
      ".size " #name ", .-" #name "\n.popsection\n")
#elif defined(__aarch64__)
#define VMART_LOADER_STUB(name, found, next)                    \
  asm(".pushsection .text\n"                                    \
      ".globl " #name "\n.hidden " #name "\n.type " #name       \
      ",@function\n"                                            \
      ".p2align 4\n" #name                                      \
      ":\n"                                                     \
      "  .cfi_startproc\n"                                      \
      "  hint #34\n"                                            \
      "  stp x29, x30, [sp, #-32]!\n  .cfi_def_cfa_offset 32\n" \
      "  .cfi_offset 29, -32\n  .cfi_offset 30, -24\n"          \
      "  mov x29, sp\n"                                         \
      "  stp x0, x1, [sp, #16]\n"                               \
      "  mov x2, x30\n"                                         \
      "  bl " #found                                            \
      "\n"                                                      \
      "  cbnz x1, 1f\n"                                         \
      "  ldp x0, x1, [sp, #16]\n"                               \
      "  ldp x29, x30, [sp], #32\n"                             \
      "  adrp x16, " #next "\n  ldr x16, [x16, #:lo12:" #next   \
      "]\n  br x16\n"                                           \
      "1: ldp x29, x30, [sp], #32\n  ret\n"                     \
      "  .cfi_endproc\n"                                        \
      ".size " #name ", .-" #name "\n.popsection\n")
#else
#error "there are no stubs for this processor"
#endif

/// Another name of a stub of the same file, which other libraries find.
#define VMART_EXPORTED_STUB(exported, name)    \
  asm(".globl " #exported "\n.type " #exported \
      ",@function\n"                           \
      ".set " #exported ", " #name "\n")
