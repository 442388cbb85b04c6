#pragma once

/// Moves memory in the way that the CUDA calls suggest, and then runs a kernel on the first GPU.
/// Opens the driver that VMART_DRIVER names, and leaves CUDA unusable in the process. Returns true
/// if every call succeeded and then the kernel failed, which is the pitfall.
bool naive_sequence();
