#include "interpose/uses.hpp"

#include "interpose/program_memory.hpp"
#include "interpose/program_streams.hpp"
#include "interpose/settings.hpp"
#include "interpose/vmart_library.hpp"
#include "interpose/work/launches.hpp"

#include <algorithm>
#include <array>
#include <atomic>

namespace vma::interpose {
namespace {

/// The GPU of the calling thread's context; negative if nobody reads uses or vmart has no memory.
int using_gpu() noexcept {
  return uses_are_read() && VmartLibrary::loaded() != nullptr ? current_gpu() : -1;
}

/// The buffer with all parameters that a launch may pass instead of one pointer for each.
std::span<const std::byte> block_of(void** extra) noexcept {
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
  for (; extra != nullptr && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) begin = static_cast<const std::byte*>(extra[1]);
    if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) bytes = *static_cast<const std::size_t*>(extra[1]);
  }
  return begin != nullptr ? std::span(begin, bytes) : std::span<const std::byte>();
}

/// Calls `take` with each part of the range that is memory of vmart. If `gpu` is negative, the part
/// counts on the GPU on which the program allocated it.
template <typename Take>
void for_each_use(const MemoryRange& range, int gpu, Take&& take) {
  CUdeviceptr begin = range.begin;
  std::size_t bytes = range.bytes;
  while (bytes > 0) {  // A copy may go through neighbours that the program has mapped itself.
    const auto memory = ProgramMemory::get().find(begin);
    if (!memory) return;
    const std::size_t inside = std::min<std::size_t>(bytes, memory->begin + memory->bytes - begin);
    take(vmart_use{reinterpret_cast<const void*>(begin), inside, gpu < 0 ? memory->device : gpu,
                   range.writes ? VMART_USE_WRITE : VMART_USE_READ, range.passes});
    begin += inside;
    bytes -= inside;
  }
}

/// Whether a policy or a limit was set while the program runs. Costs next to nothing, because each
/// thread looks only at its first call and then once in many.
bool are_wanted_meanwhile() noexcept {
  constexpr unsigned calls_between_looks = 256;
  static std::atomic<bool> wanted = false;
  thread_local unsigned calls = 0;
  if (wanted.load(std::memory_order_relaxed)) return true;
  const RunTable* const vmart = VmartLibrary::loaded();
  if (calls++ % calls_between_looks != 0 || vmart == nullptr || !ProgramStreams::get().begun()) {
    return false;
  }
  int told = 0;
  if (vmart->vmart_uses_wanted(&told) == VMART_OK && told != 0) wanted = true;
  return wanted;
}

}  // namespace

bool uses_are_read() noexcept {
  return Settings::get().uses_are_read || are_wanted_meanwhile();
}

int current_gpu() noexcept {
  CUcontext context = nullptr;
  int device = 0;
  return ProgramStreams::current(context, device) ? device : -1;
}

std::size_t find_launch_uses(CUfunction function, void** parameters, void** extra, int gpu,
                             std::span<vmart_use> out) noexcept {
  const RunTable& vmart = *VmartLibrary::loaded();
  std::size_t count = 0;
  const std::span<const std::byte> block = block_of(extra);
  const vmart_status status =
      parameters == nullptr && !block.empty()
          ? vmart.vmart_launch_block_uses(function, block.data(), block.size(), gpu, out.data(),
                                          out.size(), &count)
          : vmart.vmart_launch_uses(function, parameters, gpu, out.data(), out.size(), &count);
  return status == VMART_OK ? std::min(count, out.size()) : 0;
}

void append_uses(const MemoryRange& range, int gpu, std::vector<vmart_use>& out) {
  for_each_use(range, gpu, [&](const vmart_use& use) { out.push_back(use); });
}

void record_uses(std::span<vmart_use> uses) noexcept {
  const BlindLaunches& blind = BlindLaunches::get();
  int asked = -1;  // Most uses are of one GPU.
  bool any_besides = false;
  for (vmart_use& use : uses) {
    if (use.gpu != asked) any_besides = blind.any_besides(asked = use.gpu);
    if (!any_besides) continue;
    const auto memory = ProgramMemory::get().find(reinterpret_cast<CUdeviceptr>(use.address));
    if (memory && memory->device != use.gpu && blind.is_blind(memory->device)) {
      use.gpu = memory->device;
    }
  }
  VmartLibrary::loaded()->vmart_record_uses(uses.data(), uses.size());
}

void note_launch(CUfunction function, void** parameters, void** extra) noexcept {
  constexpr std::size_t uses_max = 128;
  const int gpu = using_gpu();
  if (gpu < 0) return;
  std::array<vmart_use, uses_max> found;
  const std::size_t count = find_launch_uses(function, parameters, extra, gpu, found);
  BlindLaunches::get().note(gpu, count > 0 ? 1 : 0, count > 0 ? 0 : 1);
  if (count > 0) record_uses(std::span(found).first(count));
}

void note_use(const MemoryRange& range) noexcept {
  const int gpu = using_gpu();
  if (gpu < 0) return;
  for_each_use(range, gpu, [](vmart_use use) { record_uses({&use, 1}); });
}

void forget_kernels() noexcept {
  const RunTable* const vmart = VmartLibrary::loaded();
  if (vmart != nullptr && uses_are_read()) vmart->vmart_forget_kernels();
}

}  // namespace vma::interpose
