#pragma once

#include "memory/allocation.hpp"
#include "runtime/runtime_parts.hpp"
#include "sharing/memory_export.hpp"
#include "sharing/memory_import.hpp"

#include <vma/sharing.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace vma {

/// Names an export on this machine, also after its process has ended. Both sides make the path of
/// its socket, so that whoever hands the name over needs no room for a path.
struct ExportName {
  std::uint32_t user = 0, process = 0;
  std::uint32_t pid_namespace = 0;  ///< As in `SocketName`.
  std::uint64_t key = 0;            ///< Random.
};
ExportName new_export_name(const char* call);
/// In the folder for sockets of this user.
std::string new_path_of(const ExportName& name);
/// In the folder for sockets of that user where it is. Throws: Error{peer_failure} that lists the
/// folders, if it is in none.
std::string path_of(const ExportName& name, const char* call);

/// Throws: Error{invalid_argument}.
ExportRequest request_of(const ExportOptions& options, const char* call);
/// Throws: Error{invalid_argument}.
ImportRequest request_of(const std::string& path, const ImportOptions& options, const char* call);
/// Memory of the allocation that was created for this process only is replaced, where it lies, as
/// by `Runtime::migrate`, or, where there is no room for a second chunk, at another place that all
/// its users reach; what it gets later can leave the process, too. Throws: as that does; then
/// some of it may be replaced.
void make_exportable(RuntimeParts& parts, void* pointer, const char* call);
/// Serves an allocation to other processes until `Sharing::close`. Throws: Error{unsupported,
/// invalid_argument, busy, poisoned, dropped, unknown_pointer}; then it is not exported.
std::shared_ptr<MemoryExport> serve(Machinery& parts, const std::shared_ptr<Allocation>& allocation,
                                    ExportRequest request, const char* call);

}  // namespace vma
