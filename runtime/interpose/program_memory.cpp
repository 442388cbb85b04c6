#include "interpose/program_memory.hpp"

#include "interpose/allocation_site.hpp"
#include "interpose/driver_library.hpp"
#include "interpose/process.hpp"
#include "interpose/settings.hpp"
#include "interpose/vmart_library.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <iterator>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace vma::interpose {
namespace {

constexpr std::size_t granule_bytes = std::size_t{2} << 20;
// More than any GPU has. vmart calls larger sizes invalid, and the driver out of memory.
constexpr std::size_t bytes_max = std::size_t{1} << 46;

/// Pins what lies there, or says why that cannot be. Once the process exits, nothing moves any
/// more.
bool keep(CUdeviceptr begin, vmart_pin*& held, bool may_be_gone = false) noexcept {
  const RunTable& vmart = *VmartLibrary::loaded();
  const vmart_status status = vmart.vmart_pin_create(reinterpret_cast<void*>(begin), &held);
  if (status == VMART_OK || status == VMART_DRIVER_GONE ||
      (may_be_gone && status == VMART_UNKNOWN_POINTER)) {
    return true;
  }
  say("cannot keep memory in place: %s", vmart.vmart_last_error());
  return false;
}

void release_pins(ProgramAllocation& pinned) noexcept {
  const RunTable& vmart = *VmartLibrary::loaded();
  vmart.vmart_pin_release(std::exchange(pinned.pin, nullptr));
  vmart.vmart_pin_release(std::exchange(pinned.context_pin, nullptr));
}

}  // namespace

bool is_same(const vmart_ipc_name& a, const vmart_ipc_name& b) noexcept {
  return a.user == b.user && a.process == b.process && a.key == b.key;
}

void* ProgramMemory::allocate_at(std::size_t bytes, int device) noexcept try {
  const RunTable* const vmart = VmartLibrary::load();
  if (vmart == nullptr) return nullptr;
  vmart_alloc_options options{};
  options.size_bytes = sizeof options;
  options.tag = "run";
  options.spill = limits_.spills(device) ? 1 : 0;
  if (bytes <= chunk_bytes_max) {
    options.chunk_bytes = (bytes + granule_bytes - 1) / granule_bytes * granule_bytes;
  }
  const std::string site = allocation_site(bytes);
  options.site = site.c_str();
  void* pointer = nullptr;
  const vmart_status status = with_room([&] {
    return vmart->vmart_alloc_with(bytes, {VMART_GPU, device}, &options, &pointer);
  });
  if (status == VMART_OK) return pointer;
  note_refusal(status);
  return nullptr;
} catch (const std::exception&) {
  return nullptr;
}

void ProgramMemory::note_refusal(vmart_status status) noexcept {
  if (status == VMART_DRIVER_GONE) return disable(nullptr);  // The process exits.
  const RunTable& vmart = *VmartLibrary::loaded();
  char why[512];
  std::snprintf(why, sizeof why, "%s", vmart.vmart_last_error());
  // The driver may have room that a limit of vmart's does not count, and GPUs that vmart has not.
  std::uint64_t unused = 0;
  const bool only_here =
      status == VMART_OUT_OF_MEMORY || (status == VMART_INVALID_ARGUMENT &&
                                        vmart.vmart_capacity({VMART_HOST, 0}, &unused) == VMART_OK);
  if (!only_here) pin_all(why);
}

bool ProgramMemory::takes(std::size_t bytes, const void* caller) noexcept {
  return bytes >= Settings::get().min_bytes && bytes != 0 && bytes <= bytes_max && takes_part() &&
         !is_excluded(caller);
}

CUdeviceptr ProgramMemory::allocate(std::size_t bytes, const void* caller, bool& full) noexcept {
  const ProgramExit::Call call;
  ProgramAllocation made;
  if (!takes(bytes, caller) || !ProgramStreams::current(made.context, made.device)) return 0;
  if (void* const pointer = allocate_at(bytes, made.device)) {
    streams_.begin();
    made.begin = reinterpret_cast<CUdeviceptr>(pointer);
    made.bytes = bytes;
    if (add(made)) return made.begin;
    free_taken(made);
  }
  full = takes_part() && limits_.spills(made.device);
  return 0;
}

bool ProgramMemory::add(ProgramAllocation& made) noexcept try {
  static std::atomic<unsigned long long> next_id = 1ULL << 62;  // The driver counts from 1.
  if (made.id == 0) made.id = next_id++;
  const std::lock_guard lock(mutex_);
  if (made.pool != nullptr) {
    note_segment_of(made.begin);
  } else {
    // Segments that lay there are gone.
    segments_.erase(segments_.lower_bound(made.begin),
                    segments_.lower_bound(made.begin + made.bytes));
    if (!takes_part()) keep(made.begin, made.pin);  // See `pin_all`.
    if (synchronous_.contains(made.context)) keep(made.begin, made.context_pin);
  }
  allocations_.emplace(made.begin, made);
  return true;
} catch (const std::exception&) {
  return false;
}

void ProgramMemory::note_segment_of(CUdeviceptr block) {
  const RunTable* const vmart = VmartLibrary::loaded();
  const auto segment_of = [vmart](CUdeviceptr inside) {
    void* base = nullptr;
    vmart->vmart_base(reinterpret_cast<void*>(inside), &base, nullptr);
    return reinterpret_cast<CUdeviceptr>(base);
  };
  if (segments_.size() >= segments_max_) {
    std::erase_if(segments_, [&](const auto& known) {
      return known.second == nullptr && segment_of(known.first) != known.first;
    });
    segments_max_ = 2 * segments_.size() + 16;
  }
  const CUdeviceptr segment = segment_of(block);
  const auto noted = segments_.try_emplace(segment, nullptr).first;
  if (!takes_part() && noted->second == nullptr) keep(segment, noted->second);
}

std::optional<ProgramAllocation> ProgramMemory::remove_mapped(CUdeviceptr begin) noexcept {
  std::optional<ProgramAllocation> removed;
  {
    const std::lock_guard lock(mutex_);
    const auto found = allocations_.find(begin);
    if (found == allocations_.end()) return removed;
    removed = found->second;
    allocations_.erase(found);
  }
  release_pins(*removed);
  return removed;
}

template <typename Chosen>
std::optional<ProgramAllocation> ProgramMemory::take(CUdeviceptr begin, Chosen chosen) noexcept {
  if (VmartLibrary::loaded() == nullptr) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(begin);
  if (found == allocations_.end() || !chosen(found->second)) return std::nullopt;
  const ProgramAllocation taken = found->second;
  allocations_.erase(found);
  return taken;
}

void ProgramMemory::free_taken(ProgramAllocation freed) noexcept {
  const RunTable* const vmart = VmartLibrary::loaded();
  if (freed.exported != nullptr) vmart->vmart_exported_release(freed.exported);
  release_pins(freed);
  // Waits for a `Pinned` that may have pinned it, but not for `without_pinned`. Later ones do not
  // know it.
  { const std::lock_guard none_pins(pinned_mutex_); }
  const std::shared_lock frees(frees_mutex_);
  vmart->vmart_torch_free(reinterpret_cast<void*>(freed.begin), freed.bytes, freed.device, nullptr);
  if (freed.pool != nullptr) pools_to_settle_ = true;
}

bool ProgramMemory::free(CUdeviceptr begin) noexcept {
  const ProgramExit::Call call;
  const auto freed = take(begin, std::mem_fn(&ProgramAllocation::is_freed_by_program));
  if (freed) free_taken(*freed);
  return freed.has_value();
}

void ProgramMemory::free_opened(CUdeviceptr begin) noexcept {
  if (const auto freed = take(begin, std::mem_fn(&ProgramAllocation::opened))) free_taken(*freed);
}

bool ProgramMemory::free_in_order(CUdeviceptr begin, CUstream stream) noexcept {
  const ProgramExit::Call call;
  const auto freed = take(begin, std::mem_fn(&ProgramAllocation::is_freed_by_program));
  if (!freed) return false;
  const RunTable* const vmart = VmartLibrary::loaded();
  const auto frees_later = [&] {
    const std::shared_lock frees(frees_mutex_);
    return vmart->vmart_free_async(reinterpret_cast<void*>(begin), stream) == VMART_OK;
  };
  // Pins and exports must stay until its work has ended, so that is waited for below.
  const bool is_kept = freed->pin != nullptr || freed->context_pin != nullptr;
  if (!is_kept && freed->exported == nullptr && frees_later()) {
    if (freed->pool != nullptr) pools_to_settle_ = true;
    return true;
  }
  const RelaxedCaptures relaxed(*DriverLibrary::get());
  DriverLibrary::get()->real<EntryPoint::cuStreamSynchronize>()(stream);
  free_taken(*freed);
  return true;
}

/// Frees one at a time, without our lock, because a free waits.
template <typename Chosen>
void ProgramMemory::free_all(Chosen chosen) noexcept {
  if (VmartLibrary::loaded() == nullptr) return;
  for (;;) {
    CUdeviceptr begin = 0;
    {
      const std::shared_lock lock(mutex_);
      const auto found = std::ranges::find_if(
          allocations_, [&](const auto& entry) { return chosen(entry.second); });
      if (found == allocations_.end()) return;
      begin = found->first;
    }
    if (!free(begin)) return;
  }
}

void ProgramMemory::free_all_of(CUcontext context) noexcept {
  free_all([context](const ProgramAllocation& each) {
    return each.pool == nullptr && each.is_freed_by_program() && each.context == context;
  });
}

void ProgramMemory::hand_over(CUcontext green) noexcept {
  const DriverLibrary* const driver = DriverLibrary::get();
  CUdevice device = 0;
  if (driver == nullptr || VmartLibrary::loaded() == nullptr) return;
  {
    const PushedContext pushed(*driver, green);
    if (!pushed || driver->cuCtxGetDevice_plain(&device) != CUDA_SUCCESS) return;
  }
  const CUcontext primary = primary_context(*driver, device);
  const std::lock_guard lock(mutex_);
  for (auto& [begin, allocation] : allocations_) {
    if (allocation.context == green) allocation.context = primary;
  }
}

void ProgramMemory::free_all_of_pools(int device) noexcept {
  free_all([device](const ProgramAllocation& each) {
    return each.pool != nullptr && each.device == device;
  });
}

ProgramAllocation* ProgramMemory::around(CUdeviceptr inside) noexcept {
  const auto after = allocations_.upper_bound(inside);
  if (after == allocations_.begin()) return nullptr;
  ProgramAllocation& candidate = std::prev(after)->second;
  return inside - candidate.begin < candidate.bytes ? &candidate : nullptr;
}

std::optional<ProgramAllocation> ProgramMemory::find(CUdeviceptr inside) noexcept {
  if (VmartLibrary::loaded() == nullptr) return std::nullopt;
  const std::shared_lock lock(mutex_);
  const ProgramAllocation* const found = around(inside);
  return found != nullptr ? std::optional(*found) : std::nullopt;
}

bool ProgramMemory::any_unmapped_by_program(CUdeviceptr begin, std::size_t bytes) noexcept {
  if (VmartLibrary::loaded() == nullptr || begin + bytes < begin) return false;
  const std::shared_lock lock(mutex_);
  auto at = allocations_.upper_bound(begin);
  if (at != allocations_.begin() && begin - std::prev(at)->first < std::prev(at)->second.bytes) {
    --at;
  }
  return std::any_of(at, allocations_.lower_bound(begin + bytes),
                     [](const auto& each) { return !each.second.mapped; });
}

void ProgramMemory::pin_all(CUcontext context, bool wanted) noexcept try {
  if (is_forked_child()) return;
  const RunTable* const vmart = VmartLibrary::loaded();
  const std::lock_guard lock(mutex_);
  if (!wanted && synchronous_.erase(context) == 0) return;
  if (wanted) synchronous_.insert(context);
  if (vmart == nullptr) return;
  for (auto& [begin, allocation] : allocations_) {
    if (allocation.context != context || allocation.pool != nullptr) continue;
    if (!wanted) {
      vmart->vmart_pin_release(std::exchange(allocation.context_pin, nullptr));
    } else if (allocation.context_pin == nullptr) {
      keep(begin, allocation.context_pin);
    }
  }
} catch (const std::exception&) {
  pin_all("there is no memory for the list of contexts");
}

void ProgramMemory::pin_all(const char* why) noexcept {
  disable(why);
  if (VmartLibrary::loaded() == nullptr) return;
  const std::lock_guard lock(mutex_);
  bool all = true;
  for (auto& [begin, allocation] : allocations_) {
    if (allocation.pool == nullptr && allocation.pin == nullptr) all &= keep(begin, allocation.pin);
  }
  for (auto& [begin, held] : segments_) {
    if (held == nullptr) all &= keep(begin, held, true);
  }
  stays_.store(all, std::memory_order_release);
}

ProgramMemory::Pinned::Pinned(ProgramMemory& memory) noexcept : memory_(memory) {
  const RunTable* const vmart = VmartLibrary::loaded();
  ++memory_.pinned_begun_;
  if (vmart == nullptr) return;
  lock_ = std::shared_lock(memory.pinning_mutex_);
  pinned_ = std::shared_lock(memory.pinned_mutex_);
  const std::shared_lock lock(memory.mutex_);
  try {  // Around less than the whole: a constructor cannot swallow what its own `catch` gets.
    pins_.reserve(memory.allocations_.size() + memory.segments_.size());
  } catch (const std::exception&) {
    return;  // There is no memory for the list. Moves allocate, too.
  }
  const auto pin_at = [&](CUdeviceptr begin) {
    vmart_pin* pin = nullptr;
    if (vmart->vmart_pin_create(reinterpret_cast<void*>(begin), &pin) == VMART_OK) {
      pins_.push_back(pin);
    }
  };
  for (const auto& [begin, allocation] : memory.allocations_) {
    if (allocation.pool == nullptr) pin_at(begin);
  }
  for (const auto& [begin, pin] : memory.segments_) pin_at(begin);
}

ProgramMemory::Pinned::~Pinned() {
  for (vmart_pin* const pin : pins_) VmartLibrary::loaded()->vmart_pin_release(pin);
  ++memory_.pinned_gone_;
}

bool ProgramMemory::note_export(CUdeviceptr inside, bool synchronous_copies) noexcept {
  const RunTable* const vmart = VmartLibrary::loaded();
  if (vmart == nullptr || vmart->vmart_note_export(reinterpret_cast<void*>(inside)) != VMART_OK) {
    return false;
  }
  const std::lock_guard lock(mutex_);
  ProgramAllocation* const exported = around(inside);
  if (exported == nullptr) return false;
  exported->synchronous_copies |= synchronous_copies;
  return true;
}

bool ProgramMemory::set_export(const ProgramAllocation& known) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(known.begin);
  if (found == allocations_.end() || found->second.id != known.id) return false;
  found->second.exported = known.exported;
  found->second.export_name = known.export_name;
  return true;
}

bool ProgramMemory::exports(const vmart_ipc_name& name) noexcept {
  const std::shared_lock lock(mutex_);
  return std::ranges::any_of(allocations_, [&](const auto& entry) {
    return entry.second.exported != nullptr && is_same(entry.second.export_name, name);
  });
}

std::uint64_t ProgramMemory::bytes_of(int device) noexcept {
  std::uint64_t bytes = 0;
  const std::shared_lock lock(mutex_);
  for (const auto& [begin, allocation] : allocations_) {
    if (allocation.device != device || allocation.pool != nullptr || allocation.mapped ||
        allocation.opened) {
      continue;
    }
    bytes += (allocation.bytes + granule_bytes - 1) / granule_bytes * granule_bytes;
  }
  return bytes;
}

}  // namespace vma::interpose
