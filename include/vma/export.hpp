#pragma once

// Every header of the C++ interface includes this one first; the C interface needs no C++20.
#if !defined(VMART_C_INTERFACE) && (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) < 202002L
#error "vmart needs C++20: g++ -std=c++20, nvcc -std=c++20; see docs/guide/compile_and_link.md"
#endif

/// Marks what the shared library shows; everything else is hidden.
#if defined(__GNUC__)
#define VMART_EXPORT __attribute__((visibility("default")))
#else
#define VMART_EXPORT
#endif
