#pragma once

#include "lab/trace/trace_event.hpp"

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace vma {

/// The distinct texts of one trace's tags and marks. Not thread-safe.
class TraceTags {
 public:
  static constexpr std::size_t tags_max = 65'535;
  static constexpr std::size_t text_bytes_max = 256;

  TraceTags();
  // The keys of the index point into the texts: a copy would point into the original.
  TraceTags(const TraceTags&) = delete;
  TraceTags& operator=(const TraceTags&) = delete;

  /// Returns the same number for the same text; an empty text is no tag. Throws:
  /// Error{invalid_argument} if the text is too long, contains characters below 32, or exceeds
  /// `tags_max`.
  TagId intern(std::string_view text);
  /// Requires: `intern` returned this number, or it is 0.
  std::string_view text(TagId tag) const { return texts_[static_cast<std::size_t>(tag)]; }
  std::size_t size() const noexcept { return texts_.size(); }

 private:
  std::deque<std::string> texts_;  // A deque never moves its strings.
  std::unordered_map<std::string_view, TagId> index_;
};

}  // namespace vma
