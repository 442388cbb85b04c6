// The kernels of the library itself: what the simulator has no work of its own for.
#include "simcuda/library.hpp"

#include "simcuda/event_times.hpp"

#include "base/mutex.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <span>
#include <vector>

namespace vma {
namespace {

constexpr std::size_t own_count = 3;
using OwnHandles = std::array<KernelHandle, own_count>;

struct Loaded {
  Mutex mutex;
  std::map<ContextHandle, OwnHandles> kernels VMART_GUARDED_BY(mutex);
};

Loaded& loaded() {
  static Loaded& contexts = *new Loaded;  // Never destroyed: threads may use it until the end.
  return contexts;
}

/// (function, data)
void call_host(DeviceView&, const KernelArguments& arguments, LaunchShape) {
  arguments.at<void (*)(void*)>(0)(arguments.at<void*>(1));
}

/// (event)
void store_time(DeviceView&, const KernelArguments& arguments, LaunchShape) {
  EventTimes::of_process().reached(arguments.at<EventHandle>(0));
}

/// (begin, value, bytes of the value, count)
void fill_pattern(DeviceView& memory, const KernelArguments& arguments, LaunchShape) {
  constexpr std::size_t block_bytes = 65536;
  const auto value = arguments.at<std::uint64_t>(1);
  const auto width = arguments.at<std::uint64_t>(2);
  const std::uint64_t size_bytes = width * arguments.at<std::uint64_t>(3);
  std::vector<std::byte> block(std::min<std::uint64_t>(block_bytes, size_bytes));
  for (std::size_t at = 0; at < block.size(); at += width) std::memcpy(&block[at], &value, width);
  auto* const begin = arguments.at<std::byte*>(0);
  for (std::uint64_t done = 0; done < size_bytes; done += block.size()) {
    const auto part = std::min<std::uint64_t>(block.size(), size_bytes - done);
    memory.write(begin + done, std::span<const std::byte>(block).first(part));
  }
}

const std::array<Kernel, own_count>& own_kernels() {
  static const auto& kernels = *new std::array<Kernel, own_count>{
      Kernel{"", "simcuda_call_host", call_host}, Kernel{"", "simcuda_store_time", store_time},
      Kernel{"", "simcuda_fill_pattern", fill_pattern}};
  return kernels;
}

}  // namespace

void prepare_context(ContextHandle context) {
  Loaded& all = loaded();
  {
    const MutexLock lock(all.mutex);
    if (all.kernels.contains(context)) return;
  }
  std::array<const Kernel*, own_count> wanted;
  std::ranges::transform(own_kernels(), wanted.begin(),
                         [](const Kernel& kernel) { return &kernel; });
  const std::vector<KernelHandle> handles = sim().load_kernels(context, wanted, {});
  OwnHandles kept;
  std::ranges::copy(handles, kept.begin());
  open_channels(context);
  const MutexLock lock(all.mutex);
  all.kernels.emplace(context, kept);
}

void forget_context(ContextHandle context) noexcept {
  close_channels(context);
  const MutexLock lock(loaded().mutex);
  loaded().kernels.erase(context);
}

void launch_own(BoundStream stream, OwnKernel kernel, const KernelArguments& arguments) {
  const ContextHandle context =
      is_none(stream.context) ? sim().stream_context(stream.handle) : stream.context;
  KernelHandle handle{};
  {
    const MutexLock lock(loaded().mutex);
    const auto found = loaded().kernels.find(context);
    if (found == loaded().kernels.end()) refuse(CUDA_ERROR_INVALID_CONTEXT);
    handle = found->second[static_cast<std::size_t>(kernel)];
  }
  sim().launch(stream, handle, LaunchShape{}, arguments);
}

}  // namespace vma
