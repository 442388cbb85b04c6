#include "interpose/program_handle.hpp"

#include "interpose/allocation_site.hpp"
#include "interpose/driver_library.hpp"
#include "interpose/process.hpp"
#include "interpose/room.hpp"
#include "interpose/vmart_library.hpp"

#include <chrono>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <utility>

namespace vma::interpose {
namespace {

CUresult result_of(vmart_status status) noexcept {
  switch (status) {
    case VMART_OK: return CUDA_SUCCESS;
    case VMART_OUT_OF_MEMORY: return CUDA_ERROR_OUT_OF_MEMORY;
    case VMART_DRIVER_GONE: return CUDA_ERROR_DEINITIALIZED;
    case VMART_UNSUPPORTED:
    case VMART_BUSY:
    case VMART_PINNED: return CUDA_ERROR_NOT_SUPPORTED;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

void* address_of(CUdeviceptr pointer) noexcept {
  return reinterpret_cast<void*>(pointer);
}

bool has_type(const CUmemAllocationProp& properties, int type) noexcept {
  return (static_cast<int>(properties.requestedHandleTypes) & type) != 0;
}

/// Addresses of the driver, for as long as this exists. Zero bytes: none.
class ReservedRange {
 public:
  explicit ReservedRange(std::size_t bytes) noexcept : bytes_(bytes) {
    const DriverLibrary& driver = *DriverLibrary::get();
    if (bytes == 0 || driver.cuMemAddressReserve_plain == nullptr ||
        driver.cuMemAddressReserve_plain(&begin_, bytes, 0, 0, 0) != CUDA_SUCCESS) {
      begin_ = 0;
    }
  }
  ~ReservedRange() {
    if (begin_ != 0) call_driver<EntryPoint::cuMemAddressFree>(begin_, bytes_);
  }
  ReservedRange(const ReservedRange&) = delete;
  ReservedRange& operator=(const ReservedRange&) = delete;

  CUdeviceptr begin() const noexcept { return begin_; }

 private:
  const std::size_t bytes_;
  CUdeviceptr begin_ = 0;
};

}  // namespace

std::uint64_t HandleBytes::of(int device) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = bytes_.find(device);
  return found != bytes_.end() ? found->second : 0;
}

void HandleBytes::change(int device, long long by) noexcept try {
  const std::lock_guard lock(mutex_);
  bytes_[device] += static_cast<std::uint64_t>(by);
} catch (const std::exception&) {  // Not counted.
}

std::shared_ptr<ProgramHandle> ProgramHandle::create(const HandleParts& parts, std::size_t bytes,
                                                     const CUmemAllocationProp& properties,
                                                     bool& full) noexcept try {
  const RunTable* const vmart = VmartLibrary::load();
  if (vmart == nullptr) return nullptr;
  vmart_backing_options options{};
  options.size_bytes = sizeof options;
  options.tag = "run";
  options.descriptor = has_type(properties, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) ? 1 : 0;
  options.fabric = has_type(properties, CU_MEM_HANDLE_TYPE_FABRIC) ? 1 : 0;
  options.rdma = properties.allocFlags.gpuDirectRDMACapable;
  options.make_room = parts.limits.spills(properties.location.id) ? 1 : 0;
  const std::string site = allocation_site(bytes);
  options.site = site.c_str();
  vmart_backing* backing = nullptr;
  const vmart_status status = parts.memory.with_room([&] {
    return vmart->vmart_backing_create(bytes, {VMART_GPU, properties.location.id}, &options,
                                       &backing);
  });
  if (status == VMART_OK) {
    ProgramHandle* const made = new (std::nothrow) ProgramHandle(parts, bytes, properties, backing);
    if (made != nullptr) {
      made->note_bytes(1);
      return std::shared_ptr<ProgramHandle>(made);
    }
    vmart->vmart_backing_release(backing);
  }
  full = status == VMART_OUT_OF_MEMORY && parts.limits.spills(properties.location.id);
  // The driver refuses what is not valid, and has GPUs that vmart has not.
  if (status != VMART_OK && status != VMART_INVALID_ARGUMENT) {
    parts.memory.note_refusal(status);
  }
  return nullptr;
} catch (const std::exception&) {
  return nullptr;
}

ProgramHandle::~ProgramHandle() {
  const RunTable* const vmart = VmartLibrary::loaded();
  if (drivers_ != 0) call_driver<EntryPoint::cuMemRelease>(drivers_);
  if (backing_ != nullptr && vmart != nullptr) {
    note_bytes(-1);
    vmart->vmart_backing_release(backing_);
  }
}

void ProgramHandle::note_bytes(int sign) const noexcept {
  parts_.bytes.change(device(), sign * static_cast<long long>(bytes_));
}

bool ProgramHandle::is_drivers() noexcept {
  const std::lock_guard lock(mutex_);
  return backing_ == nullptr;
}

// --- Mapping

CUresult ProgramHandle::map(CUdeviceptr begin, std::size_t bytes, std::size_t offset,
                            unsigned long long flags, bool& by_vmart) noexcept {
  const std::lock_guard lock(mutex_);
  by_vmart = false;
  const bool whole = bytes == bytes_ && offset == 0 && flags == 0;
  if (whole && drivers_ == 0 && mapped_at_ == 0) {
    const CUresult result = map_backing(begin);
    by_vmart = result == CUDA_SUCCESS;
    // The driver may have memory that was never mapped, and says what is wrong.
    if (by_vmart || was_mapped_) return result;
  }
  if (drivers_ == 0) {
    if (const CUresult result = share(); result != CUDA_SUCCESS) return result;
  }
  return call_driver<EntryPoint::cuMemMap>(begin, bytes, offset, drivers_, flags);
}

CUresult ProgramHandle::map_backing(CUdeviceptr begin) noexcept {
  const RunTable& vmart = *VmartLibrary::loaded();
  const vmart_status status = vmart.vmart_backing_map(backing_, address_of(begin));
  if (status != VMART_OK) return result_of(status);
  ProgramAllocation made;
  made.begin = begin;
  made.bytes = bytes_;
  made.device = device();
  made.mapped = true;
  if (!parts_.memory.add(made)) {
    vmart.vmart_backing_unmap(backing_);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  mapped_at_ = begin;
  was_mapped_ = true;
  return CUDA_SUCCESS;
}

CUresult ProgramHandle::unmap() noexcept {
  const std::lock_guard lock(mutex_);
  if (replaced_at_ != 0) {
    return call_driver<EntryPoint::cuMemUnmap>(std::exchange(replaced_at_, 0), bytes_);
  }
  const auto still = parts_.memory.without_pinned();
  return mapped_at_ != 0 ? unmap_backing() : CUDA_ERROR_INVALID_VALUE;
}

/// Requires: the caller holds the lock of `without_pinned`.
CUresult ProgramHandle::unmap_backing() noexcept {
  const RunTable& vmart = *VmartLibrary::loaded();
  auto removed = parts_.memory.remove_mapped(mapped_at_);
  const vmart_status status = vmart.vmart_backing_unmap(backing_);
  if (status == VMART_DRIVER_GONE) {
    // The process exits, so nothing moves any more, but its handlers may still clean up.
    return call_driver<EntryPoint::cuMemUnmap>(std::exchange(mapped_at_, 0), bytes_);
  }
  if (status != VMART_OK) {
    say("cannot unmap memory: %s", vmart.vmart_last_error());
    if (removed) parts_.memory.add(*removed);  // It is still mapped.
    return result_of(status);
  }
  mapped_at_ = 0;
  access_.clear();
  return CUDA_SUCCESS;
}

// --- Rights

CUresult ProgramHandle::set_access(const CUmemAccessDesc* entries, std::size_t count) noexcept try {
  const DriverLibrary& driver = *DriverLibrary::get();
  const std::lock_guard lock(mutex_);
  if (replaced_at_ != 0) {
    return call_driver<EntryPoint::cuMemSetAccess>(replaced_at_, bytes_, entries, count);
  }
  if (mapped_at_ == 0) return CUDA_ERROR_INVALID_VALUE;
  bool usual = true;
  for (std::size_t i = 0; i < count; ++i) {
    const CUmemAccessDesc& entry = entries[i];
    if (entry.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        entry.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
      usual = false;
      continue;
    }
    int reaches = 1;
    if (entry.location.id != device() &&
        (driver.cuDeviceCanAccessPeer_plain == nullptr ||
         driver.cuDeviceCanAccessPeer_plain(&reaches, entry.location.id, device()) !=
             CUDA_SUCCESS ||
         reaches == 0)) {
      usual = false;  // The driver says what is wrong.
    }
  }
  if (!usual) {
    if (const CUresult result = pin_at_home(); result != CUDA_SUCCESS) return result;
    const CUresult result =
        call_driver<EntryPoint::cuMemSetAccess>(mapped_at_, bytes_, entries, count);
    if (result != CUDA_SUCCESS) return result;
  }
  // Every GPU that reaches the memory has these rights already.
  for (std::size_t i = 0; i < count; ++i) {
    if (entries[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
      access_[entries[i].location.id] = entries[i].flags;
    }
  }
  return CUDA_SUCCESS;
} catch (const std::exception&) {
  return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult ProgramHandle::get_access(unsigned long long* flags,
                                   const CUmemLocation& location) noexcept {
  const std::lock_guard lock(mutex_);
  if (replaced_at_ != 0 || location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    const CUdeviceptr begin = replaced_at_ != 0 ? replaced_at_ : mapped_at_;
    return call_driver<EntryPoint::cuMemGetAccess>(flags, &location, begin);
  }
  const auto found = access_.find(location.id);
  *flags = found != access_.end() ? found->second : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

// --- What the driver has to know

CUresult ProgramHandle::drivers_handle(CUmemGenericAllocationHandle& out) noexcept {
  const std::lock_guard lock(mutex_);
  if (drivers_ == 0) {
    if (const CUresult result = share(); result != CUDA_SUCCESS) return result;
  }
  out = drivers_;
  return CUDA_SUCCESS;
}

CUresult ProgramHandle::share() noexcept {
  if (!was_mapped_) return leave_to_driver();
  const bool several_chunks = bytes_ > chunk_bytes_max;  // And so several handles.
  std::optional<ProgramStreams::Standstill> standstill;
  // Before the lock, which a thread that enqueues may want.
  if (several_chunks && mapped_at_ != 0)
    standstill.emplace(parts_.streams, std::chrono::seconds(60));
  const auto lock = parts_.memory.without_pinned();
  const CUresult result = several_chunks    ? replace_by_driver(standstill)
                          : mapped_at_ != 0 ? share_at(mapped_at_)
                                            : share_unmapped();
  if (result != CUDA_SUCCESS) {
    say("the program shares or maps %zu bytes by a handle, and vmart cannot give them to the "
        "driver, which needs as much free memory and a pause of all work; run it without --vmm",
        bytes_);
  }
  return result;
}

CUresult ProgramHandle::create_in_driver(CUmemGenericAllocationHandle& out) noexcept {
  const auto need = RoomNeed::at(properties_.location, bytes_);
  return with_room(parts_.limits, parts_.pools, need, [&] {
    return call_driver<EntryPoint::cuMemCreate>(&out, bytes_, &properties_, 0ULL);
  });
}

/// Nothing has been written to the memory yet, so the driver can allocate it instead.
CUresult ProgramHandle::leave_to_driver() noexcept {
  const vmart_status status = VmartLibrary::loaded()->vmart_backing_release(backing_);
  if (status != VMART_OK) return result_of(status);
  backing_ = nullptr;
  note_bytes(-1);
  return create_in_driver(drivers_);
}

/// The backing is mapped there.
CUresult ProgramHandle::share_at(CUdeviceptr begin) noexcept {
  constexpr int tries_max = 3;  // A policy may move it away again.
  const RunTable& vmart = *VmartLibrary::loaded();
  vmart_status status = vmart.vmart_backing_share(backing_);
  for (int i = 0; status == VMART_BUSY && i < tries_max; ++i) {
    roll_back(begin);
    status = vmart.vmart_backing_share(backing_);
  }
  if (status != VMART_OK) return result_of(status);
  return call_driver<EntryPoint::cuMemRetainAllocationHandle>(&drivers_, address_of(begin));
}

/// Maps it for a moment, since the driver returns handles only for mapped addresses.
CUresult ProgramHandle::share_unmapped() noexcept {
  const RunTable& vmart = *VmartLibrary::loaded();
  const ReservedRange range(bytes_);
  if (range.begin() == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = result_of(vmart.vmart_backing_map(backing_, address_of(range.begin())));
  if (result != CUDA_SUCCESS) return result;
  result = share_at(range.begin());
  return vmart.vmart_backing_unmap(backing_) == VMART_OK ? result : CUDA_ERROR_NOT_SUPPORTED;
}

/// Memory of several chunks has several handles. So its bytes move into memory of the driver, which
/// has one, while no work runs that could change them.
CUresult ProgramHandle::replace_by_driver(
    const std::optional<ProgramStreams::Standstill>& standstill) noexcept {
  const RunTable& vmart = *VmartLibrary::loaded();
  CUmemGenericAllocationHandle made = 0;
  CUresult result = create_in_driver(made);
  if (result != CUDA_SUCCESS) return result;
  const ReservedRange range(standstill ? 0 : bytes_);
  if (standstill) {
    result = standstill->reached() ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
  } else {
    result = range.begin() != 0
                 ? result_of(vmart.vmart_backing_map(backing_, address_of(range.begin())))
                 : CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (result == CUDA_SUCCESS) {
    result = copy_to_driver(standstill ? mapped_at_ : range.begin(), made);
    if (!standstill) vmart.vmart_backing_unmap(backing_);
  }
  if (result == CUDA_SUCCESS && standstill) {
    result = standstill->reached() ? show_drivers(made) : CUDA_ERROR_NOT_SUPPORTED;
  }
  if (result != CUDA_SUCCESS) {
    call_driver<EntryPoint::cuMemRelease>(made);
    return result;
  }
  drivers_ = made;
  vmart.vmart_backing_release(std::exchange(backing_, nullptr));
  note_bytes(-1);
  return CUDA_SUCCESS;
}

/// The driver's memory takes the place of the backing, with the rights that the program has set, or
/// the backing stays there. Requires: all work stands.
CUresult ProgramHandle::show_drivers(CUmemGenericAllocationHandle made) noexcept {
  const CUdeviceptr begin = mapped_at_;
  std::map<int, CUmemAccess_flags> rights;
  rights.swap(access_);  // Unmapping forgets them.
  CUresult result = unmap_backing();
  if (result == CUDA_SUCCESS) {
    result = call_driver<EntryPoint::cuMemMap>(begin, bytes_, std::size_t{0}, made, 0ULL);
    const bool is_mapped = result == CUDA_SUCCESS;
    for (const auto& [gpu, flags] : rights) {
      const CUmemAccessDesc entry = {{CU_MEM_LOCATION_TYPE_DEVICE, {gpu}}, flags};
      if (result != CUDA_SUCCESS) break;
      result = call_driver<EntryPoint::cuMemSetAccess>(begin, bytes_, &entry, std::size_t{1});
    }
    if (result == CUDA_SUCCESS) {
      replaced_at_ = begin;
      return result;
    }
    if (is_mapped) call_driver<EntryPoint::cuMemUnmap>(begin, bytes_);
    if (map_backing(begin) != CUDA_SUCCESS) {
      say("memory at %#llx can no longer be used: the driver maps nothing there", begin);
      return result;
    }
  }
  rights.swap(access_);
  return result;
}

/// Copies what lies at `begin` into the memory of the handle.
CUresult ProgramHandle::copy_to_driver(CUdeviceptr begin,
                                       CUmemGenericAllocationHandle target) noexcept {
  const DriverLibrary& driver = *DriverLibrary::get();
  const RunTable& vmart = *VmartLibrary::loaded();
  const ReservedRange view(bytes_);
  const CUmemAccessDesc entry = {{CU_MEM_LOCATION_TYPE_DEVICE, {device()}},
                                 CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUstream stream = nullptr;
  vmart_pin* pin = nullptr;
  if (view.begin() == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result =
      call_driver<EntryPoint::cuMemMap>(view.begin(), bytes_, std::size_t{0}, target, 0ULL);
  if (result != CUDA_SUCCESS) return result;
  const PushedContext pushed(driver, primary_context(driver, device()));
  const bool can_copy = pushed &&
                        call_driver<EntryPoint::cuMemSetAccess>(view.begin(), bytes_, &entry,
                                                                std::size_t{1}) == CUDA_SUCCESS &&
                        call_driver<EntryPoint::cuStreamCreate>(
                            &stream, unsigned{CU_STREAM_NON_BLOCKING}) == CUDA_SUCCESS &&
                        vmart.vmart_pin_create(address_of(begin), &pin) == VMART_OK;
  result = can_copy
               ? call_driver<EntryPoint::cuMemcpyDtoDAsync_v2>(view.begin(), begin, bytes_, stream)
               : CUDA_ERROR_NOT_SUPPORTED;
  if (result == CUDA_SUCCESS) result = call_driver<EntryPoint::cuStreamSynchronize>(stream);
  vmart.vmart_pin_release(pin);
  if (stream != nullptr) call_driver<EntryPoint::cuStreamDestroy_v2>(stream);
  call_driver<EntryPoint::cuMemUnmap>(view.begin(), bytes_);
  return result;
}

CUresult ProgramHandle::pin_at_home() noexcept {
  const RunTable& vmart = *VmartLibrary::loaded();
  const auto lock = parts_.memory.without_pinned();
  if (!roll_back(mapped_at_)) return CUDA_ERROR_NOT_SUPPORTED;
  const vmart_status status = vmart.vmart_note_export(address_of(mapped_at_));
  if (status != VMART_OK) return result_of(status);
  const bool stays = is_home(mapped_at_) && is_home(mapped_at_ + bytes_ - 1);
  return stays ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

bool ProgramHandle::roll_back(CUdeviceptr begin) noexcept {
  const vmart_status status = VmartLibrary::loaded()->vmart_migrate(address_of(begin), 0, 0,
                                                                    {VMART_GPU, device()}, nullptr);
  return status == VMART_OK || (status == VMART_PINNED && is_home(begin));
}

bool ProgramHandle::is_home(CUdeviceptr inside) noexcept {
  vmart_place at{};
  return VmartLibrary::loaded()->vmart_where(address_of(inside), &at) == VMART_OK &&
         at.kind == VMART_GPU && at.ordinal == device();
}

}  // namespace vma::interpose
