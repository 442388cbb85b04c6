#pragma once

extern "C" {
/// The `dlsym` behind ours, once `next_dlsym` has found it; the jump of our own reads it.
extern __attribute__((visibility("hidden"))) void* (*vmart_run_next_dlsym)(void*, const char*);
}

namespace vma::interpose {

/// Calls the `dlsym` behind ours. Null if there is none.
void* next_dlsym(void* handle, const char* symbol) noexcept;

/// The program would take the loader's message of a call that has failed for its own.
void forget_loader_error() noexcept;

}  // namespace vma::interpose
