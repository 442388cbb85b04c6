#include <vma/runtime.hpp>

#include "runtime/argument_checks.hpp"
#include "runtime/runtime_parts.hpp"

#include "base/log.hpp"
#include "memory/move_claim.hpp"

#include <fmt/format.h>

#include <exception>
#include <utility>

namespace vma {
inline namespace v1 {

/// Keeps an allocation in place and accessible to the CPU.
struct HostView::Pin {
  Pin(RuntimeParts& parts, std::shared_ptr<Allocation> allocation)
      : parts(parts), open(parts.open), allocation(std::move(allocation)) {}

  ~Pin() {
    if (!pinned || !*open || parts.in_forked_child()) return;
    try {
      const RuntimeParts::Entry entry(parts, "vma::HostView");
      {
        const MutexLock lock(allocation->operations());
        if (allocation->views == 1 && !faults()) revoke();
        --allocation->views;
      }
      entry->memory.tell_changed(*allocation);
    } catch (const std::exception& error) {  // Shut down since.
      log(LogLevel::debug, "could not end a HostView of {:#x} in time: {}",
          to_integer(allocation->begin()), error.what());
    }
  }

  /// Throws: Error; then nothing is pinned.
  void take(std::uint64_t first_slot, std::uint64_t end_slot) {
    // Only its holder grants. While another thread moves the memory, which may be to where this
    // view finds it, the CPU gets access at the end of that move.
    const MoveClaim claim = faults() ? MoveClaim::try_take(allocation) : MoveClaim();
    const MutexLock lock(allocation->operations());
    // Before the check, so that either a free or this call sees the other.
    const bool first = allocation->views++ == 0;
    try {
      require_host(first_slot, end_slot);
      if (claim) allocation->grant_cpu(first_slot, end_slot);
      if (first && !faults()) allow();
    } catch (...) {
      --allocation->views;
      throw;
    }
    pinned = true;
  }

  void require_host(std::uint64_t first_slot, std::uint64_t end_slot) const {
    constexpr const char* call = "vma::host_view";
    if (allocation->being_freed || allocation->poisoned()) {
      throw Error(allocation->poisoned() ? ErrorKind::poisoned : ErrorKind::unknown_pointer, call,
                  fmt::format("the allocation at {:#x}", to_integer(allocation->begin())));
    }
    if (allocation->read_only()) {
      throw Error(ErrorKind::unsupported, call,
                  fmt::format("the allocation at {:#x} is read-only while a ReadOnly of it exists",
                              to_integer(allocation->begin())));
    }
    check_not_dropped(*allocation, {first_slot, end_slot}, call);
    for (std::uint64_t slot = first_slot; slot < end_slot; ++slot) {
      const Place at = allocation->place(slot);
      if (at.kind == Place::Kind::host) continue;
      throw Error(ErrorKind::unsupported, call,
                  fmt::format("bytes at offset {} lie at {}, which the CPU cannot reach",
                              slot * allocation->geometry().chunk_bytes, to_string(at)));
    }
  }

  /// Its slots stay the CPU's when the view ends, as long as they lie at a host node.
  bool faults() const noexcept { return allocation->cpu == CpuAccess::fault; }

  /// Undoes only what was begun here: memory that is being freed may already be reused.
  void allow() {
    try {
      set_access(Access::read_write);
    } catch (...) {
      revoke();
      throw;
    }
  }

  void revoke() noexcept {
    try {
      set_access(Access::none);
    } catch (const std::exception& error) {
      log(LogLevel::warn, "could not revoke the CPU's access to {:#x}: {}",
          to_integer(allocation->begin()), error.what());
    }
  }

  /// For every slot: grants cover whole slots, so other views of its bytes share them.
  void set_access(Access access) {
    for (std::size_t slot = 0; slot < allocation->geometry().slots; ++slot) {
      const Place at = allocation->place(slot);
      if (at.kind != Place::Kind::host || allocation->dropped(slot)) continue;
      const Accessor cpu{at, access};
      parts.driver->grant(allocation->slot_begin(slot), allocation->geometry().slot_bytes(slot),
                          {&cpu, 1});
    }
  }

  RuntimeParts& parts;
  const std::shared_ptr<std::atomic<bool>> open;
  const std::shared_ptr<Allocation> allocation;
  bool pinned = false;
};

HostView::HostView(std::unique_ptr<Pin> pin, std::span<std::byte> bytes) noexcept
    : pin_(std::move(pin)), bytes_(bytes) {}
HostView::HostView(HostView&&) noexcept = default;
HostView& HostView::operator=(HostView&&) noexcept = default;
HostView::~HostView() = default;

HostView Runtime::host_view(void* pointer, std::size_t bytes) {
  constexpr const char* call = "vma::host_view";
  const RuntimeParts::Entry entry(*parts_, call);
  auto pin = std::make_unique<HostView::Pin>(*parts_, entry->memory.require_around(pointer, call));
  Allocation& allocation = *pin->allocation;
  const std::uint64_t offset = address_of(pointer) - allocation.begin();
  if (bytes == 0 || bytes > allocation.size_bytes() - offset) {
    throw Error(ErrorKind::invalid_argument, call,
                fmt::format("{} bytes from {} are not within the allocation's {} bytes", bytes,
                            fmt::ptr(pointer), allocation.size_bytes()));
  }
  const std::uint64_t chunk_bytes = allocation.geometry().chunk_bytes;
  pin->take(offset / chunk_bytes, (offset + bytes - 1) / chunk_bytes + 1);
  entry->memory.tell_changed(allocation);
  return HostView(std::move(pin), {static_cast<std::byte*>(pointer), bytes});
}

}  // namespace v1
}  // namespace vma
