#pragma once

#include "simcuda/boundary.hpp"

#include "sim/sim_driver.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace vma {

/// The process's simulated machine, opened by the first cuInit and never closed: threads of the
/// program may be in it until the process ends. SIMCUDA_MACHINE names it, as `load_machine` does,
/// which also finds those in the folder `machines` beside the library;
/// otherwise it has two GPUs of 4 GiB. The program sees those that CUDA_VISIBLE_DEVICES lists by
/// their numbers, and numbers them itself. Throws: Refusal{NOT_INITIALIZED} before cuInit.
SimDriver& sim();
/// Throws: Refusal if there is no such machine, or a library of kernels is refused.
void open_sim();

/// The folder of the library itself, not of a link to it. Empty if the system does not tell.
const std::string& library_folder();

/// The version of CUDA that the library answers to: the newest of which it has calls, or that of
/// its header.
constexpr int simcuda_version = std::max(CUDA_VERSION, 13050);

/// Handles of the program are the simulator's numbers, or those of `HandleTable`.
template <typename Native, typename Handle>
Native native_of(Handle handle) {
  return reinterpret_cast<Native>(static_cast<std::uintptr_t>(handle));
}
template <typename Handle, typename Native>
Handle handle_of(Native* native) {
  return Handle{reinterpret_cast<std::uintptr_t>(native)};
}

/// How many GPUs the program sees.
int visible_devices();
/// The machine's GPU behind the program's number. Throws: Refusal{INVALID_DEVICE}.
DeviceId device_of(CUdevice device);
/// The program's number of a GPU that it sees; -1 for others, whose memory it may have imported.
CUdevice ordinal_of(DeviceId device);

// --- Contexts of the calling thread
/// Throws: Refusal{INVALID_CONTEXT} if it has none.
ContextHandle current_context();
/// None if it has none.
ContextHandle top_context() noexcept;
void push_context(ContextHandle context);
ContextHandle pop_context();
/// Replaces the top of the stack; none removes it. With SIMCUDA_LATE_CONTEXTS, a context that
/// becomes current for the first time is not active from then on until it is retained again, as
/// CUDA's runtime lets it be seen.
void set_context(ContextHandle context);
void note_retained(ContextHandle context);
/// Throws: Refusal{CONTEXT_IS_DESTROYED} if it is not active.
void require_active(ContextHandle context);

/// Throws: the error of a broken kernel, which a context gives to all calls from then on.
void require_working(ContextHandle context);

/// The stream that a call names: zero is the legacy stream or, within `PerThreadStreams`, the
/// thread's own. Throws: Refusal{INVALID_CONTEXT} for those if no context is current.
BoundStream stream_of(CUstream stream);
/// Ends the captures that forbid the calling thread to allocate and to free, by the rules of
/// cuThreadExchangeStreamCaptureMode. Throws: Refusal{STREAM_CAPTURE_UNSUPPORTED} if there are any.
void forbid_in_captures();
/// Waits for the stream, and if it is a legacy one, for what its next work would wait for.
void finish(BoundStream stream);

/// Moves the machine's time on by the time that has passed on this computer since the last call.
/// Otherwise only calls and waits take time there, and a program that polls would poll for ever.
void pass_time();

/// Kernels of the library itself, loaded into each context when it is opened, because loading them
/// later would wait for the program's work.
enum class OwnKernel { call_host, store_time, fill_pattern };
void prepare_context(ContextHandle context);
void forget_context(ContextHandle context) noexcept;
/// Contexts have channels, by which their work can be suspended: `ioctl` makes and frees them, as
/// it does in libcuda. With SIMCUDA_CHANNELS=0, they have none.
void open_channels(ContextHandle context);
void close_channels(ContextHandle context) noexcept;
/// The operations of a batch. Throws: Refusal for those that the simulator lacks.
std::vector<WordOperation> word_operations(const CUstreamBatchMemOpParams* params,
                                           unsigned int count);

void launch_own(BoundStream stream, OwnKernel kernel, const KernelArguments& arguments);

}  // namespace vma
