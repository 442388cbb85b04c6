#include <vma/runtime.hpp>

#include "costs/cost_estimates.hpp"
#include "runtime/argument_checks.hpp"
#include "runtime/place_states.hpp"
#include "runtime/pooling.hpp"
#include "runtime/runtime_parts.hpp"
#include "runtime/runtime_stats.hpp"

#include "base/process_exit.hpp"
#include "base/units.hpp"
#include "machine/machine_file.hpp"
#include "migrate/stops/copy_scopes.hpp"
#include "sim/sim_driver.hpp"
#ifdef VMART_HAS_CUDA
#include "driver/cuda_driver.hpp"
#include "guards/copy_guards.hpp"
#endif

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace vma {

/// The only place that names concrete drivers.
std::unique_ptr<Driver> open_driver(const std::string& name) {
  constexpr std::string_view simulated = "sim:";
  if (name.starts_with(simulated)) {
    return std::make_unique<SimDriver>(load_machine(name.substr(simulated.size())));
  }
  if (name != "cuda") {
    throw Error(
        ErrorKind::invalid_argument, "vma::Runtime",
        fmt::format("driver (VMART_DRIVER) is \"{}\"; expected cuda, sim:NAME or sim:FILE.json",
                    name));
  }
#ifdef VMART_HAS_CUDA
  return std::make_unique<CudaDriver>();
#else
  throw Error(ErrorKind::no_driver, "vma::Runtime",
              "built without CUDA; VMART_DRIVER=sim:h200x2 opens a simulated machine");
#endif
}

namespace {

/// Calls `body(slot, offset in the slot, offset in the range, bytes)` for each slot that the range
/// touches.
template <typename Body>
void for_each_piece(const Allocation& allocation, const void* pointer, std::uint64_t bytes,
                    Body&& body) {
  const std::uint64_t offset = address_of(pointer) - allocation.begin();
  const std::uint64_t chunk_bytes = allocation.geometry().chunk_bytes;
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t slot = (offset + done) / chunk_bytes;
    const std::uint64_t within = (offset + done) % chunk_bytes;
    const std::uint64_t piece = std::min(bytes - done, chunk_bytes - within);
    body(static_cast<std::size_t>(slot), within, done, piece);
    done += piece;
  }
}

/// A block of the default pool, where the options ask for it; otherwise null.
void* alloc_small(Machinery& parts, std::size_t bytes, Place at, const AllocOptions& options) {
  const std::uint64_t chunk_bytes = parts.topology.granularity();
  const bool possible = options.chunk_bytes == 0 && !options.zeroed && !options.shared_atomics &&
                        !options.exportable && options.cpu_access == CpuAccess::view;
  if (!options.pool || !possible || bytes == 0 || bytes >= chunk_bytes) return nullptr;
  return to_pointer(
      parts.pools.default_pool(at)->allocate_now(bytes, SizeClasses::step_bytes, true));
}

/// Fills each run of slots at one place at once. What has a staging mapping is filled through that:
/// a fill that cannot be waited for must not outlive the slot's own addresses.
void zero(CopyEngine& engine, const Allocation& allocation) {
  const Geometry& geometry = allocation.geometry();
  for (std::size_t first = 0, end = 0; first < geometry.slots; first = end) {
    const Place at = allocation.place(first);
    const bool staged = allocation.chunk(first).has_staging();
    std::uint64_t size_bytes = 0;
    do {
      size_bytes += geometry.slot_bytes(end++);
    } while (!staged && end < geometry.slots && allocation.place(end) == at &&
             !allocation.chunk(end).has_staging());
    CopyEngine::ZeroSteps steps;
    steps.lost = [&] {
      for (std::size_t slot = first; slot < end; ++slot) allocation.chunk(slot).mark_busy();
    };
    const Address begin = staged ? allocation.chunk(first).staging() : allocation.slot_begin(first);
    engine.zero(at, begin, size_bytes, steps);
  }
}

/// Zeroes before the allocation can be found: a concurrent move would switch chunks under it.
AllocTerms terms_of(CopyEngine& engine, const AllocOptions& options) {
  AllocTerms terms;
  if (!options.zeroed) return terms;
  terms.fill = [&engine](const Allocation& allocation) { zero(engine, allocation); };
  return terms;
}

/// Where a copy reaches the bytes of the slot. Maps those of a dark slot, if need be. Requires: the
/// caller holds `operations()`.
Address bytes_at(ChunkStore& chunks, const Allocation& allocation, std::size_t slot) {
  if (const Address shown = allocation.bytes_at(slot); !is_none(shown)) return shown;
  chunks.map_staging(allocation.chunk(slot), ChunkStore::Turn::take);
  return allocation.bytes_at(slot);
}

/// Allocates at `homes`, one place or one for each slot; the CPU can fetch the memory as soon as
/// its pointer is known.
template <typename Homes>
void* alloc_at(Machinery& parts, const Geometry& geometry, const Homes& homes,
               const AllocOptions& options, const AllocTerms& terms) {
  if (options.cpu_access == CpuAccess::fault) parts.faults.begin();
  const auto allocation = parts.memory.alloc(geometry, homes, options, terms);
  if (options.cpu_access == CpuAccess::fault) parts.faults.prepare(*allocation);
  parts.migrator.prepare_suspensions();
  return to_pointer(allocation->begin());
}

void tell_capacities(Driver& driver, const Machinery& parts) {
  tell_capacities(driver, parts.memory, parts.scheduling->scheduler());
}

/// Allocates where the scheduler places it for work on the GPU. What may spill then goes to any
/// other place: the scheduler does not see which room moves are about to take.
void* alloc_placed(Driver& driver, Machinery& parts, const Geometry& geometry, Place device,
                   const AllocOptions& options) {
  AllocTerms terms = terms_of(parts.engine, options);
  terms.wanted = device;
  std::optional<Error> refused;
  const auto try_at = [&](const auto& homes) -> void* {
    try {
      return alloc_at(parts, geometry, homes, options, terms);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory) throw;
      if (!refused) refused = error;  // The place that was wanted.
      return nullptr;
    }
  };
  constexpr int tries = 3;  // Another thread, or the runtime itself, may take room meanwhile.
  std::vector<Place> homes;
  for (int attempt = 0; attempt < tries; ++attempt) {
    auto next = parts.scheduling->scheduler().place(geometry, device, options);
    if (std::exchange(homes, next) == next) break;
    if (void* const made = try_at(homes)) return made;
    tell_capacities(driver, parts);
  }
  const Reach& reach = parts.migrator.reach();
  for (const PlaceState& place :
       place_states(driver, parts.topology, parts.memory.chunks().ledger())) {
    const Place at = place.place;
    if (!options.spill || geometry.size_bytes() > place.capacity_bytes) continue;
    if (!reach.suits(reach.users(device), at, options.shared_atomics)) continue;
    if (void* const made = try_at(at)) return made;
  }
  throw Error(*refused);
}

/// Whether so much would fit into an empty place.
bool could_hold(const Machinery& parts, Place at, std::size_t bytes) {
  const Ledger::Account account = parts.memory.chunks().ledger().account(at);
  return bytes <= account.capacity_bytes && bytes <= parts.topology.memory_bytes(at);
}

/// The devices that the program names as readers. Throws: Error{unreachable}.
std::vector<DeviceId> devices_of(const Topology& topology, std::span<const Place> readers,
                                 Place where) {
  std::vector<DeviceId> devices;
  for (const Place reader : readers) {
    topology.require(reader, "vma::alloc");
    if (reader.kind == Place::Kind::gpu && topology.reaches(DeviceId{reader.ordinal}, where)) {
      devices.push_back(DeviceId{reader.ordinal});
      continue;
    }
    throw Error(ErrorKind::unreachable, "vma::alloc",
                fmt::format("{} cannot reach memory at {}", to_string(reader), to_string(where)));
  }
  return devices;
}

/// The GPU of the caller's current context, or the first one.
Place current_gpu(Driver& driver, const Topology& topology) {
  const ContextHandle current = driver.current_context();
  const Place first = gpu(index(topology.devices().front()));
  if (is_none(current)) return first;
  const Place hint = gpu(index(driver.context_device(current)));
  return topology.has(hint) ? hint : first;
}

/// All of `vma::alloc`; where the program names no place, a scheduler may choose another one.
void* alloc_new(RuntimeParts& runtime, std::size_t bytes, std::optional<Place> where,
                std::span<const Place> readers, const AllocOptions& options) {
  if (runtime.looks_ahead && runtime.looks_ahead.exchange(false)) {
    CopyScopes::process().look();  // Outside of the door.
  }
  const RuntimeParts::Entry entry(runtime, "vma::alloc");
  Machinery& parts = *entry;
  if (where) parts.topology.require(*where, "vma::alloc");
  const Place at = where ? *where : current_gpu(*runtime.driver, parts.topology);
  if (readers.empty()) {
    if (void* const block = alloc_small(parts, bytes, at, options)) return block;
  }
  const Geometry geometry = plan_geometry(bytes, options, at, parts.topology.granularity(),
                                          parts.topology.devices().size());
  if (!where && parts.scheduling) {
    return alloc_placed(*runtime.driver, parts, geometry, at, options);
  }
  AllocTerms terms = terms_of(parts.engine, options);
  terms.readers = devices_of(parts.topology, readers, at);
  if (options.shared_atomics) {
    parts.migrator.reach().require_atomics(terms.readers, at, "vma::alloc");
  }
  const bool spills =
      options.spill && parts.scheduling && readers.empty() && at.kind == Place::Kind::gpu;
  try {
    if (!spills || could_hold(parts, at, bytes)) {
      return alloc_at(parts, geometry, at, options, terms);
    }
  } catch (const Error& error) {
    if (!spills || error.kind() != ErrorKind::out_of_memory) throw;
  }
  tell_capacities(*runtime.driver, parts);
  return alloc_placed(*runtime.driver, parts, geometry, at, options);
}

}  // namespace

inline namespace v1 {

Runtime::Runtime(const RuntimeOptions& options) {
  if (ProcessExit::begun()) {
    ProcessExit::hold_back();
    throw Error(ErrorKind::driver_gone, "vma::Runtime", "the process is exiting");
  }
  const Settings settings = resolve_settings(options);
  parts_ = std::make_unique<RuntimeParts>(open_driver(settings.driver), settings);
#ifdef VMART_HAS_CUDA
  // A simulated machine has no copies but those that the runtime itself sees.
  if (settings.copy_guards && !parts_->driver->simulated()) place_copy_guards();
#endif
}

Runtime::Runtime(std::unique_ptr<RuntimeParts> parts) noexcept : parts_(std::move(parts)) {}
Runtime::~Runtime() {
  RuntimeParts::end(std::move(parts_));
}

void Runtime::shutdown() noexcept {
  parts_->shut_down();
}

void* Runtime::alloc(std::size_t bytes, const AllocOptions& options) {
  return alloc_new(*parts_, bytes, std::nullopt, {}, options);
}

void* Runtime::alloc(std::size_t bytes, Place where, const AllocOptions& options) {
  return alloc_new(*parts_, bytes, where, {}, options);
}

void* Runtime::alloc(std::size_t bytes, Place where, std::span<const Place> readers,
                     const AllocOptions& options) {
  return alloc_new(*parts_, bytes, where, readers, options);
}

void Runtime::free(void* pointer) {
  if (pointer == nullptr) return;
  // The memory is released with the process.
  if (ProcessExit::begun()) return ProcessExit::hold_back();
  const RuntimeParts::Entry entry(*parts_, "vma::free");
  Block* const block = entry->pools.block_at(address_of(pointer));
  if (block != nullptr && !block->free_waits) return entry->pools.free_now(*block);
  Pools::Past past = entry->pools.past();  // The frees that its wait shows to be complete.
  if (block != nullptr) {
    const std::vector<ContextHandle> waited = entry->memory.contexts().await_work();
    entry->pools.free_now(*block);
    return entry->pools.complete(std::move(past), waited);
  }
  check_not_segment(*entry, pointer, "vma::free");
  if (entry->imported.owns(address_of(pointer))) {
    return entry->pools.complete(std::move(past), entry->imported.free(address_of(pointer)));
  }
  check_no_hook(*entry->memory.require(pointer, "vma::free"), "vma::free");
  entry->pools.complete(std::move(past), entry->memory.free(address_of(pointer)));
  entry->migrator.attached().await_forgotten();  // Streams attached only to it may be destroyed.
}

void Runtime::free_async(void* pointer, Stream stream) {
  if (pointer == nullptr) return;
  if (ProcessExit::begun()) return ProcessExit::hold_back();
  const RuntimeParts::Entry entry(*parts_, "vma::free_async");
  free_in_order(*entry, pointer, stream, "vma::free_async");
}

std::vector<Extent> Runtime::where(const void* pointer) const {
  const RuntimeParts::Entry entry(*parts_, "vma::where");
  return entry->memory.require_around(pointer, "vma::where")->extents();
}

AllocationInfo Runtime::allocation(const void* pointer) const {
  const RuntimeParts::Entry entry(*parts_, "vma::allocation");
  return allocation_info(*entry->memory.require_around(pointer, "vma::allocation"), entry->parker);
}

std::vector<AllocationInfo> Runtime::allocations() const {
  const RuntimeParts::Entry entry(*parts_, "vma::allocations");
  auto all = entry->memory.registry().all();
  std::erase_if(all, [](const auto& one) { return one->being_freed.load(); });
  std::ranges::sort(all, {}, [](const auto& one) { return one->begin(); });
  std::vector<AllocationInfo> infos;
  for (const auto& one : all) infos.push_back(allocation_info(*one, entry->parker));
  return infos;
}

std::size_t Runtime::size(const void* pointer) const {
  const RuntimeParts::Entry entry(*parts_, "vma::size");
  return entry->memory.require_around(pointer, "vma::size")->size_bytes();
}

void Runtime::read(const void* pointer, std::span<std::byte> out) {
  constexpr const char* call = "vma::read";
  const RuntimeParts::Entry entry(*parts_, call);
  const std::shared_ptr<Allocation> allocation = entry->memory.require_around(pointer, call);
  if (out.empty()) return;
  const SlotRange slots = slots_of(*allocation, pointer, 0, out.size(), call);
  const MutexLock lock(allocation->operations());
  check_usable(*allocation, call);
  check_not_dropped(*allocation, slots, call);
  for_each_piece(
      *allocation, pointer, out.size(),
      [&](std::size_t slot, std::uint64_t within, std::uint64_t done, std::uint64_t piece) {
        const Address begin = bytes_at(entry->memory.chunks(), *allocation, slot);
        entry->engine.read(allocation->chunk(slot), begin + within, out.subspan(done, piece));
      });
}

void Runtime::write(void* pointer, std::span<const std::byte> bytes) {
  constexpr const char* call = "vma::write";
  const RuntimeParts::Entry entry(*parts_, call);
  const std::shared_ptr<Allocation> allocation = entry->memory.require_around(pointer, call);
  if (bytes.empty()) return;
  const SlotRange slots = slots_of(*allocation, pointer, 0, bytes.size(), call);
  const MutexLock lock(allocation->operations());
  check_usable(*allocation, call);
  check_not_poisoned(*allocation, call);
  check_not_dropped(*allocation, slots, call);
  if (allocation->read_only()) {
    // A copy in progress relies on the memory being read-only.
    throw Error(ErrorKind::unsupported, call,
                fmt::format("the allocation at {:#x} is read-only while a ReadOnly of it exists",
                            to_integer(allocation->begin())));
  }
  for_each_piece(
      *allocation, pointer, bytes.size(),
      [&](std::size_t slot, std::uint64_t within, std::uint64_t done, std::uint64_t piece) {
        const Address begin = bytes_at(entry->memory.chunks(), *allocation, slot);
        entry->engine.write(allocation->chunk(slot), begin + within, bytes.subspan(done, piece));
      });
}

void Runtime::reserve(Place where, std::size_t bytes, std::size_t chunk_bytes) {
  const RuntimeParts::Entry entry(*parts_, "vma::reserve");
  entry->memory.chunks().reserve(where, bytes, chunk_bytes);
}

std::size_t Runtime::trim(Place where) {
  const RuntimeParts::Entry entry(*parts_, "vma::trim");
  return entry->memory.chunks().trim(where);
}

void Runtime::set_capacity(Place where, std::size_t bytes) {
  const RuntimeParts::Entry entry(*parts_, "vma::set_capacity");
  entry->memory.chunks().set_capacity(where, bytes);
  if (entry->scheduling) tell_capacities(*parts_->driver, *entry);
}

Stream Runtime::make_stream(Place gpu) {
  const RuntimeParts::Entry entry(*parts_, "vma::make_stream");
  return entry->launcher.make_stream(gpu);
}

void Runtime::destroy_stream(Stream stream) {
  if (ProcessExit::begun()) return ProcessExit::hold_back();
  const RuntimeParts::Entry entry(*parts_, "vma::destroy_stream");
  entry->pools.destroy_stream(handle_of(stream), [&] { entry->launcher.destroy_stream(stream); });
}

void Runtime::launch(Stream stream, const Kernel& kernel, Dim3 grid, Dim3 block,
                     const KernelArguments& arguments) {
  const RuntimeParts::Entry entry(*parts_, "vma::launch");
  entry->launcher.launch(stream, kernel, {grid, block}, arguments);
}

void Runtime::synchronize(Stream stream) {
  const RuntimeParts::Entry entry(*parts_, "vma::synchronize");
  const Pools::Past past = entry->pools.past_of(handle_of(stream));
  entry->launcher.synchronize(stream);
  entry->pools.complete(past);
}

std::vector<Place> Runtime::places() const {
  const RuntimeParts::Entry entry(*parts_, "vma::places");
  return entry->topology.places();
}

RuntimeStats Runtime::stats() const {
  const RuntimeParts::Entry entry(*parts_, "vma::stats");
  return runtime_stats(entry->memory, entry->migrator, entry->parker, entry->monitor);
}

std::string Runtime::description() const {
  return parts_->driver->description();
}

}  // namespace v1
}  // namespace vma
