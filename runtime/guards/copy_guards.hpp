#pragma once

namespace vma {

/// Lets every call of the driver by which the program's code looks memory up have a `CopyScope`:
/// puts a guard in the place of each such function wherever the program may find it.
///
///     tables of imports              of all libraries, now and whenever one is opened
///     dlsym, cuGetProcAddress        return guards
///     writable data of libraries     which have looked functions up before: CUDA's runtime, linked
///                                    statically or not, and bindings of other languages
///
/// What the program keeps on its heap cannot be found. libcuda itself is left alone, and so are
/// threads inside the runtime, whose copies must not wait for a stop. Guards stay until the process
/// ends. Under `vmart run`, whose hooks have such scopes already, does nothing. What cannot be
/// guarded is noted in `CopyScopes`. Requires: the driver is open. Any thread.
void place_copy_guards() noexcept;

}  // namespace vma
