#pragma once

#include "lab/trace/trace_event.hpp"

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace vma {

/// The texts of one trace's tags and marks, each once. Not thread-safe.
class TraceTags {
 public:
  static constexpr std::size_t tags_max = 65'535;
  static constexpr std::size_t text_bytes_max = 256;

  TraceTags();
  // The keys of the index lie in the texts: a copy would look into the original.
  TraceTags(const TraceTags&) = delete;
  TraceTags& operator=(const TraceTags&) = delete;

  /// The same number for the same text; an empty one is no tag. Throws: Error{invalid_argument} for
  /// a text that is too long, has characters below 32, or is one too many.
  TagId intern(std::string_view text);
  /// Requires: `intern` has given this number, or it is 0.
  std::string_view text(TagId tag) const { return texts_[static_cast<std::size_t>(tag)]; }
  std::size_t size() const noexcept { return texts_.size(); }

 private:
  std::deque<std::string> texts_;  // Its strings stay where they are.
  std::unordered_map<std::string_view, TagId> index_;
};

}  // namespace vma
