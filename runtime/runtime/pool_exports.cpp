#include <vma/runtime.hpp>

#include "runtime/exports.hpp"
#include "runtime/pooling.hpp"
#include "runtime/runtime_parts.hpp"

#include "base/log.hpp"
#include "base/process_exit.hpp"
#include "control/control_socket.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <random>
#include <utility>

namespace vma {
namespace {

constexpr const char* export_pool_call = "vma::export_pool";
constexpr const char* pointer_call = "vma::ExportedPool::pointer";
constexpr const char* import_pointer_call = "vma::import_pointer";

/// Where a segment is exported. Numbers are never used again for another one, not even by a later
/// export at the same path, so that an importer cannot take one for the other.
std::string segment_path(const std::string& pool, std::uint64_t number) {
  return fmt::format("{}-{}.sock", pool, number);
}

std::uint64_t first_number() {
  constexpr std::uint64_t most = 1'000'000'000;
  return std::random_device{}() % most;
}

/// The exports of a pool's segments. Each is made with the first pointer into the segment, and
/// closed when the pool gives the segment back. Any thread.
class SegmentExports {
 public:
  SegmentExports(Sharing& sharing, ExportRequest request)
      : sharing_(sharing), request_(std::move(request)) {}

  const std::string& path() const noexcept { return request_.path; }
  ExportedPointer pointer(Machinery& parts, const BlockPool& pool, void* pointer);
  std::vector<ImportingProcess> importers();
  /// Whether the pool must not give the segment back, since a process has it imported.
  bool keeps(Address segment) VMART_NO_THREAD_ANALYSIS;
  void close() noexcept;

 private:
  struct SegmentExport {
    std::uint64_t number = 0;
    std::weak_ptr<MemoryExport> shared;  // The runtime ends it when it shuts down.
  };

  Sharing& sharing_;
  const ExportRequest request_;  // Its path is that of the pool.
  Mutex mutex_;
  std::map<Address, SegmentExport> segments_ VMART_GUARDED_BY(mutex_);
  std::uint64_t last_number_ VMART_GUARDED_BY(mutex_) = first_number();
  bool closed_ VMART_GUARDED_BY(mutex_) = false;
};

ExportedPointer SegmentExports::pointer(Machinery& parts, const BlockPool& pool, void* pointer) {
  const Address address = address_of(pointer);
  const Segment* const around = parts.pools.segment_around(address);
  std::optional<BlockPlace> block;
  if (around != nullptr && around->pool == &pool) block = parts.pools.block_around(address);
  if (!block || block->segment + block->offset != address) {
    throw Error(ErrorKind::unknown_pointer, pointer_call,
                fmt::format("no block of this pool is allocated at {}", fmt::ptr(pointer)));
  }
  const Address begin = block->segment;
  const MutexLock lock(mutex_);
  if (closed_) throw Error(ErrorKind::invalid_argument, pointer_call, "the export was closed");
  auto found = segments_.find(begin);
  if (found == segments_.end()) {
    found = segments_.emplace(begin, SegmentExport{}).first;
    try {
      ExportRequest request = request_;
      request.path = segment_path(request_.path, last_number_ + 1);
      found->second.shared = serve(parts, parts.memory.require(to_pointer(begin), pointer_call),
                                   std::move(request), pointer_call);
    } catch (...) {
      segments_.erase(found);
      throw;
    }
    found->second.number = ++last_number_;
  }
  return {found->second.number, block->offset, block->size_bytes};
}

std::vector<ImportingProcess> SegmentExports::importers() {
  std::vector<ImportingProcess> all;
  const MutexLock lock(mutex_);
  for (const auto& [begin, segment] : segments_) {
    const std::shared_ptr<MemoryExport> shared = segment.shared.lock();
    if (!shared) continue;
    for (const ImportingProcess& importer : shared->allocation().importers().all()) {
      const bool known = std::ranges::any_of(all, [&](const ImportingProcess& each) {
        return each.process == importer.process && each.user == importer.user;
      });
      if (!known) all.push_back(importer);
    }
  }
  return all;
}

/// A call of `pointer` may wait for a move, and the move for the thread that asks: so nobody waits
/// here.
bool SegmentExports::keeps(Address segment) {
  if (!mutex_.try_lock()) return true;
  const auto found = segments_.find(segment);
  bool imported = false;
  if (found != segments_.end()) {
    const std::shared_ptr<MemoryExport> shared = found->second.shared.lock();
    imported = shared && !shared->allocation().importers().empty();
    if (!imported) {
      sharing_.close(shared);
      segments_.erase(found);
    }
  }
  mutex_.unlock();
  return imported;
}

void SegmentExports::close() noexcept {
  const MutexLock lock(mutex_);
  closed_ = true;
  for (const auto& [begin, segment] : segments_) sharing_.close(segment.shared.lock());
  segments_.clear();
}

}  // namespace

inline namespace v1 {

struct ExportedPool::State {
  State(std::shared_ptr<PoolHandle> handle, std::shared_ptr<SegmentExports> exports)
      : handle(std::move(handle)), exports(std::move(exports)) {}
  ~State() { close(); }
  void close() noexcept {
    // A process that exits removes its sockets itself, and its threads stand still.
    if (!*handle->open || ProcessExit::begun()) return;
    try {
      const PoolEntry pool(handle.get(), "vma::ExportedPool");
      if (registered) pool->keep_segments({});
      registered = false;
      exports->close();
    } catch (const std::exception& error) {  // A forked child, or the end of the runtime.
      log(LogLevel::debug, "an ExportedPool is left as it is: {}", error.what());
    }
  }
  const std::shared_ptr<PoolHandle> handle;
  const std::shared_ptr<SegmentExports> exports;
  bool registered = false;
};

ExportedPool::ExportedPool(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
ExportedPool::ExportedPool(ExportedPool&&) noexcept = default;
ExportedPool& ExportedPool::operator=(ExportedPool&&) noexcept = default;
ExportedPool::~ExportedPool() = default;

const std::string& ExportedPool::path() const noexcept {
  return state_->exports->path();
}

ExportedPointer ExportedPool::pointer(void* block) const {
  const PoolEntry pool(state_->handle.get(), pointer_call);
  return state_->exports->pointer(pool.machinery(), *pool.pool(), block);
}

std::vector<Importer> ExportedPool::importers() const {
  const PoolEntry pool(state_->handle.get(), "vma::ExportedPool::importers");
  std::vector<Importer> importers;
  for (const ImportingProcess& importer : state_->exports->importers()) {
    importers.push_back({importer.process, importer.user});
  }
  return importers;
}

void ExportedPool::close() noexcept {
  if (state_) state_->close();
}

ExportedPool Runtime::export_pool(const Pool& pool, const ExportOptions& options) {
  const PoolEntry named(pool.handle_.get(), export_pool_call);
  ExportRequest request = request_of(options, export_pool_call);
  Sharing& sharing = named.machinery().sharing;
  if (request.path.empty()) request.path = Sharing::new_path();
  ControlSocket::check_path(segment_path(request.path, UINT32_MAX));
  const auto exports = std::make_shared<SegmentExports>(sharing, std::move(request));
  auto state = std::make_unique<ExportedPool::State>(pool.handle_, exports);
  state->registered =
      named->keep_segments([exports](Address each) { return exports->keeps(each); });
  if (state->registered) return ExportedPool(std::move(state));
  throw Error(ErrorKind::busy, export_pool_call,
              "the pool is exported already; several processes can import from one ExportedPool");
}

void* Runtime::import_pointer(const std::string& path, const ExportedPointer& pointer,
                              const ImportOptions& options) {
  const RuntimeParts::Entry entry(*parts_, import_pointer_call);
  const ImportRequest request =
      request_of(segment_path(path, pointer.segment), options, import_pointer_call);
  const auto import = [&] { return entry->sharing.import(request); };
  return to_pointer(entry->imported.add(request.path, pointer.offset, pointer.bytes, import));
}

}  // namespace v1
}  // namespace vma
