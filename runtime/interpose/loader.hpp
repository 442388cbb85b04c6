#pragma once

extern "C" {
/// The `dlsym` behind ours, once `find_next_dlsym` was called. Our own ends with a jump through it.
extern __attribute__((visibility("hidden"))) void* (*vmart_run_next_dlsym)(void*, const char*);
}

namespace vma::interpose {

/// Finds it. Another preloaded library may look functions up before constructors of ours have run.
void find_next_dlsym() noexcept;

/// Calls the `dlsym` behind ours. Null if there is none.
void* next_dlsym(void* handle, const char* symbol) noexcept;

/// The program would take the loader's message of a call that has failed for its own.
void forget_loader_error() noexcept;

}  // namespace vma::interpose
