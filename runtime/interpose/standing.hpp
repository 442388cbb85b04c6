#pragma once

namespace vma::interpose {

/// Whether vmart takes part in this process. Once it does not, all new memory is the driver's, for
/// good; memory that vmart already has keeps working.
bool takes_part() noexcept;

/// From now on, vmart takes no part. Prints one line with the reason, the first time, unless it is
/// null.
void stand_aside(const char* why) noexcept;

/// The program has begun to use the driver, which a child of fork cannot use then.
void note_driver_is_used() noexcept;
/// Whether it has.
bool driver_was_used() noexcept;
/// Whether this process was forked from one that used the driver. Then every hook passes the call
/// on, and takes no lock, since a thread of the parent may have held it.
bool is_forked_child() noexcept;
/// Called in each child of fork.
void note_fork() noexcept;

/// Writes "vmart run: " and the text as one line to standard error. Takes no lock.
void say(const char* format, ...) noexcept __attribute__((format(printf, 1, 2)));

}  // namespace vma::interpose
