#include "runtime/exports.hpp"

#include <vma/runtime.hpp>

#include "runtime/argument_checks.hpp"
#include "runtime/guest.hpp"
#include "runtime/runtime_parts.hpp"

#include "base/process_exit.hpp"
#include "control/own_folder.hpp"
#include "memory/move_claim.hpp"
#include "migrate/migration/transaction.hpp"
#include "migrate/stops/copy_scopes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unistd.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace vma {

namespace {

SocketName socket_name(const ExportName& name) {
  return {static_cast<pid_t>(name.process), name.pid_namespace, key_text(name.key)};
}

}  // namespace

ExportName new_export_name(const char* call) {
  const SocketName own = SocketName::own();
  return {geteuid(), static_cast<std::uint32_t>(own.process), own.pid_namespace, random_key(call)};
}

std::string new_path_of(const ExportName& name) {
  return fmt::format("{}/{}", own_folder(), socket_name(name).text());
}

std::string path_of(const ExportName& name, const char* call) {
  const std::vector<std::string> folders = folders_of(name.user);
  for (const std::string& folder : folders) {
    std::string path = fmt::format("{}/{}", folder, socket_name(name).text());
    if (access(path.c_str(), F_OK) == 0) return path;
  }
  throw Error(
      ErrorKind::peer_failure, call,
      fmt::format("process {} of user {} does not share this memory any more, or in a folder that "
                  "this process does not see, such as its XDG_RUNTIME_DIR; looked for {} in: {}",
                  name.process, name.user, socket_name(name).text(),
                  folders.empty() ? "no folder of that user exists"
                                  : fmt::format("{}", fmt::join(folders, ", "))));
}

ExportRequest request_of(const ExportOptions& options, const char* call) {
  if (options.importers_max == 0 || options.import_limit.count() <= 0) {
    throw Error(ErrorKind::invalid_argument, call,
                fmt::format("importers_max is {} and import_limit {} ms; both must be above 0",
                            options.importers_max, options.import_limit.count()));
  }
  if (!options.users.empty() && options.path.empty()) {
    throw Error(ErrorKind::invalid_argument, call,
                "users are named, but no path; set one in a folder that they can enter");
  }
  return {options.path, options.users, options.importers_max, options.import_limit};
}

ImportRequest request_of(const std::string& path, const ImportOptions& options, const char* call) {
  if (options.limit.count() <= 0) {
    throw Error(ErrorKind::invalid_argument, call,
                fmt::format("limit is {} ms; it must be above 0", options.limit.count()));
  }
  return {path, options.tag, options.limit, options.users};
}

void make_exportable(RuntimeParts& parts, void* pointer, const char* call) {
  const RuntimeParts::Entry entry(parts, call);
  const std::shared_ptr<Allocation> allocation = entry->memory.require(pointer, call);
  check_usable(*allocation, call);
  check_no_hook(*allocation, call);
  CopyScopes::process().look();
  const MoveClaim claim = MoveClaim::take(allocation);
  allocation->export_needs.descriptor = true;  // Guarded by the claim.
  const std::size_t slots = allocation->geometry().slots;
  const auto is_replaced_at = [&](std::size_t slot, Place at) {
    return slot < slots && allocation->place(slot) == at &&
           Transaction::is_needed(entry->memory, *allocation, slot, at);
  };
  const auto replace = [&](SlotRange range, Place at, PlaceChoice choice = PlaceChoice::former) {
    entry->migrator.move(*allocation, range, at, {}, {.choice = choice});
  };
  const auto replace_one = [&](std::size_t slot, Place at) {
    const SlotRange one{slot, slot + 1};
    try {
      return replace(one, at);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory) throw;
    }
    for (const Place other : entry->topology.places()) {
      if (other == at) continue;
      try {
        return replace(one, other, PlaceChoice::runtime);
      } catch (const Error& error) {
        const bool next = error.kind() == ErrorKind::out_of_memory ||
                          error.kind() == ErrorKind::unreachable ||
                          error.kind() == ErrorKind::unsupported;
        if (!next) throw;
      }
    }
    replace(one, at);  // Says what is lacking there.
  };
  for (std::size_t first = 0; first < slots; ++first) {
    const Place at = allocation->place(first);
    std::size_t end = first;
    while (is_replaced_at(end, at)) ++end;
    if (end == first) continue;
    try {
      replace({first, end}, at);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory) throw;
      for (; first < end; ++first) replace_one(first, at);
    }
    first = end - 1;
  }
}

std::shared_ptr<MemoryExport> serve(Machinery& parts, const std::shared_ptr<Allocation>& allocation,
                                    ExportRequest request, const char* call) {
  // First counted, then checked: a free sets `being_freed` first and checks for exports afterwards.
  const std::shared_ptr<MemoryExport> shared = parts.sharing.open(allocation, std::move(request));
  try {
    const MutexLock lock(allocation->operations());
    check_usable(*allocation, call);
    check_not_poisoned(*allocation, call);
    check_not_dropped(*allocation, call);
    parts.memory.chunks().export_terms().require_descriptors(*allocation, call);
  } catch (...) {
    parts.sharing.close(shared);
    throw;
  }
  return shared;
}

inline namespace v1 {

struct ExportedAllocation::State {
  explicit State(Guest guest) : guest(std::move(guest)) {}
  ~State() { close(); }
  void close() noexcept {
    // A process that exits removes its sockets itself, and its threads stand still.
    const std::shared_ptr<MemoryExport> served = std::exchange(shared, {}).lock();
    if (!served || ProcessExit::begun()) return;
    guest.leave("vma::ExportedAllocation",
                [&](const RuntimeParts::Entry& entry) { entry->sharing.close(served); });
  }
  Guest guest;
  std::string path;
  std::weak_ptr<MemoryExport> shared;  // The runtime ends it when it shuts down.
};

ExportedAllocation::ExportedAllocation(std::unique_ptr<State> state) noexcept
    : state_(std::move(state)) {}
ExportedAllocation::ExportedAllocation(ExportedAllocation&&) noexcept = default;
ExportedAllocation& ExportedAllocation::operator=(ExportedAllocation&&) noexcept = default;
ExportedAllocation::~ExportedAllocation() = default;

const std::string& ExportedAllocation::path() const noexcept {
  return state_->path;
}

std::vector<Importer> ExportedAllocation::importers() const {
  std::vector<Importer> importers;
  if (state_->guest.in_forked_child()) return importers;
  for (const ImportingProcess& importer : state_->guest.allocation->importers().all()) {
    importers.push_back({importer.process, importer.user});
  }
  return importers;
}

void ExportedAllocation::close() noexcept {
  if (state_) state_->close();
}

ExportedAllocation Runtime::export_allocation(void* pointer, const ExportOptions& options) {
  constexpr const char* call = "vma::export_allocation";
  const RuntimeParts::Entry entry(*parts_, call);
  ExportRequest request = request_of(options, call);
  if (entry->pools.segment_around(address_of(pointer)) != nullptr) {
    throw Error(ErrorKind::unsupported, call,
                "the memory is a block of a pool; export the pool with vma::export_pool");
  }
  const std::shared_ptr<Allocation> allocation = entry->memory.require(pointer, call);
  if (allocation->imported()) {
    throw Error(
        ErrorKind::unsupported, call,
        fmt::format("the memory belongs to {}; export it there", allocation->imported_from));
  }
  auto state = std::make_unique<ExportedAllocation::State>(Guest(*parts_, allocation));
  const std::shared_ptr<MemoryExport> shared = serve(*entry, allocation, std::move(request), call);
  state->shared = shared;
  state->path = shared->path();
  return ExportedAllocation(std::move(state));
}

void* Runtime::import_allocation(const std::string& path, const ImportOptions& options) {
  constexpr const char* call = "vma::import_allocation";
  const RuntimeParts::Entry entry(*parts_, call);
  return to_pointer(entry->sharing.import(request_of(path, options, call))->begin());
}

}  // namespace v1
}  // namespace vma
