#include <vma/vma.hpp>

#include "base/mutex.hpp"
#include "runtime/known_kernels.hpp"

#include <atomic>
#include <utility>

namespace vma {
inline namespace v1 {
namespace {

Mutex& opening() {
  static Mutex mutex;
  return mutex;
}
std::atomic<Runtime*> process_runtime{nullptr};

}  // namespace

Runtime& runtime() {
  if (Runtime* open = process_runtime.load(std::memory_order_acquire)) return *open;
  const MutexLock lock(opening());
  if (Runtime* open = process_runtime.load()) return *open;
  // Never destroyed: at process exit the driver may be destroyed before any static.
  process_runtime.store(new Runtime(), std::memory_order_release);
  return *process_runtime;
}

Runtime& open_runtime(const RuntimeOptions& options) {
  const MutexLock lock(opening());
  if (process_runtime.load() != nullptr) {
    throw Error(ErrorKind::busy, "vma::open_runtime",
                "the process-wide runtime is open already: call this before any other function, "
                "or set the environment variables that RuntimeOptions names");
  }
  process_runtime.store(new Runtime(options), std::memory_order_release);
  return *process_runtime;
}

bool runtime_is_open() noexcept {
  return process_runtime.load(std::memory_order_acquire) != nullptr;
}

void* alloc(std::size_t bytes, const AllocOptions& options) {
  return runtime().alloc(bytes, options);
}
void* alloc(std::size_t bytes, Place where, const AllocOptions& options) {
  return runtime().alloc(bytes, where, options);
}
void free(void* pointer) {
  runtime().free(pointer);
}
void free_async(void* pointer, Stream stream) {
  runtime().free_async(pointer, stream);
}
Pool make_pool(Place where, const PoolOptions& options) {
  return runtime().make_pool(where, options);
}
Pool default_pool(Place where) {
  return runtime().default_pool(where);
}
Pool current_pool(Place where) {
  return runtime().current_pool(where);
}
void set_current_pool(const Pool& pool) {
  runtime().set_current_pool(pool);
}
void* alloc_async(std::size_t bytes, Stream stream) {
  return runtime().alloc_async(bytes, stream);
}
GroupReport migrate(const Pool& pool, Place to, const MigrateOptions& options) {
  return runtime().migrate(pool, to, options);
}
MigrationReport migrate(void* pointer, Place to, const MigrateOptions& options) {
  return runtime().migrate(pointer, to, options);
}
MigrationReport migrate(void* pointer, std::size_t offset, std::size_t bytes, Place to,
                        const MigrateOptions& options) {
  return runtime().migrate(pointer, offset, bytes, to, options);
}
GroupReport migrate(std::span<const MoveRequest> requests, const MigrateOptions& options) {
  return runtime().migrate(requests, options);
}
Migration migrate_async(void* pointer, Place to, const MigrateOptions& options) {
  return runtime().migrate_async(pointer, to, options);
}
Migration migrate_async(void* pointer, std::size_t offset, std::size_t bytes, Place to,
                        const MigrateOptions& options) {
  return runtime().migrate_async(pointer, offset, bytes, to, options);
}
MigrationGroup migrate_async(std::span<const MoveRequest> requests, const MigrateOptions& options) {
  return runtime().migrate_async(requests, options);
}
ParkReport park(const std::string& tag, const ParkOptions& options) {
  return runtime().park(tag, options);
}
ParkReport resume(const std::string& tag, const ParkOptions& options) {
  return runtime().resume(tag, options);
}
bool is_parked(const std::string& tag) {
  return runtime().is_parked(tag);
}
void attach(Stream stream, StreamWork work) {
  runtime().attach(stream, work);
}
void attach(Stream stream, void* pointer, StreamWork work) {
  runtime().attach(stream, pointer, work);
}
void detach(Stream stream) {
  runtime().detach(stream);
}
void detach(Stream stream, void* pointer) {
  runtime().detach(stream, pointer);
}
bool try_detach(Stream stream) {
  return runtime().try_detach(stream);
}
Pin pin(void* pointer) {
  return runtime().pin(pointer);
}
ReadOnly read_only(void* pointer) {
  return runtime().read_only(pointer);
}
MoveHookRegistration on_move(void* pointer, MoveHooks hooks) {
  return runtime().on_move(pointer, std::move(hooks));
}
void note_export(void* pointer) {
  runtime().note_export(pointer);
}
ExportedAllocation export_allocation(void* pointer, const ExportOptions& options) {
  return runtime().export_allocation(pointer, options);
}
void* import_allocation(const std::string& path, const ImportOptions& options) {
  return runtime().import_allocation(path, options);
}
ExportedPool export_pool(const Pool& pool, const ExportOptions& options) {
  return runtime().export_pool(pool, options);
}
void* import_pointer(const std::string& path, const ExportedPointer& pointer,
                     const ImportOptions& options) {
  return runtime().import_pointer(path, pointer, options);
}
AttachedStream::AttachedStream(Stream stream, StreamWork work)
    : AttachedStream(runtime(), stream, nullptr, work) {}
AttachedStream::AttachedStream(Stream stream, void* pointer, StreamWork work)
    : AttachedStream(runtime(), stream, pointer, work) {}
void record_use(const void* address, std::size_t bytes, Place device, UseKind kind) noexcept {
  const Use use{address, bytes, device, kind};
  record_uses({&use, 1});
}
void record_uses(std::span<const Use> uses) noexcept {
  // Opens no runtime: only the memory of an open one can be used.
  if (Runtime* open = process_runtime.load(std::memory_order_acquire)) open->record_uses(uses);
}
void advise(const void* address, std::size_t bytes, const Hint& hint) {
  runtime().advise(address, bytes, hint);
}
std::vector<Extent> where(const void* pointer) {
  return runtime().where(pointer);
}
void read(const void* pointer, std::span<std::byte> out) {
  runtime().read(pointer, out);
}
void write(void* pointer, std::span<const std::byte> bytes) {
  runtime().write(pointer, bytes);
}
HostView host_view(void* pointer, std::size_t bytes) {
  return runtime().host_view(pointer, bytes);
}
void reserve(Place where, std::size_t bytes, std::size_t chunk_bytes) {
  runtime().reserve(where, bytes, chunk_bytes);
}
std::size_t trim(Place where) {
  return runtime().trim(where);
}
DrainReport drain(Place at, const DrainOptions& options) {
  return runtime().drain(at, options);
}
void refill(Place at) {
  runtime().refill(at);
}
void set_capacity(Place where, std::size_t bytes) {
  runtime().set_capacity(where, bytes);
}
Stream make_stream(Place gpu) {
  return runtime().make_stream(gpu);
}
void destroy_stream(Stream stream) {
  runtime().destroy_stream(stream);
}
void launch(Stream stream, const Kernel& kernel, Dim3 grid, Dim3 block,
            const KernelArguments& arguments) {
  runtime().launch(stream, kernel, grid, block, arguments);
}
void launch_using(Stream stream, const Kernel& kernel, Dim3 grid, Dim3 block,
                  const KernelArguments& arguments, std::span<const Use> uses) {
  runtime().launch_using(stream, kernel, grid, block, arguments, uses);
}
void launch_recorded(Stream stream, const Kernel& kernel, Dim3 grid, Dim3 block,
                     const KernelArguments& arguments) {
  runtime().launch_recorded(stream, kernel, grid, block, arguments);
}
void record_launch(const void* function, const void* const* parameters, Place device) {
  // As for uses. Launches occur long before the first allocation, above all in interposers.
  if (Runtime* open = process_runtime.load(std::memory_order_acquire)) {
    open->record_launch(function, parameters, device);
  }
}
void record_launch(const void* function, std::span<const std::byte> block, Place device) {
  if (Runtime* open = process_runtime.load(std::memory_order_acquire)) {
    open->record_launch(function, block, device);
  }
}
std::size_t launch_uses(const void* function, const void* const* parameters, Place device,
                        std::span<Use> out) {
  Runtime* const open = process_runtime.load(std::memory_order_acquire);
  return open != nullptr ? open->launch_uses(function, parameters, device, out) : 0;
}
std::size_t launch_uses(const void* function, std::span<const std::byte> block, Place device,
                        std::span<Use> out) {
  Runtime* const open = process_runtime.load(std::memory_order_acquire);
  return open != nullptr ? open->launch_uses(function, block, device, out) : 0;
}
void forget_kernels() {
  KnownKernels::forget();
}
void synchronize(Stream stream) {
  runtime().synchronize(stream);
}

}  // namespace v1
}  // namespace vma
