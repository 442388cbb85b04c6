#pragma once

#include "abi/boundary.hpp"

#include <vma/migration.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <type_traits>

/// What the handle of a background migration refers to.
struct vmart_migration {
  vma::Migration migration;
};

namespace vma {

/// The size of the first version of a report, which every program provides.
inline constexpr std::size_t report_bytes_min = 88;

/// Throws: Error{invalid_argument} if the value is not in the enumeration 0 to `last`.
void require_value(std::int32_t value, std::int32_t last, const char* call, const char* name);

/// Throws: Error{invalid_argument} for a size that no version of the struct has.
void require_struct_size(std::size_t size_bytes, std::size_t min_bytes, const char* call,
                         const char* name);

/// Of a struct of `size_bytes`, this version knows the first `known_bytes`. Throws:
/// Error{invalid_argument} if there is anything but zeros behind.
void require_zeros_behind(const void* begin, std::size_t known_bytes, std::size_t size_bytes,
                          const char* call, const char* name);

/// What the caller provides of a struct of options, with zeros for what it does not know.
/// `min_bytes` is the size of the first version, and the first `known_bytes` have a meaning in this
/// one. Throws: Error{invalid_argument}.
template <typename Options>
Options known_part(const Options* given, std::size_t min_bytes, std::size_t known_bytes,
                   const char* call) {
  require_argument(given, call, "options");
  require_struct_size(given->size_bytes, min_bytes, call, "options->size_bytes");
  require_zeros_behind(given, known_bytes, given->size_bytes, call, "options");
  Options known{};
  std::memcpy(&known, given, std::min(given->size_bytes, sizeof known));
  return known;
}

/// The elements of an array whose structs may be those of another version: the first one tells
/// their size.
template <typename Struct>
class GivenArray {
 public:
  /// Throws: Error{invalid_argument} unless all have the same valid size.
  GivenArray(Struct* first, std::size_t count, std::size_t min_bytes, const char* call,
             const char* name)
      : first_(reinterpret_cast<Byte*>(first)), count_(count) {
    if (count == 0) return;
    require_argument(first, call, name);
    size_bytes_ = first->size_bytes;
    require_struct_size(size_bytes_, min_bytes, call, fmt::format("{}->size_bytes", name).c_str());
    for (std::size_t which = 1; which < count; ++which) {
      if (at(which)->size_bytes == size_bytes_) continue;
      throw Error(ErrorKind::invalid_argument, call,
                  fmt::format("{}[{}].size_bytes is {}; that of the first element is {}", name,
                              which, at(which)->size_bytes, size_bytes_));
    }
  }
  Struct* at(std::size_t which) const noexcept {
    return reinterpret_cast<Struct*>(first_ + which * size_bytes_);
  }
  std::size_t count() const noexcept { return count_; }

 private:
  using Byte = std::conditional_t<std::is_const_v<Struct>, const std::byte, std::byte>;
  Byte* first_;
  std::size_t count_;
  std::size_t size_bytes_ = 0;
};

/// Throws: Error{invalid_argument} for an invalid size, mode or scope.
MigrateOptions options_of(const vmart_migrate_options* given, const char* call);

/// Throws: Error{invalid_argument} if the report is null or has an invalid size.
void require_report(const vmart_migration_report* report, const char* call, const char* name);

/// Fills as much of the report as its `size_bytes` says that the caller knows. `status` is that of
/// the migration's error.
void fill(vmart_migration_report* report, const MigrationReport& what,
          vmart_status status) noexcept;

/// VMART_OK if there is no error.
vmart_status status_of(const std::exception_ptr& error) noexcept;

}  // namespace vma
