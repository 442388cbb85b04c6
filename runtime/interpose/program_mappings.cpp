#include "interpose/program_mappings.hpp"

#include "interpose/driver_library.hpp"
#include "interpose/process.hpp"
#include "interpose/settings.hpp"
#include "interpose/vmart_library.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

namespace vma::interpose {
namespace {

/// Plain memory of a GPU, of which vmart knows all properties.
bool is_plain(const CUmemAllocationProp& properties) noexcept {
  constexpr unsigned known_types =
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC;
  const auto& flags = properties.allocFlags;
  const bool reserved =
      std::ranges::any_of(flags.reserved, [](unsigned char byte) { return byte != 0; });
  return properties.type == CU_MEM_ALLOCATION_TYPE_PINNED &&
         properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
         (static_cast<unsigned>(properties.requestedHandleTypes) & ~known_types) == 0 &&
         properties.win32HandleMetaData == nullptr &&
         flags.compressionType == CU_MEM_ALLOCATION_COMP_NONE && flags.usage == 0 && !reserved;
}

}  // namespace

// --- Handles

CUmemGenericAllocationHandle ProgramMappings::create(std::size_t bytes,
                                                     const CUmemAllocationProp* properties,
                                                     unsigned long long flags, const void* caller,
                                                     bool& full) noexcept try {
  CUcontext context = nullptr;
  int device = 0;
  if (!Settings::get().vmm || !takes_part() || properties == nullptr || flags != 0 ||
      bytes < Settings::get().min_bytes || bytes == 0 || !is_plain(*properties) ||
      is_excluded(caller) || !ProgramStreams::current(context, device) ||
      !driver_accepts(*properties)) {
    return 0;
  }
  std::shared_ptr<ProgramHandle> made = ProgramHandle::create(parts_, bytes, *properties, full);
  if (made == nullptr) return 0;
  parts_.streams.begin();
  const std::lock_guard lock(mutex_);
  handles_.emplace(next_handle_, Known{std::move(made)});
  note_passed(0);  // Tells vmart what was passed before it was loaded.
  return next_handle_++;
} catch (const std::exception&) {
  return 0;
}

/// Whether the driver would create such memory at all. Programs try which export types it supports.
bool ProgramMappings::driver_accepts(const CUmemAllocationProp& properties) {
  const auto types = static_cast<unsigned>(properties.requestedHandleTypes);
  const unsigned rdma = properties.allocFlags.gpuDirectRDMACapable;
  if (types == 0 && rdma == 0) return true;
  const std::uint64_t key = std::uint64_t{types} << 40 | std::uint64_t{rdma} << 32 |
                            static_cast<std::uint32_t>(properties.location.id);
  const std::lock_guard lock(types_mutex_);
  const auto known = accepted_types_.find(key);
  if (known != accepted_types_.end()) return known->second;
  const DriverLibrary* const driver = DriverLibrary::get();
  std::size_t granularity = 0;
  if (driver == nullptr || driver->cuMemGetAllocationGranularity_plain == nullptr ||
      driver->cuMemGetAllocationGranularity_plain(
          &granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS) {
    return false;
  }
  CUmemGenericAllocationHandle probe = 0;
  const CUresult result =
      call_driver<EntryPoint::cuMemCreate>(&probe, granularity, &properties, 0ULL);
  if (result == CUDA_SUCCESS) call_driver<EntryPoint::cuMemRelease>(probe);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return false;  // It may accept them later.
  return accepted_types_[key] = result == CUDA_SUCCESS;
}

/// Requires: the caller holds `mutex_`.
void ProgramMappings::note_passed(long long change) noexcept {
  passed_bytes_ += static_cast<std::uint64_t>(change);
  const RunTable* const vmart = VmartLibrary::loaded();
  if (vmart != nullptr) vmart->vmart_backing_note_passed(passed_bytes_);
}

void ProgramMappings::note_drivers(CUmemGenericAllocationHandle handle, std::size_t bytes) noexcept
    try {
  if (is_forked_child()) return;
  const std::lock_guard lock(mutex_);
  passed_[handle] = bytes;
  note_passed(static_cast<long long>(bytes));
} catch (const std::exception&) {  // Not counted.
}

void ProgramMappings::note_if_left(CUmemGenericAllocationHandle handle,
                                   ProgramHandle& known) noexcept {
  if (!known.is_drivers()) return;
  {
    const std::shared_lock lock(mutex_);
    if (passed_.contains(handle)) return;
  }
  note_drivers(handle, known.bytes());
}

std::shared_ptr<ProgramHandle> ProgramMappings::find(CUmemGenericAllocationHandle handle) noexcept {
  if (handle < first_handle || is_forked_child()) return nullptr;
  const std::shared_lock lock(mutex_);
  const auto found = handles_.find(handle);
  return found != handles_.end() ? found->second.handle : nullptr;
}

std::optional<CUresult> ProgramMappings::release(CUmemGenericAllocationHandle handle) noexcept {
  if (is_forked_child()) return std::nullopt;
  std::shared_ptr<ProgramHandle> last;  // Its memory goes back after the lock is released.
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  if (found != handles_.end() && --found->second.references > 0) return CUDA_SUCCESS;
  if (const auto passed = passed_.find(handle); passed != passed_.end()) {
    note_passed(-static_cast<long long>(passed->second));
    passed_.erase(passed);
  }
  if (found == handles_.end()) return std::nullopt;
  last = std::move(found->second.handle);
  handles_.erase(found);
  return CUDA_SUCCESS;
}

CUresult ProgramMappings::to_drivers(CUmemGenericAllocationHandle& handle) noexcept {
  const std::shared_ptr<ProgramHandle> known = find(handle);
  if (known == nullptr) return CUDA_SUCCESS;
  const CUmemGenericAllocationHandle named = handle;
  const CUresult result = known->drivers_handle(handle);
  note_if_left(named, *known);
  return result;
}

// --- Addresses

std::shared_ptr<ProgramHandle> ProgramMappings::find_mapped(CUdeviceptr inside) noexcept {
  if (is_forked_child()) return nullptr;
  const std::shared_lock lock(mutex_);
  const auto after = mapped_.upper_bound(inside);
  if (after == mapped_.begin()) return nullptr;
  const auto& [begin, handle] = *std::prev(after);
  return inside - begin < handle->bytes() ? handle : nullptr;
}

std::optional<CUmemGenericAllocationHandle> ProgramMappings::retain(CUdeviceptr inside) noexcept
    try {
  const std::shared_ptr<ProgramHandle> mapped = find_mapped(inside);
  if (mapped == nullptr) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      handles_, [&](const auto& entry) { return entry.second.handle == mapped; });
  if (found != handles_.end()) {
    ++found->second.references;
    return found->first;
  }
  handles_.emplace(next_handle_, Known{mapped});  // Released, but still mapped.
  return next_handle_++;
} catch (const std::exception&) {
  return std::nullopt;
}

std::optional<CUresult> ProgramMappings::map(CUdeviceptr begin, std::size_t bytes,
                                             std::size_t offset,
                                             CUmemGenericAllocationHandle handle,
                                             unsigned long long flags) noexcept try {
  const std::shared_ptr<ProgramHandle> known = find(handle);
  if (known == nullptr) return std::nullopt;
  bool by_vmart = false;
  const CUresult result = known->map(begin, bytes, offset, flags, by_vmart);
  if (by_vmart) {
    const std::lock_guard lock(mutex_);
    mapped_[begin] = known;
  } else {
    note_if_left(handle, *known);
  }
  return result;
} catch (const std::exception&) {
  return CUDA_ERROR_OUT_OF_MEMORY;
}

std::vector<ProgramMappings::Piece> ProgramMappings::pieces(CUdeviceptr begin, std::size_t bytes) {
  std::vector<Piece> found;
  if (is_forked_child()) return found;
  const std::shared_lock lock(mutex_);
  const CUdeviceptr end = begin + bytes;
  auto next = mapped_.upper_bound(begin);
  if (next != mapped_.begin()) {
    const auto before = std::prev(next);
    if (begin - before->first < before->second->bytes()) next = before;
  }
  CUdeviceptr at = begin;
  for (; next != mapped_.end() && next->first < end; ++next) {
    const auto& [mapped, handle] = *next;
    if (mapped > at) found.push_back({at, mapped - at, nullptr});
    const CUdeviceptr mapped_end = mapped + handle->bytes();
    found.push_back({mapped, handle->bytes(), handle, mapped >= begin && mapped_end <= end});
    at = mapped_end;
  }
  if (!found.empty() && at < end) found.push_back({at, end - at, nullptr});
  return found;
}

std::optional<CUresult> ProgramMappings::unmap(CUdeviceptr begin, std::size_t bytes) noexcept try {
  const std::vector<Piece> all = pieces(begin, bytes);
  if (all.empty()) return std::nullopt;
  if (!std::ranges::all_of(all, &Piece::whole)) return CUDA_ERROR_INVALID_VALUE;
  for (const Piece& piece : all) {  // First those that may be refused.
    if (piece.handle != nullptr) continue;
    const CUresult result = call_driver<EntryPoint::cuMemUnmap>(piece.begin, piece.bytes);
    if (result != CUDA_SUCCESS) return result;
  }
  for (const Piece& piece : all) {
    if (piece.handle == nullptr) continue;
    const CUresult result = piece.handle->unmap();
    if (result != CUDA_SUCCESS) return result;
    const std::lock_guard lock(mutex_);
    mapped_.erase(piece.begin);
  }
  return CUDA_SUCCESS;
} catch (const std::exception&) {
  return CUDA_ERROR_OUT_OF_MEMORY;
}

std::optional<CUresult> ProgramMappings::set_access(CUdeviceptr begin, std::size_t bytes,
                                                    const CUmemAccessDesc* entries,
                                                    std::size_t count) noexcept try {
  const std::vector<Piece> all = pieces(begin, bytes);
  if (all.empty()) return std::nullopt;
  if (entries == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (const Piece& piece : all) {
    const CUresult result = piece.handle != nullptr ? piece.handle->set_access(entries, count)
                                                    : call_driver<EntryPoint::cuMemSetAccess>(
                                                          piece.begin, piece.bytes, entries, count);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
} catch (const std::exception&) {
  return CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace vma::interpose
