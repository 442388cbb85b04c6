#include "interpose/uses.hpp"

#include "interpose/settings.hpp"
#include "interpose/vmart_library.hpp"

#include <algorithm>
#include <array>
#include <atomic>

namespace vma::interpose {
namespace {

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

}  // namespace

/// The GPU of the calling thread's context; negative if nobody reads uses or vmart has no memory.
int Uses::using_gpu() const noexcept {
  return are_read() && VmartLibrary::loaded() != nullptr ? current_gpu() : -1;
}

/// Calls `take` with each part of the range that is memory of vmart. If `gpu` is negative, the part
/// counts on the GPU on which the program allocated it.
template <typename Take>
void Uses::for_each(const MemoryRange& range, int gpu, Take&& take) const {
  CUdeviceptr begin = range.begin;
  std::size_t bytes = range.bytes;
  while (bytes > 0) {  // A copy may go through neighbours that the program has mapped itself.
    const auto memory = memory_.find(begin);
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
bool Uses::are_wanted_meanwhile() const noexcept {
  constexpr unsigned calls_between_looks = 256;
  static std::atomic<bool> wanted = false;
  thread_local unsigned calls = 0;
  if (wanted.load(std::memory_order_relaxed)) return true;
  const RunTable* const vmart = VmartLibrary::loaded();
  if (calls++ % calls_between_looks != 0 || vmart == nullptr || !streams_.begun()) {
    return false;
  }
  int told = 0;
  if (vmart->vmart_uses_wanted(&told) == VMART_OK && told != 0) wanted = true;
  return wanted;
}

bool Uses::are_read() const noexcept {
  return Settings::get().uses_are_read || are_wanted_meanwhile();
}

int current_gpu() noexcept {
  CUcontext context = nullptr;
  int device = 0;
  return ProgramStreams::current(context, device) ? device : -1;
}

std::size_t Uses::find_of_launch(CUfunction function, void** parameters, void** extra, int gpu,
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

void Uses::append(const MemoryRange& range, int gpu, std::vector<vmart_use>& out) const {
  for_each(range, gpu, [&](const vmart_use& use) { out.push_back(use); });
}

void Uses::record(std::span<vmart_use> uses) noexcept {
  int asked = -1;  // Most uses are of one GPU.
  bool any_besides = false;
  for (vmart_use& use : uses) {
    if (use.gpu != asked) any_besides = launches_.any_besides(asked = use.gpu);
    if (!any_besides) continue;
    const auto memory = memory_.find(reinterpret_cast<CUdeviceptr>(use.address));
    if (memory && memory->device != use.gpu && launches_.is_blind(memory->device)) {
      use.gpu = memory->device;
    }
  }
  VmartLibrary::loaded()->vmart_record_uses(uses.data(), uses.size());
}

void Uses::note_launch(CUfunction function, void** parameters, void** extra) noexcept {
  const int gpu = using_gpu();
  if (gpu < 0) return;
  std::array<vmart_use, launch_uses_max> found;
  const std::size_t count = find_of_launch(function, parameters, extra, gpu, found);
  launches_.note(gpu, count > 0 ? 1 : 0, count > 0 ? 0 : 1);
  if (count > 0) record(std::span(found).first(count));
}

void Uses::note_range(const MemoryRange& range) noexcept {
  const int gpu = using_gpu();
  if (gpu < 0) return;
  for_each(range, gpu, [this](vmart_use use) { record({&use, 1}); });
}

void Uses::forget_kernels() noexcept {
  const RunTable* const vmart = VmartLibrary::loaded();
  if (vmart != nullptr) vmart->vmart_forget_kernels();
}

}  // namespace vma::interpose
