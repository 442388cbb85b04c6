#pragma once

/// Moves memory as the CUDA calls invite one to, and runs a kernel on the first GPU afterwards.
/// Opens the driver that VMART_DRIVER names, and leaves the process's CUDA broken. Returns true if
/// every call succeeded and then the kernel failed, which is the pitfall.
bool naive_sequence();
