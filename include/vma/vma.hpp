#pragma once

/// The whole public interface: start here. Free functions act on the process-wide runtime, which
/// opens at first use from the environment (VMART_DRIVER and the others that `RuntimeOptions`
/// names). Each does what the member of `vma::Runtime` with its name says.

#include <vma/device.hpp>
#include <vma/error.hpp>
#include <vma/location.hpp>
#include <vma/migration.hpp>
#include <vma/runtime.hpp>

namespace vma::inline v1 {

/// Opens the process-wide runtime if nothing has yet. Throws: what the constructor of Runtime
/// throws.
VMART_EXPORT Runtime& runtime();

VMART_EXPORT void* alloc(std::size_t bytes, const AllocOptions& options = {});
VMART_EXPORT void* alloc(std::size_t bytes, Location where, const AllocOptions& options = {});
VMART_EXPORT void free(void* pointer);
VMART_EXPORT void free_async(void* pointer, Stream stream);
VMART_EXPORT MigrationReport migrate(void* pointer, Location to,
                                     const MigrateOptions& options = {});
VMART_EXPORT MigrationReport migrate(void* pointer, std::size_t offset, std::size_t bytes,
                                     Location to, const MigrateOptions& options = {});
VMART_EXPORT Migration migrate_async(void* pointer, Location to,
                                     const MigrateOptions& options = {});
VMART_EXPORT Migration migrate_async(void* pointer, std::size_t offset, std::size_t bytes,
                                     Location to, const MigrateOptions& options = {});
VMART_EXPORT void attach(Stream stream, StreamWork work = StreamWork::any);
VMART_EXPORT void attach(Stream stream, void* pointer, StreamWork work = StreamWork::any);
VMART_EXPORT void detach(Stream stream);
VMART_EXPORT void detach(Stream stream, void* pointer);
VMART_EXPORT Pin pin(void* pointer);
VMART_EXPORT ReadOnly read_only(void* pointer);
VMART_EXPORT MoveHookRegistration on_move(void* pointer, MoveHooks hooks);
VMART_EXPORT void note_export(void* pointer);
VMART_EXPORT std::vector<Extent> where(const void* pointer);
VMART_EXPORT void read(const void* pointer, std::span<std::byte> out);
VMART_EXPORT void write(void* pointer, std::span<const std::byte> bytes);
VMART_EXPORT HostView host_view(void* pointer, std::size_t bytes);
VMART_EXPORT void reserve(Location where, std::size_t bytes, std::size_t chunk_bytes = 0);
VMART_EXPORT std::size_t trim(Location where);

}  // namespace vma::inline v1
