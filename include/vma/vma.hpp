#pragma once

/// The whole public interface: start here. The free functions act on the process-wide runtime,
/// which opens at first use from the environment (VMART_DRIVER and the other variables that
/// `RuntimeOptions` names), or earlier with options of the program (`open_runtime`). Each does the
/// same as the member of `vma::Runtime` with its name.

#include <vma/calibration.hpp>
#include <vma/device.hpp>
#include <vma/error.hpp>
#include <vma/group.hpp>
#include <vma/place.hpp>
#include <vma/migration.hpp>
#include <vma/policy.hpp>
#include <vma/pool.hpp>
#include <vma/runtime.hpp>
#include <vma/scheduler.hpp>
#include <vma/sharing.hpp>
#include <vma/telemetry.hpp>

namespace vma::inline v1 {

/// Returns the process-wide runtime and opens it if necessary. Throws: what the constructor of
/// Runtime throws.
VMART_EXPORT Runtime& runtime();
/// Opens the process-wide runtime with `options`, which go before the environment. Throws:
/// Error{busy} if it is open already; what the constructor of Runtime throws, and then a later call
/// can open it.
VMART_EXPORT Runtime& open_runtime(const RuntimeOptions& options);
/// Whether the process-wide runtime is open. Does not block.
VMART_EXPORT bool runtime_is_open() noexcept;

VMART_EXPORT void* alloc(std::size_t bytes, const AllocOptions& options = {});
VMART_EXPORT void* alloc(std::size_t bytes, Place where, const AllocOptions& options = {});
VMART_EXPORT void free(void* pointer);
VMART_EXPORT void free_async(void* pointer, Stream stream);
VMART_EXPORT Pool make_pool(Place where, const PoolOptions& options = {});
VMART_EXPORT Pool default_pool(Place where);
VMART_EXPORT Pool current_pool(Place where);
VMART_EXPORT void set_current_pool(const Pool& pool);
VMART_EXPORT void* alloc_async(std::size_t bytes, Stream stream);
VMART_EXPORT GroupReport migrate(const Pool& pool, Place to, const MigrateOptions& options = {});
VMART_EXPORT MigrationReport migrate(void* pointer, Place to, const MigrateOptions& options = {});
VMART_EXPORT MigrationReport migrate(void* pointer, std::size_t offset, std::size_t bytes, Place to,
                                     const MigrateOptions& options = {});
VMART_EXPORT GroupReport migrate(std::span<const MoveRequest> requests,
                                 const MigrateOptions& options = {});
VMART_EXPORT Migration migrate_async(void* pointer, Place to, const MigrateOptions& options = {});
VMART_EXPORT Migration migrate_async(void* pointer, std::size_t offset, std::size_t bytes, Place to,
                                     const MigrateOptions& options = {});
VMART_EXPORT MigrationGroup migrate_async(std::span<const MoveRequest> requests,
                                          const MigrateOptions& options = {});
VMART_EXPORT ParkReport park(const std::string& tag, const ParkOptions& options = {});
VMART_EXPORT ParkReport resume(const std::string& tag, const ParkOptions& options = {});
VMART_EXPORT bool is_parked(const std::string& tag);
VMART_EXPORT void attach(Stream stream, StreamWork work = StreamWork::any);
VMART_EXPORT void attach(Stream stream, void* pointer, StreamWork work = StreamWork::any);
VMART_EXPORT void detach(Stream stream);
VMART_EXPORT void detach(Stream stream, void* pointer);
VMART_EXPORT bool try_detach(Stream stream);
VMART_EXPORT Pin pin(void* pointer);
VMART_EXPORT ReadOnly read_only(void* pointer);
VMART_EXPORT MoveHookRegistration on_move(void* pointer, MoveHooks hooks);
VMART_EXPORT void note_export(void* pointer);
VMART_EXPORT ExportedAllocation export_allocation(void* pointer, const ExportOptions& options = {});
VMART_EXPORT void* import_allocation(const std::string& path, const ImportOptions& options = {});
VMART_EXPORT ExportedPool export_pool(const Pool& pool, const ExportOptions& options = {});
VMART_EXPORT void* import_pointer(const std::string& path, const ExportedPointer& pointer,
                                  const ImportOptions& options = {});
VMART_EXPORT void launch_using(Stream stream, const Kernel& kernel, Dim3 grid, Dim3 block,
                               const KernelArguments& arguments, std::span<const Use> uses);
VMART_EXPORT void launch_recorded(Stream stream, const Kernel& kernel, Dim3 grid, Dim3 block,
                                  const KernelArguments& arguments);
/// These do nothing while no runtime is open, like `record_use`.
VMART_EXPORT void record_launch(const void* function, const void* const* parameters, Place device);
VMART_EXPORT void record_launch(const void* function, std::span<const std::byte> block,
                                Place device);
/// Returns 0 while no runtime is open.
VMART_EXPORT std::size_t launch_uses(const void* function, const void* const* parameters,
                                     Place device, std::span<Use> out);
VMART_EXPORT std::size_t launch_uses(const void* function, std::span<const std::byte> block,
                                     Place device, std::span<Use> out);
VMART_EXPORT void forget_kernels();
VMART_EXPORT std::vector<Extent> where(const void* pointer);
VMART_EXPORT void read(const void* pointer, std::span<std::byte> out);
VMART_EXPORT void write(void* pointer, std::span<const std::byte> bytes);
VMART_EXPORT HostView host_view(void* pointer, std::size_t bytes);
VMART_EXPORT void reserve(Place where, std::size_t bytes, std::size_t chunk_bytes = 0);
VMART_EXPORT std::size_t trim(Place where);
VMART_EXPORT DrainReport drain(Place at, const DrainOptions& options = {});
VMART_EXPORT void refill(Place at);
VMART_EXPORT Calibration calibrate(const CalibrateOptions& options = {});
VMART_EXPORT void set_capacity(Place where, std::size_t bytes);

}  // namespace vma::inline v1
