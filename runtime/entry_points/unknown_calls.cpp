// Calls that the table of entry points lacks. Whether one of them is ever called shows only when it
// is, since CUDA's runtime looks all of them up. So the program gets a jump of its own for each.
#include "entry_points/unknown_calls.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>

// As many jumps as there are in the assembly below, so far apart.
#define VMART_JUMPS 256
#define VMART_JUMP_BYTES 16
#define VMART_TEXT(number) VMART_DIGITS(number)
#define VMART_DIGITS(number) #number

extern "C" __attribute__((visibility("hidden"))) const unsigned char vmart_unknown_calls[];

namespace vma {
namespace {

struct Jump {
  std::atomic<const void*> function = nullptr;
  std::array<char, 64> name{};  // Of the first thread that has it; read once the call is made.
  std::atomic<bool> named = false;
};
std::array<Jump, VMART_JUMPS> jumps;

}  // namespace

const void* jump_to(const void* function, std::string_view symbol) noexcept {
  for (std::size_t i = 0; i < jumps.size(); ++i) {
    Jump& jump = jumps[i];
    const void* none = nullptr;
    if (jump.function.compare_exchange_strong(none, function)) {
      std::snprintf(jump.name.data(), jump.name.size(), "%.*s", static_cast<int>(symbol.size()),
                    symbol.data());
      jump.named.store(true, std::memory_order_release);
    } else if (none != function) {
      continue;
    }
    return vmart_unknown_calls + i * VMART_JUMP_BYTES;
  }
  before_unknown_call(symbol);  // There are more than anybody expected.
  return function;
}

}  // namespace vma

/// A jump was called. Returns where it goes on.
extern "C" __attribute__((visibility("hidden"), used)) const void* vmart_unknown_called(
    const unsigned char* jumped) noexcept {
  using namespace vma;
  const auto place = static_cast<std::size_t>(jumped - vmart_unknown_calls) / VMART_JUMP_BYTES;
  const Jump& called = jumps[place];
  const bool named = called.named.load(std::memory_order_acquire);
  before_unknown_call(named ? std::string_view(called.name.data()) : "an entry point");
  return called.function.load(std::memory_order_acquire);
}

// The jumps tell which one was called by their address. Arguments are kept, also floating-point
// ones.
#if defined(__x86_64__)
asm(R"(
.pushsection .text
.p2align 4
.globl vmart_unknown_calls
.hidden vmart_unknown_calls
.type vmart_unknown_calls,@function
vmart_unknown_calls:
.rept )" VMART_TEXT(VMART_JUMPS) R"(
  .p2align 4
1: endbr64
  leaq 1b(%rip), %r11
  jmp 9f
.endr
  .p2align 4
9:
  .cfi_startproc
  subq $136, %rsp
  .cfi_adjust_cfa_offset 136
  movups %xmm0, (%rsp)
  movups %xmm1, 16(%rsp)
  movups %xmm2, 32(%rsp)
  movups %xmm3, 48(%rsp)
  movups %xmm4, 64(%rsp)
  movups %xmm5, 80(%rsp)
  movups %xmm6, 96(%rsp)
  movups %xmm7, 112(%rsp)
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  pushq %rdx
  .cfi_adjust_cfa_offset 8
  pushq %rcx
  .cfi_adjust_cfa_offset 8
  pushq %r8
  .cfi_adjust_cfa_offset 8
  pushq %r9
  .cfi_adjust_cfa_offset 8
  movq %r11, %rdi
  call vmart_unknown_called
  popq %r9
  .cfi_adjust_cfa_offset -8
  popq %r8
  .cfi_adjust_cfa_offset -8
  popq %rcx
  .cfi_adjust_cfa_offset -8
  popq %rdx
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  movups (%rsp), %xmm0
  movups 16(%rsp), %xmm1
  movups 32(%rsp), %xmm2
  movups 48(%rsp), %xmm3
  movups 64(%rsp), %xmm4
  movups 80(%rsp), %xmm5
  movups 96(%rsp), %xmm6
  movups 112(%rsp), %xmm7
  addq $136, %rsp
  .cfi_adjust_cfa_offset -136
  jmp *%rax
  .cfi_endproc
.popsection
)");
#elif defined(__aarch64__)
asm(R"(
.pushsection .text
.p2align 4
.globl vmart_unknown_calls
.hidden vmart_unknown_calls
.type vmart_unknown_calls,@function
vmart_unknown_calls:
.rept )" VMART_TEXT(VMART_JUMPS) R"(
  .p2align 4
1: hint #34
  adr x16, 1b
  b 9f
.endr
  .p2align 4
9:
  .cfi_startproc
  stp x29, x30, [sp, #-224]!
  .cfi_def_cfa_offset 224
  .cfi_offset 29, -224
  .cfi_offset 30, -216
  mov x29, sp
  stp x0, x1, [sp, #16]
  stp x2, x3, [sp, #32]
  stp x4, x5, [sp, #48]
  stp x6, x7, [sp, #64]
  str x8, [sp, #80]
  stp q0, q1, [sp, #96]
  stp q2, q3, [sp, #128]
  stp q4, q5, [sp, #160]
  stp q6, q7, [sp, #192]
  mov x0, x16
  bl vmart_unknown_called
  mov x16, x0
  ldp q6, q7, [sp, #192]
  ldp q4, q5, [sp, #160]
  ldp q2, q3, [sp, #128]
  ldp q0, q1, [sp, #96]
  ldr x8, [sp, #80]
  ldp x6, x7, [sp, #64]
  ldp x4, x5, [sp, #48]
  ldp x2, x3, [sp, #32]
  ldp x0, x1, [sp, #16]
  ldp x29, x30, [sp], #224
  br x16
  .cfi_endproc
.popsection
)");
#endif
