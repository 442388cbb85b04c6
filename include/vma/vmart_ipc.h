#pragma once

/// Exports with names of fixed size, for libraries that stand between a program and the driver,
/// such as that of `vmart run`. The rules of <vma/vmart.h> apply.

#include <vma/vmart.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Names an export on this machine, also after its process has ended.
typedef struct vmart_ipc_name {
  uint32_t user;
  uint32_t process;
  uint32_t pid_namespace; /**< 0: the machine's first one. */
  uint32_t reserved;      /**< 0. */
  uint64_t key;           /**< Random. */
} vmart_ipc_name;

/// Like `vmart_exported_create`, also for memory that was created for this process only: that is
/// replaced first, where it lies. `vmart_exported_release` ends the export. Blocks: then for that
/// move, which stops work as `vmart_migrate` does.
VMART_EXPORT vmart_status vmart_ipc_export(void* pointer, vmart_exported** out,
                                           vmart_ipc_name* out_name);
/// Like `vmart_import`, from the export of that name.
VMART_EXPORT vmart_status vmart_ipc_import(const vmart_ipc_name* name, int64_t limit_ns,
                                           void** out);

#ifdef __cplusplus
}
#endif
