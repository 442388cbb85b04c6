#pragma once

/// Marks what the shared library shows; everything else is hidden.
#if defined(__GNUC__)
#define VMART_EXPORT __attribute__((visibility("default")))
#else
#define VMART_EXPORT
#endif
