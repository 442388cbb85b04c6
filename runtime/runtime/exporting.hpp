#pragma once

#include "memory/allocation.hpp"
#include "runtime/runtime_parts.hpp"
#include "sharing/memory_export.hpp"
#include "sharing/memory_import.hpp"

#include <vma/sharing.hpp>

#include <memory>
#include <string>

namespace vma {

/// Throws: Error{invalid_argument}.
ExportRequest request_of(const ExportOptions& options, const char* call);
/// Throws: Error{invalid_argument}.
ImportRequest request_of(const std::string& path, const ImportOptions& options, const char* call);
/// Serves an allocation to other processes until `Sharing::close`. Throws: Error{unsupported,
/// invalid_argument, busy, poisoned, dropped, unknown_pointer}; then it is not exported.
std::shared_ptr<MemoryExport> serve(Machinery& parts, const std::shared_ptr<Allocation>& allocation,
                                    ExportRequest request, const char* call);

}  // namespace vma
