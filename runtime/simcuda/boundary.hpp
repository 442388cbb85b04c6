#pragma once

#include <vma/error.hpp>

#include <cuda.h>

#include <exception>
#include <new>

#ifndef __CUDA_API_VERSION_INTERNAL
#error "cuda.h must declare every version of a call, not rename the calls to the newest"
#endif

namespace vma {

/// Ends a call of the library with this code.
struct Refusal {
  CUresult code;
};

[[noreturn]] inline void refuse(CUresult code) {
  throw Refusal{code};
}

/// Throws: Refusal{INVALID_VALUE} if the program gave no place for a result.
template <typename Pointer>
Pointer* required(Pointer* pointer) {
  if (pointer == nullptr) refuse(CUDA_ERROR_INVALID_VALUE);
  return pointer;
}

/// The code of an error of the simulator.
CUresult code_of(const Error& error) noexcept;

/// Runs the body of a call. No exception leaves the library.
template <typename Body>
CUresult at_boundary(Body&& body) noexcept try {
  body();
  return CUDA_SUCCESS;
} catch (const Refusal& refusal) {
  return refusal.code;
} catch (const Error& error) {
  return code_of(error);
} catch (const std::bad_alloc&) {
  return CUDA_ERROR_OUT_OF_MEMORY;
} catch (...) {
  return CUDA_ERROR_UNKNOWN;
}

/// Within its life, stream zero of the calling thread is its own and not the legacy stream.
class PerThreadStreams {
 public:
  PerThreadStreams() noexcept : before_(chosen_) { chosen_ = true; }
  ~PerThreadStreams() { chosen_ = before_; }
  PerThreadStreams(const PerThreadStreams&) = delete;
  PerThreadStreams& operator=(const PerThreadStreams&) = delete;

  static bool chosen() noexcept { return chosen_; }

 private:
  static inline thread_local bool chosen_ = false;
  const bool before_;
};

}  // namespace vma

/// Defines an exported call. The function's body follows; it throws what the call answers.
#define SIMCUDA_CALL(symbol, parameters, arguments)               \
  static void do_##symbol parameters;                             \
  extern "C" CUresult symbol parameters {                         \
    return at_boundary([&]() -> void { do_##symbol arguments; }); \
  }                                                               \
  static void do_##symbol parameters

/// The same with a second call, of this suffix, for programs whose stream zero is per thread.
#define SIMCUDA_STREAM_CALL(symbol, suffix, parameters, arguments) \
  static void do_##symbol parameters;                              \
  extern "C" CUresult symbol parameters {                          \
    return at_boundary([&]() -> void { do_##symbol arguments; });  \
  }                                                                \
  extern "C" CUresult symbol##suffix parameters {                  \
    const PerThreadStreams per_thread;                             \
    return at_boundary([&]() -> void { do_##symbol arguments; });  \
  }                                                                \
  static void do_##symbol parameters
