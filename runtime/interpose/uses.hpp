#pragma once

#include <cuda.h>

#include <cstddef>
#include <type_traits>

namespace vma::interpose {

/// Whether anybody reads what the program uses: a policy, a recording, a decision log, or what
/// makes room for a limit that was set meanwhile. If not, the functions below do nothing, which
/// saves each launch a fraction of a microsecond.
bool uses_are_read() noexcept;

/// The kernel was launched by the calling thread. `parameters` may be null.
void note_launch(CUfunction function, void** parameters) noexcept;
/// Work of the calling thread's context was enqueued that reads or writes so many bytes.
void note_use(CUdeviceptr begin, std::size_t bytes, bool writes) noexcept;
/// Kernels were unloaded, whose handles may name others from now on.
void forget_kernels() noexcept;

/// Notes the memory among the arguments of a copy or a fill: those that are addresses, with the one
/// that is a size, in elements of a fill's value.
template <typename... Args>
void note_memory_among(Args... args) noexcept;

}  // namespace vma::interpose

// --- Implementation

namespace vma::interpose {

/// Bytes of an element, if the argument is the value of a fill.
template <typename Arg>
constexpr std::size_t element_bytes =
    std::is_same_v<Arg, unsigned char> || std::is_same_v<Arg, unsigned short> ||
            std::is_same_v<Arg, unsigned>
        ? sizeof(Arg)
        : 1;

template <typename First, typename... Rest>
constexpr bool begins_with_stream = std::is_same_v<First, CUstream>;

template <typename... Args>
void note_memory_among(Args... args) noexcept {
  constexpr int sizes = (0 + ... + int{std::is_same_v<Args, std::size_t>});
  constexpr int addresses = (0 + ... + int{std::is_same_v<Args, CUdeviceptr>});
  // Operations on a word begin with their stream, and what looks like a size is the word.
  if constexpr (sizes == 1 && addresses > 0 && !begins_with_stream<Args...>) {
    if (!uses_are_read()) return;
    std::size_t bytes = (std::size_t{1} * ... * element_bytes<Args>);
    const auto take_size = [&](auto arg) {
      if constexpr (std::is_same_v<decltype(arg), std::size_t>) bytes *= arg;
    };
    (take_size(args), ...);
    bool is_target = true;  // The first argument; later ones are sources.
    const auto take_address = [&](auto arg) {
      if constexpr (std::is_same_v<decltype(arg), CUdeviceptr>) note_use(arg, bytes, is_target);
      is_target = false;
    };
    (take_address(args), ...);
  }
}

}  // namespace vma::interpose
