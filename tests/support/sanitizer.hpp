#pragma once

namespace vma {

// The sanitizer that the tests are built with: gcc defines macros, clang has features.
#if defined(__has_feature)
#define VMART_BUILT_WITH(feature) __has_feature(feature)
#else
#define VMART_BUILT_WITH(feature) 0
#endif

#if defined(__SANITIZE_THREAD__)
constexpr bool under_thread_sanitizer = true;
#else
constexpr bool under_thread_sanitizer = VMART_BUILT_WITH(thread_sanitizer);
#endif

#if defined(__SANITIZE_ADDRESS__)
constexpr bool under_address_sanitizer = true;
#else
constexpr bool under_address_sanitizer = VMART_BUILT_WITH(address_sanitizer);
#endif

constexpr bool under_sanitizer = under_thread_sanitizer || under_address_sanitizer;

#undef VMART_BUILT_WITH

}  // namespace vma
